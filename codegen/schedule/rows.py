"""Schedule rows that are folded several times, and used again: each is read once.

The threads of a row take its elements in strides, at every fold and at the end the same ones, so
that each keeps its elements in registers.  Partial results meet in shared memory, in a tree whose
order is fixed.  A row that is longer than registers hold is read again by each fold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from didyma.codegen.schedule import row_threads
from didyma.codegen.schedule.folds import loaded, starts_empty
from didyma.codegen.schedule.nest import Nest, NestFacts, bound, guarded, let_all, tail
from didyma.codegen.schedule.reduction import combined
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient
from didyma.refimpl.ir.loop import (
    Allocate,
    Barrier,
    Binary,
    Block,
    Buffer,
    Expr,
    Fold,
    For,
    If,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.unfold import folded_into
from didyma.refimpl.ir.walk import (
    exprs,
    map_expr,
    map_stmt,
    stmts,
    subexprs,
    substitute,
    substitute_expr,
)

_FLAT = (Let, Block, Store, Yield)


@dataclass(frozen=True, slots=True)
class RowNest:
    """A nest whose body is ``stages``, lets and folds in order, then ``each`` and ``once``.

    ``each`` is done for every element of a row, over ``axes``; ``once`` for the row.
    """

    nest: Nest
    stages: tuple[Let | Fold, ...]
    axes: tuple[Var, ...]
    extents: tuple[Expr, ...]
    each: Stmt | None
    once: tuple[Stmt, ...]

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
    last = s.body if isinstance(s, Block) else (s,)
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


def shape(facts: NestFacts, rows: RowNest) -> tuple[int, int]:
    """Return how many rows share a block, and the threads for each."""
    length, count = facts.largest(rows.length), facts.largest(rows.nest.numel)
    return row_threads.shape(length, count, across(facts, rows), facts.options)


def across(facts: NestFacts, rows: RowNest) -> bool:
    """Return whether neighbouring rows, and not neighbours in a row, lie together in memory."""
    if not rows.nest.index:
        return False
    last, ks = rows.nest.index[-1].name, _variables_along(rows)
    offsets = [facts.offset(*access) for access in facts.accesses()]
    along = any(coefficient(p, k) == {(): 1} for p in offsets for k in ks)
    return not along and any(coefficient(p, last) == {(): 1} for p in offsets)


def _variables_along(rows: RowNest) -> set[str]:
    """Return the variables of the innermost axis of a row, of every stage."""
    folds = {s.axes[-1].var.name for s in rows.stages if isinstance(s, Fold)}
    return {*folds, rows.axes[-1].name}


def scheduled(
    facts: NestFacts, rows: RowNest, groups: int, lanes: int, loads: Mapping[Load, int] | None
) -> PrimFunc:
    """Schedule ``lanes`` threads for each row, and ``groups`` rows in a block.

    Threads hold their elements of a row, as far as registers do, of the ``loads`` of its stages;
    with None each stage loads them again, in a loop.
    """
    fresh = facts.names.fresh
    block, group, lane, row = (Var(fresh(n)) for n in ("bx", "group", "lane", "row"))
    count = rows.nest.numel
    exists = tail(row, count, groups)
    turns = None if loads is None else turns_of(facts, rows, lanes)
    kept = {
        x: Buffer(fresh(f"{x.buffer}_row"), x.dtype, (turns or 0,), Scope.LOCAL)
        for x in (() if loads is None else kept_loads(facts, rows, lanes, loads))
    }
    stages = _Stages(facts, rows, group, lane, lanes, groups, across(facts, rows), turns, kept)
    body = stages.write(rows.stages, exists)
    for load, b in reversed(list(kept.items())):
        fill = stages.over(partial(_filled, b, load), exists, fill=True)
        body = Allocate(b, Block((fill, *_items(body))))
    # A thread beyond the last row sees that row's scalars, and none of its elements.
    at = Var(fresh("at")) if exists else row
    last = Binary("min", row, ix.sub(count, ix.ONE))
    index = dict(zip(rows.nest.index, ix.unflatten(at, rows.nest.extents), strict=True))
    body = let_all({**({at: last} if exists else {}), **index}, body)
    body = Let(row, ix.add(ix.mul(block, ix.index(groups)), group), body)
    threads = [(lane, lanes), (group, groups)]
    for axis, (v, n) in zip("xy", threads[::-1] if stages.wide else threads, strict=True):
        body = bound(v, ix.index(n), f"threadIdx.{axis}", body)
    for t in reversed(stages.tiles):
        body = Allocate(t, body)
    body = bound(block, ix.ceildiv(count, ix.index(groups)), "blockIdx.x", body)
    return facts.kernel(body, "rows")


def _filled(b: Buffer, load: Load, turn: Expr) -> Stmt:
    return Store(b.name, (turn,), load)


def turns_of(facts: NestFacts, rows: RowNest, lanes: int) -> int | None:
    """Return how many elements a thread holds at most; None if they are too many for registers."""
    return row_threads.turns(facts.largest(rows.length), lanes)


def stage_loads(facts: NestFacts, rows: RowNest) -> Mapping[Load, int]:
    """Return what stages load at one element of a row, with the number of stages that do."""
    return Counter(x for part in _parts(rows) for x in set(_loads(facts, rows, part)))


def kept_loads(
    facts: NestFacts, rows: RowNest, lanes: int, loads: Mapping[Load, int]
) -> tuple[Load, ...]:
    """Return what several stages load at one element of a row, as far as registers hold it."""
    turns = turns_of(facts, rows, lanes)
    if turns is None:
        return ()
    found, room = list[Load](), row_threads.KEPT
    for load, count in sorted(loads.items(), key=lambda item: item[0].buffer):
        words = row_threads.words(load.dtype, turns)
        if count > 1 and words <= room:
            found.append(load)
            room -= words
    return tuple(found)


def _parts(rows: RowNest) -> Iterator[Stmt]:
    """Yield what is done for each element of a row, on the axes of the row."""
    for s in rows.stages:
        if isinstance(s, Fold):
            yield substitute(s.step, _renamed(s, rows))
    if rows.each is not None:
        yield rows.each


def _renamed(s: Fold, rows: RowNest) -> dict[str, Expr]:
    """Return the axes of the row by those of a fold."""
    return {a.var.name: v for a, v in zip(s.axes, rows.axes, strict=True)}


def _loads(facts: NestFacts, rows: RowNest, part: Stmt) -> Iterator[Load]:
    """Yield loads of operands, surely within them, at what the row and the axes alone decide."""
    ks = {v.name for v in rows.axes}
    known = {v.name for v in rows.nest.index} | {d.name for d in facts.func.dims} | ks
    for e in exprs(part):
        if not isinstance(e, Load) or e.buffer not in facts.func.inputs:
            continue
        e = _written_out(facts, e)
        inner = [x for i in e.index for x in subexprs(i)]
        names = {x.name for x in inner if isinstance(x, Var)}
        if names <= known and names & ks and not any(isinstance(x, Load) for x in inner):
            pairs = zip(e.index, facts.shape(e.buffer), strict=True)
            poly, within = facts.affine.poly, facts.affine.within
            if all(within(poly(i), poly(n)) for i, n in pairs):
                yield e


def picks(facts: NestFacts, rows: RowNest, kept: Iterable[Load]) -> dict[Load, Pick]:
    """Return the loads, done once a row, of an element that a thread of the row keeps."""
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
                if _written_out(facts, row) == _written_out(facts, e):
                    found[e] = Pick(load, place)
    return found


def _written_out(facts: NestFacts, load: Load) -> Load:
    """Return a load whose index uses no variables that stand for longer indices."""
    index, lets = load.index, facts.affine.lets
    while used := {e.name for i in index for e in subexprs(i) if isinstance(e, Var)} & lets.keys():
        table = {name: lets[name] for name in used}
        index = tuple(substitute_expr(i, table) for i in index)
    return replace(load, index=index)


@dataclass(slots=True)
class _Stages:
    """Writes the stages of a row for one thread; ``tiles`` are the shared buffers they use.

    A thread takes ``turns`` elements of a row, one after another; None if their number is not
    fixed.  ``kept`` are registers for what loads give.  With ``wide``, neighbouring threads hold
    rows.
    """

    facts: NestFacts
    rows: RowNest
    group: Var
    lane: Var
    lanes: int
    groups: int
    wide: bool
    turns: int | None
    kept: dict[Load, Buffer]
    tiles: list[Buffer] = field(default_factory=list[Buffer])

    def write(self, stages: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        """Return the statements of stages and of what follows them."""
        if not stages:
            return self._end(exists)
        match stages[0]:
            case Let(var, value):
                return Let(var, value, self.write(stages[1:], exists))
            case Fold() as fold:
                return self._fold(fold, stages[1:], exists)

    def _fold(self, s: Fold, later: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        fresh = self.facts.names.fresh
        shape = (self.lanes, self.groups) if self.wide else (self.groups, self.lanes)
        mine, tiles = list[Buffer](), list[Buffer]()
        for a in s.accs:
            name = a.var.name
            mine.append(Buffer(fresh(f"{name}_part"), a.var.dtype, (), Scope.LOCAL))
            tiles.append(Buffer(fresh(f"{name}_tile"), a.var.dtype, shape, Scope.SHARED))
        self.tiles += tiles
        parts = loaded(mine)
        step = substitute(folded_into(s, parts, self.facts.names), _renamed(s, self.rows))
        keep = [Store(t.name, self._at(self.lane), x) for t, x in zip(tiles, parts, strict=True)]
        rest = self.write(later, exists)
        for a, x in reversed(list(zip(s.accs, loaded(tiles, self._at(ix.ZERO)), strict=True))):
            rest = Let(a.var, x, rest)
        tree = combined(self.facts, s, tuple(tiles), self.lane, self.lanes, self._at)
        starts = [Store(b.name, (), a.start) for a, b in zip(s.accs, mine, strict=True)]
        body: Stmt = Block(
            (*starts, self.over(lambda _: step, exists), *keep, Barrier(), *tree, rest)
        )
        for b in reversed(mine):
            body = Allocate(b, body)
        return body

    def _at(self, n: Expr) -> tuple[Expr, Expr]:
        return (n, self.group) if self.wide else (self.group, n)

    def _end(self, exists: list[Expr]) -> Stmt:
        each, once = self.rows.each, self.rows.once
        last = [] if each is None else [self.over(lambda _: each, exists)]
        if once:
            table = dict[Load, Load]()
            for load, pick in picks(self.facts, self.rows, self.kept).items():
                name = self.facts.names.fresh(f"{load.buffer}_pick")
                self.tiles.append(Buffer(name, load.dtype, (self.groups,), Scope.SHARED))
                table[load] = Load(name, (self.group,), load.dtype)
                last.append(self.over(partial(self._picked, pick, name), exists))
            last += [Barrier()] if table else []
            first = [ix.compare("eq", self.lane, ix.ZERO), *exists]
            body = once[0] if len(once) == 1 else Block(once)
            last.append(guarded(first, _with(body, table.get)))
        return last[0] if len(last) == 1 else Block(tuple(last))

    def _picked(self, pick: Pick, tile: str, turn: Expr) -> Stmt:
        """Return the statement by which the thread that has an element shares it."""
        b = self.kept[pick.kept]
        here = ix.compare("eq", self.rows.axes[0], pick.place)
        return If(here, Store(tile, (self.group,), Load(b.name, (turn,), b.dtype)))

    def over(self, inside: Callable[[Expr], Stmt], conds: list[Expr], fill: bool = False) -> Stmt:
        """Return the loop over a thread's elements; ``inside`` gets the number of the turn."""
        fresh, axes, length = self.facts.names.fresh, self.rows.axes, self.rows.length
        turn, k = Var(fresh("turn")), Var(fresh("k"))
        body = inside(turn)
        if not fill:
            body = self._from_registers(body, turn)
        new = [Var(fresh(v.name)) for v in axes]
        body = substitute(body, {v.name: n for v, n in zip(axes, new, strict=True)})
        body = let_all(dict(zip(new, ix.unflatten(k, self.rows.extents), strict=True)), body)
        body = guarded([*conds, *tail(k, length, self.lanes)], body)
        body = Let(k, ix.add(ix.mul(turn, ix.index(self.lanes)), self.lane), body)
        if self.turns is not None:
            return For(turn, ix.index(self.turns), body, LoopKind.UNROLLED)
        return For(turn, ix.ceildiv(length, ix.index(self.lanes)), body)

    def _from_registers(self, s: Stmt, turn: Expr) -> Stmt:
        """Read registers in place of what they keep."""

        def kept(load: Load) -> Load | None:
            b = self.kept.get(_written_out(self.facts, load))
            return None if b is None else Load(b.name, (turn,), b.dtype)

        return _with(s, kept)


def _with(s: Stmt, new: Callable[[Load], Load | None]) -> Stmt:
    """Replace those loads for which there is a new one."""

    def on_expr(e: Expr) -> Expr:
        found = new(e) if isinstance(e, Load) else None
        return map_expr(on_expr, e) if found is None else found

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)


def _items(s: Stmt) -> tuple[Stmt, ...]:
    return s.body if isinstance(s, Block) else (s,)
