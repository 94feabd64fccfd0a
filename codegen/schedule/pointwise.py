"""Schedule one thread for each element of the result, or for several where that is legal.

Four elements, or more of a narrow dtype, are one wide access where an offset is known to be a
multiple of their number.  Where all accesses are at one flat index, any number of elements will do:
the threads behind those with a whole vector take an element each of what is left.  A thread with
several vectors has them one below the other where rows share an operand of larger elements than
their own, which it loads once: so vectors are as wide as their own elements allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from didyma.codegen.lower.affine import Poly
from didyma.codegen.schedule import branches, early, lanes
from didyma.codegen.schedule.folds import copied
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, tail
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import is_constant, plus
from didyma.refimpl.ir.loop import (
    Block,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import map_expr, map_stmt, substitute

FEWEST = 32  # vectors that make it worth while to write a body out for those, and for the rest
AMONG = 8  # lanes, at most, that have to find their place in other operands one by one


def elementwise(facts: NestFacts, schedule: str = "pointwise", each: int = 1) -> PrimFunc:
    """Schedule a nest with one thread for each element, or each four.

    A thread does that ``each`` times, for elements that all threads of its block are apart.
    """
    offsets = [(name, facts.offset(name, at)) for name, at in facts.accesses()]
    same = _contiguous(facts, offsets)
    widths = tuple(lanes.widths(facts)) if _is_straight(facts.nest.body) else ()
    if same is None:
        straight = widths and facts.nest.index
        firsts = _firsts(facts, offsets) if straight else dict[str, list[Poly]]()
        for n in widths if firsts else ():
            part = lanes.part_of_size(facts, facts.nest.extents[-1], n)
            shared = _shared(facts, firsts) if each > 1 else frozenset[str]()
            if part is not None and (wide := _wide_in_rows(facts, firsts, n, shared)):
                return _vector_in_rows(facts, wide, n, part, schedule, each, below=bool(shared))
        flat = _flat_ones(facts, offsets) if straight else frozenset[str]()
        for n in widths if flat else ():
            fits = n <= min(AMONG, facts.largest(facts.nest.extents[-1]))
            if fits and lanes.suit(facts, flat, n) and _are_many(facts, n):
                return _vector_among_others(facts, flat, n, schedule, each)
        return _by_element(facts, schedule, each)
    numel = facts.nest.numel
    for n in widths:
        if lanes.suit(facts, same, n):
            if (part := lanes.part_of_size(facts, numel, n)) is not None:
                return _vector(facts, same, n, part, schedule, each)
            if _are_many(facts, n):
                return _vector_and_rest(facts, same, n, schedule, each)
    i = Var(facts.names.fresh("i"))
    body = _flat(facts.nest.body, same, i)
    return facts.kernel(spread(facts, i, numel, body, each), schedule, same)


def _are_many(facts: NestFacts, n: int) -> bool:
    return facts.largest(facts.nest.numel) >= FEWEST * n


def spread(facts: NestFacts, i: Var, count: Expr, body: Stmt, each: int = 1) -> Stmt:
    """Run ``body`` for each ``i`` below ``count``: a thread for one, or for ``each``."""
    most = facts.largest(count)
    threads = facts.threads(max(32, most)) if most != 1 else 1
    block, thread = Var(facts.names.fresh("bx")), Var(facts.names.fresh("tx"))
    at = ix.add(ix.mul(block, ix.index(threads * each)), thread)
    own = iter((i,))  # the name at the first turn

    def at_turn(s: Stmt, turn: Var) -> Stmt:
        v = next(own, None) or Var(facts.names.fresh(i.name))
        inner = guarded(tail(v, count, threads * each), substitute(s, {i.name: v}))
        return Let(v, ix.add(at, ix.mul(turn, ix.index(threads))), inner)

    if each == 1:
        inner: Stmt = Let(i, at, guarded(tail(i, count, threads), body))
    else:
        inner = early.over_turns(facts, body, each, at_turn)
    grid = ix.ceildiv(count, ix.index(threads * each))
    inner = bound(thread, ix.index(threads), "threadIdx.x", inner)
    return bound(block, grid, "blockIdx.x", inner)


def _by_element(facts: NestFacts, schedule: str, each: int) -> PrimFunc:
    nest = facts.nest
    if not nest.index:
        one = bound(Var(facts.names.fresh("tx")), ix.ONE, "threadIdx.x", nest.body)
        block = Var(facts.names.fresh("bx"))
        return facts.kernel(bound(block, ix.ONE, "blockIdx.x", one), schedule)
    if len(nest.index) == 1:
        return facts.kernel(spread(facts, nest.index[0], nest.numel, nest.body, each), schedule)
    i = Var(facts.names.fresh("i"))
    table = dict(zip(nest.index, ix.unflatten(i, nest.extents), strict=True))
    body = let_all(table, nest.body)
    return facts.kernel(spread(facts, i, nest.numel, body, each), schedule)


def _contiguous(facts: NestFacts, offsets: Sequence[tuple[str, Poly]]) -> frozenset[str] | None:
    """Return the parameters that are read and written only at the flat index of the nest.

    ``offsets`` are those of all accesses.

    None if a parameter with more than one element is read at another index, or an index
    variable has another use.
    """
    nest = facts.nest
    if not nest.index:
        return None
    sizes = [facts.affine.poly(e) for e in nest.extents]
    flat: Poly = facts.affine.offset(nest.index, sizes)
    numel = facts.affine.poly(nest.numel)
    same: set[str] = set()
    fixed: set[str] = set()
    for name, offset in offsets:
        if offset == flat:
            if facts.affine.poly(ix.mul(*facts.shape(name))) != numel:
                return None
            same.add(name)
        elif is_constant(offset):
            fixed.add(name)
        else:
            return None
    loops = {v.name for v in nest.index}
    return None if same & fixed or _uses(nest.body, loops, same) else frozenset(same)


def _uses(s: Stmt, names: set[str], same: set[str]) -> bool:
    """Return whether a variable is used outside the indices of the parameters ``same``."""
    found = False

    def on_expr(e: Expr) -> Expr:
        nonlocal found
        if isinstance(e, Var) and e.name in names:
            found = True
        if not (isinstance(e, Load) and e.buffer in same):
            map_expr(on_expr, e)
        return e

    def on_stmt(b: Stmt) -> Stmt:
        if isinstance(b, Store) and b.buffer in same:
            on_expr(b.value)
        else:
            map_stmt(b, on_expr, on_stmt)
        return b

    on_stmt(s)
    return found


def _is_straight(s: Stmt) -> bool:
    match s:
        case Let(body=body):
            return _is_straight(body)
        case Block(body):
            return all(_is_straight(b) for b in body)
        case _:
            return isinstance(s, Store)


def _flat(s: Stmt, same: frozenset[str], at: Expr) -> Stmt:
    """Read and write the parameters ``same`` at ``at``."""

    def one(name: str, index: tuple[Expr, ...]) -> Expr:
        del name, index
        return at

    return moved(s, same, one)


def moved(s: Stmt, flat: frozenset[str], to: Callable[[str, tuple[Expr, ...]], Expr]) -> Stmt:
    """Read and write the parameters ``flat`` as one-dimensional, where ``to`` says."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in flat:
            return Load(e.buffer, (to(e.buffer, e.index),), e.dtype)
        return map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        if isinstance(b, Store) and b.buffer in flat:
            return Store(b.buffer, (to(b.buffer, b.index),), on_expr(b.value))
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)


