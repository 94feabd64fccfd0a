"""The step ``stage``: a loop works on a copy of what it touches, in nearer memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from didyma.codegen.schedule.nest import guarded
from didyma.codegen.schedule.steps.accesses import Access, Scan, scan
from didyma.codegen.schedule.steps.loops import (
    LoopSite,
    claim,
    find,
    iterations,
    replaced,
    sequence,
)
from didyma.codegen.schedule.steps.records import Memory, Stage
from didyma.codegen.schedule.steps.regions import Region, Regions, nested, redirected
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    RANK,
    Allocate,
    Barrier,
    Buffer,
    Expr,
    For,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.walk import items


def stage(step: Stage, f: PrimFunc, target: Target = PORTABLE) -> PrimFunc:
    """Return a function in which each iteration of a loop works on a copy of a buffer's part.

    What is only read is copied before.  What is written, too, must be a box whose every element is
    stored, and is copied back after.  In shared memory, the threads of the block share the work of
    copying, between barriers; only what nothing writes may stand there.  In that of a cluster, each
    of its blocks holds a part, and all read all parts.

    DidymaError ``no-such-loop``, ``no-such-value``, ``bad-step``, ``no-region``, ``name-taken``,
    ``target-lacks``.
    """
    if step.memory is Memory.CLUSTER and target.cluster == 1:
        raise lacks(f, target, "memory that the blocks of a cluster share")
    place, known = find(f, step.loop), scan(f)
    loop = place.loop
    touched = [a for a in known.within(loop.body) if a.buffer == step.buffer]
    _require(step, known, place, touched)
    threads = [x for x in place.loops if x.axis.startswith("thread")]
    rank = next((x for x in place.loops if x.axis == RANK), None)
    free = [] if step.memory is Memory.REGISTERS else [x.var.name for x in threads]
    if rank is not None and step.memory is Memory.CLUSTER:
        free.append(rank.var.name)
    regions = Regions(known, loop, free)
    region = regions.of(touched)
    old = known.buffers[step.buffer]
    claim(f, [step.into])
    if step.memory is Memory.CLUSTER:
        return _in_cluster(known, place, rank, threads, old, step.into, region, regions)
    scope = Scope.SHARED if step.memory is Memory.SHARED else Scope.LOCAL
    new = Buffer(step.into, old.dtype, region.shape, scope)
    body = redirected(f, loop.body, step.buffer, step.into, lambda at: regions.moved(region, at))
    if step.memory is Memory.SHARED:
        return _shared(f, known, place, threads, old, new, region, body)
    before = _first(regions, region, known, loop, touched)
    written = any(a.writes for a in touched)
    parts = (*(_copied(f, old, new, region, "") if before else ()), *items(body))
    if written:
        parts = (*parts, *_copied(f, old, new, region, "_out"))
    return replace(
        f, body=replaced(f.body, loop, replace(loop, body=Allocate(new, sequence(parts))))
    )


def lacks(f: PrimFunc, target: Target, what: str) -> DidymaError:
    """Return the error of a step that needs what the target has not."""
    return DidymaError(
        "target-lacks", f"@{f.name}", got=f"the {target.name} target", want=f"a target with {what}"
    )


def _require(step: Stage, known: Scan, place: LoopSite, touched: Sequence[Access]) -> None:
    f = known.func
    if step.buffer not in known.buffers:
        raise DidymaError(
            "no-such-value", f"@{f.name}", got=step.buffer,
            want=f"a buffer: {', '.join(known.buffers)}",
        )  # fmt: skip
    if not touched:
        raise wrong(f, f"{step.loop}, which does not touch {step.buffer}", "a loop that does")
    if step.loop in touched[0].owners:
        raise wrong(f, f"{step.buffer}, made in {step.loop}", "a buffer made outside of the loop")
    root = known.roots[step.buffer]
    shared = [a for a in known.within(place.loop.body) if known.roots[a.buffer] == root]
    if len(shared) > len(touched):
        raise wrong(f, f"{step.buffer}, whose memory another buffer has", "a buffer of its own")
    if any(a.is_atomic for a in touched):
        raise wrong(f, f"atomic updates of {step.buffer}", "loads and stores")
    if any(isinstance(s, Barrier) for s in items(place.loop.body)) and root in known.written:
        raise wrong(f, f"a barrier in {step.loop}", "a loop without barriers")


def _first(
    regions: Regions, region: Region, known: Scan, loop: For, touched: Sequence[Access]
) -> bool:
    """Return whether the region must be copied before the body; DidymaError ``bad-step``."""
    f, name = known.func, touched[0].buffer
    if name in f.inputs and name not in known.written:
        return True
    first = touched[0]
    covers = [a for a in touched if _covers(regions, region, a)]
    part = next(s for s in items(loop.body) if any(a is first for a in known.within(s)))
    same = all(a.index == first.index for a in known.within(part) if a.buffer == name)
    stores = any(a.writes for a in touched)
    if first in covers and same and (not stores or any(a.writes for a in covers)):
        return not first.writes
    raise wrong(
        f, f"{first}, of which not every element is known to be touched",
        "a part that each iteration loads, or stores, whole before it uses it",
        help="an input that nothing writes may be staged whatever is read of it",
    )  # fmt: skip


def _covers(regions: Regions, region: Region, a: Access) -> bool:
    """Return whether an access certainly touches every element of a region once at least."""
    assert a.index is not None  # of which no region would be known
    if not all(region.inside) or not regions.certain(a):
        return False
    inner = {x.var.name: x for x in a.loops if x.var.name in regions.free}
    used: list[str] = []
    for i, n in zip(a.index, region.extents, strict=True):
        p = regions.affine.poly(i)
        moving = [m for m in p if any(v in inner for v in m)]
        if n == 1 and not moving:
            continue
        if len(moving) != 1 or len(moving[0]) != 1 or abs(p[moving[0]]) != 1:
            return False
        x = inner[moving[0][0]]
        if iterations(x) != n:
            return False
        used.append(x.var.name)
    return len(set(used)) == len(used)


def _copied(f: PrimFunc, old: Buffer, new: Buffer, region: Region, mark: str) -> tuple[Stmt, ...]:
    """Return the loops that copy a region in, or with the mark ``_out`` back."""
    names = [f"{new.name}{mark}_{n}" for n in range(len(region.shape))]
    claim(f, names)
    at = tuple(map(Var, names))
    there = region.element(at)
    if mark:
        one: Stmt = Store(old.name, there, Load(new.name, at, new.dtype))
    else:
        one = Store(new.name, at, Load(old.name, there, old.dtype))
    cond = region.guard(there, [ix.of_dim(d) for d in old.shape])
    return (nested(names, region.shape, guarded([cond], one)),)


def _shared(
    f: PrimFunc,
    known: Scan,
    place: LoopSite,
    threads: Sequence[For],
    old: Buffer,
    new: Buffer,
    region: Region,
    body: Stmt,
) -> PrimFunc:
    _demand_input(known, old, threads)

    def one(at: tuple[Expr, ...]) -> tuple[list[Expr], Stmt]:
        there = region.element(at)
        inside = region.guard(there, [ix.of_dim(d) for d in old.shape])
        return [inside], Store(new.name, at, Load(old.name, there, old.dtype))

    fill = _filled(f, new.name, region.shape, threads, one)
    parts = sequence([fill, Barrier(), *items(body), Barrier()])
    inner = replaced(f.body, place.loop, replace(place.loop, body=parts))
    outermost = next(x for x in find(replace(f, body=inner), threads[0].var.name).loops[::-1])
    assert outermost.kind is LoopKind.BOUND
    return replace(f, body=replaced(inner, outermost, Allocate(new, outermost)))


def _in_cluster(
    known: Scan,
    place: LoopSite,
    rank: For | None,
    threads: Sequence[For],
    old: Buffer,
    into: str,
    region: Region,
    regions: Regions,
) -> PrimFunc:
    """Let each block of a cluster hold neighbours along the first axis of the region."""
    f, shape = known.func, region.shape
    if rank is None or not shape:
        got = f"{place.loop.var.name}, where no blocks have parts of {old.name}"
        raise wrong(f, got, f"several elements, and a loop bound to {RANK} around")
    _demand_input(known, old, threads)
    blocks = iterations(rank)
    side, me = -(-shape[0] // blocks), rank.var
    part = (side, *shape[1:])
    new = Buffer(into, old.dtype, (blocks, *part), Scope.CLUSTER)

    def one(at: tuple[Expr, ...]) -> tuple[list[Expr], Stmt]:
        first = ix.add(ix.mul(me, ix.index(side)), at[0])
        there = region.element((first, *at[1:]))
        conds = [region.guard(there, [ix.of_dim(d) for d in old.shape])]
        if side * blocks > shape[0]:
            conds = [ix.compare("lt", first, ix.index(shape[0])), *conds]
        return conds, Store(into, (me, *at), Load(old.name, there, old.dtype))

    def moved(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        first, *rest = regions.moved(region, index)
        return (*ix.unflatten(first, (ix.index(blocks), ix.index(side))), *rest)

    body = redirected(f, place.loop.body, old.name, into, moved)
    fill, met = _filled(f, into, part, threads, one), Barrier(Scope.CLUSTER)
    inner = replace(place.loop, body=sequence([fill, met, *items(body), met]))
    around = replaced(rank, place.loop, inner)
    return replace(f, body=replaced(f.body, rank, Allocate(new, around)))


def _demand_input(known: Scan, old: Buffer, threads: Sequence[For]) -> None:
    """Raise ``bad-step`` unless threads may copy a buffer for each other."""
    f, root = known.func, known.roots[old.name]
    if old.scope is not Scope.GLOBAL or not threads:
        raise wrong(
            f, f"{old.name}, in {old.scope} memory, and {len(threads)} loops of threads around",
            "a parameter, and a loop inside bound thread axes",
        )  # fmt: skip
    if write := next(
        (a for a in known.accesses if a.writes and known.roots[a.buffer] == root), None
    ):
        raise wrong(f, str(write), "an input that nothing writes")


def _filled(
    f: PrimFunc,
    name: str,
    shape: Sequence[int],
    threads: Sequence[For],
    one: Callable[[tuple[Expr, ...]], tuple[list[Expr], Stmt]],
) -> For:
    """Return the loop in which the threads of a block do ``one`` for every element of a shape.

    It is a statement, and on what conditions.
    """
    count, numel = 1, math.prod(shape)
    me: Expr = ix.ZERO
    for x in threads:
        me = ix.add(ix.mul(me, x.extent), x.var)
        count *= iterations(x)
    turn = Var(f"{name}_turn")
    claim(f, [turn.name])
    flat = ix.add(ix.mul(turn, ix.index(count)), me)
    conds, body = one(ix.unflatten(flat, map(ix.index, shape)))
    if numel % count:
        conds = [ix.compare("lt", flat, ix.index(numel)), *conds]
    return For(turn, ix.index(-(-numel // count)), guarded(conds, body))
