from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.engine import Engine, KernelText, Loaded
from didyma.codegen.runtime.registry import engine
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.graph import attrs
from didyma.refimpl.ir.loop import Binary, Buffer, For, Load, PrimFunc, Store, Var
from didyma.refimpl.ir.program import (
    Allocate,
    Assert,
    Copy,
    Extern,
    Free,
    Launch,
    Line,
    PlacementAllocate,
    Program,
    Return,
    Reuse,
    View,
)
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType
from tests.codegen.once import ran

F32, I32 = DType.F32, DType.I32
n, m = symbol("n"), symbol("m")
i = Var("i")


def total(name: str, dtype: DType, rows: Dim, *dims: DimVar) -> PrimFunc:
    """Kernel ``y = a + b``."""
    params = tuple(Buffer(b, dtype, (rows,)) for b in "aby")
    value = Binary("add", Load("a", (i,), dtype), Load("b", (i,), dtype))
    return PrimFunc(name, params, ("y",), For(i, ix.of_dim(rows), Store("y", (i,), value)), dims)


N = DimVar("n", 0, 100)
PLUS = total("plus", F32, 2 * n, N)
COUNT = total("count", I32, n, N)


def every_line() -> Program:
    """Program with each kind of line: of ``x`` it returns ``4 (x + w)`` and ``k + k``."""
    flat, wide = TensorType(F32, (2 * n,)), TensorType(F32, (n, 2))
    ints = TensorType(I32, (n,))
    types = {
        "x": wide, "k": ints, "class": flat, "t": flat, "u": flat, "v": flat, "v:2": wide,
        "j": ints, "w": flat, "spare": flat,
    }  # fmt: skip
    lines: tuple[Line, ...] = (
        Assert(2 * n, n + n, "twice"),
        Allocate("spare"),
        Copy("spare", "x"),
        Allocate("t"),
        Launch("plus", ("class", "spare", "t")),  # x + 0
        Free("spare"),
        Allocate("u"),
        Launch("plus", ("t", "t", "u")),  # 2 x
        Reuse("v", "t"),
        Launch("plus", ("u", "u", "v")),  # 4 x
        PlacementAllocate("j", "u"),
        Launch("count", ("k", "k", "j")),
        View("v:2", "v"),
        Allocate("w"),
        Free("w"),
        Return(("v:2", "j")),
    )
    return Program(
        "all lines", (N,), ("x", "k", "class"), (), tuple(types.items()), (PLUS, COUNT), lines
    )


@dataclass
class Watched:
    """An engine that counts what is held."""

    inner: Engine
    held: list[Any] = field(default_factory=list[Any])
    name: str = "watched"

    def keep(self, buffer: Any) -> Any:
        self.held.append(buffer)
        return buffer

    def load(self, text: Any) -> Loaded:
        return self.inner.load(text)

    def allocate(self, nbytes: int) -> Any:
        return self.keep(self.inner.allocate(nbytes))

    def upload(self, array: Array) -> Any:
        return self.keep(self.inner.upload(array))

    def free(self, buffer: Any) -> None:
        at = [b is buffer for b in self.held].index(True)
        del self.held[at]
        self.inner.free(buffer)

    def view(self, buffer: Any, offset: int, nbytes: int) -> Any:
        return self.inner.view(buffer, offset, nbytes)

    def download(self, buffer: Any, dtype: str, shape: Sequence[int]) -> Array:
        return self.inner.download(buffer, dtype, shape)

    def copy(self, target: Any, source: Any) -> None:
        self.inner.copy(target, source)

    def stack(self, nbytes: int) -> Any:
        return self.keep(self.inner.stack(nbytes))

    def unstack(self, buffer: Any) -> None:
        at = [b is buffer for b in self.held].index(True)
        del self.held[at]
        self.inner.unstack(buffer)

    def wait(self, stream: int, on: int) -> None:
        self.inner.wait(stream, on)

    def join(self) -> None:
        self.inner.join()


@pytest.mark.parametrize("name", ["host", "simt"])
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_every_kind_of_line(name: str, rows: int) -> None:
    p = every_line()
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    k = np.arange(rows, dtype=np.int32)
    on = Watched(engine(name))
    found = ran(p, on, [x, k, np.ones(2 * rows, np.float32)])
    assert [a.shape for a in found] == [(rows, 2), (rows,)]
    np.testing.assert_array_equal(found[0], 4 * (x + 1))
    np.testing.assert_array_equal(found[1], 2 * k)
    assert on.held == []


