"""Random functions run at once, as lanes, and one iteration after another: the same bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.refimpl.ir.loop import (
    Allocate,
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Expr,
    For,
    If,
    Let,
    LoopKind,
    Select,
    Stmt,
    Var,
    While,
)
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.walk import map_stmt
from tests.oracle.lanes.bodies import run
from tests.refimpl.interp.build import (
    I64,
    block,
    i,
    ix,
    j,
    k,
    load,
    local,
    plus,
    serial,
    store,
)

SIZE = 7
OPS: tuple[BinaryOp, ...] = ("add", "sub", "mul", "floordiv", "floormod", "min", "max", "xor")
COMPARES: tuple[CompareOp, ...] = ("eq", "ne", "lt", "le", "gt", "ge")


class Maker:
    """Draws expressions over i64 whose loads are in bounds where they are evaluated."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.vars: list[Expr] = [i, j]
        self.fresh = 0

    def pick(self, n: int) -> int:
        return int(self.rng.integers(n))

    def expr(self, depth: int) -> Expr:
        choice = self.pick(6) if depth else self.pick(2)
        if choice == 0:
            return ix(int(self.rng.integers(-3, 9)))
        if choice == 1:
            return self.vars[self.pick(len(self.vars))]
        if choice == 2:
            at = self.expr(depth - 1)
            return self.guarded(at)
        if choice == 3:
            return Select(self.cond(depth - 1), self.expr(depth - 1), self.expr(depth - 1))
        return Binary(OPS[self.pick(len(OPS))], self.expr(depth - 1), self.expr(depth - 1))

    def guarded(self, at: Expr) -> Expr:
        """A load behind a bounds check, or one whose index is brought inside."""
        if self.pick(2):
            inside = Binary("and", Compare("ge", at, ix(0)), Compare("lt", at, ix(SIZE)))
            return Select(inside, load("x", at, dtype=I64), ix(-1))
        return load("x", Binary("floormod", at, ix(SIZE)), dtype=I64)

    def cond(self, depth: int) -> Expr:
        return Compare(COMPARES[self.pick(6)], self.expr(depth), self.expr(depth))

    def stmt(self, depth: int) -> Stmt:
        """A statement on the accumulator."""
        acc = load("acc", dtype=I64)
        choice = self.pick(6) if depth else 0
        if choice == 1:
            other = self.stmt(depth - 1) if self.pick(2) else None
            return If(self.cond(2), self.stmt(depth - 1), other)
        if choice == 2:
            var = Var(f"v{self.fresh}")
            self.fresh += 1
            value = self.expr(2)
            self.vars.append(var)
            body = self.stmt(depth - 1)
            self.vars.remove(var)
            return Let(var, value, body)
        if choice == 3 and k not in self.vars:
            extent = Binary("floormod", self.expr(1), ix(4))
            self.vars.append(k)
            body = self.stmt(depth - 1)
            self.vars.remove(k)
            return serial(k, extent, body)
        if choice == 4:
            return block(self.stmt(depth - 1), self.stmt(depth - 1))
        if choice == 5:
            name = f"w{self.fresh}"
            self.fresh += 1
            count = load(name, dtype=I64)
            more = Compare("lt", count, Binary("floormod", self.expr(1), ix(4)))
            step = store(name, value=plus(count, ix(1)))
            going = While(more, block(step, self.stmt(depth - 1)))
            return Allocate(local(name, dtype=I64), block(store(name, value=ix(0)), going))
        return store("acc", value=plus(acc, self.expr(3)))


def in_turn(s: Stmt) -> Stmt:
    """The same loops, all serial."""
    s = map_stmt(s, lambda e: e, in_turn)
    return replace(s, kind=LoopKind.SERIAL) if isinstance(s, For) else s


@pytest.mark.parametrize("seed", range(8))
def test_lanes_and_turns_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-10, 10, SIZE)
    for _ in range(25):
        m = Maker(rng)
        work = block(
            store("acc", value=m.expr(2)),
            m.stmt(4),
            store("o", i, j, value=load("acc", dtype=I64)),
        )
        ragged = m.pick(2)
        extent = Binary("min", plus(i, ix(1)), ix(3)) if ragged else ix(3)
        inner = For(j, extent, Allocate(local("acc", dtype=DType.I64), work), LoopKind.PARALLEL)
        body = For(i, ix(4), inner, LoopKind.PARALLEL)
        results: list[Array] = []
        for nest in (body, in_turn(body)):
            o = np.full((4, 3), 99)
            run(nest, {"x": x}, {"o": o})
            results.append(o)
        assert (results[0] == results[1]).all(), body
