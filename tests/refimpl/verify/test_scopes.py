"""Where a name of a loop program is seen: in the body of what declares it, and no further."""

from __future__ import annotations

from dataclasses import replace

import pytest

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    INDEX,
    Accumulator,
    Allocate,
    Axis,
    Binary,
    Block,
    Buffer,
    Combiner,
    Expr,
    Fold,
    For,
    Let,
    LetExpr,
    Load,
    PlacementAllocate,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.verify.loop import verify

ROW, K, X = (Var(n) for n in "ikx")
TERM = Combiner((K,), (Binary("add", X, K),))


def store(value: Expr) -> Store:
    return Store("a", (ix.ZERO,), value)


def fold(body: Stmt) -> Stmt:
    return Fold((Accumulator(X, ix.ZERO),), (Axis(ROW, ix.index(3)),), TERM, Yield((ROW,)), body)


AFTER: dict[str, tuple[Stmt, Var]] = {
    "a loop": (For(ROW, ix.index(3), store(ROW)), ROW),
    "a let": (Let(X, ix.ONE, store(X)), X),
    "a let of an expression": (store(LetExpr(X, ix.ONE, X)), X),
    "a fold, its axis": (fold(store(X)), ROW),
    "a fold, its accumulator": (fold(store(X)), X),
    "a fold, an operand of its combiner": (fold(store(X)), K),
}


@pytest.mark.parametrize("name", AFTER)
def test_a_variable_is_not_seen_after_its_body(name: str) -> None:
    s, v = AFTER[name]
    a = Buffer("a", INDEX, (4,))
    verify(PrimFunc("f", (a,), ("a",), s))
    with pytest.raises(DidymaError) as e:
        verify(PrimFunc("f", (a,), ("a",), Block((s, store(v)))))
    assert e.value.code == "L-undefined"
    assert v.name in e.value.got


def test_a_buffer_is_not_seen_after_its_body() -> None:
    scopes = (Scope.GLOBAL, Scope.SHARED, Scope.LOCAL)
    a, b, c = (Buffer(n, INDEX, (4,), s) for n, s in zip("abc", scopes, strict=True))
    local, placed = replace(b, scope=Scope.LOCAL), c
    first = Store(b.name, (ix.ZERO,), ix.ONE)
    over = PlacementAllocate(placed, b.name, Store(c.name, (ix.ZERO,), ix.ONE))
    read = {n: store(Load(n, (ix.ZERO,), INDEX)) for n in "bc"}
    inside = Allocate(local, Block((first, read["b"])))
    verify(PrimFunc("f", (a,), ("a",), inside))
    for name, s in (
        ("b", Block((inside, read["b"]))),
        ("c", Allocate(local, Block((first, over, read["c"])))),
    ):
        with pytest.raises(DidymaError) as e:
            verify(PrimFunc("f", (a,), ("a",), s))
        assert e.value.code == "L-undefined"
        assert e.value.got == f"buffer {name}"
