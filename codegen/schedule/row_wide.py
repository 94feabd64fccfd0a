"""Neighbours in a row that a thread loads, or stores, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from didyma.codegen.lower.affine import Poly
from didyma.codegen.schedule import lanes
from didyma.codegen.schedule.nest import WIDE, NestFacts
from didyma.codegen.schedule.rows import RowNest
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient, plus
from didyma.refimpl.ir.loop import Const, Expr, Fold, Load, Stmt, Store, Var
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt, stmts

WIDTHS = (16, 8, 4, 2)  # neighbours that one access may take


@dataclass(frozen=True, slots=True)
class Wide:
    """The buffers of which a thread takes ``width`` neighbours in a row by one access."""

    facts: NestFacts
    rows: RowNest
    width: int
    buffers: frozenset[str]

    @property
    def units(self) -> tuple[Expr, ...]:
        """Return the extents of a row, the innermost in groups of neighbours."""
        *outer, last = self.rows.extents
        return (*outer, last if self.width == 1 else _divided(self.facts, last, self.width))

    def has(self, load: Load) -> bool:
        """Return whether a load takes one of several neighbours."""
        return _group(self.facts, self.rows, load.buffer, load.index, self.width) is not None

    def moved(self, s: Stmt, part: Expr, lane: Expr) -> Stmt:
        """Return a statement that takes neighbour ``lane`` of group ``part`` along a row."""

        def to(name: str, index: tuple[Expr, ...]) -> Expr:
            group = _group(self.facts, self.rows, name, index, self.width)
            if group is None:
                return ix.flatten(index, self.facts.shape(name))
            at = ix.add(self.facts.affine.expr(group), part)
            return ix.add(ix.mul(at, ix.index(self.width)), lane)

        return self._moved(s, to)

    def flat(self, s: Stmt) -> Stmt:
        """Return a statement outside of the row, which sees these buffers as one-dimensional."""
        return self._moved(s, self._flat)

    def flat_expr(self, e: Expr) -> Expr:
        """Return an expression outside of the row."""
        return self._moved_expr(e, self._flat)

    def _flat(self, name: str, index: tuple[Expr, ...]) -> Expr:
        return ix.flatten(index, self.facts.shape(name))

    def _moved_expr(self, e: Expr, to: Callable[[str, tuple[Expr, ...]], Expr]) -> Expr:
        def on_expr(e: Expr) -> Expr:
            if isinstance(e, (Var, Const)):
                return e
            e = map_expr(on_expr, e)
            if isinstance(e, Load) and e.buffer in self.buffers:
                return Load(e.buffer, (to(e.buffer, e.index),), e.dtype)
            return e

        return on_expr(e)

    def _moved(self, s: Stmt, to: Callable[[str, tuple[Expr, ...]], Expr]) -> Stmt:
        def on_expr(e: Expr) -> Expr:
            return self._moved_expr(e, to)

        def on_stmt(b: Stmt) -> Stmt:
            if isinstance(b, Store) and b.buffer in self.buffers:
                index = tuple(map(on_expr, b.index))
                return Store(b.buffer, (to(b.buffer, index),), on_expr(b.value))
            return map_stmt(b, on_expr, on_stmt)

        return on_stmt(s)


def of(facts: NestFacts, rows: RowNest, width: int) -> Wide:
    """Return what a thread takes at once if it takes ``width`` neighbours in a row."""
    found = (
        name
        for name, at in _accesses(facts, rows)
        if width > 1 and _group(facts, rows, name, at, width) is not None
    )
    return Wide(facts, rows, width, frozenset(found))


def widths(facts: NestFacts, rows: RowNest) -> tuple[int, ...]:
    """Return how many neighbours in a row a thread may take, the most first, and 1 last.

    They fill the widest access in the buffers that have an element for each element of each row.
    """
    if not facts.wide:
        return (1,)
    offsets = [(x, _offset(facts, rows, x, at)) for x, at in _accesses(facts, rows)]
    last = rows.axes[-1]
    along = [(x, p) for x, p in offsets if coefficient(p, last.name) == {(): 1}]
    index = {v.name for v in rows.nest.index}
    whole = [x for x, p in along if index & _names(p)]
    sizes = [facts.buffers[x].dtype.nbytes for x in whole or (x for x, _ in along)]
    firsts = [_first(facts, rows, p) for _, p in along]
    found = [
        n
        for n in WIDTHS
        if sizes
        and n * max(sizes) <= WIDE
        and lanes.part(facts.affine.poly(rows.extents[-1]), n) is not None
        and all(p is not None and lanes.part(p, n) is not None for p in firsts)
    ]
    return (*found, 1)


def _divided(facts: NestFacts, size: Expr, width: int) -> Expr:
    """Return a part of a size that is a multiple of the width."""
    found = lanes.part(facts.affine.poly(size), width)
    assert found is not None, f"{size} is no multiple of {width}"
    return facts.affine.expr(found)


def _names(p: Poly) -> set[str]:
    return {v for m in p for v in m}


def _accesses(facts: NestFacts, rows: RowNest) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """Yield the loads and stores of parameters that are done for each element of a row."""
    parts = [s.step for s in rows.stages if isinstance(s, Fold)]
    parts += [] if rows.each is None else [rows.each]
    parts += [Store(v.name, (), v.value) for v in rows.values]
    for part in parts:
        for e in exprs(part):
            if isinstance(e, Load) and e.buffer in facts.buffers:
                yield e.buffer, e.index
        for s in stmts(part):
            if isinstance(s, Store) and s.buffer in facts.buffers:
                yield s.buffer, s.index


def _offset(facts: NestFacts, rows: RowNest, name: str, index: Iterable[Expr]) -> Poly:
    """Return an offset in elements, with the axes of a row in place of a fold's."""
    table = {
        a.var.name: v.name
        for s in rows.stages
        if isinstance(s, Fold)
        for a, v in zip(s.axes, rows.axes, strict=True)
    }
    offset = facts.offset(name, tuple(index))
    if table.keys().isdisjoint(_names(offset)):
        return offset
    found: Poly = {}
    for m, k in offset.items():
        found = plus(found, {tuple(sorted(table.get(v, v) for v in m)): k})
    return found


def _first(facts: NestFacts, rows: RowNest, offset: Poly) -> Poly | None:
    """Return where an access to the first of a row begins; None unless it runs along the row."""
    if any(v.startswith("@") for v in _names(offset)):  # perhaps of an axis of one stage alone
        return None
    return lanes.first_of_row(facts, offset, rows.axes[-1])


def _group(
    facts: NestFacts, rows: RowNest, name: str, index: Iterable[Expr], width: int
) -> Poly | None:
    """Return the group of ``width`` neighbours at which an access to the first of a row begins.

    None unless neighbours along the innermost axis are neighbours in memory, from such a group on.
    """
    first = _first(facts, rows, _offset(facts, rows, name, index))
    return None if first is None else lanes.part(first, width)
