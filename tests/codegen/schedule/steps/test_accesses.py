"""Which buffers a statement reads and writes, as dependences are decided by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from didyma.codegen.schedule.steps.accesses import scan
from didyma.codegen.schedule.steps.apply import apply
from didyma.codegen.schedule.steps.records import Join, Parallel, Step
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Atomic,
    Block,
    Buffer,
    Call,
    Chain,
    Const,
    ExternalAllocate,
    ExternalCall,
    For,
    Free,
    If,
    Load,
    PlacementAllocate,
    Prefetch,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import DType

(F,) = parse_loop("kernel @f(x: f32[8], y: f32[8], u: u32[8]) writes (y, u) { y[0] = x[0] }")
ZERO, AT = ix.index(0), Var("i")
X, Y = (Load(name, (ZERO,), DType.F32) for name in "xy")
MORE = Buffer("m", DType.F32, (8,))


@pytest.mark.parametrize(
    ("s", "reads", "writes"),
    [
        (Store("y", (ZERO,), X), "x", "y"),
        (Atomic("add", "y", (ZERO,), X), "x", "y"),
        (Prefetch("x", (ZERO,)), "x", ""),
        (ExternalCall("g", ("y",), ("x",)), "x", "y"),
        (ExternalAllocate("g", (MORE,), ("x",), (), Block(())), "x", "m"),
        (Call("g", ("x", "y")), "xy", "xy"),
        (Free("y"), "", "y"),
        (Chain(Var("c", DType.F32), "add", X, Y, "u", "y", Block(())), "xyuy", "uy"),
        (PlacementAllocate(MORE, "x", Store("m", (ZERO,), Y)), "y", "m"),
    ],
)
def test_a_statement_reads_and_writes(s: Stmt, reads: str, writes: str) -> None:
    found = scan(replace(F, body=s)).accesses
    assert sorted(a.buffer for a in found if not a.writes) == sorted(reads)
    assert sorted(a.buffer for a in found if a.writes) == sorted(writes)
    assert [a.position for a in found] == list(range(len(found)))


def test_an_access_has_its_loops_guards_and_operation() -> None:
    add = Store("y", (AT,), ix.add(Load("y", (AT,), DType.F32), Load("x", (AT,), DType.F32)))
    loop = For(AT, ix.index(8), If(Const(True, DType.BOOL), add))
    found = scan(replace(F, body=loop)).accesses
    assert [(a.buffer, a.writes, a.update) for a in found] == [
        ("y", False, "add"), ("x", False, ""), ("y", True, "add"),
    ]  # fmt: skip
    assert {(a.loops, a.guards, a.is_atomic) for a in found} == {((loop,), 1, False)}
    assert {a.index for a in found} == {(AT,)}


_ATOMICS = """
primfunc @f(x: i32[6], y: i32[3]) writes (y) {{
  for i in 6 {{
    atomic add(y[i % 3], x[i])
  {}
    atomic {}(y[{} % 3], x[{}])
  }}
}}
"""
_TWO = "}\n  for j in 6 {"


@pytest.mark.parametrize(
    ("step", "between", "index"), [(Join(("i", "j")), _TWO, "j"), (Parallel("i"), "", "i")]
)
def test_atomic_updates_by_one_operation_alone_come_in_any_order(
    step: Step, between: str, index: str
) -> None:
    (same,) = parse_loop(_ATOMICS.format(between, "add", index, index))
    apply(step, same)
    (other,) = parse_loop(_ATOMICS.format(between, "max", index, index))
    with pytest.raises(DidymaError) as e:
        apply(step, other)
    assert e.value.code == "dependence"
