"""Steps that belong together: alone, each is seldom drawn where it can be taken."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias, TypeGuard

from didyma.codegen.schedule.steps import records
from didyma.codegen.schedule.steps.loops import loops_of, path_to
from didyma.codegen.schedule.steps.records import Step, Tail
from didyma.fuzz.schedules.steps import is_update
from didyma.refimpl.ir.loop import (
    AXES,
    RANK,
    Allocate,
    Block,
    Expr,
    Fold,
    For,
    Let,
    Load,
    PrimFunc,
    Stmt,
    Store,
)
from didyma.refimpl.ir.unfold import unfolded
from didyma.refimpl.ir.walk import exprs, stmts, subexprs

Motif: TypeAlias = Callable[[PrimFunc, random.Random], list[Step]]


def motif(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return steps that belong together; none where the function has no place for any."""
    kinds: list[Motif] = [
        *[spread] * 3, _pipelined, moved, _bound, *[_joined] * 2, _turned_round, *[_named] * 2,
        *[_copied] * 2, parted, *[nearer] * 3, *[swapped] * 3,
    ]  # fmt: skip
    if f.functions and chance.random() < 0.7:
        return called(f, chance)
    chance.shuffle(kinds)
    return next(filter(None, (kind(f, chance) for kind in kinds)), list[Step]())


