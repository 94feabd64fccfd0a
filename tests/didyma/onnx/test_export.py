"""Modules as ONNX models: lawful by onnx's checker, and of the same meaning when read again."""

from __future__ import annotations

import errno
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from didyma.commands.export import export
from didyma.fuzz.graphs import BYTES, decode
from didyma.onnx.export import to_model
from didyma.onnx.load import load, load_model
from didyma.oracle.compare import compare
from didyma.oracle.primitives import exact
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import BIND, Function, Module, Node, Param
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import ALL, PLAIN, Array, DType, TensorType
from didyma.refimpl.ops import OPS
from tests.refimpl.ops import draw

DRAWS = 8


def one(op: str, seed: int) -> tuple[Module, tuple[Array, ...]]:
    """Return a module of one op, with operands; every other draw has wild values."""
    dice = draw.Dice(seed)
    u = draw.use(
        OPS[op],
        draw.sample(OPS[op], dice, PLAIN if seed < DRAWS else ALL),
        dice,
        wild=seed % 2 == 1,
    )
    params = tuple(Param(f"x{i}", t) for i, t in enumerate(u.types))
    node = Node(("y",), op, tuple(p.name for p in params), (u.result,), freeze(u.attrs))
    return Module((Function("main", params, (node,), ("y",)),)), u.args


def check(model: onnx.ModelProto) -> None:
    """Let onnx check a model, types and shapes as well."""
    checked: Any = onnx.checker
    checked.check_model(model, full_check=True)


def same(m: Module, again: Module, inputs: Sequence[Array], env: Mapping[str, int]) -> None:
    """Require that another module's results lie in the bars of the first's."""
    assert [str(t.dtype) for t in again.entry.result_types()] == [
        str(t.dtype) for t in m.entry.result_types()
    ]
    with np.errstate(all="ignore"):
        given = [exact(a) for a in inputs]
        bars = graph.bars(m.entry, m, given, env, stored=True)
        got = graph.run(again, inputs, env)
    for name, bar, out, t in zip(m.entry.results, bars, got, m.entry.result_types(), strict=True):
        concrete = t.with_shape(*bar.c.shape)  # whose sizes may depend on data
        assert compare(name, bar, out, concrete).message == ""


@pytest.mark.parametrize("op", sorted(OPS))
def test_every_op_comes_back_with_its_meaning(op: str) -> None:
    for seed in range(2 * DRAWS):
        m, inputs = one(op, seed)
        model = to_model(m)
        check(model)
        same(m, load_model(model), inputs, {})


@pytest.mark.parametrize(
    ("op", "dtype", "opset"),
    [
        ("cast", DType.BF16, 22),
        ("cast", DType.F4E2M1, 23),
        ("cast", DType.F8E8M0, 24),
        ("cast", DType.U2, 25),
        ("bitcast", DType.U32, 26),
    ],
)
def test_a_model_asks_for_no_newer_opset_than_it_needs(op: str, dtype: DType, opset: int) -> None:
    t = TensorType(DType.F32, (2,))
    node = Node(("y",), op, ("x",), (t.with_dtype(dtype),), (("dtype", dtype),))
    model = to_model(Module((Function("main", (Param("x", t),), (node,), ("y",)),)))
    assert [o.version for o in model.opset_import] == [opset]


def read_again(model: onnx.ModelProto) -> Module | None:
    """Import a model; None if two expressions of one size are not recognised as equal.

    Also None if the model has data-dependent sizes, which are not imported as such again.
    """
    try:
        return load_model(model)
    except DidymaError as e:
        if e.code not in ("shape-mismatch", "onnx-not-constant"):
            raise
        return None


def test_fuzzed_graphs_come_back_with_their_meaning() -> None:
    came = 0
    for seed in range(90):
        case = decode(random.Random(seed).randbytes(BYTES))
        model = to_model(case.module)
        check(model)
        if (again := read_again(model)) is None:
            assert case.env or any(n.op == BIND for f in case.module.functions for n in f.nodes)
            continue
        same(case.module, again, case.inputs(), dict(case.env))
        came += 1
    assert came > 60


SIZES = """module {
  dims n in [0, 8], k in [2, 4]
  func @main(%x: f32[n, 3], %w: f32[2*n + 1], %v: f32[3*k]) -> (%y, %z, %x, %y) {
    %y = pad(%x, %s, high=(n, k), low=(1, 0), mode="constant") : f32[2*n + 1, k + 3]
    %z = iota(axis=0, dtype=i32, shape=(n*k // 2,)) : i32[floor(k*n/2)]
  }
}
""".replace("%y = pad", "%s = constant(value=f32[] 0.5) : f32[]\n    %y = pad")


