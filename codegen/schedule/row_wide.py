"""Neighbours in a row that a thread loads, or stores, at once.

A row need not begin where an access may: then its first elements, up to that place, and its last
ones, which fill no access, are its *edges*, and threads take them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from didyma.codegen.lower.affine import Poly
from didyma.codegen.schedule import lanes, row_threads
from didyma.codegen.schedule.nest import WIDE, NestFacts, tail
from didyma.codegen.schedule.rows import RowNest
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient, plus
from didyma.refimpl.ir.loop import Binary, Const, Expr, Fold, Load, Stmt, Store, Var
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt, stmts

WIDTHS = (16, 8, 4, 2)  # neighbours that one access may take


@dataclass(frozen=True, slots=True)
class Edges:
    """The elements of a row before its first access, ``head``, and behind its last one.

    The first of its ``whole`` accesses is to group ``start`` of neighbours in memory, for a row
    that begins at offset 0.  ``lets`` says what those of them are that are variables; ``most`` is a
    bound of the number of elements.
    """

    start: Expr
    head: Expr
    whole: Expr
    most: int
    lets: dict[Var, Expr]

    def count(self, length: Expr, width: int) -> Expr:
        """Return the number of elements."""
        return ix.sub(length, ix.mul(self.whole, ix.index(width)))

    def place(self, n: Expr, width: int) -> Expr:
        """Return the place in its row of element ``n`` of the edges."""
        inner = ix.mul(self.whole, ix.index(width))
        if self.head == ix.ZERO:
            return ix.add(n, inner)
        return ix.add(n, ix.select(ix.compare("lt", n, self.head), ix.ZERO, inner))


@dataclass(frozen=True, slots=True)
class Wide:
    """The buffers of which a thread takes ``width`` neighbours in a row by one access.

    Accesses to a row begin at offset ``base`` from multiples of the width, where it has ``edges``.
    """

    facts: NestFacts
    rows: RowNest
    width: int
    buffers: frozenset[str]
    base: Poly
    edges: Edges | None

    @property
    def units(self) -> tuple[Expr, ...]:
        """Return the extents of a row, the innermost in groups of neighbours."""
        *outer, last = self.rows.extents
        if self.edges is not None:
            return (self.edges.whole,)
        return (*outer, last if self.width == 1 else _divided(self.facts, last, self.width))

    @property
    def most(self) -> Expr:
        """Return the number of groups of neighbours in a row, or of those that it may have."""
        if self.edges is None:
            return ix.mul(*self.units)
        return ix.floordiv(self.rows.length, ix.index(self.width))

    def guards(
        self, unit: Var, threads: int, turns: int, most: int | None, turn: Var | None
    ) -> list[Expr]:
        """Return what holds where a row has group ``unit``, one of each of so many ``threads``.

        Threads take groups by so many ``turns``, and ``most`` of these, if that is known.  Nothing
        need be said of turns that are within every row: a compiler that writes them out knows each
        by its number, ``turn``.
        """
        found, sure = tail(unit, ix.mul(*self.units), threads * turns), self._least // threads
        if most is not None and most <= sure:
            return []
        if turn is None or not sure:
            return found
        first = ix.compare("lt", turn, ix.index(sure))
        return [Binary("or", first, guard) for guard in found]

    @property
    def _least(self) -> int:
        """Return a number of groups of neighbours that every row has."""
        length = self.rows.length
        if not isinstance(length, Const):
            return 0
        inner, rest = divmod(int(length.value), self.width)
        apart = self.edges is not None and self.edges.head != ix.ZERO
        return inner - (apart and rest < self.width - 1)

    def at(self, part: Expr, lane: Expr) -> Expr:
        """Return the place on the innermost axis of neighbour ``lane`` of group ``part``."""
        place = ix.add(ix.mul(part, ix.index(self.width)), lane)
        return place if self.edges is None else ix.add(self.edges.head, place)

    def has(self, load: Load) -> bool:
        """Return whether a load takes one of several neighbours."""
        return self._group(load.buffer, load.index) is not None

    def _group(self, name: str, index: Iterable[Expr]) -> Poly | None:
        """Return the group of neighbours at which an access to the first of a row begins."""
        return _group(self.facts, self.rows, name, index, self.width, self.base)

    def moved(self, s: Stmt, part: Expr, lane: Expr) -> Stmt:
        """Return a statement that takes neighbour ``lane`` of group ``part`` along a row."""

        def to(name: str, index: tuple[Expr, ...]) -> Expr:
            group = self._group(name, index)
            if group is None:
                return ix.flatten(index, self.facts.shape(name))
            first = ix.ZERO if self.edges is None else self.edges.start
            at = ix.add(first, self.facts.affine.expr(group), part)
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
    if width == 1:
        return Wide(facts, rows, width, frozenset(), {}, None)
    found = _Found.of(facts, rows)
    base = found.base(width)
    assert base is not None, f"accesses of {width} elements do not suit these rows"
    buffers = (
        name
        for name, at in _accesses(facts, rows)
        if _group(facts, rows, name, at, width, base) is not None
    )
    edges = None if found.even(width) else _edges(facts, rows, base, width)
    return Wide(facts, rows, width, frozenset(buffers), base, edges)


def widths(facts: NestFacts, rows: RowNest) -> tuple[int, ...]:
    """Return how many neighbours in a row a thread may take, the best first.

    That is the most by which the widest access is filled in the buffers that have an element for
    each element of each row; or fewer, if the rows then have no edges, or are short.  Rows of which
    a place is looked for have none: of equal elements the first wins, and threads take edges apart.
    """
    if not facts.wide:
        return (1,)
    found, length = _Found.of(facts, rows), facts.largest(rows.length)
    sizes = [facts.buffers[x].dtype.nbytes for x in found.whole or (x for x, _ in found.along)]
    some = [n for n in WIDTHS if sizes and n * max(sizes) <= WIDE]
    even = [n for n in some if found.even(n)] + [1]
    uneven = [n for n in some if n not in even and n <= length and found.base(n) is not None]
    if any(isinstance(s, Fold) and s.op is None for s in rows.stages):
        uneven = []
    if not uneven or row_threads.even_is_better(even[0], max(sizes), length, facts.options):
        return (*even, *uneven)
    return (*uneven, *even)


def has_edges(facts: NestFacts, rows: RowNest, width: int) -> bool:
    """Return whether rows of which a thread takes ``width`` neighbours at once have edges."""
    return width > 1 and not _Found.of(facts, rows).even(width)


def _divided(facts: NestFacts, size: Expr, width: int) -> Expr:
    """Return a part of a size that is a multiple of the width."""
    found = lanes.part(facts.affine.poly(size), width)
    assert found is not None, f"{size} is no multiple of {width}"
    return facts.affine.expr(found)


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the accesses ``along`` a row begin, None if that is unknown.

    The buffers ``whole`` have an element for each element of each row.
    """

    facts: NestFacts
    rows: RowNest
    along: tuple[tuple[str, Poly | None], ...]
    whole: tuple[str, ...]

    @staticmethod
    def of(facts: NestFacts, rows: RowNest) -> _Found:
        """Look at the loads and stores that are done for each element of a row."""
        offsets = [(x, _offset(facts, rows, x, at)) for x, at in _accesses(facts, rows)]
        along = [(x, p) for x, p in offsets if coefficient(p, rows.axes[-1].name) == {(): 1}]
        index = {v.name for v in rows.nest.index}
        firsts = tuple((x, _first(facts, rows, p)) for x, p in along)
        return _Found(facts, rows, firsts, tuple(x for x, p in along if index & _names(p)))

    def even(self, n: int) -> bool:
        """Return whether every row begins and ends between groups of ``n`` neighbours."""
        size = self.facts.affine.poly(self.rows.extents[-1])
        firsts = (p for _, p in self.along)
        return lanes.part(size, n) is not None and all(
            p is not None and lanes.part(p, n) is not None for p in firsts
        )

    def base(self, n: int) -> Poly | None:
        """Return where most buffers of rows with edges begin, but for multiples of ``n``."""
        if self.even(n):
            return {}
        whole = {*self.whole} or {x for x, _ in self.along}
        firsts = {(x, *p.items()): p for x, p in self.along if p is not None and x in whole}
        if len(self.rows.axes) > 1 or not firsts:
            return None
        rests = [{m: k % n for m, k in p.items() if k % n} for p in firsts.values()]
        return max(rests, key=lambda p: (rests.count(p), sorted(p.items())))


