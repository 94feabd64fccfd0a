"""Long sums by one thread, as sums of partial sums: the chain of additions stays short."""

from __future__ import annotations

import math

from didyma.codegen.lower.scalar import identity
from didyma.codegen.schedule.folds import FoldNest, with_lets
from didyma.codegen.schedule.nest import NestFacts
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Accumulator,
    Axis,
    Binary,
    Block,
    Combiner,
    Const,
    Fold,
    For,
    Let,
    Stmt,
    Var,
    Yield,
)


def in_parts(facts: NestFacts, fold: FoldNest) -> Stmt:
    """Return a nest's body with a long sum of floats cut into parts of near the root of its length.

    All parts have the same length; a sum without a divisor near the root is left as it is.
    """
    whole, body = fold.fold, fold.nest.body
    sizes = [int(e.value) for e in fold.extents if isinstance(e, Const)]
    if whole.op != "add" or len(sizes) < len(fold.extents):
        return body
    (acc,), fresh = (a.var for a in whole.accs), facts.names.fresh
    if not acc.dtype.is_float or math.prod(sizes) <= facts.options.kernels.chain:
        return body
    count, each = sizes[0], math.prod(sizes[1:])
    size = min(
        (n for n in range(1, count + 1) if count % n == 0), key=lambda n: n * each + count // n
    )
    if size == count or size * each == 1:
        return body
    part = Var(fresh(f"{acc.name}_part"), acc.dtype)
    turn = Var(fresh("turn")) if size > 1 else fold.ks[0]
    step, axes = whole.step, whole.axes[1:]
    if size > 1:
        u = Var(fresh("u"))
        for k in reversed(axes):
            step = For(k.var, k.extent, step)
        step = Let(fold.ks[0], ix.add(ix.mul(turn, ix.index(size)), u), step)
        axes = (Axis(u, ix.index(size)),)
    (term,) = whole.combine.operands
    zero = Accumulator(part, identity("add", part.dtype))
    inner = Fold((zero,), axes, _sum(part, term), step, Yield((part,)))
    turns = (Axis(turn, ix.index(count // size)),)
    added = Var(fresh(f"{part.name}_sum"), part.dtype)
    # The statements after the fold stay one statement, so that they are printed as one.
    body = Fold(whole.accs, turns, _sum(acc, added), inner, Block((whole.body,)))
    return with_lets(fold.lets, body)


def _sum(acc: Var, term: Var) -> Combiner:
    return Combiner((term,), (Binary("add", acc, term),))