def _vector(
    facts: NestFacts, same: frozenset[str], n: int, count: Expr, schedule: str, each: int
) -> PrimFunc:
    i, v = Var(facts.names.fresh("i")), Var(facts.names.fresh("v"))
    body = _flat(facts.nest.body, same, ix.add(ix.mul(i, ix.index(n)), v))
    loop = For(v, ix.index(n), body, LoopKind.VECTORIZED)
    return facts.kernel(spread(facts, i, count, loop, each), f"{schedule}_wide", same)


def _vector_and_rest(
    facts: NestFacts, same: frozenset[str], n: int, schedule: str, each: int
) -> PrimFunc:
    """Let a thread take ``n`` elements, and those behind an element each of the last few."""
    i, v = Var(facts.names.fresh("i")), Var(facts.names.fresh("v"))
    body, numel, size = facts.nest.body, facts.nest.numel, ix.index(n)
    groups = ix.floordiv(numel, size)
    whole = _flat(body, same, ix.add(ix.mul(i, size), v))
    last = _flat(copied(body, facts.names), same, ix.add(i, ix.mul(groups, ix.index(n - 1))))
    loop = For(v, size, whole, LoopKind.VECTORIZED)
    either = If(ix.compare("lt", i, groups), loop, last)
    count = ix.add(groups, ix.mod(numel, size))
    return facts.kernel(spread(facts, i, count, either, each), f"{schedule}_wide", same)