def test_sizes_stay_symbolic_with_their_names_and_ranges() -> None:
    m = parse_module(SIZES)
    model = to_model(m)
    check(model)
    assert [d.dim_param for d in model.graph.output[0].type.tensor_type.shape.dim] == [
        "2*n + 1", "k + 3",
    ]  # fmt: skip
    again = load_model(model)
    assert again.dims == (DimVar("n", 0, 8), DimVar("k", 2, 4))
    assert [p.type for p in again.entry.params] == [p.type for p in m.entry.params]
    for n, k in ((0, 2), (1, 3), (8, 4)):
        env = {"n": n, "k": k}
        shapes = ((n, 3), (2 * n + 1,), (3 * k,))
        inputs = [np.full(s, 2, np.float32) for s in shapes]
        same(m, again, inputs, env)


def test_names_of_operands_and_results_are_kept(tmp_path: Path) -> None:
    m = parse_module(SIZES)
    path = tmp_path / "m.onnx"
    path.write_bytes(to_model(m).SerializeToString())
    g = onnx.load_model_from_string(path.read_bytes()).graph
    assert [i.name for i in g.input] == ["x", "w", "v"]
    assert [o.name for o in g.output][:2] == ["y", "z"]
    assert len({o.name for o in g.output}) == 4  # each result is a value of its own
    assert load(path).entry.params == m.entry.params


def test_calls_are_inlined() -> None:
    t = TensorType(DType.F32, (2,))
    inner = Function("twice", (Param("a", t),), (Node(("b",), "add", ("a", "a"), (t,)),), ("b",))
    call = [
        Node((r,), "call", (a,), (t,), (("callee", "twice"),)) for a, r in (("x", "y"), ("y", "z"))
    ]
    m = Module((inner, Function("main", (Param("x", t),), tuple(call), ("z",))))
    again = load_model(to_model(m))
    assert graph.run(again, [np.array([1, 2], np.float32)])[0].tolist() == [4, 8]


def test_a_device_cannot_be_said() -> None:
    t = TensorType(DType.F32, (2,), "cuda:1")
    m = Module((Function("main", (Param("x", t),), (Node(("y",), "exp", ("x",), (t,)),), ("y",)),))
    with pytest.raises(DidymaError, match="cuda:1") as caught:
        to_model(m)
    assert caught.value.code == "onnx-inexpressible"


def test_a_model_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(path: Path, data: bytes) -> int:
        with path.open("wb") as f:
            f.write(data[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    source = tmp_path / "m.dym"
    source.write_text(SIZES)
    monkeypatch.setattr(Path, "write_bytes", cut_short)
    with pytest.raises(DidymaError, match="No space left"):
        export(source, tmp_path / "m.onnx", (), json=False)
    assert [*tmp_path.iterdir()] == [source]


@pytest.mark.parametrize("text", ["dims n in [5, 2]", "dims n in [", "x" * 10000])
def test_ranges_that_are_no_ranges_are_not_believed(text: str) -> None:
    model = to_model(parse_module(SIZES))
    onnx.helper.set_model_props(model, {"didyma.dims": text})
    assert {v.lo for v in load_model(model).dims} == {1}


UNSEEN = {
    "no window fits": """module {
  dims n in [0, 12]
  func @main(%x: i32[1, 1, n]) -> (%y) {
    %y = max_pool(%x, dilations=(1,), high=(0,), low=(0,), strides=(1,), window=(4,)) : T
  }
}
""".replace(": T", ": i32[1, 1, Max(0, n - 3)]"),
    "no elements, by an axis of unknown size": """module {
  dims n in [1, 9], r in [0, 0]
  func @main(%x: i64[0, n]) -> (%y) {
    %s = sum(%x, axes=(0, 1), keepdims=false) : i64[]
    () = bind(%s, dim="r")
    %y = iota(axis=0, dtype=f32, shape=(r,)) : f32[r]
  }
}
""",
    "a quotient that bounds a slice": """module {
  dims n in [0, 20]
  func @main(%x: i32[n + 4]) -> (%z) {
    %y = slice(%x, starts=(0,), steps=(3,), stops=(3*floor(n/3),)) : i32[floor(n/3)]
    %z = reshape(%y, shape=(floor(n/3), 1)) : i32[floor(n/3), 1]
  }
}
""",
    "more sizes than a concat joins": """module {
  dims n in [1, 8]
  func @main(%x: u32[33, n]) -> (%y) {
    %i = constant(value=i64[33, 4] filled -1) : i64[33, 4]
    %y = gather_elements(%x, %i, axis=1) : u32[33, 4]
  }
}
""",
}


@pytest.mark.parametrize("name", UNSEEN)
@pytest.mark.parametrize("n", [1, 7, 8])
def test_sizes_that_may_be_0_come_back(name: str, n: int) -> None:
    m = parse_module(UNSEEN[name])
    shape = dims.values(m.entry.params[0].type.shape, {"n": n})
    dtype = m.entry.params[0].type.dtype.numpy
    x = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    same(m, load_model(to_model(m)), [x], {"n": n})