def test_readable() -> None:
    p = every_line()
    lines = [s.strip() for s in wrapper.emit(p, cuda.emit(p.kernels)).splitlines()]
    for line in (
        "t = engine.allocate(8 * n)  # f32[2*n]",
        'kernels.launch("plus", [class_1, spare, t], sizes)',
        "v = t  # f32[2*n], in place of the dead",
        "j = engine.view(u, 0, 4 * n)  # i32[n], on the bytes of u",
        "v_2 = v  # f32[n, 2], the same bytes",
        "engine.copy(spare, x)",
        'rt.equal(2 * n, 2 * n, "twice")',
        "engine.free(spare)",
    ):
        assert line in lines, line


def test_a_parameter_whose_name_c_reserves() -> None:
    params = tuple(Buffer(b, F32, (n,)) for b in ("float", "double"))
    value = Load("float", (i,), F32)
    f = PrimFunc(
        "move", params, ("double",), For(i, ix.of_dim(n), Store("double", (i,), value)), (N,)
    )
    types = (("x", TensorType(F32, (n,))), ("y", TensorType(F32, (n,))))
    lines = (Allocate("y"), Launch("move", ("x", "y")), Return(("y",)))
    p = Program("reserved", (N,), ("x",), (), types, (f,), lines)
    (kernel,) = modules.module(wrapper.emit(p, cuda.emit(p.kernels)))["KERNELS"].values()
    assert kernel.shapes({"n": 3}) == ((3,),)
    assert called(p, (3,)).tolist() == [1, 1, 1]


def test_imports_little() -> None:
    p = every_line()
    tree = ast.parse(wrapper.emit(p, cuda.emit(p.kernels)))
    modules = {s.module for s in ast.walk(tree) if isinstance(s, ast.ImportFrom)}
    names = {a.name for s in ast.walk(tree) if isinstance(s, ast.Import) for a in s.names}
    assert (modules, names) == ({"functools"}, {"didyma_runtime"})


def test_inputs_are_freed_after_their_last_use() -> None:
    """Of the two copies of `x`, of which one is made by way of a view, the last frees it."""
    x = TensorType(F32, (n,))
    lines: tuple[Line, ...] = (
        Allocate("y"), Copy("y", "x"), View("v", "x"), Allocate("z"), Copy("z", "v"),
        Copy("y", "k"), Return(("y", "z", "k")),
    )  # fmt: skip
    types = tuple((v, x) for v in ("x", "k", "y", "v", "z"))
    p = Program("uses", (N,), ("x", "k"), (), types, (), lines)
    text = [s.strip() for s in wrapper.emit(p, cuda.emit(())).splitlines()]
    assert text[text.index("engine.free(x)") - 1] == "engine.copy(z, v)"
    assert text[text.index("engine.free(k)") - 1] == "engine.copy(y, k)"
    assert "k_array," in text  # which is returned as the caller gave it
    on = Watched(engine("simt"))
    given = [np.arange(3, dtype=np.float32), np.ones(3, np.float32)]
    y, z, k = ran(p, on, given)
    np.testing.assert_array_equal(y, given[1])
    np.testing.assert_array_equal(z, given[0])
    np.testing.assert_array_equal(k, given[1])
    assert on.held == []


# Sizes


def identity(*shapes: tuple[Dim, ...], dims: tuple[DimVar, ...]) -> Program:
    """Program that takes arrays of some shapes and returns a copy of the first."""
    types = {f"x{k}": TensorType(F32, s) for k, s in enumerate(shapes)}
    names = tuple(types)
    types["y"] = types["x0"]
    lines = (Allocate("y"), Copy("y", "x0"), Return(("y",)))
    return Program("identity", dims, names, (), tuple(types.items()), (), lines)


def called(p: Program, *shapes: tuple[int, ...]) -> Array:
    (result,) = ran(p, engine("simt"), [np.ones(s, np.float32) for s in shapes])
    return result


M = DimVar("m", 1, 9)


