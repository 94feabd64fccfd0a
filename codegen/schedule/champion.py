"""Find the place of the best term of each result: first the best of a group, then its group.

A thread compares the best of a group of neighbours with its best so far, and notes the group alone.
That takes one comparison for a group where a place for each term takes one for each term.  In the
end the threads find the best group of each result, and look for the place in there.  A thread takes
the same groups of several results, so that what these have in common is loaded once for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from didyma.codegen.lower.combiners import wins
from didyma.codegen.schedule import groups
from didyma.codegen.schedule.folds import (
    FoldNest,
    allocated,
    copied,
    loaded,
    started,
    with_lets,
    with_loads,
)
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, tail
from didyma.codegen.schedule.team import Met, Team
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    Binary,
    Block,
    Buffer,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Select,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.unfold import folded_into
from didyma.refimpl.ir.walk import exprs, one_of, subexprs, substitute


def extreme(fold: FoldNest) -> Literal["min", "max"] | None:
    """Return what the best of several f32 is; None for a fold that keeps no best one's place."""
    f = fold.fold
    if f.op is not None or len(f.accs) != 2 or len(fold.ks) != 1 or fold.terms[1] != fold.ks[0]:
        return None
    (best, _), (new, _) = (a.var for a in f.accs), f.combine.operands
    if best.dtype is not DType.F32:
        return None
    found = f.combine.results[0]
    if found == Select(wins("argmax", new, best), new, best):
        return "max"
    return "min" if found == Select(wins("argmin", new, best), new, best) else None


def common(fold: FoldNest) -> frozenset[str]:
    """Return the buffers that every result loads alike."""
    outer = {v.name for v in fold.nest.index} | {x.var.name for x in fold.lets}
    loads = [e for e in exprs(fold.fold.step) if isinstance(e, Load)]
    own = {e.buffer for e in loads if any(x in outer for x in _names(e.index))}
    return frozenset(e.buffer for e in loads) - own


def _names(es: Iterable[Expr]) -> set[str]:
    return {x.name for e in es for x in subexprs(e) if isinstance(x, Var)}


@dataclass(frozen=True, slots=True)
class Shape:
    """``lanes`` threads find the places of ``results`` results, ``size`` terms at once."""

    results: int
    lanes: int
    size: int


def scheduled(facts: NestFacts, fold: FoldNest, shape: Shape) -> PrimFunc:
    """Return the kernel; the results must be a multiple of those of a block."""
    fresh = facts.names.fresh
    group, v, lane, block = (Var(fresh(n)) for n in ("group", "v", "lane", "bx"))
    found = groups.of_size(facts, fold, shape.size, along=True)
    kind = extreme(fold)
    assert found is not None
    assert kind is not None
    wide = groups.grouped(facts, fold, found, group, v, None)
    held = {
        e: Buffer(fresh(f"{e.buffer}_some"), e.dtype, (n * shape.size,), Scope.LOCAL)
        for e in sorted(set(_loads(wide, found.buffers, v)), key=str)
        for n in (1 if e.buffer in common(wide) else shape.results,)
    }
    return _Kernel(facts, wide, shape, kind, found.count, held, group, v, lane, block).made(
        found.buffers
    )


