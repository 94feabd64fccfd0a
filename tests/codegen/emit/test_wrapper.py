from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.runtime.engine import Engine, Loaded
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

    def download(self, buffer: Any, dtype: DType, shape: Sequence[int]) -> Array:
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
    source = wrapper.emit(p, cuda.emit(p.kernels))
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    k = np.arange(rows, dtype=np.int32)
    on = Watched(engine(name))
    found = wrapper.load(source)(on, [x, k, np.ones(2 * rows, np.float32)])
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
        'calls.equal(2 * n, 2 * n, "twice")',
        "engine.free(spare)",
    ):
        assert line in lines, line


def test_imports_little() -> None:
    p = every_line()
    tree = ast.parse(wrapper.emit(p, cuda.emit(p.kernels)))
    modules = {s.module for s in ast.walk(tree) if isinstance(s, ast.ImportFrom)}
    assert not any(isinstance(s, ast.Import) for s in ast.walk(tree))
    assert modules == {
        "didyma.codegen.runtime", "didyma.codegen.runtime.engine",
        "didyma.refimpl.ir.expr", "didyma.refimpl.ir.loop", "didyma.refimpl.ir.types",
    }  # fmt: skip


def test_runs_as_a_script(tmp_path: Path) -> None:
    p = every_line()
    path = tmp_path / "all_lines.py"
    path.write_text(wrapper.emit(p, cuda.emit(p.kernels)))
    command = [sys.executable, str(path), "simt", "n=5"]
    root = Path(wrapper.__file__).parents[3]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(root)}
    )
    assert "call on simt" in done.stdout


def test_a_script_says_what_goes_in_and_comes_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    p = every_line()
    script = compile(wrapper.emit(p, cuda.emit(p.kernels)), "all_lines.py", "exec")
    monkeypatch.setattr(sys, "argv", ["all_lines.py", "host", "n=5"])
    exec(script, {"__name__": "__main__"})
    said = capsys.readouterr().out.splitlines()
    assert "in   x: f32[5, 2]" in said
    assert "out  1: i32[5]" in said
    assert said[0].startswith("first call on host: ")
    monkeypatch.setattr(sys, "argv", ["all_lines.py", "n=x"])
    with pytest.raises(SystemExit, match="n=x: want one of n"):
        exec(script, {"__name__": "__main__"})


# Sizes


def identity(*shapes: tuple[Dim, ...], dims: tuple[DimVar, ...]) -> Program:
    """Program that takes arrays of some shapes and returns a copy of the first."""
    types = {f"x{k}": TensorType(F32, s) for k, s in enumerate(shapes)}
    names = tuple(types)
    types["y"] = types["x0"]
    lines = (Allocate("y"), Copy("y", "x0"), Return(("y",)))
    return Program("identity", dims, names, (), tuple(types.items()), (), lines)


def called(p: Program, *shapes: tuple[int, ...]) -> Array:
    call = wrapper.load(wrapper.emit(p, cuda.emit(p.kernels)))
    result: Array
    (result,) = call(engine("simt"), [np.ones(s, np.float32) for s in shapes])
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
    call = wrapper.load(wrapper.emit(p, cuda.emit(p.kernels)))
    for bad, code in ((np.ones(3), "input-dtype"), ([1.0, 2.0, 3.0], "not-an-array")):
        with pytest.raises(DidymaError) as e:
            call(engine("simt"), [bad])
        assert e.value.code == code


def test_inputs_may_have_any_strides() -> None:
    p = identity((2, 3), dims=())
    call = wrapper.load(wrapper.emit(p, cuda.emit(p.kernels)))
    turned = np.arange(6, dtype=np.float32).reshape(3, 2).T
    np.testing.assert_array_equal(call(engine("simt"), [turned])[0], turned)


def test_a_size_that_no_input_tells() -> None:
    p = identity((3,), dims=(N, M))
    p = replace(p, lines=(Assert(n, n, "used"), *p.lines))
    with pytest.raises(DidymaError) as e:
        called(p, (3,))
    assert (e.value.code, e.value.where) == ("unbound-dim", "n")


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
    call = wrapper.load(wrapper.emit(p, cuda.emit(p.kernels)))
    seen: dict[str, Any] = {}

    def twice(on: Engine, outs: Sequence[Any], ins: Sequence[Any], a: dict[str, Any]) -> None:
        seen.update(a)
        x = on.download(ins[0], F32, (2, 3))
        on.copy(outs[0], on.upload(x + x))

    ones = np.ones((2, 3), np.float32)
    (result,) = call(engine("simt"), [ones], externs={"twice": twice})
    np.testing.assert_array_equal(result, 2 * ones)
    assert (seen.pop("t") == big.array()).all()
    assert seen == {"alpha": float("-inf"), "names": ("a", 'b"'), "rows": 2, "as": F32}
    with pytest.raises(DidymaError) as e:
        call(engine("simt"), [ones])
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
    (result,) = wrapper.load(source)(on, [given])
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
    found = wrapper.load(wrapper.emit(p, cuda.emit(())))(engine("simt"), [])
    for a, b in zip(SMALL, found, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def test_large_constants_are_beside_it(tmp_path: Path) -> None:
    large = (*SMALL, np.arange(1 << 15, dtype=np.int32), np.array([3], np.float32))
    p = constants(*large)
    source = wrapper.emit(p, cuda.emit(()))
    assert len(source) < 10_000
    data = wrapper.weights(p)
    module = tmp_path / "weighty.py"
    module.write_text(source)
    (tmp_path / "weighty.weights").write_bytes(data)
    space: dict[str, Any] = {"__name__": "weighty", "__file__": str(module)}
    exec(source, space)
    on = engine("simt")
    elsewhere: dict[str, Any] = {"__name__": "weighty", "__file__": "nowhere/weighty.py"}
    exec(source, elsewhere)
    for found in (
        space["call"](on, []),
        elsewhere["call"](on, [], weights=elsewhere["load"](on, data)),
    ):
        for a, b in zip(large, found, strict=True):
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    (tmp_path / "weighty.weights").write_bytes(data[:-1] + b"x")
    with pytest.raises(DidymaError) as e:
        space["call"](engine("simt"), [])
    assert e.value.code == "weights-mismatch"
    (tmp_path / "weighty.weights").unlink()
    with pytest.raises(DidymaError) as e:
        space["call"](engine("simt"), [])
    assert e.value.code == "weights-missing"