def spread(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return steps that spread a fold over threads."""
    merging = [s for s in stmts(f.body) if isinstance(s, Fold) and s.merge is not None]
    if merging:
        fold = chance.choice(merging)
        acc, k = chance.choice(fold.accs).var.name, chance.choice(fold.axes).var.name
        around = _loops_around(f, fold)
        bound = [records.Bind(n, a) for n, a in zip(around, AXES, strict=False)]
        return [_turned(k, chance), *bound, records.ReduceAcross(acc, "lane", _by(chance))]
    f = unfolded(f)
    made = [s for s in stmts(f.body) if isinstance(s, Allocate) and not s.buffer.shape]
    if not made:
        return []
    scalar = chance.choice(made)
    around = _loops_around(f, scalar)
    folds = [x.var.name for x in loops_of(scalar.body)][:1]
    if not folds or len(around) > 3:
        return []
    (k,) = folds
    bound = [records.Bind(n, a) for n, a in zip(around, AXES, strict=False)]
    threads = records.ReduceAcross(scalar.buffer.name, "lane", _by(chance))
    if chance.random() < 0.3 and around:
        shared = records.Stage(
            chance.choice(f.inputs or ["none"]), around[-1], records.Memory.SHARED
        )
        bound[-1] = records.Bind(around[-1], "threadIdx.x")
        return [*bound, shared]
    turned = _turned(k, chance)
    return [*bound, turned, records.Reorder(("lane", "turn"), reassociates=True), threads]


def _by(chance: random.Random) -> records.Across:
    every: tuple[records.Across, ...] = (*records.Across, records.Across.CLUSTER)
    return chance.choice(every)


def _pipelined(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return steps that stage what a loop reads, and fill that ahead."""
    loops = loops_of(unfolded(f).body)
    if not loops:
        return []
    loop = chance.choice(loops)
    read = _read(loop)
    if not read:
        return []
    stage = records.Stage(chance.choice(read), loop.var.name, into="near")
    return [stage, records.Pipeline(loop.var.name, "near", chance.choice((2, 3, 4)))]


def moved(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return the step that computes a buffer where a loop reads it, or at its uses."""
    made = [s.buffer.name for s in stmts(f.body) if isinstance(s, Allocate) and s.buffer.shape]
    if not made:
        return []
    name = chance.choice(made)
    users = [
        x.var.name
        for x in loops_of(f.body)
        if any(isinstance(e, Load) and e.buffer == name for e in exprs(x.body))
        and not any(isinstance(s, Store) and s.buffer == name for s in stmts(x.body))
    ]
    if not users or chance.random() < 0.3:
        return [records.Inline(name)]
    return [records.ComputeAt(name, chance.choice(users))]


def _copied(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what lets threads share a copy of what they read, whose size they need not divide."""
    f = unfolded(f)
    outer = [s for s in stmts(f.body) if isinstance(s, For) and len(path_to(f.body, s)) <= 1]
    if not outer or not f.inputs:
        return []
    one = chance.choice(outer)
    buffer = chance.choice(f.inputs)
    names = [one.var.name]
    steps: list[Step] = []
    if chance.random() < 0.5:
        steps.append(
            records.Split(names[0], chance.choice((2, 3, 4)), Tail.PEELED, ("far", "near"))
        )
        names = ["far", "near"]
    elif isinstance(one.body, For) and chance.random() < 0.7:
        names.append(one.body.var.name)
    axes: list[str] = chance.sample(AXES[3:], len(names))
    if len(names) > 1 and chance.random() < 0.5:
        axes[0] = chance.choice(AXES[:3])
    steps += [records.Bind(n, a) for n, a in zip(names, axes, strict=True)]
    inner = [x.var.name for x in loops_of(one.body)]
    place = chance.choice([names[-1], *inner])
    return [*steps, records.Stage(buffer, place, records.Memory.SHARED, "tile")]


def parted(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what lets each block of a cluster hold a part of what all of them read."""
    f = unfolded(f)
    pairs = [(x, x.body) for x in loops_of(f.body) if isinstance(x.body, For)]
    pairs = [(x, y) for x, y in pairs if len(path_to(f.body, x)) <= 1]
    if not pairs or not f.inputs:
        return []
    outer, inner = (x.var.name for x in chance.choice(pairs))
    steps: list[Step] = [
        records.Split(outer, chance.choice((2, 4)), Tail.PEELED, ("far", "near")),
        records.Bind("far", AXES[0]), records.Bind("near", RANK), records.Bind(inner, AXES[3]),
    ]  # fmt: skip
    places = [x.var.name for x in loops_of(f.body) if x.var.name != outer]
    buffer, place = chance.choice(f.inputs), chance.choice(places)
    return [*steps, records.Stage(buffer, place, records.Memory.CLUSTER, "tile")]


def nearer(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what stages something in a loop, part of whose iterations a condition forbids."""
    f = unfolded(f)
    loops = loops_of(f.body)
    pairs = [(x.var.name, buffer) for x in loops for buffer in _read(x)]
    if not pairs:
        return []
    far = [(x.var.name, e.buffer) for x in loops for e in exprs(x.body) if is_placed(e)]
    name, buffer = chance.choice(far if far and chance.random() < 0.8 else pairs)
    if chance.random() < 0.3:
        return [records.Stage(buffer, name, into="close")]
    split = records.Split(name, chance.choice((2, 3, 4)), Tail.GUARDED, ("far", "near"))
    return [split, records.Stage(buffer, chance.choice(("far", "near", "near")), into="close")]


def is_placed(e: Expr) -> TypeGuard[Load]:
    """Return whether an expression reads at a place that is itself read from memory."""
    return isinstance(e, Load) and any(isinstance(x, Load) for i in e.index for x in subexprs(i))


def swapped(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what takes the iterations of a loop in another order, as for the lanes of a sum."""
    f = unfolded(f)
    sums = [x for x in loops_of(f.body) if _sums_up(x)]
    if not sums:
        return []
    name = chance.choice(sums).var.name
    tail = chance.choice((Tail.GUARDED, Tail.PEELED))
    split = records.Split(name, chance.choice((2, 3, 4)), tail, ("turn", "lane"))
    return [split, records.Reorder(("lane", "turn"), chance.random() < 0.3)]


def _sums_up(loop: For) -> bool:
    """Return whether all iterations of a loop update one element."""
    return any(
        is_update(s) and not any(e == loop.var for i in s.index for e in subexprs(i))
        for s in stmts(loop.body)
    )


def _read(loop: For) -> list[str]:
    return sorted({e.buffer for e in exprs(loop.body) if isinstance(e, Load)})


def called(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return calls in place of all loops, most of which do something else."""
    pairs = [(x.var.name, g.name) for x in loops_of(f.body) for g in f.functions]
    chance.shuffle(pairs)
    return [records.Tensorize(*pair) for pair in pairs]


def _joined(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what joins two parallel loops."""
    blocks = [s.body for s in stmts(f.body) if isinstance(s, Block)]
    pairs = [
        (x.var.name, y.var.name)
        for body in blocks
        for x, y in pairwise(body)
        if isinstance(x, For) and isinstance(y, For) and x.extent == y.extent
    ]
    if not pairs:
        return []
    pair = chance.choice(pairs)
    return [*map(records.Parallel, pair), records.Join(pair)]


def _turned_round(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what moves a parallel loop around a serial one."""
    nests = [(x, x.body) for x in loops_of(f.body) if isinstance(x.body, For)]
    if not nests:
        return []
    outer, inner = (x.var.name for x in chance.choice(nests))
    return [records.Parallel(inner), records.Reorder((inner, outer))]


def _named(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what writes named values at their uses."""
    names = [s.var.name for s in stmts(unfolded(f).body) if isinstance(s, Let)]
    chance.shuffle(names)
    return [records.Inline(n) for n in names]


def _bound(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return what binds the outermost loops, also to more threads than a block has."""
    outer = [s for s in stmts(f.body) if isinstance(s, For) and len(path_to(f.body, s)) <= 1]
    return [records.Bind(x.var.name, chance.choice(AXES[3:])) for x in outer]


def _loops_around(f: PrimFunc, s: Stmt) -> list[str]:
    return [x.var.name for x in path_to(f.body, s) if isinstance(x, For)]


def _turned(loop: str, chance: random.Random) -> Step:
    """Return the split of a fold's loop for so many threads."""
    return records.Split(loop, chance.choice((2, 4, 8)), Tail.GUARDED, ("turn", "lane"))
