"""Steps on folds that say how their parts merge, such as Welford's or that of an online softmax.

Written out as loops, such a fold could not be taken apart any more, so these steps come first in a
schedule: ``split`` of an axis, ``rfactor`` and ``reduce_across``.  ``bind`` and ``parallel`` of a
loop around leave it as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from didyma.codegen.schedule.folds import loaded
from didyma.codegen.schedule.nest import guarded
from didyma.codegen.schedule.steps.loops import claim, find, loops_of, names_of, replaced, sequence
from didyma.codegen.schedule.steps.records import Bind, Parallel, Rfactor, Split, Tail
from didyma.codegen.schedule.steps.split import remainder, require_factor, wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import loop as definition
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    Axis,
    Block,
    Buffer,
    Combiner,
    Const,
    Expr,
    Fold,
    For,
    Load,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.text import show_expr
from didyma.refimpl.ir.unfold import folded_into
from didyma.refimpl.ir.walk import items, stmts, subexprs, substitute, substitute_expr


def split_axis(step: Split, f: PrimFunc) -> PrimFunc | None:
    """Return a function in which an axis of a fold that merges is split.

    None if the step is about no such axis, if it peels, or if the axis has an extent that is read:
    then the fold is written out as loops.  DidymaError ``bad-step``, ``name-taken``.
    """
    s = fold_over(f, step.loop)
    if s is None or s.merge is None or step.tail is Tail.PEELED or len(step.into) != 2:
        return None
    require_factor(f, step.loop, step.factor)
    (old,) = (a for a in s.axes if a.var.name == step.loop)
    if any(isinstance(e, Load) for e in subexprs(old.extent)):
        return None
    rest, factor = remainder(old.extent, step.factor), ix.index(step.factor)
    if rest != ix.ZERO and step.tail is Tail.DIVISIBLE:
        return None
    claim(f, step.into, [step.loop])
    outer, inner = map(Var, step.into)
    at = ix.add(ix.mul(outer, factor), inner)
    both = (Axis(outer, ix.ceildiv(old.extent, factor)), Axis(inner, factor))
    axes = tuple(x for a in s.axes for x in (both if a is old else (a,)))
    guard = [ix.compare("lt", at, old.extent)] if rest != ix.ZERO else []
    term = guarded(guard, substitute(s.step, {old.var.name: at}))
    return replace(f, body=replaced(f.body, s, replace(s, axes=axes, step=term)))


def rfactor_axis(step: Rfactor, f: PrimFunc) -> PrimFunc | None:
    """Return a function in which one axis of a fold has partial results for each iteration.

    They stand in a buffer for each accumulator: that of the step's has the step's name, and the
    others that name with the accumulator's after it.  The parts are merged last.  None if there is
    no fold over such an axis, or if loops say all about it.

    DidymaError ``bad-step``, ``name-taken``; ``not-a-fold`` for one whose parts do not merge.
    """
    s = fold_over(f, step.loop)
    if s is None or (s.merge is None and s.op is not None):
        return None
    (k,) = (a for a in s.axes if a.var.name == step.loop)
    merge = merger_of(f, s, step.buffer)
    if not isinstance(k.extent, Const):
        raise wrong(
            f, f"{step.loop} in {show_expr(k.extent)}", "an axis of constant extent",
            help="split it first",
        )  # fmt: skip
    start, last = Var(f"{step.into}_start"), Var(f"{step.into}_fold")
    names = {
        a.var.name: step.into if a.var.name == step.buffer else f"{step.into}_{a.var.name}"
        for a in s.accs
    }
    claim(f, [*names.values(), start.name, last.name])
    supply = names_of(f)
    supply.take((*names.values(), start.name, last.name))
    shape = (int(k.extent.value),)
    parts = [Buffer(names[a.var.name], a.var.dtype, shape, Scope.LOCAL) for a in s.accs]
    fill = sequence(Store(b.name, (start,), a.start) for b, a in zip(parts, s.accs, strict=True))
    steps = folded_into(s, loaded(parts, (k.var,)), supply)
    for a in reversed(s.axes):
        steps = For(a.var, a.extent, steps)
    again = _renamed(merge, supply)
    merged = Fold(
        s.accs, (Axis(last, k.extent),), merge, Yield(loaded(parts, (last,))), s.body, again
    )
    body: Stmt = Block((For(start, k.extent, fill), *items(steps), merged))
    for b in reversed(parts):
        body = Allocate(b, body)
    return replace(f, body=replaced(f.body, s, body))


def kept(step: Bind | Parallel, f: PrimFunc, after: PrimFunc) -> PrimFunc | None:
    """Return a function with its folds, in which a loop is of the kind that it has ``after``.

    That is the function after the step, with its folds written out.  None if no fold merges, or if
    the loop is that of a fold.
    """
    if not any(isinstance(s, Fold) and s.merge is not None for s in stmts(f.body)):
        return None
    loop = next((x for x in loops_of(f.body) if x.var.name == step.loop), None)
    if loop is None:
        return None
    new = find(after, step.loop).loop
    return replace(f, body=replaced(f.body, loop, replace(loop, kind=new.kind, axis=new.axis)))


def fold_over(f: PrimFunc, axis: str) -> Fold | None:
    """Return the fold of a function that runs over an axis of this name."""
    folds = (s for s in stmts(f.body) if isinstance(s, Fold))
    return next((s for s in folds if any(a.var.name == axis for a in s.axes)), None)


def merger_of(f: PrimFunc, s: Fold, buffer: str) -> Combiner:
    """Return how the parts of a fold merge; DidymaError ``not-a-fold``, ``bad-step``.

    A part starts as the whole does, so that merging two parts without a term must give the start.
    """
    names = ", ".join(a.var.name for a in s.accs)
    if buffer not in {a.var.name for a in s.accs}:
        raise _unmerged(f, f"no accumulator {buffer} of the fold", f"one of {names}")
    if s.merge is None:
        raise _unmerged(f, f"a fold of {names} without `merge`", "a fold that says how parts merge")
    if any(isinstance(e, Load) for a in s.axes for e in subexprs(a.extent)):
        raise wrong(f, f"extents of the fold of {names} that are read", "other extents")
    start = [a.start for a in s.accs]
    both = _merged(s.merge, s, start)
    if both is None or any(not _same(x, e) for x, e in zip(both, start, strict=True)):
        got = ", ".join(f"{a.var.name} = {show_expr(a.start)}" for a in s.accs)
        raise _unmerged(f, f"a fold from {got}", "a start of which two merge to that start")
    return s.merge


def _unmerged(f: PrimFunc, got: str, want: str) -> DidymaError:
    return DidymaError("not-a-fold", f"@{f.name}", got=got, want=want)


def _merged(merge: Combiner, s: Fold, start: list[Expr]) -> list[Any] | None:
    """Return what two starts merge to; None if they are not constants."""
    if not all(isinstance(e, Const) for e in start):
        return None
    known = dict(zip((a.var.name for a in s.accs), start, strict=True))
    known |= dict(zip((v.name for v in merge.operands), start, strict=True))
    outs = tuple(Buffer(f"out {n}", e.dtype, ()) for n, e in enumerate(start))
    stores = (
        Store(b.name, (), substitute_expr(e, known))
        for b, e in zip(outs, merge.results, strict=True)
    )
    held = {b.name: np.zeros((), b.dtype.numpy) for b in outs}
    definition.run(PrimFunc("merge", outs, tuple(held), Block(tuple(stores))), held, {})
    return [a[()] for a in held.values()]


def _same(x: Any, e: Expr) -> bool:
    assert isinstance(e, Const)
    want = np.asarray(e.value, x.dtype)
    return bool(x == want) or bool(x != x and want != want)


def _renamed(c: Combiner, supply: Names) -> Combiner:
    """Return a combiner with other names for its operands."""
    new = tuple(Var(supply.fresh(v.name), v.dtype) for v in c.operands)
    table: dict[str, Expr] = {v.name: n for v, n in zip(c.operands, new, strict=True)}
    return Combiner(new, tuple(substitute_expr(e, table) for e in c.results))
