"""Programs that are compiled for buckets of sizes, and calls on the first elements of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma.artifacts import build
from didyma.codegen.passes.padded import padded
from didyma.codegen.runtime import modules
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.graphs import Case
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import Module, Node
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import graph as laws
from tests.didyma.tracing import One, traced

N = dd.dim("n", 1, 100)
RNG = np.random.default_rng(3)


def junk(a: Array, shape: tuple[int, ...]) -> Array:
    """An array behind whose elements others lie: NaN where the dtype has it."""
    out = np.ones(shape, a.dtype)
    if a.dtype.kind == "f":
        out[...] = np.nan
    out[tuple(map(slice, a.shape))] = a
    return out


def drawn() -> Iterator[tuple[Case, Module, list[Array]]]:
    """Drawn graphs that may be padded: the padded module, and inputs with junk behind theirs."""
    for index in range(150):
        case = Graphs(engines=()).draw(5, index)
        m, inputs = case.module, case.inputs()
        free = sorted(control.input_symbols(m))
        if not free:
            continue
        params = m.entry.params
        rows = [(p.name, p.type.shape, a.shape) for p, a in zip(params, inputs, strict=True)]
        env = dims.bind(rows, m.dims)
        wide = {**env, free[0]: env[free[0]] + 3}
        try:
            found = padded(m, {free[0]: wide[free[0]]})
        except DidymaError:
            continue
        shapes = [dims.values(p.type.shape, wide) for p in params]
        sizes = [np.array(dims.evaluate(d, env), np.int64) for d in found.given]
        filled = [junk(a, s) for a, s in zip(inputs, shapes, strict=True)]
        yield case, found.module, [*filled, *sizes]


def disagreeing(case: Case, m: Module, inputs: list[Array]) -> bool:
    want = dd.interpret(dd.Program(case.module), *case.inputs())
    got = graph.run(m, inputs)
    cut = [np.asarray(g)[tuple(map(slice, w.shape))] for g, w in zip(got, want.values, strict=True)]
    return not all(c.agree for c in want.compare(tuple(cut)))


def test_drawn_graphs_do_not_see_what_is_padded() -> None:
    masked = 0
    for case, m, inputs in drawn():
        laws.verify(m)
        assert not disagreeing(case, m, inputs), case
        masked += len(inputs) > len(case.module.entry.params)
    assert masked >= 5


def test_a_fold_that_is_not_masked_is_found() -> None:
    def unmasked(n: Node) -> Node:
        return Node(n.results, "where", (n.args[0], n.args[1], n.args[1]), n.types, n.attrs)

    m = traced(dd.sum, dd.f32[N]).module
    entry = padded(m, {"n": 4}).module.entry
    assert [n.op for n in entry.nodes].count("where") == 1
    nodes = tuple(unmasked(n) if n.op == "where" else n for n in entry.nodes)
    wrong = Module((type(entry)(entry.name, entry.params, nodes, entry.results),))
    given = [junk(np.ones(3, np.float32), (4,)), np.array(3, np.int64)]
    assert np.isnan(graph.run(wrong, given)[0])
    assert graph.run(padded(m, {"n": 4}).module, given)[0] == 3


FOLDS: list[One] = [
    lambda x: dd.softmax(x, axis=0),
    lambda x: dd.matmul(dd.permute_dims(x, (1, 0)), x),
    lambda x: dd.mean(dd.astype(x, dd.f16)),
    lambda x: dd.argmax(x, axis=0),
    lambda x: dd.max(dd.astype(x * 50, dd.i8), axis=0),
    lambda x: dd.cumulative_sum(dd.reshape(x, (-1,)), axis=0),
]


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
