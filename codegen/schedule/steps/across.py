"""The step ``reduce_across``: threads or blocks have a part of a fold each, and combine them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from didyma.codegen.schedule.folds import loaded
from didyma.codegen.schedule.steps.loops import (
    claim,
    iterations,
    names_of,
    path_to,
    replaced,
    sequence,
)
from didyma.codegen.schedule.steps.parts import Parts, in_nest, parts_of
from didyma.codegen.schedule.steps.records import Across, ReduceAcross
from didyma.codegen.schedule.steps.split import wrong
from didyma.codegen.schedule.steps.stage import lacks
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.expand import Inliner, Same
from didyma.refimpl.ir.loop import (
    AXES,
    INDEX,
    RANK,
    Allocate,
    Barrier,
    Binary,
    Block,
    Buffer,
    Const,
    Exchange,
    Expr,
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
)
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.text import show_line


def reduce_across(step: ReduceAcross, f: PrimFunc, target: Target = PORTABLE) -> PrimFunc:
    """Return a function in which the iterations of a loop of a fold are shared.

    The loop must be the outermost of its fold, whose accumulator is made with bound loops alone
    around it; of a fold that says how its parts merge, it may be any axis.  DidymaError
    ``no-such-loop``, ``not-a-fold``, ``bad-step``, ``target-lacks``, ``name-taken``.
    """
    match step.by:
        case Across.SHUFFLE if target.warp > 1:
            return _shuffled(step, parts_of(step, f), target)
        case Across.SHARED:
            return _shared(step, parts_of(step, f))
        case Across.GRID:
            return _over_blocks(step, parts_of(step, f))
        case Across.CLUSTER if target.cluster > 1:
            return _in_cluster(step, parts_of(step, f), target)
        case _:
            raise lacks(f, target, f"{step.by} operations")


def _names(step: ReduceAcross, p: Parts) -> list[str]:
    """Return the names of the buffers of parts, one for each accumulator."""
    names = (a.name for a in p.accs)
    return [step.into if n == step.buffer else f"{step.into}_{n}" for n in names]


def _width(p: Parts) -> int:
    """Return the number of threads that share a fold; DidymaError ``bad-step``."""
    extent = p.loop.extent
    width = int(extent.value) if isinstance(extent, Const) else 0
    if width < 1 or width & (width - 1):
        got = f"`{show_line(For(p.loop.var, extent, Block(())))}`"
        raise wrong(p.func, got, "a power of two of iterations")
    return width


def _threads(p: Parts) -> list[For]:
    return [x for x in p.around if x.axis.startswith("thread")]


def _shared(step: ReduceAcross, p: Parts) -> PrimFunc:
    """Combine the parts of threads in a tree in shared memory."""
    f, var, width, threads = p.func, p.loop.var, _width(p), _threads(p)
    sizes = [*map(iterations, threads)]
    level, half = Var(f"{step.into}_level"), Var(f"{step.into}_half")
    names = _names(step, p)
    claim(f, [*names, level.name, half.name])
    shape = (*sizes, width)
    tiles = [Buffer(n, a.dtype, shape, Scope.SHARED) for n, a in zip(names, p.accs, strict=True)]

    def at(n: Expr) -> tuple[Load, ...]:
        return loaded(tiles, (*(x.var for x in threads), n))

    pair = If(ix.compare("lt", var, half), p.merge(at(var), at(ix.add(var, half))))
    turn: Stmt = Let(half, Binary("shr", ix.index(width // 2), level), Block((pair, Barrier())))
    tree = For(level, Const(width.bit_length() - 1, INDEX), turn)
    body = sequence(
        [
            *p.body,
            *(Store(x.buffer, x.index, m) for x, m in zip(at(var), p.mine, strict=True)),
            Barrier(),
            *([tree] if width > 1 else []),
            If(ix.compare("eq", var, ix.ZERO), p.end(at(ix.ZERO))),
        ]
    )
    outer: Stmt = threads[0] if threads else p.site
    made = replaced(outer, p.site, _spread(p, body, _axis(p, AXES[3:])))
    for tile in reversed(tiles):
        made = Allocate(tile, made)
    return replace(f, body=replaced(f.body, outer, made))


def _shuffled(step: ReduceAcross, p: Parts, target: Target) -> PrimFunc:
    """Combine the parts of the lanes of a warp, each with that of another lane, again and again."""
    f, var, width = p.func, p.loop.var, _width(p)
    if width > target.warp:
        got = f"{width} iterations of {var.name}"
        raise wrong(f, got, f"at most {target.warp}, the lanes of a warp", help="split it first")
    masks, names = [1 << n for n in range(width.bit_length() - 1)], _names(step, p)
    given = {
        mask: [Var(f"{name}_{mask}", a.dtype) for name, a in zip(names, p.accs, strict=True)]
        for mask in masks
    }
    claim(f, [*names, *(v.name for vs in given.values() for v in vs)])
    rest: Stmt = If(ix.compare("eq", var, ix.ZERO), p.end(p.mine))
    for mask in masks:
        rest = sequence([p.merge(p.mine, given[mask]), rest])
        for other, mine in reversed(list(zip(given[mask], p.mine, strict=True))):
            rest = Exchange(other, mine, mask, rest)
    lanes = _spread(p, sequence([*p.body, rest]), _axis(p, AXES[3:4]))
    return replace(f, body=replaced(f.body, p.site, lanes))


def _in_cluster(step: ReduceAcross, p: Parts, target: Target) -> PrimFunc:
    """Give each iteration to a block; the first of them folds the parts of all in their order.

    The parts of each block stay in memory of its own, which none leaves before the first has them.
    """
    f, var, width = p.func, p.loop.var, _width(p)
    if width > target.cluster or any(x.axis == RANK for x in p.around):
        got = f"{width} iterations of {var.name}"
        want = f"at most {target.cluster} blocks, in no other cluster"
        raise wrong(f, got, want, help="split it first")
    threads = _threads(p)
    sizes = [*map(iterations, threads)]
    names, turn = _names(step, p), Var(f"{step.into}_fold")
    claim(f, [*names, turn.name])
    shape, at = (width, *sizes), tuple(x.var for x in threads)
    tiles = [Buffer(n, a.dtype, shape, Scope.CLUSTER) for n, a in zip(names, p.accs, strict=True)]
    keep = (Store(t.name, (var, *at), m) for t, m in zip(tiles, p.mine, strict=True))
    others = loaded(tiles, (ix.add(turn, ix.ONE), *at))
    again = For(turn, ix.index(width - 1), p.merge(p.mine, others))
    first = If(ix.compare("eq", var, ix.ZERO), sequence([again, p.end(p.mine)]))
    met = Barrier(Scope.CLUSTER)
    body = _with(p.accs, sequence([*p.body, *keep, met, first, met]))
    nest = (*in_nest(path_to(f.body, p.site)), p.site)
    outer = next(s for s in nest if not (isinstance(s, For) and s.axis in AXES[:3]))
    block = replaced(outer, p.site, body)
    made: Stmt = For(var, p.loop.extent, block, LoopKind.BOUND, RANK)
    for tile in reversed(tiles):
        made = Allocate(tile, made)
    return replace(f, body=replaced(f.body, outer, made))


def _over_blocks(step: ReduceAcross, p: Parts) -> PrimFunc:
    """Give each iteration to blocks of its own; a second kernel folds the parts in their order."""
    f, loop, supply = p.func, p.loop, names_of(p.func)
    around = p.around
    if bad := [x for x in (loop, *around) if not isinstance(x.extent, Const)]:
        got = f"`{show_line(replace(bad[0], body=Block(())))}`"
        raise wrong(f, got, "loops of constant extent, of which parts are as many")
    sizes = [*map(iterations, (loop, *around))]
    names, turn = _names(step, p), Var(f"{step.into}_fold")
    claim(f, [*names, turn.name])
    supply.take((*names, turn.name))
    tiles = [Buffer(n, a.dtype, tuple(sizes)) for n, a in zip(names, p.accs, strict=True)]
    at = tuple(x.var for x in around)
    keep = (Store(t.name, (loop.var, *at), m) for t, m in zip(tiles, p.mine, strict=True))
    nest = (*in_nest(path_to(f.body, p.site)), p.site)[0]
    axis = _axis(p, AXES[:3])
    part = _with(p.accs, sequence([*p.body, *keep]))
    first = For(loop.var, loop.extent, replaced(nest, p.site, part), LoopKind.BOUND, axis)
    again = For(turn, loop.extent, p.merge(p.mine, loaded(tiles, (turn, *at))))
    last = _with(p.accs, sequence([*p.body[: len(p.accs)], again, p.end(p.mine)]))
    second = Inliner(f.function, supply, Same({turn.name: turn.name})).stmt(
        replaced(nest, p.site, last)
    )
    body = replaced(f.body, nest, Block((first, second)))
    for t in reversed(tiles):
        body = Allocate(t, body)
    return replace(f, body=body)


def _with(made: Sequence[Buffer], body: Stmt) -> Stmt:
    """Return a statement in which buffers exist."""
    for b in reversed(made):
        body = Allocate(b, body)
    return body


def _axis(p: Parts, axes: Sequence[str]) -> str:
    """Return the first axis to which no loop around is bound; DidymaError ``bad-step``."""
    taken = {x.axis for x in p.around}
    free = [a for a in axes if a not in taken]
    if not free:
        got = f"loops around {p.loop.var.name} on {', '.join(axes)}"
        raise wrong(p.func, got, "an axis that is free", help="fuse some of the loops")
    return free[0]


def _spread(p: Parts, body: Stmt, axis: str) -> For:
    """Return the loop of a fold bound to an axis, with accumulators of its own."""
    return For(p.loop.var, p.loop.extent, _with(p.accs, body), LoopKind.BOUND, axis)
