"""Elements that a thread loads together for the terms of a fold, or for its results."""

from __future__ import annotations

from dataclasses import dataclass, replace

from didyma.codegen.schedule import folds, lanes, row_wide
from didyma.codegen.schedule.folds import FoldNest
from didyma.codegen.schedule.nest import NestFacts
from didyma.codegen.schedule.pointwise import moved
from didyma.codegen.schedule.row_wide import Wide
from didyma.codegen.schedule.rows import RowNest
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import plus
from didyma.refimpl.ir.loop import Expr, Fold, Let, Load, Stmt, Var
from didyma.refimpl.ir.walk import exprs


@dataclass(frozen=True, slots=True)
class Groups:
    """Elements that are loaded together: ``size`` neighbours along ``axis``, of ``buffers``.

    There are ``count`` such groups along the axis, at most.  ``uneven`` are terms that begin
    between groups: those at both ends of a result's are loaded one by one.
    """

    axis: Var
    size: int
    count: Expr
    buffers: frozenset[str]
    uneven: bool = False


def find(facts: NestFacts, fold: FoldNest, along: bool) -> Groups | None:
    """Return what a thread may load together; None if there is nothing."""
    read = {e.buffer for e in exprs(fold.fold.step) if isinstance(e, Load)}
    for size in lanes.widths(facts):
        found = of_size(facts, fold, size, along=along)
        if found is not None and lanes.suit(facts, found.buffers & read, size):
            # What is stored once a result may be too wide for that: then it is stored one by one.
            good = {x for x in found.buffers if x in read or lanes.suit(facts, (x,), size)}
            return replace(found, buffers=frozenset(good))
    size = max(row_wide.widths(facts, as_row(fold))) if along else 1
    if size < lanes.LEAST or not row_wide.has_edges(facts, as_row(fold), size):
        return None
    axis, extent = _axis(fold, along)
    return Groups(axis, size, ix.floordiv(extent, ix.index(size)), frozenset(), uneven=True)


def of_size(facts: NestFacts, fold: FoldNest, size: int, *, along: bool) -> Groups | None:
    """Return the groups of so many elements; None unless they divide the axis, and are read."""
    axis, extent = _axis(fold, along)
    count = lanes.part_of_size(facts, extent, size)
    if count is None:
        return None
    read = {e.buffer for e in exprs(fold.fold.step) if isinstance(e, Load)}
    firsts = [
        (name, lanes.first_of_row(facts, facts.offset(name, at), axis))
        for name, at in facts.accesses()
    ]
    bad = {name for name, p in firsts if p is None or lanes.part(p, size) is None}
    good = {name for name, _ in firsts} - bad
    return Groups(axis, size, count, frozenset(good)) if good & read else None


def _axis(fold: FoldNest, along: bool) -> tuple[Var, Expr]:
    if along:
        return fold.ks[-1], fold.extents[-1]
    return fold.nest.index[-1], fold.nest.extents[-1]


def as_row(fold: FoldNest) -> RowNest:
    """Return the terms of a fold as rows of which it is the only stage."""
    stages: tuple[Let | Fold, ...] = (*fold.lets, fold.fold)
    return RowNest(fold.nest, stages, fold.ks, fold.extents, None, (fold.fold.body,))


def wide(facts: NestFacts, fold: FoldNest, found: Groups) -> Wide | None:
    """Return what a thread takes at once of terms that begin between groups; None for others."""
    return row_wide.of(facts, as_row(fold), found.size) if found.uneven else None


def grouped(
    facts: NestFacts, fold: FoldNest, found: Groups, group: Var, v: Var, k: Var | None
) -> FoldNest:
    """Return a fold whose loads in groups are at ``v`` of a ``group``.

    With ``k``, which counts the groups of all terms, a load of all terms in a row is at that.
    """
    flat = facts.affine.offset(
        (*fold.ks[:-1], group),
        [facts.affine.poly(e) for e in (*fold.extents[:-1], found.count)],
    )

    def to(name: str, index: tuple[Expr, ...]) -> Expr:
        rest = lanes.from_row(facts, facts.offset(name, index), found.axis, found.size)
        assert rest is not None
        at = plus(rest, {(group.name,): 1})
        row = plus(at, flat, -1)
        if k is not None and not any(lanes.mentions(facts, row, x) for x in (*fold.ks, group)):
            at = plus(row, {(k.name,): 1})
        return ix.add(ix.mul(facts.affine.expr(at), ix.index(found.size)), v)

    return with_body(fold, moved(fold.nest.body, found.buffers, to))


def with_body(fold: FoldNest, body: Stmt) -> FoldNest:
    """Return the fold of the same nest with another body."""
    found = folds.find(replace(fold.nest, body=body))
    assert found is not None
    return found
