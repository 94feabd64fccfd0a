"""Long sums by one thread, as sums of partial sums: the chain of additions stays short."""

from __future__ import annotations

import math
from dataclasses import replace

from didyma.codegen.lower.scalar import identity
from didyma.codegen.schedule.folds import FoldNest, reading, with_lets
from didyma.codegen.schedule.nest import Nest, NestFacts, same
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    Binary,
    Block,
    Buffer,
    Const,
    For,
    Let,
    Load,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import map_stmt


def in_parts(facts: NestFacts, fold: FoldNest) -> Nest:
    """Return a fold's nest with a long sum of floats cut into parts of near the root of its length.

    All parts have the same length; a sum without a divisor near the root is left as it is.
    """
    store = fold.value()
    sizes = [int(e.value) for e in fold.extents if isinstance(e, Const)]
    if store is None or fold.is_arg or len(sizes) < len(fold.extents):
        return fold.nest
    total = store.value
    if not (isinstance(total, Binary) and total.op == "add" and total.dtype.is_float):
        return fold.nest
    if math.prod(sizes) <= facts.options.kernels.chain:
        return fold.nest
    count, each = sizes[0], math.prod(sizes[1:])
    size = min(
        (n for n in range(1, count + 1) if count % n == 0), key=lambda n: n * each + count // n
    )
    if size == count or size * each == 1:
        return fold.nest
    acc = fold.accs[0].buffer
    part = Buffer(facts.names.fresh(f"{acc.name}_part"), acc.dtype, (), Scope.LOCAL)
    turn = Var(facts.names.fresh("turn")) if size > 1 else fold.ks[0]
    inner = _onto(fold.step, acc, part)
    for k, extent in reversed(list(zip(fold.ks[1:], fold.extents[1:], strict=True))):
        inner = For(k, extent, inner)
    if size > 1:
        u = Var(facts.names.fresh("u"))
        inner = Let(fold.ks[0], ix.add(ix.mul(turn, ix.index(size)), u), inner)
        inner = For(u, ix.index(size), inner)
    so_far = Load(acc.name, (), acc.dtype)
    added = Store(acc.name, (), Binary("add", so_far, Load(part.name, (), part.dtype)))
    zero = Store(part.name, (), identity("add", part.dtype))
    turns = For(turn, ix.index(count // size), Allocate(part, Block((zero, inner, added))))
    start = Store(acc.name, (), fold.accs[0].start)
    body: Stmt = Allocate(acc, Block((start, turns, fold.rest)))
    return replace(fold.nest, body=with_lets(fold.lets, body))


def _onto(step: Stmt, acc: Buffer, part: Buffer) -> Stmt:
    """Redirect a step to another accumulator."""
    found = reading(step, {acc.name: Load(part.name, (), part.dtype)})

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer == acc.name:
            return replace(s, buffer=part.name)
        return map_stmt(s, same, on_stmt)

    return on_stmt(found)
