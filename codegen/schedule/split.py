"""Schedule folds of much memory: wide loads, several in flight, and blocks that share a result.

A block folds a *part* of the terms of a result.  If there are several parts, the first kernel
leaves the result of each in memory that both kernels know, and the second folds those in the order
of the parts: the order is fixed, so that a result is the same at every run.  Loads are kept apart
from what is done with them, so that several are on their way at once.  (M. Harris, *Optimizing
Parallel Reduction in CUDA*, 2007, has the parts and their trees.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from didyma.codegen.schedule import folds, groups
from didyma.codegen.schedule.folds import FoldNest, loaded, merged, with_lets
from didyma.codegen.schedule.groups import Groups
from didyma.codegen.schedule.meeting import size_of
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, scan, tail
from didyma.codegen.schedule.row_wide import Edges, Wide
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.expand import Inliner, Same
from didyma.refimpl.ir.loop import (
    Allocate,
    Axis,
    Barrier,
    Binary,
    Block,
    Buffer,
    Combiner,
    Const,
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
from didyma.refimpl.ir.walk import one_of, subexprs, substitute, substitute_expr


@dataclass(frozen=True, slots=True)
class Shape:
    """How a fold is shared.

    ``along`` says that neighbouring terms lie together in memory, and that a block has one result;
    else neighbouring results do, and ``side`` threads side by side hold some each.  ``lanes``
    threads fold terms of each result, and have ``loads`` groups of terms on their way.  ``parts``
    blocks share a result, which is that of ``lines`` neighbours of the folded columns.
    """

    along: bool
    side: int
    lanes: int
    loads: int
    parts: int
    lines: int = 1


def parts(
    facts: NestFacts, fold: FoldNest, shape: Shape, whole: tuple[NestFacts, FoldNest]
) -> tuple[PrimFunc, PrimFunc | None]:
    """Return the kernel of the parts; and the function that folds them, if there are several.

    They are parts of the fold, or of ``whole`` where that takes lines as one.
    """
    func, count = facts.func, shape.parts * shape.lines
    tiles = _places(facts, fold, shape.parts) if count > 1 else ()
    rest = _rest(*whole, count, tiles) if tiles else None
    if tiles:
        outputs = (*func.outputs, *(b.name for b in tiles))
        facts.func = replace(func, params=(*func.params, *tiles), outputs=outputs)
        facts.buffers = {b.name: b for b in facts.func.params}
    kernel = _Parts.of(facts, fold, shape, tiles).kernel()
    return kernel, rest


def may_part(facts: NestFacts, extents: Sequence[Expr]) -> bool:
    """Return whether there is room for parts of every result: their numbers are sizes."""
    return len(sizes(facts, extents)) == len(extents)


def sizes(facts: NestFacts, extents: Sequence[Expr]) -> list[dims.Dim]:
    """Return those extents that are sizes."""
    return [d for e in extents if (d := size_of(facts, e)) is not None]


def _places(facts: NestFacts, fold: FoldNest, count: int) -> tuple[Buffer, ...]:
    """Return a buffer for the parts of each accumulator, which no other nest has."""
    to = next(s.buffer for s in facts.statements if isinstance(s, Store))
    shape = sizes(facts, fold.nest.extents)
    names = [facts.names.fresh(f"{to}_{b.name}_parts") for b in fold.scalars]
    return tuple(
        Buffer(n, b.dtype, (count, *shape)) for n, b in zip(names, fold.scalars, strict=True)
    )


def _rest(facts: NestFacts, fold: FoldNest, count: int, tiles: Sequence[Buffer]) -> PrimFunc:
    """Return the function that folds the parts of each result in their order."""
    whole, fresh = fold.fold, facts.names.fresh
    shape = (count, *sizes(facts, fold.nest.extents))
    tiles = tuple(replace(b, shape=shape) for b in tiles)
    assert whole.merger is not None
    part = Var(fresh("part"))
    given = tuple(Var(fresh(v.name), v.dtype) for v in whole.merger.operands)
    table: dict[str, Expr] = {v.name: g for v, g in zip(whole.merger.operands, given, strict=True)}
    results = tuple(substitute_expr(e, table) for e in whole.merger.results)
    again = Fold(
        whole.accs, (Axis(part, ix.index(count)),), Combiner(given, results),
        Yield(loaded(tiles, (part, *fold.nest.index))), whole.body,
        None if whole.op is not None else whole.merger,
    )  # fmt: skip
    body = with_lets(fold.lets, again)
    for v, n in reversed(list(zip(fold.nest.index, fold.nest.extents, strict=True))):
        body = For(v, n, body, LoopKind.PARALLEL)
    return replace(facts.func, params=(*tiles, *facts.func.params), body=body)


@dataclass(slots=True)
class _Parts:
    """Writes the kernel in which each block folds a part; into ``tiles``, if there are several.

    ``mine`` are the results of a thread's terms, one for each of the neighbours ``v`` that it loads
    together, ``shared`` those of all threads; ``terms`` are the loaded ones, by their number, of
    each load ``u`` on its way.  ``k`` counts terms or groups of them, ``at`` results or groups.
    Terms between which groups begin are taken ``wide``, and those at both ends one by one, as the
    fold ``ends`` loads them.
    """

    facts: NestFacts
    fold: FoldNest
    shape: Shape
    tiles: tuple[Buffer, ...]
    groups: Groups | None
    mine: tuple[Buffer, ...]
    shared: tuple[Buffer, ...]
    terms: dict[int, Buffer]
    wide: Wide | None
    ends: FoldNest
    k: Var
    group: Var
    v: Var
    lane: Var
    side: Var
    part: Var

    @staticmethod
    def of(facts: NestFacts, fold: FoldNest, shape: Shape, tiles: tuple[Buffer, ...]) -> _Parts:
        """Make the names and buffers of a kernel."""
        fresh = facts.names.fresh
        names = ("k", "group", "v", "lane", "side", "part")
        k, group, v, lane, side, part = (Var(fresh(n)) for n in names)
        found = groups.find(facts, fold, shape.along)
        width = found.size if found is not None else 1
        wide = None if found is None else groups.wide(facts, fold, found)
        ends = fold
        if wide is not None:
            ends = groups.with_body(fold, wide.flat(fold.nest.body))
            fold = groups.with_body(fold, wide.moved(fold.nest.body, group, v))
        elif found is not None:
            fold = groups.grouped(facts, fold, found, group, v, k if shape.along else None)
        size = (shape.lanes,) if shape.along else (shape.lanes, width, shape.side)
        mine, shared = list[Buffer](), list[Buffer]()
        for b in fold.scalars:
            mine.append(Buffer(fresh(f"{b.name}_mine"), b.dtype, (width,), Scope.LOCAL))
            shared.append(Buffer(fresh(f"{b.name}_tile"), b.dtype, size, Scope.SHARED))
        terms = {
            n: Buffer(fresh("term"), e.dtype, (shape.loads, width), Scope.LOCAL)
            for n, e in enumerate(fold.terms)
            if _loads(fold, e)
        }
        return _Parts(
            facts, fold, shape, tiles, found, tuple(mine), tuple(shared), terms, wide, ends,
            k, group, v, lane, side, part,
        )  # fmt: skip

    @property
    def edges(self) -> Edges | None:
        """The terms of a result that stand before its first group, or behind its last."""
        return None if self.wide is None else self.wide.edges

    def kernel(self) -> PrimFunc:
        """Return the kernel."""
        facts, shape, fresh = self.facts, self.shape, self.facts.names.fresh
        block, at, at_block = Var(fresh("bx")), Var(fresh("at")), Var(fresh("at_block"))
        names, sizes = list(self.fold.nest.index), list(self.fold.nest.extents)
        if self.groups is not None and not shape.along:
            names[-1], sizes[-1] = self.group, self.groups.count
        count = ix.mul(*sizes)
        exists = [] if shape.along else tail(at, count, shape.side)
        # A thread beyond the last result has no terms, but arrives at every barrier.
        body = let_all({} if self.edges is None else self.edges.lets, self._thread(exists))
        body = let_all(dict(zip(names, ix.unflatten(at, sizes), strict=True)), body)
        number: Expr = at_block
        if not shape.along:
            number = ix.add(ix.mul(at_block, ix.index(shape.side)), self.side)
        split = ix.index(shape.parts)
        blocks = count if shape.along else ix.ceildiv(count, ix.index(shape.side))
        # Blocks that run at once read what lies together: a result, or the same terms of all.
        share = {at_block: ix.floordiv(block, split), self.part: ix.mod(block, split)}
        if not shape.along:
            share = {at_block: ix.mod(block, blocks), self.part: ix.floordiv(block, blocks)}
        body = self._threads(let_all({**share, at: number}, body))
        for b in reversed(self.shared):
            body = Allocate(b, body)
        body = bound(block, ix.mul(blocks, split), "blockIdx.x", body)
        flat = frozenset[str]() if self.groups is None else self.groups.buffers
        flat |= frozenset[str]() if self.wide is None else self.wide.buffers
        statements, inside = scan(body)  # which touch the tiles, too
        known = replace(facts, statements=tuple(statements), inside=tuple(inside))
        return known.kernel(body, "reduce_split", flat)

    def _threads(self, body: Stmt) -> Stmt:
        """Return the threads of a block with their buffers."""
        for b in reversed([*self.mine, *self.terms.values()]):
            body = Allocate(b, body)
        if self.shape.along:
            return bound(self.lane, ix.index(self.shape.lanes), "threadIdx.x", body)
        body = bound(self.side, ix.index(self.shape.side), "threadIdx.x", body)
        return bound(self.lane, ix.index(self.shape.lanes), "threadIdx.y", body)

    def _thread(self, exists: list[Expr]) -> Stmt:
        """Return what one thread does."""
        fold, along, names = self.fold.fold, self.shape.along, self.facts.names
        starts = [
            Store(b.name, (self.v,), a.start) for b, a in zip(self.mine, fold.accs, strict=True)
        ]
        width = self.groups.size if self.groups is not None and along else 1
        halves = [(n, n + (1 << h)) for h in reversed(range(width.bit_length() - 1))
                  for n in range(1 << h)]  # fmt: skip
        own = [loaded(self.mine, (ix.index(n),)) for n in range(width)]
        keep = [
            Store(t.name, self._in_tile(self.lane), x)
            for t, x in zip(
                self.shared, loaded(self.mine, (ix.ZERO if along else self.v,)), strict=True
            )
        ]
        first = [ix.compare("eq", self.lane, ix.ZERO), *exists]
        return Block(
            (
                self._each(starts),
                guarded(exists, self._terms()),
                *([] if self.edges is None else [self._ends(self.edges)]),
                *(self._copied(merged(fold, own[a], own[b], names)) for a, b in halves),
                *(keep if along else [self._each(keep)]),
                Barrier(),
                *self._tree(),
                guarded(first, self._end()),
            )
        )

    def _terms(self) -> Stmt:
        """Return the loop over the terms of a thread; unguarded where a part is surely whole."""
        shape, fold, fresh = self.shape, self.fold, self.facts.names.fresh
        sizes = list(fold.extents)
        if self.groups is not None and shape.along:
            sizes[-1] = self.groups.count
        count, step = ix.mul(*sizes), shape.lanes * shape.loads
        turns = ix.ceildiv(count, ix.index(shape.parts * step))
        if self.edges is not None:
            count = self.edges.whole
        start, each = Var(fresh("start")), ix.mul(turns, ix.index(step))
        loop = self._loop(start, turns, sizes, None)
        if not isinstance(count, Const) or int(count.value) % (shape.parts * step):
            rest = self._loop(start, turns, sizes, count)
            loop = If(ix.compare("le", ix.add(start, each), count), loop, rest)
        return let_all({start: ix.mul(self.part, each)}, loop)

    def _loop(self, start: Var, turns: Expr, sizes: Sequence[Expr], count: Expr | None) -> Stmt:
        """Return the loop over a thread's terms from ``start`` on, of those before a ``count``."""
        shape, turn = self.shape, Var(self.facts.names.fresh("turn"))
        at = ix.add(start, ix.mul(turn, ix.index(shape.lanes * shape.loads)), self.lane)
        ks = [ix.add(at, ix.index(u * shape.lanes)) for u in range(shape.loads)]
        body = [
            guarded(
                [] if count is None else [ix.compare("lt", k, count)],
                self._term(k, u, sizes, load=load),
            )
            for load in (True, False)
            for u, k in enumerate(ks)
        ]
        return For(turn, turns, Block(tuple(body)))

    def _term(self, k: Expr, u: int, sizes: Sequence[Expr], *, load: bool) -> Stmt:
        """Load the terms at ``k`` as those of number ``u``, or fold them."""
        fold, at = self.fold, (ix.index(u), self.v)
        if load:
            stores = [Store(b.name, at, fold.terms[n]) for n, b in self.terms.items()]
            body: Stmt = one_of(stores)
        else:
            values = [
                Load(self.terms[n].name, at, e.dtype) if n in self.terms else e
                for n, e in enumerate(fold.terms)
            ]
            step = replace(fold.fold, step=Yield(tuple(values)))
            body = folded_into(step, loaded(self.mine, (self.v,)), self.facts.names)
        names = list(fold.ks)
        if self.groups is not None and self.shape.along:
            names[-1] = self.group
        body = self._each([with_lets((*fold.lets, *fold.step), body)])
        table = dict(zip(names, ix.unflatten(self.k, sizes), strict=True))
        return self._copied(let_all({self.k: k, **table}, body))

    def _ends(self, edges: Edges) -> Stmt:
        """Let the first block of a result fold its terms at both ends, one after another."""
        fold, lanes, fresh = self.ends, self.shape.lanes, self.facts.names.fresh
        assert self.groups is not None
        turn, n, size = Var(fresh("turn")), Var(fresh("edge")), self.groups.size
        step = replace(fold.fold, step=Yield(fold.terms))
        own = loaded(self.mine, (ix.ZERO,))
        body = with_lets((*fold.lets, *fold.step), folded_into(step, own, self.facts.names))
        body = let_all({self.groups.axis: edges.place(n, size)}, body)
        here = [
            ix.compare("eq", self.part, ix.ZERO),
            ix.compare("lt", n, edges.count(fold.extents[-1], size)),
        ]
        at = ix.add(ix.mul(turn, ix.index(lanes)), self.lane)
        body = self._copied(Let(n, at, guarded(here, body)))
        return For(turn, ix.index(-(-edges.most // lanes)), body, LoopKind.UNROLLED)

    def _each(self, body: Sequence[Stmt]) -> Stmt:
        """Return a loop over the neighbours that a thread has, or the body for the only one."""
        s = one_of(body)
        if self.groups is None:
            return self._copied(substitute(s, {self.v.name: ix.ZERO}))
        here = ix.add(ix.mul(self.group, ix.index(self.groups.size)), self.v)
        if self.wide is not None:
            here = self.wide.at(self.group, self.v)
        s = let_all({self.groups.axis: here}, s)
        return self._copied(For(self.v, ix.index(self.groups.size), s, LoopKind.VECTORIZED))

    def _copied(self, s: Stmt) -> Stmt:
        """Return a statement under other names than any that was written before."""
        return Inliner({}, self.facts.names, Same()).stmt(s)

    def _in_tile(self, n: Expr) -> tuple[Expr, ...]:
        return (n,) if self.shape.along else (n, self.v, self.side)

    def _tree(self) -> list[Stmt]:
        """Halve the number of partial results until one is left."""
        count, fresh = self.shape.lanes, self.facts.names.fresh
        if count == 1:
            return []
        level, half = Var(fresh("level")), Var(fresh("half"))
        mine, other = (
            loaded(self.shared, self._in_tile(n)) for n in (self.lane, ix.add(self.lane, half))
        )
        pair = merged(self.fold.fold, mine, other, self.facts.names)
        pair = self._copied(pair) if self.shape.along else self._each([pair])
        step = Block((If(ix.compare("lt", self.lane, half), pair), Barrier()))
        turn: Stmt = Let(half, Binary("shr", ix.index(count // 2), level), step)
        return [For(level, ix.index(count.bit_length() - 1), turn)]

    def _end(self) -> Stmt:
        """Keep the result of a part, or do what follows the fold."""
        results = loaded(self.shared, self._in_tile(ix.ZERO))
        if self.tiles:
            at = (self.part, *self.fold.nest.index)
            stores = [Store(b.name, at, x) for b, x in zip(self.tiles, results, strict=True)]
        else:
            end = with_lets(self.fold.lets, self.fold.after(results))
            return self._copied(end) if self.shape.along else self._each([end])
        return Block(tuple(stores)) if self.shape.along else self._each(stores)


def _loads(fold: FoldNest, e: Expr) -> bool:
    """Return whether a term is loaded from memory."""
    used = folds.needed((*fold.lets, *fold.step), subexprs(e))
    lets = [x.value for x in (*fold.lets, *fold.step) if x.var.name in used]
    return any(isinstance(x, Load) for root in (e, *lets) for x in subexprs(root))
