"""Programs that are compiled for buckets of sizes, and calls on the first elements of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma.artifacts import build
from didyma.artifacts.load import load
from didyma.codegen.passes.padded import Padded, padded
from didyma.codegen.runtime import modules
from didyma.fuzz import padding
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.graphs import Case
from didyma.oracle.report import Finding
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Module, Node
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.verify.graph import verify
from tests.didyma.cli import didyma
from tests.didyma.tracing import One, traced

N = dd.dim("n", 1, 100)
RNG = np.random.default_rng(3)


def found_in(cases: list[Case]) -> tuple[int, list[Finding]]:
    """Judge what padding makes of graphs; return how many could be padded, and what was found."""
    levels = [x for x in (padding.judged(c, c.inputs()) for c in cases) if x is not None]
    return len(levels), [f for x in levels for f in x.findings]


def test_drawn_graphs_do_not_see_what_is_padded() -> None:
    many, findings = found_in([Graphs(engines=()).draw(5, index) for index in range(150)])
    assert many > 40
    assert not findings, findings


def test_a_fold_that_is_not_masked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unmasked(n: Node) -> Node:
        return replace(n, args=(n.args[0], n.args[1], n.args[1])) if n.op == "where" else n

    def wrong(m: Module, sizes: Mapping[str, int]) -> Padded:
        made = padded(m, sizes)
        entry = made.module.entry
        assert [n.op for n in entry.nodes].count("where") == 1
        entry = replace(entry, nodes=tuple(map(unmasked, entry.nodes)))
        return replace(made, module=replace(made.module, functions=(entry,)))

    case = Case(traced(dd.sum, dd.f32[N]).module, (("n", 3),), (5,))
    assert found_in([case]) == (1, [])
    monkeypatch.setattr(padding, "padded", wrong)
    assert [f.kind for f in found_in([case])[1]] == ["value"]


FOLDS: list[One] = [
    lambda x: dd.softmax(x, axis=0),
    lambda x: dd.matmul(dd.permute_dims(x, (1, 0)), x),
    lambda x: dd.mean(dd.astype(x, dd.f16)),
    lambda x: dd.argmax(x, axis=0),
    lambda x: dd.max(dd.astype(x * 50, dd.i8), axis=0),
    lambda x: dd.cumulative_sum(dd.reshape(x, (-1,)), axis=0),
]


SIMPLER = """module {
  dims m in [1, 30], n in [0, 64]
  func @main(%x: f32[m], %z: f32[n]) -> (%a) {
    %a = slice(%x, starts=(0,), steps=(1,),
      stops=(floor(Min(5, n)/3),)) : f32[Min(m, floor(Min(5, n)/3))]
  }
}"""


def test_sizes_that_become_simpler_by_a_number_are_those_that_ops_infer() -> None:
    found = padded(parse_module(SIMPLER), {"m": 14})
    verify(found.module)
    assert str(found.module.entry.types()["a"]) == "f32[floor(Min(5, n)/3)]"


@pytest.mark.parametrize("f", FOLDS)
def test_calls_of_any_size_give_what_the_program_means(f: One) -> None:
    program = traced(f, dd.f32[N, 3])
    run = dd.bucketed(program, {"n": (4, 32)})
    for n in (1, 4, 5, 30):
        x = RNG.normal(size=(n, 3)).astype(np.float32)
        assert dd.interpret(program, x).contains(run(x))
    assert len(run.made) == 2
    with pytest.raises(DidymaError, match="at most 32") as e:
        run(np.ones((33, 3), np.float32))
    assert e.value.code == "dim-out-of-range"


@pytest.mark.parametrize("waste", [0.0, 0.1, 0.25, 0.5, 0.9])
def test_waste_has_the_bound_that_is_asked_for(waste: float) -> None:
    program = traced(dd.negative, dd.f32[N])
    run = dd.bucketed(program, {"n": waste})
    found = [1 - n / run.bucket({"n": n})[0] for n in range(1, 101)]
    assert max(found) == pytest.approx(run.waste["n"])
    assert run.waste["n"] <= waste
    assert len(run.sizes["n"]) <= (100 if waste == 0 else 2 + np.log(100) / -np.log(1 - waste) * 2)


def weighted(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return dd.sum(x * y, axis=1)


def test_two_dims_have_buckets_of_their_own() -> None:
    m = dd.dim("m", 1, 50)
    program = traced(weighted, dd.f32[N, m], dd.f32[m])
    run = dd.bucketed(program, {"n": 0.5, "m": 0.5})
    x, y = np.ones((3, 7), np.float32), np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(run(x, y=y), np.full(3, 21, np.float32))
    assert run.executable(n=3, m=7) is run.executable(n=6, m=8)


def summed(s: dd.Tensor, row: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return s + row, s


def test_a_built_program_pads_its_inputs(tmp_path: Path) -> None:
    def net(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.softmax(x, axis=0), dd.permute_dims(x, (1, 0))

    m = dd.dim("m", 1, 9)
    program = traced(net, dd.f32[N, m])
    (tmp_path / "net.dym").write_text(str(program))
    words = ("build", str(tmp_path / "net.dym"), "-o", str(tmp_path / "net"), "--tries", "1")
    said = didyma(*words, "--bucket", "n=0.5", "--bucket", "m=4,9", "--json")
    assert said.code == 0, said.err
    assert next(x["name"] for x in said.json["verdict"]["levels"]) == "padded"
    built = load(tmp_path / "net")
    assert built.artifact.manifest["buckets"] == {"n": [2, 6, 14, 30, 62, 100], "m": [4, 9]}
    assert [v["name"] for v in built.artifact.manifest["inputs"]] == ["x"]
    for shape in ((3, 2), (4, 4), (6, 4)):
        x = RNG.normal(size=shape).astype(np.float32)
        for got in (built([x]), built.walk([x]), built([x])):
            assert dd.interpret(program, x).contains(tuple(got))
    assert not np.shares_memory(built([x])[1], x)
    replays = built.module["tapes"].replay
    assert replays([np.ones((6, 4), np.float32), np.array(6)]) is not None
    with pytest.raises(DidymaError, match="got:  2"):
        built([x, x])
    for bucket in ("n", "n=x", "n=0.5,3", "k=0.5"):
        assert didyma(*words, "--bucket", bucket).code == 2


def test_padded_inputs_may_lie_in_any_way(tmp_path: Path) -> None:
    s = dd.dim("s", 4, 64)
    program = traced(lambda x: dd.sum(x, axis=0), dd.f32[N, 4].strided((s, 1), offset=2))
    (tmp_path / "net.dym").write_text(str(program))
    words = ("build", str(tmp_path / "net.dym"), "-o", str(tmp_path / "net"), "--tries", "1")
    said = didyma(*words, "--engine", "host", "--bucket", "n=0.5")
    assert said.code == 0, said.err
    built = load(tmp_path / "net")
    table = RNG.normal(size=(5, 9)).astype(np.float32)
    (want,) = built([table[:, 2:6].copy()])
    for x in (table[:, 2:6], np.asfortranarray(table[:, 2:6])):
        for got in (built([x]), built.walk([x])):
            assert got[0].tobytes() == want.tobytes()


SEEN: list[One] = [
    lambda x: dd.flip(x, axis=0),
    lambda x: dd.concat([x, x], axis=0),
    lambda x: dd.reshape(dd.permute_dims(x, (1, 0)), (-1,)),
    lambda x: dd.sort(x, axis=0),
    lambda x: dd.scan(summed, x[0], x)[1],
]


@pytest.mark.parametrize("f", SEEN)
def test_what_would_see_the_padding_is_refused(f: One) -> None:
    with pytest.raises(DidymaError) as e:
        dd.bucketed(traced(f, dd.f32[N, 3]), {"n": 0.5})
    assert e.value.code == "not-padded"


def test_a_padded_size_that_attributes_alone_mention_is_refused() -> None:
    m = parse_module(
        """module {
  dims n in [0, 9]
  func @main(%x: f32[2], %y: f32[n], %z: f32[]) -> (%a) {
    %a = pad(%x, %z, high=(9 - n,), low=(n,), mode="constant") : f32[11]
  }
}
"""
    )
    with pytest.raises(DidymaError) as e:
        padded(m, {"n": 9})
    assert e.value.code == "not-padded"


REPEATED = """module {
  dims n in [0, 9]
  func @step(%s: f32[2], %i: i64[]) -> (%a) {
    %a = add(%s, %s) : f32[2]
  }
  func @main(%x: f32[n], %y: f32[2]) -> (%a) {
    %i = constant(value=i64[] 1) : i64[]
    %a = scan(%y, %i, body="step", index="", length=n, scanned=0, states=1) : f32[2]
  }
}
"""
INSIDE = """module {
  dims n in [0, 9]
  func @step(%s: f32[2], %i: i64[]) -> (%a) {
    %a = add(%s, %s) : f32[2]
  }
  func @outer(%s: f32[2], %i: i64[]) -> (%a) {
    %a = scan(%s, %i, body="step", index="", length=n, scanned=0, states=1) : f32[2]
  }
  func @main(%x: f32[n], %y: f32[2]) -> (%a) {
    %i = constant(value=i64[] 1) : i64[]
    %a = scan(%y, %i, body="outer", index="", length=2, scanned=0, states=1) : f32[2]
  }
}
"""


@pytest.mark.parametrize("text", [REPEATED, INSIDE])
@pytest.mark.parametrize("size", [9, dims.symbol("n")])
def test_loops_that_know_the_old_size_are_refused(text: str, size: Dim) -> None:
    with pytest.raises(DidymaError) as e:
        padded(parse_module(text), {"n": size})
    assert e.value.code == "not-padded"


@pytest.mark.parametrize("wish", [1.0, -0.1, (), (3, 3), (0, 4), (101,), 7, "n"])
def test_buckets_that_are_none_are_refused(wish: object) -> None:
    program = traced(dd.negative, dd.f32[N])
    with pytest.raises(DidymaError) as e:
        dd.bucketed(program, {"n": wish})  # type: ignore[dict-item]  # so that it is refused
    assert e.value.code == "bad-bucket"
    with pytest.raises(DidymaError, match="one of n"):
        dd.bucketed(program, {"k": 0.5})


def test_no_size_of_the_range_is_left_without_a_bucket() -> None:
    @dd.trace(dd.f32[dd.dim("n", 1, 5000)])
    def wide(x: dd.Tensor) -> dd.Tensor:
        return -x

    with pytest.raises(DidymaError, match="more than 4096 buckets"):
        dd.bucketed(wide, {"n": 0.0})
    assert dd.bucketed(wide, {"n": 0.1}).sizes["n"][-1] == 5000


def test_a_program_is_called_on_the_first_elements(tmp_path: Path) -> None:
    run = dd.compile(traced(dd.multiply, dd.f32[N], dd.f32[()]))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    want = np.arange(7, dtype=np.float32) * 2
    np.testing.assert_array_equal(run.call_with_numel(7, x, np.float32(2)), want)
    with pytest.raises(DidymaError, match="12 elements"):
        run.call_with_numel(13, x, np.float32(2))
    build.write(tmp_path / "built", build.contents({"host": build.Target(run.compiled)}))
    text = (tmp_path / "built" / "module.py").read_text()
    assert "def call_with_numel(" in text
    found = modules.module(text)["call_with_numel"]
    assert found.__name__ == "call_with_numel"
    other = dd.compile(traced(dd.negative, dd.f32[N, 3]))
    assert "call_with_numel" not in other.wrapper
    with pytest.raises(DidymaError, match=r"f32\[n, 3\]"):
        other.call_with_numel(2, x)
