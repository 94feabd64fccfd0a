"""Schedule rows together with folds across them: blocks sweep over the rows and keep their sums.

Each of a fixed number of blocks takes rows, one after another.  A thread has the same places of
every row, so it folds across rows in registers what it has loaded of each row anyhow.  In the end
each block leaves its parts in memory, and a second kernel folds these in the order of the blocks:
results are the same at every run.  (T. Dao and others compute the gradients of norms so, in
*flash-attention*, ``layer_norm.py``, 2022.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from didyma.codegen.options import Options
from didyma.codegen.schedule import row_wide, rows
from didyma.codegen.schedule.folds import loaded, needed, starts_empty, with_lets
from didyma.codegen.schedule.nest import Nest, NestFacts, bound, scan, tail
from didyma.codegen.schedule.reduction import combined
from didyma.codegen.schedule.row_kernel import Threads, of_row
from didyma.codegen.schedule.row_stages import Stages, filled
from didyma.codegen.schedule.rows import RowNest
from didyma.codegen.schedule.team import Team
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    Axis,
    Barrier,
    Block,
    Buffer,
    Expr,
    Fold,
    For,
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
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt, one_of, stmts, subexprs, substitute


@dataclass(frozen=True, slots=True)
class Across:
    """A nest whose body is ``folds`` of the same terms, with ``lets`` before, between and after.

    After them comes ``end``.  No fold's terms depend on the result of another.
    """

    nest: Nest
    lets: tuple[Let, ...]
    folds: tuple[Fold, ...]
    end: Stmt


@dataclass(frozen=True, slots=True)
class Sweep:
    """Rows whose loop over elements also folds across them, and the nest of these folds.

    ``facts`` and ``rows`` are of a nest in which each row adds to ``sums``, a local buffer for each
    fold with an element for each that a thread has of a row.
    """

    func: PrimFunc
    facts: NestFacts
    rows: RowNest
    across: tuple[Across, ...]
    sums: tuple[Buffer, ...]

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The folds across rows, one for each sum."""
        return tuple(f for a in self.across for f in a.folds)


def find(p: PrimFunc, nests: Sequence[Nest], options: Options) -> Sweep | None:
    """Return the rows that the first nest of a function folds along, and others across; else None.

    The others may load what the first stores once a row.
    """
    first = rows.find(nests[0]) if len(nests) > 1 else None
    across = tuple(a for n in nests[1:] if (a := _across(n)) is not None)
    if first is None or len(across) < len(nests) - 1:
        return None
    if not all(_cross(first, a) for a in across):
        return None
    facts = NestFacts.of(p, Nest((), (), p.body), options)
    steps, sums = list[Stmt](), list[Buffer]()
    for a in across:
        own = tuple(_sum(facts, f) for f in a.folds)
        found = _steps(facts, first, a, own)
        if found is None:
            return None
        steps += found
        sums += own
    return _joined(p, facts, first, across, tuple(sums), steps)


def _sum(facts: NestFacts, fold: Fold) -> Buffer:
    (acc,) = (a.var for a in fold.accs)
    return Buffer(facts.names.fresh(f"{acc.name}_sum"), acc.dtype, ())


def _across(nest: Nest) -> Across | None:
    lets, folds, s = list[Let](), list[Fold](), nest.body
    while isinstance(s, (Let, Fold)):
        if isinstance(s, Let):
            lets.append(s)
        else:
            folds.append(s)
        s = s.body
    results = {a.var.name for f in folds for a in f.accs}
    for f in folds:
        inside = [*exprs(f.step), *(e for a in f.axes for e in subexprs(a.extent))]
        used = needed(lets, inside) | {e.name for e in inside if isinstance(e, Var)}
        flat = all(isinstance(x, (Let, Yield)) for x in stmts(f.step))
        if f.op is None or f.merger is None or not starts_empty(f) or not flat or used & results:
            return None
    simple = all(isinstance(x, (Let, Block, Store)) for x in stmts(s))
    return Across(nest, tuple(lets), tuple(folds), s) if folds and simple else None


def _cross(first: RowNest, across: Across) -> bool:
    """Return whether folds across rows run over all rows, at each place of a row."""
    sizes = (first.nest.extents, first.extents)
    return all(
        (tuple(a.extent for a in f.axes), across.nest.extents) == sizes for f in across.folds
    )


def _steps(
    facts: NestFacts, first: RowNest, across: Across, sums: Sequence[Buffer]
) -> tuple[Stmt, ...] | None:
    """Return what rows add to sums at each element; None if that loads more of what they store."""
    table: dict[str, Expr] = dict(zip((v.name for v in across.nest.index), first.axes, strict=True))
    once = {s.buffer: s for s in first.once if isinstance(s, Store)}
    stored = {s.buffer for s in stmts(first.nest.body) if isinstance(s, Store)}
    found = list[Stmt]()
    for f, b in zip(across.folds, sums, strict=True):
        step = folded_into(f, loaded((b,)), facts.names)
        ks = {a.var.name: v for a, v in zip(f.axes, first.nest.index, strict=True)}
        step = substitute(with_lets(across.lets, step, facts.names), {**table, **ks})
        step = _known(facts, step, once)
        if any(isinstance(e, Load) and e.buffer in stored for e in exprs(step)):
            return None
        found.append(step)
    ends = {e.buffer for e in exprs(across.end) if isinstance(e, Load)}
    return None if ends & stored else tuple(found)