def _flat_ones(facts: NestFacts, offsets: Sequence[tuple[str, Poly]]) -> frozenset[str]:
    """Return the parameters that are accessed only at the flat index, whatever others are.

    None of them if not every result is, or no operand.
    """
    nest = facts.nest
    numel = facts.affine.poly(nest.numel)
    flat = facts.affine.offset(nest.index, [facts.affine.poly(e) for e in nest.extents])
    other = {name for name, offset in offsets if offset != flat}
    found = {name for name, _ in offsets if name not in other}
    found = {x for x in found if facts.affine.poly(ix.mul(*facts.shape(x))) == numel}
    stored = {s.buffer for s in facts.statements if isinstance(s, Store)}
    read = {e.buffer for e in facts.inside if isinstance(e, Load)}
    return frozenset(found) if stored <= found and found & read else frozenset()


def _vector_among_others(
    facts: NestFacts, flat: frozenset[str], n: int, schedule: str, each: int
) -> PrimFunc:
    """Let a thread take ``n`` elements of some parameters, and of others one for each lane.

    Where the first lane stands is divided out once for all: a lane behind the end of its row is in
    the next row.  Of rows that may be shorter than vectors, as many vectors are taken as rows of
    their length have, which are none of shorter rows, and an element each of what is left.
    """
    nest, fresh = facts.nest, facts.names.fresh
    i, v, row, column = (Var(fresh(x)) for x in ("i", "v", "row", "column"))
    *outer, length = nest.extents
    size, numel = ix.index(n), nest.numel
    first, groups, rest = ix.mul(i, size), ix.floordiv(numel, size), ix.mod(numel, size)
    if outer and _least(facts, length) < n:
        groups, rest = (ix.mul(*outer, of(length, size)) for of in (ix.floordiv, ix.mod))
    elif lanes.part_of_size(facts, numel, n) is not None:
        rest = ix.ZERO
    at = ix.add(column, v)
    here = ix.compare("lt", at, length)
    above = ix.unflatten(ix.add(row, ix.select(here, ix.ZERO, ix.ONE)), outer)
    places = (*above, ix.select(here, at, ix.sub(at, length)) if outer else ix.add(first, v))
    body = let_all(
        dict(zip(nest.index, places, strict=True)), _flat(nest.body, flat, ix.add(first, v))
    )
    start = {row: ix.floordiv(first, length), column: ix.mod(first, length)}
    either = let_all(start, For(v, size, body, LoopKind.VECTORIZED))
    if rest != ix.ZERO:
        one = ix.add(i, ix.mul(groups, ix.index(n - 1)))
        table = dict(zip(nest.index, ix.unflatten(one, nest.extents), strict=True))
        last = copied(let_all(table, _flat(nest.body, flat, one)), facts.names)
        either = If(ix.compare("lt", i, groups), either, last)
    count = ix.add(groups, rest)
    return facts.kernel(spread(facts, i, count, either, each), f"{schedule}_wide", flat)


def _least(facts: NestFacts, size: Expr) -> int:
    """Return a lower bound of a size over the declared ranges of the dims."""
    low, p = {d.name: d.lo for d in facts.func.dims}, facts.affine.poly(size)
    if any(k < 0 for k in p.values()):
        return 0
    return sum(k * math.prod(low.get(v, 0) for v in m) for m, k in p.items())


def _firsts(facts: NestFacts, offsets: Sequence[tuple[str, Poly]]) -> Mapping[str, list[Poly]]:
    """Return where the accesses to parameters begin that run along the last axis.

    Those that have other accesses, too, are left out; all are, if a result has another.
    """
    firsts, other = dict[str, list[Poly]](), set[str]()
    for name, offset in offsets:
        if name not in other:
            first = lanes.first_of_row(facts, offset, facts.nest.index[-1])
            if first is None:
                other.add(name)
            else:
                firsts.setdefault(name, []).append(first)
    if other & {*facts.func.outputs}:
        firsts.clear()
    return {name: found for name, found in firsts.items() if name not in other}


def shares_larger(facts: NestFacts) -> bool:
    """Return whether all rows of a nest share an operand of larger elements than their own."""
    if len(facts.nest.index) < 2 or not _is_straight(facts.nest.body):
        return False
    offsets = [(name, facts.offset(name, at)) for name, at in facts.accesses()]
    return bool(_shared(facts, _firsts(facts, offsets)))


def _shared(facts: NestFacts, firsts: Mapping[str, list[Poly]]) -> frozenset[str]:
    """Return the parameters that all rows read alike, if those have the largest elements."""
    outer = facts.nest.index[:-1]
    found = {x for x, at in firsts.items() if outer and all(map(is_constant, at))}
    largest = max((facts.buffers[x].dtype.nbytes for x in firsts.keys() - found), default=0)
    larger = any(facts.buffers[x].dtype.nbytes > largest for x in found)
    return frozenset(found) if larger else frozenset()


