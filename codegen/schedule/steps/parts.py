"""A fold by parts: the result of one iteration of a loop, and how such parts become the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from didyma.codegen.schedule.folds import freshened, loaded
from didyma.codegen.schedule.steps.accesses import scan
from didyma.codegen.schedule.steps.dependence import Dependences, carried_among, refuse
from didyma.codegen.schedule.steps.folds import FoldLoop, fold_loop, neutral
from didyma.codegen.schedule.steps.loops import names_of, path_to, sequence
from didyma.codegen.schedule.steps.merges import fold_over, merger_of
from didyma.codegen.schedule.steps.records import Across, ReduceAcross
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import (
    Allocate,
    Binary,
    Block,
    Buffer,
    Expr,
    Fold,
    For,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Stmt,
    Store,
)
from didyma.refimpl.ir.unfold import assigned, folded_into, unfolded
from didyma.refimpl.ir.walk import items, stmts, substitute, substitute_expr

_THREADS = (Across.SHUFFLE, Across.SHARED)  # of one block, whose shared memory they have in common
_GLOBAL = Scope.GLOBAL  # of a function's workspace, which is around its nests


@dataclass(frozen=True, slots=True)
class Parts:
    """A fold of ``func`` that the iterations of ``loop`` may share.

    It stands at ``site``, in bound loops and allocations alone.  ``body`` is what an iteration
    does: it leaves its part in the scalars ``accs``.  ``merge`` gives the statement that adds other
    values to those at some places, and ``end`` what follows the fold, from where the results of all
    parts are.
    """

    func: PrimFunc
    site: Stmt
    loop: For
    accs: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    merge: Callable[[Sequence[Load], Sequence[Expr]], Stmt]
    end: Callable[[Sequence[Load]], Stmt]

    @property
    def around(self) -> tuple[For, ...]:
        """The loops around the fold, outermost first."""
        return tuple(x for x in path_to(self.func.body, self.site) if isinstance(x, For))

    @property
    def mine(self) -> tuple[Load, ...]:
        """The values of the scalars."""
        return loaded(self.accs)


def parts_of(step: ReduceAcross, f: PrimFunc) -> Parts:
    """Return a fold by the parts of one of its loops.

    DidymaError ``no-such-loop``; ``not-a-fold``, also for a fold whose parts do not merge;
    ``bad-step`` where something else than bound loops is around it, or where threads would share
    what each iteration has for itself; ``dependence`` of one iteration on another.
    """
    s = fold_over(f, step.loop)
    if s is not None and (s.merge is not None or s.op is None):
        return _of_fold(step, f, s)
    f = unfolded(f)
    found = fold_loop(f, step.buffer, step.loop)
    _must_be_apart(step, f, found)
    return _of_loop(f, found)


def _must_be_apart(step: ReduceAcross, f: PrimFunc, found: FoldLoop) -> None:
    """Check that the iterations of a fold have nothing else in common than its accumulator."""
    loop, known = found.place.loop, scan(f)
    for s in stmts(loop.body):
        if isinstance(s, Allocate) and s.buffer.scope is Scope.SHARED and step.by in _THREADS:
            got = f"{s.buffer.name} in {loop.var.name}, which all its threads would share"
            raise wrong(f, got, "a fold that keeps nothing in shared memory")
    others = [a for a in known.within(loop.body) if a.buffer != found.buffer.name]
    if dependence := carried_among(Dependences(known), loop, others):
        want = "iterations that depend on one another by the accumulator alone"
        raise refuse(f"reduce_across {step.buffer} over {step.loop}", dependence, want)


def _of_fold(step: ReduceAcross, f: PrimFunc, s: Fold) -> Parts:
    merger, supply = merger_of(f, s, step.buffer), names_of(f)
    if not _are_free(path_to(f.body, s)):
        raise _misplaced(f, step.loop, step.buffer)
    accs = tuple(Buffer(a.var.name, a.var.dtype, (), Scope.LOCAL) for a in s.accs)
    (k,) = (a for a in s.axes if a.var.name == step.loop)
    terms = folded_into(s, loaded(accs), supply)
    for a in reversed(s.axes):
        terms = terms if a is k else For(a.var, a.extent, terms)
    start = [Store(b.name, (), a.start) for b, a in zip(accs, s.accs, strict=True)]

    def merge(old: Sequence[Load], new: Sequence[Expr]) -> Stmt:
        table: dict[str, Expr] = {a.var.name: x for a, x in zip(s.accs, old, strict=True)}
        table |= {v.name: x for v, x in zip(merger.operands, new, strict=True)}
        results = [freshened(substitute_expr(e, table), supply) for e in merger.results]
        return assigned(old, results, supply)

    def end(found: Sequence[Load]) -> Stmt:
        mine = loaded(accs)
        stores = [Store(m.buffer, (), x) for m, x in zip(mine, found, strict=True) if m != x]
        table: dict[str, Expr] = {a.var.name: x for a, x in zip(s.accs, mine, strict=True)}
        return sequence([*stores, substitute(s.body, table)])

    return Parts(f, s, For(k.var, k.extent, s.step), accs, (*start, *items(terms)), merge, end)


def _of_loop(f: PrimFunc, found: FoldLoop) -> Parts:
    loop, acc, op = found.place.loop, found.buffer, found.op
    made, first, rest = _start(f, found)

    def merge(old: Sequence[Load], new: Sequence[Expr]) -> Stmt:
        (mine,), (other,) = old, new
        return Store(mine.buffer, mine.index, Binary(op, mine, other))

    def end(total: Sequence[Load]) -> Stmt:
        return sequence([Store(acc.name, (), Binary(op, first.value, total[0])), *rest])

    body = (Store(acc.name, (), neutral(op, acc.dtype)), *items(loop.body))
    return Parts(f, made, loop, (acc,), body, merge, end)


def _start(f: PrimFunc, found: FoldLoop) -> tuple[Allocate, Store, tuple[Stmt, ...]]:
    """Return the declaration of an accumulator, its start, and what follows its fold."""
    loop, name = found.place.loop, found.buffer.name
    around = path_to(f.body, loop)
    made = next((s for s in around if isinstance(s, Allocate) and s.buffer.name == name), None)
    if made is not None and found.nest is loop and isinstance(made.body, Block):
        parts = made.body.body
        at, first = [s is loop for s in parts], parts[0]
        is_first = isinstance(first, Store) and first.buffer == name
        if True in at[1:2] and is_first and _are_free(path_to(f.body, made)):
            assert isinstance(first, Store)
            return made, first, parts[2:]
    raise _misplaced(f, loop.var.name, name)


def _are_free(around: Sequence[Stmt]) -> bool:
    """Return whether statements leave room for another bound loop inside."""
    return all(
        (isinstance(s, For) and s.kind is LoopKind.BOUND) or isinstance(s, Allocate)
        for s in in_nest(around)
    )


def in_nest(around: Sequence[Stmt]) -> Sequence[Stmt]:
    """Return those of the statements around one that belong to its nest."""
    n = 0
    while n < len(around) and isinstance(s := around[n], Allocate) and s.buffer.scope is _GLOBAL:
        n += 1
    return around[n + 1 :] if n < len(around) and isinstance(around[n], Block) else around[n:]


def _misplaced(f: PrimFunc, loop: str, acc: str) -> DidymaError:
    return wrong(
        f, f"{loop} in {acc}'s fold",
        "the outermost loop of a fold right after the start of an accumulator that is made inside "
        "bound loops alone",
    )  # fmt: skip
