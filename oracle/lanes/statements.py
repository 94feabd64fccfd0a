"""Statements of loop programs on lanes: from trees to closures, which a run calls in turn.

Loops that are parallel, vectorised or bound to a grid or thread axis run as array axes, statement
by statement; serial loops run in Python.  That order hides what a missing barrier would do, so the
checks matter as much as the values: bounds, initialisation, races and barrier divergence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import assert_never

import numpy as np

from didyma.oracle.lanes import calls, loops, stores, together
from didyma.oracle.lanes.buffers import Dense
from didyma.oracle.lanes.code import Eval, known
from didyma.oracle.lanes.exprs import address_of, compile_expr
from didyma.oracle.lanes.loops import nothing
from didyma.oracle.lanes.races import Lanes, Mask
from didyma.oracle.lanes.registers import LANE_KINDS, in_memory
from didyma.oracle.lanes.rounds import only_folds
from didyma.oracle.lanes.site import Frame, Launch, Run, Site, both, but
from didyma.refimpl.interp import scalar
from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.interp.scalar import Arithmetic, Value
from didyma.refimpl.ir.loop import (
    Allocate,
    Assert,
    Atomic,
    AttrStmt,
    Barrier,
    Block,
    BlockRealize,
    BufferRealize,
    Call,
    Chain,
    Compute,
    Evaluate,
    Exchange,
    ExternalAllocate,
    ExternalCall,
    Fold,
    For,
    Free,
    If,
    Let,
    PlacementAllocate,
    Prefetch,
    PrimFunc,
    ProducerRealize,
    Return,
    Stmt,
    Store,
    While,
    Yield,
)
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmt_children, stmts
from didyma.refimpl.ir.workspace import given_room


def run(
    f: PrimFunc,
    buffers: Mapping[str, Array],
    dims: Mapping[str, int],
    externals: Mapping[str, Routine] | None = None,
    arithmetic: Arithmetic = scalar,
    scalars: Mapping[str, float] | None = None,
) -> Value | None:
    """Run a function in place on C-contiguous arrays, one for each parameter.

    Returns the number that the function returns, if it does.

    ``scalars`` are the values of scalar parameters, by name.
    ``externals`` are the routines that external calls name: each gets output arrays, input arrays
    and attributes; one that allocates returns the arrays.  With ``scalar_ring`` as the
    ``arithmetic``, arrays of floats are records of their values and payloads.  Raises LoopFault,
    of one of the kinds of ``LoopFaultKind``; ValueError for arrays of another type than declared.
    """
    f, buffers = given_room(f, buffers, dims, arithmetic.held)
    returns, f = f.returns, written_out(f)
    if returns is not None:
        buffers = {**buffers, f.params[-1].name: np.zeros((), arithmetic.held(returns))}
    depth = _lane_depth(f.body, f.function)
    writers = Counter(_writes(f.body, f.function))
    writers.update(_beneath(buffers, writers))
    known_externals, local = externals or {}, in_memory(f)
    launch = Launch(
        arithmetic, depth, dims, f.function, known_externals, writers, local, Lanes(depth)
    )
    frame = Frame(f.name, {n: known(np.int64(v), (v, v)) for n, v in dims.items()})
    with np.errstate(all="ignore"):
        for v in f.scalars:
            frame.bind(v.name, known(arithmetic.constant((scalars or {})[v.name], v.dtype)))
        for b in f.params:
            frame.memory[b.name] = stores.parameter(launch, b, buffers[b.name])
        compile_stmt(f.body, Site(launch, frame, f.body))(None)
        frame.settle()
    return None if returns is None else buffers[f.params[-1].name][()]


def _beneath(buffers: Mapping[str, Array], written: Collection[str]) -> list[str]:
    """Return the arrays that are not written themselves, but share memory with such as are."""
    over = [a for name, a in buffers.items() if name in written]
    rest = ((name, a) for name, a in buffers.items() if name not in written)
    return [name for name, a in rest if any(np.may_share_memory(a, b) for b in over)]


def compile_stmt(s: Stmt, place: Site) -> Run:
    """Compile a statement that stands at a place."""
    site = place.at(s)
    match s:
        case Block(body):
            return _sequence([compile_stmt(b, site) for b in body])
        case For(_, _, body, kind):
            compile_loop = loops.parallel if kind in LANE_KINDS else loops.serial
            return compile_loop(site, s, partial(compile_stmt, body))
        case Store():
            return stores.store(site, s)
        case If():
            return _branch(site, s)
        case While(_, body):
            return loops.rounds(site, s, partial(compile_stmt, body))
        case Let():
            return _let(site, s)
        case Allocate(_, body):
            return stores.allocate(site, s, partial(compile_stmt, body))
        case PlacementAllocate(_, _, body):
            return stores.place(site, s, partial(compile_stmt, body))
        case Free():
            return stores.free(site, s)
        case Atomic():
            return stores.atomic(site, s)
        case Barrier():
            return together.barrier(site, s)
        case Exchange(_, _, _, body):
            return together.exchange(site, s, partial(compile_stmt, body))
        case Chain():
            return together.chain(site, s, partial(compile_stmt, s.body))
        case Assert():
            return _assert(site, s)
        case Evaluate(value):
            return _looking(compile_expr(site, value).run)
        case Prefetch(name, index):
            memory = site.frame.memory[name]
            assert isinstance(memory, Dense)
            return _looking(address_of(site, memory, index).run)
        case AttrStmt(_, _, body):
            return compile_stmt(body, site)
        case ExternalCall():
            return calls.external(site, s)
        case ExternalAllocate(_, _, _, _, body):
            return calls.allocating(site, s, partial(compile_stmt, body))
        case Call(callee):
            return calls.call(site, s, partial(compile_stmt, site.launch.functions[callee].body))
        case (
            Fold() | Yield() | BlockRealize() | BufferRealize() | Compute() | ProducerRealize()
            | Return()
        ):  # fmt: skip
            raise AssertionError("folds, blocks, producers and returns are written out before")
        case _:
            assert_never(s)


def _sequence(steps: list[Run]) -> Run:
    if len(steps) == 1:
        return steps[0]

    def run(mask: Mask) -> None:
        for step in steps:
            step(mask)

    return run


def _let(site: Site, s: Let) -> Run:
    """Compile a let: the value once, then the body."""
    value, frame, name = compile_expr(site, s.value), site.frame, s.var.name
    if not frame.bind(name, value):
        return compile_stmt(s.body, site)
    body, env, get, clock = compile_stmt(s.body, site), frame.env, value.run, site.launch.clock

    def run(mask: Mask) -> None:
        env[name] = get(mask)
        clock[0] += 1
        body(mask)

    return run


def _branch(site: Site, s: If) -> Run:
    """Compile a condition: each side runs with the lanes that take it."""
    cond, outer = compile_expr(site, s.cond), site.mask
    if cond.known and cond.uniform:
        chosen = s.then if cond.value else s.other
        return nothing if chosen is None else compile_stmt(chosen, site)
    if cond.known and outer is not False:
        assert not isinstance(outer, bool)
        sides = (s.then, both(outer, cond.value)), (s.other, but(outer, cond.value))
        return _sequence([_side(site, side, mask) for side, mask in sides])
    inner = site.where(False)
    then = compile_stmt(s.then, inner)
    other = None if s.other is None else compile_stmt(s.other, inner)
    choose = cond.run

    def run(mask: Mask) -> None:
        chosen = choose(mask)
        if chosen.ndim == 0:
            if chosen:
                then(mask)
            elif other is not None:
                other(mask)
            return
        yes = both(mask, chosen)
        if yes.any():
            then(None if yes.all() else yes)
        if other is not None:
            no = but(mask, chosen)
            if no.any():
                other(None if no.all() else no)

    return run


def _side(site: Site, s: Stmt | None, active: Array) -> Run:
    """Compile a side of a condition whose lanes are known."""
    if s is None or not active.any():
        return nothing
    mask: Mask = None if active.all() else active
    body = compile_stmt(s, site.where(mask))

    def run(now: Mask) -> None:
        del now
        body(mask)

    return run


def _looking(run: Eval) -> Run:
    """Return a statement that evaluates for what its checks see."""

    def look(mask: Mask) -> None:
        run(mask)

    return look


def _assert(site: Site, s: Assert) -> Run:
    cond = compile_expr(site, s.cond).run

    def run(mask: Mask) -> None:
        good = cond(mask)
        if not good.all() and (mask is None or good.ndim == 0 or (mask & ~good).any()):
            raise stmt_fault("assert", s, s.message)

    return run


def _lane_depth(s: Stmt, functions: Mapping[str, PrimFunc]) -> int:
    """Deepest nesting of loops that are lanes, or may be."""
    below = max([_lane_depth(b, functions) for b in stmt_children(s)], default=0)
    match s:
        case For():
            return below + (s.kind in LANE_KINDS or only_folds(s))
        case Call(callee):
            return _lane_depth(functions[callee].body, functions)
        case _:
            return below


def _writes(s: Stmt, functions: Mapping[str, PrimFunc]) -> Iterator[str]:
    """Name of the buffer of every store, atomic, free and the like, once for each."""
    for below in stmts(s):
        match below:
            case Store() | Atomic() | Free():
                yield below.buffer
            case PlacementAllocate():
                yield below.over
            case Chain():
                yield from (below.states, below.totals)
            case ExternalCall(_, outputs):
                yield from outputs
            case Call(callee, args):
                f = functions[callee]
                given = dict(zip((p.name for p in f.params), args, strict=True))
                yield from (given[name] for name in _writes(f.body, functions) if name in given)
            case _:
                pass