def _loads(fold: FoldNest, buffers: frozenset[str], v: Var) -> Iterable[Load]:
    """Yield what every term loads of these buffers, by its lane."""
    return (
        e
        for e in exprs(fold.fold.step)
        if isinstance(e, Load) and e.buffer in buffers and v.name in _names(e.index)
    )


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Writes the kernel; ``held`` has what a thread loads of a group, for each result or all."""

    facts: NestFacts
    fold: FoldNest
    shape: Shape
    kind: Literal["min", "max"]
    count: Expr
    held: Mapping[Load, Buffer]
    group: Var
    v: Var
    lane: Var
    block: Var

    def made(self, flat: frozenset[str]) -> PrimFunc:
        """Return the kernel, in which the ``flat`` buffers have one axis."""
        facts, shape, fresh = self.facts, self.shape, self.facts.names.fresh
        accs = [a.var for a in self.fold.fold.accs]
        best, at = (
            Buffer(fresh(f"{x.name}_best"), x.dtype, (shape.results,), Scope.LOCAL) for x in accs
        )
        team = Team(facts, Var(fresh("group")), self.lane, 1, shape.lanes)
        mine = [self._mine() for _ in range(shape.results)]
        found = [self._found(team, (best, at), m, n) for n, m in enumerate(mine)]
        share, tiles = shape.lanes // shape.size, [t for met in found for t in met.tiles]
        ends = [s for met in found for s in met.statements]
        for n in range(0, shape.results, share):
            end, more = self._end([met.results[1] for met in found[n : n + share]], n)
            ends.append(end)
            tiles += more
        body: Stmt = Block((self._starts(best, at), self._turns(best, at), *ends))
        body = allocated([best, at, *self.held.values(), *chain(*mine)], body)
        body = bound(self.lane, ix.index(shape.lanes), "threadIdx.x", body)
        body = bound(team.group, ix.ONE, "threadIdx.y", body)
        for t in reversed(tiles):
            body = Allocate(t, body)
        blocks = ix.ceildiv(self.fold.nest.numel, ix.index(shape.results))
        body = bound(self.block, blocks, "blockIdx.x", body)
        return facts.kernel(body, "reduce_champion", flat)

    def _of_result(self, r: Expr, body: Stmt) -> Stmt:
        """Return what is done for the result of a number in the block."""
        at = ix.add(ix.mul(self.block, ix.index(self.shape.results)), r)
        nest = self.fold.nest
        table = dict(zip(nest.index, ix.unflatten(at, nest.extents), strict=True))
        new = {x: Var(self.facts.names.fresh(x.name)) for x in table}
        body = copied(substitute(body, {x.name: y for x, y in new.items()}), self.facts.names)
        return let_all({new[x]: e for x, e in table.items()}, body)

    def _each(self, body: Stmt, r: Var, *, lanes: LoopKind | None = None) -> Stmt:
        """Return a loop over the results of a thread, and over the terms of a group with one."""
        if lanes is not None:
            body = self._lanes(body, lanes)
        loop = self._of_result(r, body)
        return For(r, ix.index(self.shape.results), loop, LoopKind.UNROLLED)

    def _lanes(self, body: Stmt, kind: LoopKind) -> Stmt:
        v = Var(self.facts.names.fresh("v"))
        return For(v, ix.index(self.shape.size), substitute(body, {self.v.name: v}), kind)

    def _starts(self, best: Buffer, at: Buffer) -> Stmt:
        r, start = Var(self.facts.names.fresh("r")), self.fold.fold.accs[0].start
        stores = Block((Store(best.name, (r,), start), Store(at.name, (r,), self.lane)))
        return For(r, ix.index(self.shape.results), stores, LoopKind.UNROLLED)

    def _turns(self, best: Buffer, at: Buffer) -> Stmt:
        """Return the loop over the groups of a thread."""
        fresh, shape, fold = self.facts.names.fresh, self.shape, self.fold
        turn, r, filled = Var(fresh("turn")), Var(fresh("r")), Var(fresh("r"))
        every = common(fold)
        once = [Store(b.name, (self.v,), x) for x, b in self.held.items() if x.buffer in every]
        own = [
            Store(b.name, (self._place(filled),), x)
            for x, b in self.held.items()
            if x.buffer not in every
        ]
        loads = [self._lanes(one_of(once), LoopKind.VECTORIZED)] if once else []
        if own:
            loads.append(self._each(one_of(own), filled, lanes=LoopKind.VECTORIZED))
        body: Stmt = Block((*loads, self._each(self._compared(best, at, r), r)))
        body = guarded(tail(self.group, self.count, shape.lanes), body)
        k = ix.add(ix.mul(turn, ix.index(shape.lanes)), self.lane)
        turns = ix.ceildiv(self.count, ix.index(shape.lanes))
        return For(turn, turns, Let(self.group, k, body))

    def _place(self, r: Expr) -> Expr:
        return ix.add(ix.mul(r, ix.index(self.shape.size)), self.v)

    def _term(self, r: Var, into: Load, *, first: bool) -> Stmt:
        """Return the statement by which a local buffer takes the term of a lane, or the better."""

        def held(x: Load) -> Load | None:
            b = self.held.get(x)
            if b is None:
                return None
            n = self.shape.size
            return Load(b.name, (self.v if b.shape == (n,) else self._place(r),), b.dtype)

        term = self.fold.terms[0]
        value = term if first else Binary(self.kind, into, term)
        lets = (*self.fold.lets, *self.fold.step)
        return self._at_term(with_loads(with_lets(lets, Store(into.buffer, (), value)), held))

    def _at_term(self, body: Stmt) -> Stmt:
        """Return what is done at a term, whose number a group and a lane give."""
        place = ix.add(ix.mul(self.group, ix.index(self.shape.size)), self.v)
        return let_all({self.fold.ks[0]: place}, body)

    def _compared(self, best: Buffer, at: Buffer, r: Var) -> Stmt:
        """Return the statements that note a group if its best term is better than those before."""
        names = self.facts.names
        most = Buffer(names.fresh("most"), best.dtype, (), Scope.LOCAL)
        (new,), mine = loaded([most]), Load(best.name, (r,), best.dtype)
        first = substitute(self._term(r, new, first=True), {self.v.name: ix.ZERO})
        v = Var(names.fresh("v"))
        later = substitute(self._term(r, new, first=False), {self.v.name: ix.add(v, ix.ONE)})
        better = wins("argmax" if self.kind == "max" else "argmin", new, mine)
        noted = Block((Store(best.name, (r,), new), Store(at.name, (r,), self.group)))
        loop = For(v, ix.index(self.shape.size - 1), copied(later, names), LoopKind.UNROLLED)
        return Allocate(most, Block((first, loop, If(better, noted))))

    def _found(self, team: Team, noted: Sequence[Buffer], mine: Sequence[Buffer], n: int) -> Met:
        """Return how the threads find the best of what they noted for a result, and its group."""
        number, both = (ix.index(n),), zip(mine, noted, strict=True)
        taken = (Store(m.name, (), Load(b.name, number, b.dtype)) for m, b in both)
        met = team.meet(self.fold.fold, mine)
        return replace(met, statements=(*taken, *met.statements))

    def _end(self, found: Sequence[Expr], first: int) -> tuple[Stmt, Sequence[Buffer]]:
        """Return the statements that store results from the ``first`` on, and the tiles they use.

        Of each, whose best group is ``found``, neighbours have a term each, and meet over these.
        """
        fold, names, size = self.fold.fold, self.facts.names, ix.index(self.shape.size)
        share, mine = self.shape.lanes // self.shape.size, self._mine()
        part, v, r, group = (Var(names.fresh(n)) for n in ("part", "v", "r", "found"))
        step = folded_into(replace(fold, step=Yield(self.fold.terms)), loaded(mine), names)
        step = self._at_term(with_lets((*self.fold.lets, *self.fold.step), step))
        step = substitute(step, {self.group.name: group, self.v.name: v})
        met = Team(self.facts, part, v, share, self.shape.size).meet(fold, mine)
        after = with_lets(self.fold.lets, self.fold.after(met.results))
        exists = [] if len(found) == share else [ix.compare("lt", part, ix.index(len(found)))]
        after = guarded([ix.compare("eq", v, ix.ZERO), *exists], after)
        body: Stmt = Block((*started(fold, mine), step, *met.statements, after))
        at = found[-1]
        for n, g in reversed([*enumerate(found[:-1])]):
            at = ix.select(ix.compare("eq", part, ix.index(n)), g, at)
        last = ix.index(len(found) - 1)
        body = Let(group, at, self._of_result(ix.add(ix.index(first), r), body))
        places = {part: ix.floordiv(self.lane, size), v: ix.mod(self.lane, size)}
        body = let_all({**places, r: ix.minimum(part, last)}, body)
        return allocated(mine, body), met.tiles

    def _mine(self) -> list[Buffer]:
        """Return a local buffer of a thread for each accumulator of the fold."""
        fresh, accs = self.facts.names.fresh, self.fold.fold.accs
        return [Buffer(fresh(f"{a.var.name}_mine"), a.var.dtype, (), Scope.LOCAL) for a in accs]
