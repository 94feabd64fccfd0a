"""Take several lines of an array as one, where each begins between wide accesses.

A line of 1,001 elements begins between accesses of four, but four such lines are 1,001 accesses.
So a fold of columns becomes one of four times as many columns that are a quarter as long, whose
results are parts of those that are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, replace

from didyma.codegen.schedule.folds import FoldNest
from didyma.codegen.schedule.nest import Nest, NestFacts, variables
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import Axis, Const, Expr, Load, PrimFunc, Stmt, Var
from didyma.refimpl.ir.walk import map_expr, map_stmt, substitute


@dataclass(frozen=True, slots=True)
class Lines:
    """A nest of a function that sees ``count`` lines of its parameters as one."""

    count: int
    func: PrimFunc
    nest: Nest


def find(facts: NestFacts, fold: FoldNest) -> Lines | None:
    """Return the nest with as many lines as one as wide accesses ask for.

    None if they ask for no more than one, if some lines would be left, or if terms are of anything
    but elements of whole arrays, of which threads would need one for each line.
    """
    sizes = [int(e.value) for e in (*fold.extents, *fold.nest.extents) if isinstance(e, Const)]
    if not facts.wide or fold.lets or len(fold.ks) != 1 or len(fold.nest.index) != 1:
        return None
    if len(sizes) != 2:
        return None
    (k,), (c,), (terms, columns) = fold.ks, fold.nest.index, sizes
    accesses = [(name, facts.offset(name, at)) for name, at in facts.accesses()]
    other = {name for name, p in accesses if p != {(k.name,): columns, (c.name,): 1}}
    flat = {name: facts.buffers[name].dtype.nbytes for name, _ in accesses if name not in other}
    size = facts.target.access // max(flat.values(), default=facts.target.access)
    count = size // math.gcd(size, columns)
    line, at = Var(facts.names.fresh(k.name)), Var(facts.names.fresh(c.name))
    step = _taken(fold.fold.step, flat, (line, at))
    if count == 1 or terms % count or {k.name, c.name} & variables(step):
        return None
    shape = terms // count, count * columns
    axes = (Axis(line, ix.index(shape[0])),)
    after = substitute(fold.fold.body, {c.name: ix.mod(at, ix.index(columns))})
    body = replace(fold.fold, axes=axes, step=step, body=after)
    params = (replace(b, shape=shape) if b.name in flat else b for b in facts.func.params)
    func = replace(facts.func, params=tuple(params))
    return Lines(count, func, Nest((at,), (ix.index(shape[1]),), body))


def _taken(s: Stmt, flat: Container[str], at: tuple[Expr, Expr]) -> Stmt:
    """Return a statement that loads the ``flat`` buffers at a place of a line."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in flat:
            return Load(e.buffer, at, e.dtype)
        return map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)
