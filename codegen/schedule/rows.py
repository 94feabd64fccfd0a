"""Schedule rows that are folded several times, and used again: each is read once.

The threads of a row take its elements in strides, at every fold and at the end the same ones, so
that each keeps its elements in registers.  Partial results meet in shared memory, in a tree whose
order is fixed.  A row that is longer than registers hold is read again by each fold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.schedule import row_threads
from didyma.codegen.schedule.folds import starts_empty
from didyma.codegen.schedule.nest import Nest, NestFacts
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient
from didyma.refimpl.ir.loop import (
    Allocate,
    Block,
    Expr,
    Fold,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import exprs, items, stmts, subexprs, substitute, substitute_expr

_FLAT = (Let, Block, Store, Yield)


@dataclass(frozen=True, slots=True)
class RowValue:
    """A value of each element that stage ``first`` leaves in a local buffer for those to ``last``.

    The value is of the axes of the row.  Loads and stores of the buffer have no index: a thread
    has an element of its own for each of the row.
    """

    name: str
    dtype: DType
    first: int
    last: int
    value: Expr


@dataclass(frozen=True, slots=True)
class RowNest:
    """A nest whose body is ``stages``, lets and folds in order, then ``each`` and ``once``.

    ``each`` is done for every element of a row, over ``axes``; ``once`` for the row.  Stages load
    ``values`` from buffers that threads have for their elements of a row, and load and store
    ``sums`` alike, which last from row to row.
    """

    nest: Nest
    stages: tuple[Let | Fold, ...]
    axes: tuple[Var, ...]
    extents: tuple[Expr, ...]
    each: Stmt | None
    once: tuple[Stmt, ...]
    values: tuple[RowValue, ...] = ()
    sums: tuple[str, ...] = ()

    @property
    def length(self) -> Expr:
        """Return the number of elements of a row."""
        return ix.mul(*self.extents)


@dataclass(frozen=True, slots=True)
class Pick:
    """The element of a row at a place, where a thread of the row keeps what a load yields."""

    kept: Load
    place: Expr


def find(nest: Nest) -> RowNest | None:
    """Return the rows of a nest that folds them more than once, or uses them after a fold."""
    stages, s = list[Let | Fold](), nest.body
    while isinstance(s, (Let, Fold)):
        stages.append(s)
        s = s.body
    folds = [x for x in stages if isinstance(x, Fold)]
    last = items(s)
    loops = [x for x in last if isinstance(x, For)]
    if not folds or len(folds) + len(loops) < 2 or len(loops) > 1 or not folds[0].axes:
        return None
    if not loops and not _suit(folds):
        return None
    extents = tuple(a.extent for a in folds[0].axes)
    axes, each = tuple(a.var for a in folds[0].axes), None
    if loops:
        each, found = _inside(loops[0], len(extents))
        axes = tuple(x.var for x in found)
        if tuple(x.extent for x in found) != extents:
            return None
    inner = {e.name for x in extents for e in subexprs(x) if isinstance(e, Var)}
    outer = {v.name for v in nest.index} | {x.var.name for x in stages if isinstance(x, Let)}
    once = tuple(x for x in last if not isinstance(x, For))
    flat = (*once, *(f.step for f in folds), *(() if each is None else (each,)))
    if inner & outer or any(
        isinstance(x, (For, Fold, If, Allocate)) for y in flat for x in stmts(y)
    ):
        return None
    if any(
        f.merger is None or not starts_empty(f) or tuple(a.extent for a in f.axes) != extents
        for f in folds
    ):
        return None
    return RowNest(nest, tuple(stages), axes, extents, each, once)


def _suit(folds: Sequence[Fold]) -> bool:
    """Return whether folds that differ load the same elements, or have no buffer in common.

    Those of the bytes that hold several elements load other rows of one buffer, or are equal.
    """
    names = _names(folds[0])
    found = set[tuple[Stmt, tuple[Expr, ...]]]()
    for f in folds:
        table: dict[str, Expr] = {a.name: b for a, b in zip(_names(f), names, strict=False)}
        results = (substitute_expr(e, table) for e in f.combine.results)
        found.add((substitute(f.step, table), tuple(results)))
    read = [{e for e in exprs(s) if isinstance(e, Load)} for s, _ in found]
    loads = Counter(e for some in read for e in some)
    buffers = Counter(b for some in read for b in {e.buffer for e in some})
    shared = max(buffers.values(), default=0) > 1
    return len(found) > 1 and (not shared or max(loads.values()) > 1)


def _names(f: Fold) -> tuple[Var, ...]:
    """Return the variables that a fold declares, but for those of how parts merge."""
    return (*(a.var for a in f.axes), *(a.var for a in f.accs), *f.combine.operands)


def _inside(s: Stmt, depth: int) -> tuple[Stmt, list[For]]:
    loops: list[For] = []
    while isinstance(s, For) and s.kind is LoopKind.PARALLEL and len(loops) < depth:
        loops.append(s)
        s = s.body
    return s, loops


def across(facts: NestFacts, rows: RowNest) -> bool:
    """Return whether neighbouring rows, and not neighbours in a row, lie together in memory.

    What all rows share, such as weights, does not count beside what has elements for each.
    """
    if not rows.nest.index:
        return False
    last, ks = rows.nest.index[-1].name, _variables_along(rows)
    offsets = [facts.offset(*access) for access in facts.accesses()]
    own = [p for p in offsets if coefficient(p, last) and any(coefficient(p, k) for k in ks)]
    along = any(coefficient(p, k) == {(): 1} for p in own or offsets for k in ks)
    return not along and any(coefficient(p, last) == {(): 1} for p in offsets)


def _variables_along(rows: RowNest) -> set[str]:
    """Return the variables of the innermost axis of a row, of every stage."""
    folds = {s.axes[-1].var.name for s in rows.stages if isinstance(s, Fold)}
    return {*folds, rows.axes[-1].name}


def turns_of(facts: NestFacts, rows: RowNest, lanes: int, width: int) -> int | None:
    """Return how often a thread takes ``width`` elements; None if registers do not hold them."""
    return row_threads.turns(facts.largest(rows.length), lanes, facts.options, width)


def stage_loads(facts: NestFacts, rows: RowNest) -> Mapping[Load, tuple[int, ...]]:
    """Return what stages load at one element of a row, each with the numbers of those stages."""
    found = dict[Load, tuple[int, ...]]()
    for stage, part in enumerate(_computed(rows)):
        for x in dict.fromkeys(sure_loads(facts, rows, part)):
            found[x] = (*found.get(x, ()), stage)
    return found


def live(rows: RowNest, loads: Mapping[Load, Sequence[int]]) -> list[list[int]]:
    """Return the bytes of what is kept of an element from each stage of a row to the next."""
    kept = [(-1, x[-1], load.dtype.nbytes) for load, x in loads.items() if len(x) > 1]
    kept += [(v.first, v.last, max(4, v.dtype.nbytes)) for v in rows.values]
    end = max((last for _, last, _ in kept), default=0)
    return [[n for first, last, n in kept if first <= s < last] for s in range(-1, end)]


def kept_loads(
    facts: NestFacts,
    rows: RowNest,
    lanes: int,
    width: int,
    loads: Mapping[Load, Sequence[int]],
) -> tuple[Load, ...]:
    """Return what several stages load at one element of a row, as far as registers hold it."""
    turns = turns_of(facts, rows, lanes, width)
    if turns is None:
        return ()
    found = list[Load]()
    for load, stages in sorted(loads.items(), key=lambda item: item[0].buffer):
        some = {x: loads[x] for x in (*found, load)}
        words = (
            sum(row_threads.words(n, turns * width) for n in sizes) for sizes in live(rows, some)
        )
        if len(stages) > 1 and max(words, default=0) <= row_threads.KEPT:
            found.append(load)
    return tuple(found)


def parts_of(rows: RowNest) -> Iterator[Stmt]:
    """Yield what is done for each element of a row, on the axes of the row."""
    for s in rows.stages:
        if isinstance(s, Fold):
            yield substitute(s.step, renamed(s, rows))
    if rows.each is not None:
        yield rows.each


def _computed(rows: RowNest) -> Iterator[Stmt]:
    """Yield what each stage does, and before it the values that it leaves for others."""
    for stage, part in enumerate(parts_of(rows)):
        values = [Store(v.name, (), v.value) for v in rows.values if v.first == stage]
        yield Block((*values, part))


def renamed(s: Fold, rows: RowNest) -> dict[str, Expr]:
    """Return the axes of the row by those of a fold."""
    return {a.var.name: v for a, v in zip(s.axes, rows.axes, strict=True)}


def sure_loads(facts: NestFacts, rows: RowNest, part: Stmt) -> Iterator[Load]:
    """Yield loads of operands, surely within them, at what the row and the axes alone decide."""
    ks = {v.name for v in rows.axes}
    known = {v.name for v in rows.nest.index} | {d.name for d in facts.func.dims} | ks
    operands = facts.operands
    for e in exprs(part):
        if not isinstance(e, Load) or e.buffer not in operands:
            continue
        e = written_out(facts, e)
        inner = [x for i in e.index for x in subexprs(i)]
        names = {x.name for x in inner if isinstance(x, Var)}
        if names <= known and names & ks and not any(isinstance(x, Load) for x in inner):
            pairs = zip(e.index, facts.shape(e.buffer), strict=True)
            poly, within = facts.affine.poly, facts.affine.within
            if all(within(poly(i), poly(n)) for i, n in pairs):
                yield e


def picks(facts: NestFacts, rows: RowNest, kept: Iterable[Load]) -> dict[Load, Pick]:
    """Return the loads, done once per row, of an element that a thread of the row keeps."""
    found = dict[Load, Pick]()
    lets = {x.var.name for x in rows.stages if isinstance(x, Let)}
    known = lets | {v.name for v in rows.nest.index} | {d.name for d in facts.func.dims}
    for e in (x for s in rows.once for x in exprs(s) if isinstance(x, Load)):
        inside = {x.name for i in e.index for x in subexprs(i) if isinstance(x, Var)}
        for load in kept:
            at = [n for n, i in enumerate(load.index) if i == rows.axes[0]]
            if len(rows.axes) == len(at) == 1 and e.buffer == load.buffer and inside <= known:
                place = e.index[at[0]]
                row = replace(load, index=(*load.index[: at[0]], place, *load.index[at[0] + 1 :]))
                if written_out(facts, row) == written_out(facts, e):
                    found[e] = Pick(load, place)
    return found


def written_out(facts: NestFacts, load: Load) -> Load:
    """Return a load whose index uses no variables that stand for longer indices."""
    index, lets = load.index, facts.affine.lets
    while used := {e.name for i in index for e in subexprs(i) if isinstance(e, Var)} & lets.keys():
        table = {name: lets[name] for name in used}
        index = tuple(substitute_expr(i, table) for i in index)
    return replace(load, index=index)
