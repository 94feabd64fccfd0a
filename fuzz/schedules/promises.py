"""What steps promise beside the meaning of a function: which loops and buffers there are then.

A function does the same after a step that is legal, also where the step did something else than its
record says: left loops in another order, of another kind, or of another length.  So the record of
each step is held against the loops before it and after it, which are read here and not by steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from didyma.codegen.runtime.geometry import evaluate
from didyma.codegen.schedule.steps import records as steps
from didyma.codegen.schedule.steps.records import Across, Memory, Schedule, Step
from didyma.codegen.schedule.steps.text import show_step
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import (
    RANK,
    Allocate,
    Binary,
    BlockRealize,
    Buffer,
    Call,
    Exchange,
    Expr,
    Fold,
    For,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Stmt,
    Store,
)
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.walk import stmt_children, stmt_exprs, subexprs

SCOPES: Mapping[Memory, Scope] = {
    Memory.REGISTERS: Scope.LOCAL, Memory.SHARED: Scope.SHARED, Memory.CLUSTER: Scope.CLUSTER
}  # fmt: skip
COPIES = 2  # accesses that fill and store a staged part of one element, without a loop
# Steps that may take away loops which they do not name, or make others of them.
REMAKE = (steps.Inline, steps.ComputeAt, steps.Tensorize, steps.Vectors, steps.ReduceAcross)
MOVES = (steps.Reorder, steps.Tile)  # steps that move loops past others which they do not name


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop, or an axis of a fold, and the names of the loops around it, outermost first."""

    extent: Expr
    kind: LoopKind
    axis: str
    around: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """A buffer that a function makes, and the loops around it."""

    buffer: Buffer
    around: tuple[str, ...]


@dataclass(slots=True)
class Shape:
    """The loops and buffers of a function by name, and what else steps speak of."""

    loops: dict[str, Loop] = field(default_factory=dict[str, Loop])
    made: dict[str, Made] = field(default_factory=dict[str, Made])
    lets: set[str] = field(default_factory=set[str])
    calls: list[str] = field(default_factory=list[str])
    blocks: int = 0
    exchanges: int = 0
    touched: list[tuple[str, tuple[Expr, ...], tuple[str, ...]]] = field(
        default_factory=list[tuple[str, tuple[Expr, ...], tuple[str, ...]]]
    )

    def read(self, s: Stmt, around: tuple[str, ...]) -> None:
        """Read a statement with such loops around it."""
        for e in stmt_exprs(s):
            for x in subexprs(e):
                if isinstance(x, Load):
                    self.touched.append((x.buffer, x.index, around))
        inside = around
        match s:
            case For(var, extent, _, kind, axis):
                self.loops[var.name] = Loop(extent, kind, axis, around)
                inside = (*around, var.name)
            case Fold():
                for a in s.axes:
                    self.loops[a.var.name] = Loop(a.extent, LoopKind.SERIAL, "", inside)
                    inside = (*inside, a.var.name)
            case Allocate(buffer):
                self.made[buffer.name] = Made(buffer, around)
            case Let(var):
                self.lets.add(var.name)
            case Store(buffer, index):
                self.touched.append((buffer, index, around))
            case Call(callee):
                self.calls.append(callee)
            case _:
                self.blocks += isinstance(s, BlockRealize)
                self.exchanges += isinstance(s, Exchange)
        for child in stmt_children(s):
            self.read(child, inside)

    @staticmethod
    def of(f: PrimFunc) -> Shape:
        """Return the shape of a function."""
        found = Shape()
        found.read(f.body, ())
        return found


def broken(
    schedule: Schedule, f: PrimFunc, after: Sequence[PrimFunc], env: Mapping[str, int]
) -> str:
    """Say what the first step leaves that it should not; empty if all do what their records say.

    ``after`` are the functions after each step, ``env`` the sizes.
    """
    for step, (before, g) in zip(schedule, pairwise((f, *after)), strict=True):
        a, b = Shape.of(before), Shape.of(g)
        if not _named(step) <= a.loops.keys() | a.made.keys():
            a = Shape.of(written_out(before))
        for wrong in (*_of(step, a, b, env), *_elsewhere(step, a, b)):
            return f"after `{show_step(step)}` {wrong}"
    return ""


