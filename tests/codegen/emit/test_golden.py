"""Whole texts, so that a change of how kernels read is seen.

``python -m tests.codegen.emit.test_golden`` writes the files anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.pipeline import compile
from didyma.oracle.conformance import calls
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.loop import (
    Allocate,
    Barrier,
    Binary,
    Block,
    Buffer,
    Compare,
    Const,
    Expr,
    For,
    If,
    Intrinsic,
    Let,
    LetExpr,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Select,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.program import Allocate as AllocateValue
from didyma.refimpl.ir.program import Free, Launch, Program, Return
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import DType, Tensor, TensorType
from tests.codegen.row_programs import PROGRAMS, ROWS

FOLDER = Path(__file__).parent / "golden"
F32 = DType.F32
n, bx, tx, i, k = symbol("n"), Var("bx"), Var("tx"), Var("i"), Var("k")
N = DimVar("n", 1, 4096)


def threads(count: int, body: Stmt) -> Stmt:
    return For(tx, ix.index(count), body, LoopKind.BOUND, "threadIdx.x")


def blocks(count: Expr, body: Stmt) -> Stmt:
    return For(bx, count, body, LoopKind.BOUND, "blockIdx.x")


def elementwise() -> PrimFunc:
    """A symbolic tail, a bound value, and a branch with one of its own."""
    row, col = ix.floordiv(i, ix.index(3)), ix.mod(i, ix.index(3))
    t, e = Var("t", F32), Var("e", F32)
    x = Binary("add", Load("x", (row, col), F32), Load("bias", (col,), F32))
    soft = LetExpr(e, Intrinsic("exp", (t,)), Binary("sub", e, Binary("div", Const(1.0, F32), e)))
    value = Select(Compare("gt", t, Const(0.0, F32)), t, soft)
    body = If(Compare("lt", i, ix.of_dim(3 * n)), Let(t, x, Store("y", (row, col), value)))
    at = ix.add(ix.mul(bx, ix.index(256)), tx)
    nest = blocks(ix.ceildiv(ix.of_dim(3 * n), ix.index(256)), threads(256, Let(i, at, body)))
    params = (Buffer("x", F32, (n, 3)), Buffer("bias", F32, (3,)), Buffer("y", F32, (n, 3)))
    return PrimFunc("fused_add_elu_0", params, ("y",), nest, (N,), (("source", ("y",)),))


def row_sum() -> PrimFunc:
    """A block to a row: partial sums in registers, then a tree in shared memory."""
    part = Buffer("part", F32, (64,), Scope.SHARED)
    acc = Buffer("acc", F32, (), Scope.LOCAL)
    step = Binary("add", Load("acc", (), F32),
                  Load("x", (bx, ix.add(ix.mul(k, ix.index(64)), tx)), F32))  # fmt: skip
    serial = Block((
        Store("acc", (), Const(0.0, F32)),
        For(k, ix.index(8), Store("acc", (), step)),
        Store("part", (tx,), Load("acc", (), F32)),
    ))  # fmt: skip
    half = Var("half")
    other = Load("part", (ix.add(tx, half),), F32)
    fold = Store("part", (tx,), Binary("add", Load("part", (tx,), F32), other))
    power = Binary("floordiv", ix.index(32), Binary("shl", ix.ONE, k))
    tree = For(k, ix.index(6),
               Block((Barrier(), Let(half, power, If(Compare("lt", tx, half), fold)))),
               LoopKind.UNROLLED)  # fmt: skip
    last = If(Compare("eq", tx, ix.ZERO), Store("y", (bx,), Load("part", (ix.ZERO,), F32)))
    body = Block((Allocate(acc, serial), tree, last))
    nest = blocks(Var("n"), Allocate(part, threads(64, body)))
    params = (Buffer("x", F32, (n, 512)), Buffer("y", F32, (n,)))
    return PrimFunc("row_sum_1", params, ("y",), nest, (N,), (("source", ("sum",)),))


def wide() -> PrimFunc:
    """Four elements a thread."""
    v = Var("v")
    group = ix.add(ix.mul(bx, ix.index(128)), tx)
    at = ix.add(ix.mul(i, ix.index(4)), v)
    value = Binary("mul", Load("x", (at,), F32), Intrinsic("rsqrt", (Load("s", (ix.ZERO,), F32),)))
    lanes = For(v, ix.index(4), Store("y", (at,), value), LoopKind.VECTORIZED)
    nest = blocks(ix.index(2), threads(128, Let(i, group, lanes)))
    params = (Buffer("x", F32, (1024,)), Buffer("s", F32, (1,)), Buffer("y", F32, (1024,)))
    return PrimFunc("scale_2", params, ("y",), nest)


def vectors() -> PrimFunc:
    """A store of four lanes in a row, and one of every second column."""
    (f,) = parse_loop("""
    kernel @vectors(x: f32[1024], z: f32[128, 8], y: f32[1024]) writes (z, y) {
      for t in 128 bound threadIdx.x {
        y[ramp(t * 4, 1, 4)] = x[ramp(t * 4, 1, 4)] * broadcast(x[t], 4)
        z[t, ramp(6, -2, 4)] = rsqrt(x[ramp(t, 128, 4)])
      }
    }""")
    return f


def hints() -> PrimFunc:
    """Statements that change no value: an assertion, a dropped load, a prefetch, attributes."""
    (f,) = parse_loop("""
    kernel @hints(x: f32[n, 64], y: f32[n]) writes (y) dims n in [1, 4096] {
      for b in n bound blockIdx.x {
        assert x[b, 0] >= 0.0:f32, "rows begin with a count"
        prefetch x[min(b + 1, n - 1), 0]
        evaluate exp(x[b, 1])
        attr remark = "the rest is data" {
          alloc acc: f32[] local
          acc[] = 0.0:f32
          attr unroll = 4 {
            for k in 63 {
              acc[] = acc[] + x[b, k + 1]
            }
          }
          y[b] = acc[]
        }
      }
    }""")
    return f


def norms() -> PrimFunc:
    """A call in a call."""
    return next(calls.cases()).kernel


def scalars() -> PrimFunc:
    """Parameters by value, of a kernel and of a function that it calls."""
    return calls.scalars().kernel


def aliased() -> PrimFunc:
    """Parameters that may be one buffer: no wide access, and none is ``__restrict__``."""
    f = calls.aliased().kernel
    return replace(f, attrs=(("noalias", False),))


KERNELS = (elementwise, row_sum, wide, vectors, hints, norms, scalars, aliased)


def module() -> str:
    """The wrapper of two kernels in a row."""
    kernels = (elementwise(), row_sum())
    x, wider = TensorType(F32, (n, 3)), TensorType(F32, (n, 512))
    bias = Tensor(F32, (3,), bytes(12))
    types = {"x": x, "table": wider, "bias": bias.type, "y": x, "sum": TensorType(F32, (n,))}
    lines = (
        AllocateValue("y"),
        Launch("fused_add_elu_0", ("x", "bias", "y")),
        AllocateValue("sum"),
        Launch("row_sum_1", ("table", "sum")),
        Free("y"),
        Return(("sum",)),
    )
    p = Program(
        "main", (N,), ("x", "table"), (("bias", bias),), tuple(types.items()), kernels, lines
    )
    return wrapper.emit(p, cuda.emit(kernels))


def _kernel(make: Callable[[], PrimFunc]) -> str:
    return cuda.emit([make()]).source


def texts() -> dict[str, str]:
    found = {f"{f.__name__}.cu": _kernel(f) for f in KERNELS}
    return {**found, "module.py.txt": module()}


def rows(name: str) -> str:
    """All kernels of a program that folds rows several times."""
    return compile(PROGRAMS[name].program().module, ROWS).text.source


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_of_joined_rows(name: str) -> None:
    assert rows(name) == (FOLDER / "rows" / f"{name}.cu").read_text()


@pytest.mark.parametrize("name", [*(f"{f.__name__}.cu" for f in KERNELS), "module.py.txt"])
def test_text(name: str) -> None:
    assert texts()[name] == (FOLDER / name).read_text()


if __name__ == "__main__":
    (FOLDER / "rows").mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        (FOLDER / "rows" / f"{name}.cu").write_text(rows(name))
    for name, text in texts().items():
        (FOLDER / name).write_text(text)