def _wide_in_rows(
    facts: NestFacts, firsts: Mapping[str, list[Poly]], n: int, shared: frozenset[str]
) -> frozenset[str]:
    """Return the parameters that are contiguous along the last axis, from multiples of ``n``.

    None of them if not every result is, or no operand, unless a row is one vector and some operand
    runs along it; or if ``n`` elements of one are too many, unless it is ``shared``.
    """
    wide = {x for x, found in firsts.items() if all(lanes.part(p, n) is not None for p in found)}
    read = {e.buffer for e in facts.inside if isinstance(e, Load)}
    near = firsts.keys() if facts.nest.extents[-1] == ix.index(n) else wide
    some = not (firsts.keys() - wide) & {*facts.func.outputs} and near & read
    return frozenset(wide) if some and lanes.suit(facts, wide - shared, n) else frozenset()


def _vector_in_rows(
    facts: NestFacts,
    wide: frozenset[str],
    n: int,
    count: Expr,
    schedule: str,
    each: int,
    *,
    below: bool,
) -> PrimFunc:
    """Let a thread take ``n`` neighbours, and so ``each`` times, ``below`` each other or not."""
    nest, fresh = facts.nest, facts.names.fresh
    *outer, last = nest.index
    i, part, v = Var(fresh("i")), Var(fresh("part")), Var(fresh("v"))
    extents = (*nest.extents[:-1], count)
    flat = facts.affine.offset((*outer, part), [facts.affine.poly(e) for e in extents])

    def to(name: str, index: tuple[Expr, ...]) -> Expr:
        rest = lanes.from_row(facts, facts.offset(name, index), last, n)
        assert rest is not None
        at = plus(rest, {(part.name,): 1})
        group = i if at == flat else facts.affine.expr(at)
        return ix.add(ix.mul(group, ix.index(n)), v)

    own = iter(((v, last),))  # names of the first vector

    def vector(s: Stmt) -> Stmt:
        lane, new = next(own, None) or (Var(fresh("v")), Var(fresh(last.name)))
        at = ix.add(ix.mul(part, ix.index(n)), lane)
        body = substitute(moved(s, wide, to), {last.name: new, v.name: lane})
        return For(lane, ix.index(n), let_all({new: at}, body), LoopKind.VECTORIZED)

    known = {part.name, *(x.name for x in outer), *(d.name for d in facts.func.dims)}
    body = branches.by_vector(facts, nest.body, last, part, n)
    loop = branches.apart(facts, body, known, vector)
    if below:
        made = _below(facts, i, part, loop, extents, each)
        return facts.kernel(made, f"{schedule}_wide", wide)
    table = dict(zip((*outer, part), ix.unflatten(i, extents), strict=True))
    threads = facts.affine.expr(facts.affine.poly(ix.mul(*extents)))
    made = spread(facts, i, threads, let_all(table, loop), each)
    return facts.kernel(made, f"{schedule}_wide", wide)


def _below(
    facts: NestFacts, i: Var, part: Var, loop: Stmt, extents: Sequence[Expr], each: int
) -> Stmt:
    """Run ``loop`` for vector ``part`` of each row, which is ``i`` of all: a thread has ``each``.

    So what all rows share is loaded once for several of them.
    """
    fresh, outer = facts.names.fresh, facts.nest.index[:-1]
    unit, group = Var(fresh("unit")), Var(fresh("group"))
    *sizes, parts = extents
    rows = ix.mul(*sizes)
    count = facts.affine.expr(facts.affine.poly(ix.mul(ix.ceildiv(rows, ix.index(each)), parts)))

    def at_turn(s: Stmt, turn: Var) -> Stmt:
        row, *own = (Var(fresh(v.name)) for v in (Var("row"), i, *outer))
        names = {v.name: new for v, new in zip((i, *outer), own, strict=True)}
        above = ix.unflatten(row, sizes)
        places = dict(zip(own, (ix.add(ix.mul(row, parts), part), *above), strict=True))
        inner = guarded(tail(row, rows, each), let_all(places, substitute(s, names)))
        return Let(row, ix.add(ix.mul(group, ix.index(each)), turn), inner)

    body = early.over_turns(facts, loop, each, at_turn, same={part.name})
    places = dict(zip((group, part), ix.unflatten(unit, (count, parts)), strict=True))
    return spread(facts, unit, count, let_all(places, body))