def _edges(facts: NestFacts, rows: RowNest, base: Poly, width: int) -> Edges:
    """Return the edges of rows that begin at ``base`` from multiples of the width."""
    length, size, first = rows.length, ix.index(width), facts.affine.expr(base)
    inner, most = ix.floordiv(length, size), facts.largest(length)
    if not base:
        most = most % width if isinstance(length, Const) else min(width - 1, most)
        return Edges(ix.ZERO, ix.ZERO, inner, most, {})
    start, head, whole = (Var(facts.names.fresh(n)) for n in ("start", "head", "whole"))
    before = ix.sub(ix.mul(start, size), first)
    if not isinstance(length, Const):  # a row may end before its first access
        before = Binary("min", before, length)
    less = ix.select(ix.compare("gt", head, ix.mod(length, size)), ix.ONE, ix.ZERO)
    lets = {start: ix.ceildiv(first, size), head: before, whole: ix.sub(inner, less)}
    return Edges(start, head, whole, min(2 * width - 2, most), lets)


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
    facts: NestFacts, rows: RowNest, name: str, index: Iterable[Expr], width: int, base: Poly
) -> Poly | None:
    """Return the group of ``width`` neighbours at which an access to the first of a row begins.

    Groups are counted from ``base``.  None unless neighbours along the innermost axis are
    neighbours in memory, from such a group on.
    """
    first = _first(facts, rows, _offset(facts, rows, name, index))
    return None if first is None else lanes.part(plus(first, base, -1), width)
