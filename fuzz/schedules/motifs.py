"""Steps that belong together: alone, each is seldom drawn where it can be taken."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

from didyma.codegen.schedule.steps import records
from didyma.codegen.schedule.steps.loops import loops_of, path_to
from didyma.codegen.schedule.steps.records import Step, Tail
from didyma.refimpl.ir.loop import (
    AXES,
    Allocate,
    Block,
    Fold,
    For,
    Let,
    Load,
    PrimFunc,
    Stmt,
    Store,
)
from didyma.refimpl.ir.unfold import unfolded
from didyma.refimpl.ir.walk import exprs, stmts


def motif(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return steps that belong together; none where the function has no place for them."""
    kinds: list[Callable[[PrimFunc, random.Random], list[Step]]] = [
        *[_spread] * 3, _pipelined, _moved, _bound, *[_joined] * 2, _turned_round, *[_named] * 2,
    ]  # fmt: skip
    if f.functions and chance.random() < 0.5:
        return _called(f, chance)
    return chance.choice(kinds)(f, chance)


def _spread(f: PrimFunc, chance: random.Random) -> list[Step]:
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
    return chance.choice((records.Across.SHARED, records.Across.SHUFFLE))


def _pipelined(f: PrimFunc, chance: random.Random) -> list[Step]:
    """Return steps that stage what a loop reads, and fill that ahead."""
    loops = loops_of(unfolded(f).body)
    if not loops:
        return []
    loop = chance.choice(loops)
    read = sorted({e.buffer for e in exprs(loop.body) if isinstance(e, Load)})
    if not read:
        return []
    stage = records.Stage(chance.choice(read), loop.var.name, into="near")
    return [stage, records.Pipeline(loop.var.name, "near", chance.choice((2, 3, 4)))]


def _moved(f: PrimFunc, chance: random.Random) -> list[Step]:
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


def _called(f: PrimFunc, chance: random.Random) -> list[Step]:
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