@pytest.mark.parametrize(
    ("shapes", "given"),
    [
        (((2 * n + 1,),), ((7,),)),
        (((n * m, 3), (m,)), ((8, 3), (4,))),
        (((n // 2 + 1,), (n,)), ((3,), (5,))),
        (((m + 1,), (n + m,)), ((3,), (9,))),
        (((n * m,), (n + m,), (2 * m + 1,)), ((12,), (7,), (9,))),
        (((n * m,), (n + m,), (2 * n + 1,)), ((0,), (4,), (1,))),
        (((n * m,), (n * m + m,), (n,)), ((0,), (4,), (0,))),
    ],
    ids=["linear", "product", "floor", "sum", "last", "empty", "only the second"],
)
def test_sizes_are_found(
    shapes: tuple[tuple[Dim, ...], ...], given: tuple[tuple[int, ...], ...]
) -> None:
    used = {s.name for shape in shapes for d in shape for s in getattr(d, "free_symbols", ())}
    p = identity(*shapes, dims=tuple(d for d in (N, M) if d.name in used))
    assert called(p, *given).shape == given[0]


@pytest.mark.parametrize(
    ("shapes", "given", "code"),
    [
        (((n,),), (), "input-count"),
        (((n,),), ((3, 1),), "rank-mismatch"),
        (((n, 4),), ((3, 5),), "dim-mismatch"),
        (((n,), (n,)), ((3,), (4,)), "dim-mismatch"),
        (((2 * n + 1,),), ((6,),), "dim-mismatch"),
        (((n,),), ((101,),), "dim-out-of-range"),
        (((n * m,), (n,)), ((0,), (0,)), "unbound-dim"),
        (((n + m,), (2 * m + 1,), (n * m,)), ((7,), (9,), (13,)), "dim-mismatch"),
    ],
)
def test_inputs_that_do_not_fit(
    shapes: tuple[tuple[Dim, ...], ...], given: tuple[tuple[int, ...], ...], code: str
) -> None:
    used = {s.name for shape in shapes for d in shape for s in getattr(d, "free_symbols", ())}
    p = identity(*shapes, dims=tuple(d for d in (N, M) if d.name in used))
    with pytest.raises(DidymaError) as e:
        called(p, *given)
    assert e.value.code == code


def test_inputs_of_another_kind() -> None:
    p = identity((3,), dims=())
    for bad, code in ((np.ones(3), "input-dtype"), ([1.0, 2.0, 3.0], "not-an-array")):
        with pytest.raises(DidymaError) as e:
            ran(p, engine("simt"), [bad])
        assert e.value.code == code


def test_inputs_may_have_any_strides() -> None:
    p = identity((2, 3), dims=())
    turned = np.arange(6, dtype=np.float32).reshape(3, 2).T
    np.testing.assert_array_equal(ran(p, engine("simt"), [turned])[0], turned)


def test_a_size_that_no_input_tells() -> None:
    p = identity((3,), dims=(N, M))
    p = replace(p, lines=(Assert(n, n, "used"), *p.lines))
    with pytest.raises(DidymaError) as e:
        called(p, (3,))
    assert (e.value.code, e.value.where) == ("unbound-dim", "n")


def test_a_size_that_a_shape_names_is_not_told_by_strides() -> None:
    rows = {"x": TensorType(F32, (m * m,)), "y": TensorType(F32, (2, 3), strides=(3 + m, 1))}
    p = Program("p", (M,), tuple(rows), (), tuple(rows.items()), (), (Return(("x",)),))
    with pytest.raises(DidymaError) as e:
        wrapper.emit(p, KernelText("", ()))
    assert (e.value.code, e.value.where) == ("unbound-dim", "m")


def test_a_value_may_have_the_name_of_a_symbol() -> None:
    """The loop over the rows counts by a symbol, which is named ``i`` as well."""
    text = """
module {
  func @step(%a: f32[1], %row: f32[1]) -> (%a, %a) {
  }
  func @main(%p: f32[1], %rows: f32[5, 1]) -> (%i, %o) {
    %i, %o = scan(%p, %rows, body="step", index="", length=5, scanned=1, states=1)
      : f32[1], f32[5, 1]
  }
}
"""
    program = dd.Program(parse_module(text))
    x, rows = np.ones(1, np.float32), np.zeros((5, 1), np.float32)
    last, kept = dd.compile(program, engine="host")(x, rows)
    assert np.array_equal(last, x)
    assert np.array_equal(kept, np.ones((5, 1), np.float32))


def test_a_size_that_nothing_uses() -> None:
    assert called(identity((3,), dims=(N,)), (3,)).shape == (3,)


def test_a_program_s_own_assertion() -> None:
    p = identity((n,), (m,), dims=(N, M))
    p = replace(p, lines=(Assert(n, 2 * m, "n is twice m"), *p.lines))
    assert called(p, (4,), (2,)).shape == (4,)
    with pytest.raises(DidymaError, match=r"n is twice m"):
        called(p, (4,), (3,))


def test_library_routines() -> None:
    p = identity((n, 3), dims=(N,))
    big = Tensor.of(np.arange(2, dtype=np.int8))
    a = attrs({"alpha": float("-inf"), "names": ("a", 'b"'), "rows": n, "as": F32, "t": big})
    call_it = Extern("twice", ("y",), ("x0",), a)
    p = replace(p, lines=(Allocate("y"), call_it, Return(("y",))))
    seen: dict[str, Any] = {}

    def twice(on: Engine, outs: Sequence[Any], ins: Sequence[Any], a: dict[str, Any]) -> None:
        seen.update(a)
        x = on.download(ins[0], F32, (2, 3))
        on.copy(outs[0], on.upload(x + x))

    ones = np.ones((2, 3), np.float32)
    (result,) = ran(p, engine("simt"), [ones], externs={"twice": twice})
    np.testing.assert_array_equal(result, 2 * ones)
    assert (seen.pop("t") == big.array()).all()
    assert seen == {"alpha": float("-inf"), "names": ("a", 'b"'), "rows": 2, "as": F32}
    with pytest.raises(DidymaError) as e:
        ran(p, engine("simt"), [ones])
    assert e.value.code == "unknown-routine"


def test_two_values_on_one_dead_allocation() -> None:
    x = TensorType(F32, (128,))
    half = TensorType(F32, (64,))
    types = {"x": half, "big": x, "a": half, "b": half, "c": half}
    lines: tuple[Line, ...] = (
        Allocate("big"),
        PlacementAllocate("a", "big"),
        PlacementAllocate("b", "big", 256),
        Copy("a", "x"),
        Launch("plus64", ("a", "x", "b")),
        Free("a"),
        Allocate("c"),
        Launch("plus64", ("b", "x", "c")),
        Free("b"),
        Return(("c",)),
    )
    kernel = total("plus64", F32, 64)
    p = Program("halves", (), ("x",), (), tuple(types.items()), (kernel,), lines)
    on = Watched(engine("simt"))
    given = np.arange(64, dtype=np.float32)
    source = wrapper.emit(p, cuda.emit(p.kernels))
    (result,) = ran(p, on, [given])
    np.testing.assert_array_equal(result, 3 * given)
    assert on.held == []
    assert source.count("engine.free(big)") == 1
    assert source.index("c = engine.allocate") < source.index("engine.free(big)")


# Constants


def constants(*arrays: Array) -> Program:
    """Program that returns its constants."""
    given = [(f"c{k}", Tensor.of(a)) for k, a in enumerate(arrays)]
    types = {name: t.type for name, t in given}
    types |= {f"y{k}": t.type for k, (_, t) in enumerate(given)}
    lines: list[Line] = []
    for k in range(len(given)):
        lines += [Allocate(f"y{k}"), Copy(f"y{k}", f"c{k}")]
    lines.append(Return(tuple(f"y{k}" for k in range(len(given)))))
    return Program("weighty", (), (), tuple(given), tuple(types.items()), (), tuple(lines))


SMALL: tuple[Array, ...] = (
    np.arange(5, dtype=np.float16),
    np.array(True),
    np.zeros((2, 0, 3), np.int64),
    np.array([[-0.0, np.nan]], np.float64),
)


def test_small_constants_are_in_the_module() -> None:
    p = constants(*SMALL)
    found = ran(p, engine("simt"), [])
    for a, b in zip(SMALL, found, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def test_large_constants_are_beside_it() -> None:
    large = (*SMALL, np.arange(1 << 15, dtype=np.int32), np.array([3], np.float32))
    p = constants(*large)
    source = wrapper.emit(p, cuda.emit(()))
    assert len(source) < 10_000
    data = wrapper.weights(p)
    space = dict(modules.module(source))
    on = engine("simt")
    found = space["run"](on, [], None, weights=space["upload"](on, data))
    for a, b in zip(large, found, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    with pytest.raises(DidymaError) as e:
        space["upload"](on, data[:-1] + b"x")
    assert e.value.code == "hash-mismatch"
    with pytest.raises(DidymaError) as e:
        space["upload"](on)
    assert e.value.code == "file-missing"