def _named(step: Step) -> set[str]:
    """Return the loops that a step names, and the buffer that it fills ahead."""
    buffer = {step.buffer} if isinstance(step, steps.Pipeline) else set[str]()
    return {*getattr(step, "loops", ()), getattr(step, "loop", "")} - {""} | buffer


def _of(step: Step, a: Shape, b: Shape, env: Mapping[str, int]) -> Iterator[str]:
    """Yield what is wrong with what a step names."""
    match step:
        case steps.Split():
            yield from _split(step, a, b, env)
        case steps.Fuse(loops, into):
            yield from _gone(b, [n for n in loops if n != into])
            counts = [n for x in loops if (n := _count(a.loops[x].extent, env)) is not None]
            count = math.prod(counts) if len(counts) == len(loops) else None
            yield from _has(b, into, _parallel(a, loops), count, env)
        case steps.Join(loops):
            yield from _gone(b, loops[1:])
            yield from _has(b, loops[0], None, _count(a.loops[loops[0]].extent, env), env)
        case steps.Reorder(loops):
            yield from _nested(b, loops)
        case steps.Tile(loops, factors, into):
            yield from _gone(b, [n for n in loops if n not in into])
            yield from _nested(b, into)
            for name, factor in zip(into[2:], factors, strict=True):
                yield from _has(b, name, None, factor, env)
        case steps.Unroll(loop):
            yield from _has(b, loop, LoopKind.UNROLLED, None, env)
        case steps.Vectorize(loop):
            yield from _has(b, loop, LoopKind.VECTORIZED, None, env)
        case steps.Parallel(loop):
            yield from _has(b, loop, LoopKind.PARALLEL, None, env)
        case steps.Bind(loop, axis):
            yield from _has(b, loop, LoopKind.BOUND, None, env)
            if loop in b.loops and b.loops[loop].axis != axis:
                yield f"{loop} is bound to {b.loops[loop].axis}"
        case steps.Tensorize(loop, function):
            yield from _gone(b, [loop])
            if b.calls.count(function) != a.calls.count(function) + 1:
                yield f"{b.calls.count(function)} calls of {function} stand there"
        case steps.Vectors(loop):
            yield from _gone(b, [loop])
        case steps.Blockize():
            if not b.blocks:
                yield "no block stands there"
        case _:
            yield from _of_buffers(step, a, b, env)


def _of_buffers(step: Step, a: Shape, b: Shape, env: Mapping[str, int]) -> Iterator[str]:
    match step:
        case steps.Inline(name):
            if name in b.lets or name in b.made:
                yield f"{name} stands there"
        case steps.Stage(buffer, loop, memory, into):
            yield from _made(b, into, scope=SCOPES[memory])
            if into in b.made and (loop in b.made[into].around) != (memory is Memory.REGISTERS):
                yield f"{into} is made in {b.made[into].around}"
            itself = [
                around
                for name, _, around in b.touched
                if name == buffer and loop in around and not _copies(into, around)
            ]
            if len(itself) > COPIES:
                yield f"{loop} touches {buffer} itself"
        case steps.ComputeAt(buffer, loop):
            yield from _made(b, buffer)
            if buffer in b.made and loop not in b.made[buffer].around:
                yield f"{buffer} is made outside of {loop}"
        case steps.Rfactor(_, loop, into):
            yield from _made(b, into, shape=(_count(a.loops[loop].extent, env),))
            yield from _has(b, f"{into}_fold", None, None, env)
        case steps.ReduceAcross():
            yield from _across(step, a, b, env)
        case steps.Swizzle(buffer):
            last = [index[-1] for name, index, _ in b.touched if name == buffer]
            if not all(isinstance(e, Binary) and e.op == "xor" for e in last):
                yield f"an element of {buffer} is not permuted"
        case steps.Pipeline(loop, buffer, depth):
            shape = (depth, *a.made[buffer].buffer.shape)
            yield from _made(b, buffer, shape=shape)
            yield from _has(b, f"{loop}_ahead", None, depth - 1, env)
            if buffer in b.made and loop in b.made[buffer].around:
                yield f"{buffer} is made in {loop}"
        case _:
            pass