def _known(facts: NestFacts, s: Stmt, once: Mapping[str, Store]) -> Stmt:
    """Return a statement that uses what a row stores once, in place of loads of that."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and (store := once.get(e.buffer)) is not None:
            same = facts.offset(e.buffer, e.index) == facts.offset(e.buffer, store.index)
            if same and not any(isinstance(x, Load) for x in subexprs(store.value)):
                return store.value
        return map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)


def _joined(
    p: PrimFunc,
    facts: NestFacts,
    first: RowNest,
    across: tuple[Across, ...],
    sums: tuple[Buffer, ...],
    steps: Sequence[Stmt],
) -> Sweep | None:
    """Return the sweep whose rows do these steps, too, for each element."""
    each = Block((*(() if first.each is None else (first.each,)), *steps))
    loops: Stmt = each
    for v, n in reversed(list(zip(first.axes, first.extents, strict=True))):
        loops = For(v, n, loops, LoopKind.PARALLEL)
    body: Stmt = Block((loops, *first.once))
    for s in reversed(first.stages):
        body = replace(s, body=body)
    nest = replace(first.nest, body=body)
    own = NestFacts.of(p, nest, facts.options)
    own.names.take(b.name for b in sums)
    found = rows.find(nest)
    if found is None:
        return None
    return Sweep(p, own, replace(found, sums=tuple(b.name for b in sums)), across, sums)


def may_part(sweep: Sweep) -> bool:
    """Return whether there is room for parts of every sum: their numbers are sizes."""
    return all(_size(sweep, e) is not None for e in sweep.across[0].nest.extents)


def _size(sweep: Sweep, e: Expr) -> dims.Dim | None:
    return ix.dim_of(e, {d.name: dims.symbol(d.name) for d in sweep.func.dims})


def scheduled(
    sweep: Sweep,
    nest: RowNest,
    threads: Threads,
    blocks: int,
    loads: Mapping[Load, Sequence[int]],
) -> tuple[PrimFunc, PrimFunc]:
    """Return the kernel in which blocks sweep over rows, and the function that folds their parts.

    Threads hold their elements of a row, of the ``loads`` of the stages of ``nest``, as far as
    registers do; of rows that all load alike, from row to row.
    """
    func, facts = sweep.func, sweep.facts
    sizes = [d for e in sweep.across[0].nest.extents if (d := _size(sweep, e)) is not None]
    names = [facts.names.fresh(f"{b.name}_parts") for b in sweep.sums]
    parts = tuple(
        Buffer(n, b.dtype, (blocks, *sizes)) for n, b in zip(names, sweep.sums, strict=True)
    )
    params, outputs = (*func.params, *parts), (*func.outputs, *names)
    facts.func = replace(func, params=params, outputs=outputs)
    facts.buffers = {b.name: b for b in params}
    kernel = _Sweeping.of(sweep, nest, threads, blocks, loads, parts).kernel()
    return kernel, _rest(sweep, blocks, parts)


def same_in_rows(nest: RowNest, load: Load) -> bool:
    """Return whether all rows load the same."""
    index = {v.name for v in nest.nest.index}
    return not any(isinstance(e, Var) and e.name in index for i in load.index for e in subexprs(i))


def _rest(sweep: Sweep, blocks: int, parts: Sequence[Buffer]) -> PrimFunc:
    """Return the function that folds the parts of each sum in the order of the blocks."""
    left, nests = iter(parts), list[Stmt]()
    for a in sweep.across:
        fresh = NestFacts.of(sweep.func, a.nest, sweep.facts.options).names.fresh
        body = with_lets(a.lets, a.end)
        for f, b in [*zip(a.folds, left, strict=False)][::-1]:
            part = Var(fresh("part"))
            step = Yield((Load(b.name, (part, *a.nest.index), b.dtype),))
            body = replace(f, axes=(Axis(part, ix.index(blocks)),), step=step, body=body)
        for v, n in reversed(list(zip(a.nest.index, a.nest.extents, strict=True))):
            body = For(v, n, body, LoopKind.PARALLEL)
        nests.append(body)
    return replace(sweep.func, params=(*parts, *sweep.func.params), body=one_of(nests))


@dataclass(slots=True)
class _Sweeping:
    """Writes the kernel of a sweep: what a thread does of each of its rows, and with its sums.

    ``sums`` are registers of a thread, ``parts`` where each block leaves the results of its rows.
    """

    sweep: Sweep
    stages: Stages
    blocks: int
    sums: tuple[Buffer, ...]
    parts: tuple[Buffer, ...]

    @staticmethod
    def of(
        sweep: Sweep,
        nest: RowNest,
        threads: Threads,
        blocks: int,
        loads: Mapping[Load, Sequence[int]],
        parts: tuple[Buffer, ...],
    ) -> _Sweeping:
        """Make the names and registers of a kernel."""
        facts, lanes, width = sweep.facts, threads.lanes, threads.wide
        group, lane = (Var(facts.names.fresh(n)) for n in ("group", "lane"))
        wide = row_wide.of(facts, nest, width)
        if width > 1:
            wide = replace(wide, buffers=wide.buffers | {b.name for b in parts})
        team = Team(facts, group, lane, threads.groups, lanes)
        turns = rows.turns_of(facts, nest, lanes, width) or 0
        held = rows.kept_loads(facts, nest, lanes, width, loads)
        kept = {
            x: Buffer(facts.names.fresh(f"{x.buffer}_row"), x.dtype, (turns * width,), Scope.LOCAL)
            for x in held
        }
        stages = Stages(team, nest, wide, turns, 0, kept)
        sums = tuple(replace(b, shape=(turns * width,), scope=Scope.LOCAL) for b in sweep.sums)
        return _Sweeping(sweep, stages, blocks, sums, parts)

    @property
    def size(self) -> int:
        """Return how many elements of a row a thread has at most."""
        return (self.stages.turns or 0) * self.stages.wide.width

    def kernel(self) -> PrimFunc:
        """Return the kernel."""
        facts, stages, team = self.sweep.facts, self.stages, self.stages.team
        block = Var(facts.names.fresh("bx"))
        known = {x: b for x, b in stages.kept.items() if same_in_rows(stages.rows, x)}
        first = [stages.over(partial(filled, known), [], at_once=True)] if known else []
        body: Stmt = Block((*first, self._starts(), self._rows(block, known), *self._end(block)))
        for b in (*self.sums, *known.values()):
            body = Allocate(b, body)
        body = bound(team.lane, ix.index(team.lanes), "threadIdx.x", body)
        body = bound(team.group, ix.index(team.groups), "threadIdx.y", body)
        for t in reversed(stages.tiles):
            body = Allocate(t, body)
        body = bound(block, ix.index(self.blocks), "blockIdx.x", body)
        statements, inside = scan(body)  # which touch the parts, too
        known_to = replace(facts, statements=tuple(statements), inside=tuple(inside))
        return known_to.kernel(body, "rows_sweep", stages.wide.buffers)

    def _rows(self, block: Var, known: Collection[Load]) -> Stmt:
        """Return the loop over the rows of a thread."""
        stages, team, count = self.stages, self.stages.team, self.stages.rows.nest.numel
        turn, row = (Var(team.facts.names.fresh(n)) for n in ("sweep", "row"))
        share = self.blocks * team.groups
        body = of_row(stages, row, tail(row, count, share), known)
        if stages.filled == 1:  # no thread is a row ahead of one that still reads
            body = Block((body, Barrier()))
        at = ix.add(ix.mul(turn, ix.index(self.blocks)), block)
        body = Let(row, ix.add(ix.mul(at, ix.index(team.groups)), team.group), body)
        return For(turn, ix.ceildiv(count, ix.index(share)), body)

    def _starts(self) -> Stmt:
        """Return the statements by which sums begin without a term."""
        e = Var(self.sweep.facts.names.fresh("e"))
        pairs = zip(self.sweep.folds, self.sums, strict=True)
        starts = tuple(Store(b.name, (e,), f.accs[0].start) for f, b in pairs)
        return For(e, ix.index(self.size), one_of(starts), LoopKind.UNROLLED)

    def _end(self, block: Var) -> list[Stmt]:
        """Return the statements by which a block leaves the results of its rows."""
        team, axes = self.stages.team, self.stages.rows.axes
        met = [] if team.groups == 1 else [self._met()]

        def left(place: Expr) -> Stmt:
            pairs = zip(self.parts, self.sums, strict=True)
            at = (block, *axes)
            return one_of([Store(p.name, at, Load(b.name, (place,), b.dtype)) for p, b in pairs])

        first = [ix.compare("eq", team.group, ix.ZERO)] if team.groups > 1 else []
        return [*met, self.stages.over(left, first, at_once=True)]

    def _met(self) -> Stmt:
        """Return the statement by which the first rows' threads have the sums of all of a block.

        Threads of the same places meet in a tree, for one element at a time.
        """
        team, facts = self.stages.team, self.sweep.facts
        e, found = Var(facts.names.fresh("e")), list[Stmt]()
        for f, b in zip(self.sweep.folds, self.sums, strict=True):
            name = facts.names.fresh(f"{b.name}_tile")
            tile = Buffer(name, b.dtype, (team.groups, team.lanes), Scope.SHARED)
            self.stages.tiles.append(tile)
            own, total = ((n, team.lane) for n in (team.group, ix.ZERO))
            found += [
                Store(name, own, Load(b.name, (e,), b.dtype)),
                Barrier(),
                *combined(facts, f, (tile,), team.group, team.groups, lambda n: (n, team.lane)),
                Store(b.name, (e,), Load(name, total, b.dtype)),
            ]
        found.append(Barrier())
        return For(e, ix.index(self.size), Block(tuple(found)), LoopKind.UNROLLED)