def _split(step: steps.Split, a: Shape, b: Shape, env: Mapping[str, int]) -> Iterator[str]:
    old, (outer, inner) = a.loops[step.loop], step.into
    yield from _gone(b, [n for n in [step.loop] if n not in step.into])
    yield from _has(b, inner, old.kind, step.factor, env)
    count, rounds = _count(old.extent, env), None
    peeled = step.tail is steps.Tail.PEELED
    if count is not None:
        rounds = count // step.factor if peeled else -(-count // step.factor)
    yield from _has(b, outer, old.kind, rounds, env)
    yield from _nested(b, step.into)
    if peeled and count is not None and count % step.factor:
        rest = [n for n in b.loops.keys() - a.loops.keys() if n.startswith(f"{step.loop}_tail")]
        if not rest:
            yield f"no loop has the rest of {step.loop}"
        for name in rest:
            yield from _has(b, name, old.kind, count % step.factor, env)


def _across(step: steps.ReduceAcross, a: Shape, b: Shape, env: Mapping[str, int]) -> Iterator[str]:
    yield from _has(b, step.loop, LoopKind.BOUND, None, {})
    if step.loop not in b.loops:
        return
    axis, is_one = b.loops[step.loop].axis, _count(b.loops[step.loop].extent, env) == 1
    match step.by:
        case Across.SHUFFLE:  # of which one lane alone has nobody to ask
            right = axis == "threadIdx.x" and (is_one or b.exchanges > a.exchanges)
        case Across.SHARED:
            right = axis.startswith("thread")
            yield from _made(b, step.into, scope=Scope.SHARED)
        case Across.CLUSTER:
            right = axis == RANK
            yield from _made(b, step.into, scope=Scope.CLUSTER)
        case Across.GRID:
            right = axis.startswith("block") and f"{step.into}_fold" in b.loops
            yield from _made(b, step.into)
    if not right:
        yield f"{step.loop} is bound to {axis}"


def _elsewhere(step: Step, a: Shape, b: Shape) -> Iterator[str]:
    """Yield loops of other names that are gone, or of another kind."""
    if isinstance(step, REMAKE):
        return
    for name in a.loops.keys() - _named(step):
        if name not in b.loops:
            yield f"{name} is gone"
        elif isinstance(step, MOVES) and b.loops[name].kind is LoopKind.SERIAL:
            pass  # one that came to stand around another may have to run in order
        elif (a.loops[name].kind, a.loops[name].axis) != (b.loops[name].kind, b.loops[name].axis):
            yield f"{name} is {b.loops[name].kind}, and was {a.loops[name].kind}"


def _copies(into: str, around: Sequence[str]) -> bool:
    return any(n.startswith(f"{into}_") for n in around)


def _gone(b: Shape, names: Sequence[str]) -> Iterator[str]:
    yield from (f"{n} is still there" for n in names if n in b.loops)


def _nested(b: Shape, names: Sequence[str]) -> Iterator[str]:
    for outer, inner in pairwise(names):
        if inner not in b.loops or outer not in b.loops[inner].around:
            yield f"{inner} is not in {outer}"


def _has(
    b: Shape, name: str, kind: LoopKind | None, count: int | None, env: Mapping[str, int]
) -> Iterator[str]:
    """Yield why there is no loop of a name with a kind and so many iterations, if known."""
    if name not in b.loops:
        yield f"there is no loop {name}"
        return
    found = b.loops[name]
    if kind is not None and found.kind is not kind:
        yield f"{name} is {found.kind} and not {kind}"
    now = _count(found.extent, env)
    if count is not None and now is not None and now != count:
        yield f"{name} has {now} iterations and not {count}"


def _made(
    b: Shape, name: str, shape: tuple[object, ...] | None = None, scope: Scope | None = None
) -> Iterator[str]:
    if name not in b.made:
        yield f"there is no buffer {name}"
        return
    found = b.made[name].buffer
    if shape is not None and None not in shape and tuple(found.shape) != shape:
        yield f"{name} has shape {found.shape} and not {shape}"
    if scope is not None and found.scope is not scope:
        yield f"{name} is {found.scope}"


def _parallel(a: Shape, names: Sequence[str]) -> LoopKind:
    every = {a.loops[n].kind for n in names}
    return LoopKind.PARALLEL if every == {LoopKind.PARALLEL} else LoopKind.SERIAL


def _count(extent: Expr, env: Mapping[str, int]) -> int | None:
    """Return the iterations of a loop; None where they depend on more than sizes."""
    try:
        return max(0, evaluate(extent, env))
    except (DidymaError, KeyError, TypeError, ValueError):
        return None
