"""Enumerate the elements of buffers that a kernel loads and stores, in every iteration.

Each loop around an access is an axis of an array, so that one array holds the element that is
touched in every iteration.  Conditions and indices that depend on data are not evaluated: the
condition counts as true, and such an index may be any element; on an axis of one element it is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir.loop import (
    INDEX,
    Allocate,
    Atomic,
    AttrStmt,
    Binary,
    Block,
    Cast,
    Chain,
    Compare,
    Const,
    Exchange,
    Expr,
    ExternalCall,
    For,
    If,
    Let,
    LetExpr,
    Load,
    LoopKind,
    PlacementAllocate,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    While,
)
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.walk import expr_children, stmt_children, stmt_exprs

Value: TypeAlias = int | Array | None  # None: it depends on data
MOST_POINTS = 1 << 20  # iterations of a nest that are looked at, or those at both ends of its loops
AGAIN = 2  # rounds of a loop whose number of rounds depends on data
SERIAL = (LoopKind.SERIAL, LoopKind.UNROLLED)


@dataclass(frozen=True, slots=True, eq=False)
class LoopAxis:
    """A loop around an access: 0, 1, … along an axis of its own, one for each iteration.

    The iterations of a serial loop come in this order, those of another in any.
    """

    rounds: Array
    serial: bool


@dataclass(frozen=True, slots=True)
class ElementAccess:
    """An access in the order of the text; ``index`` is None where it may be any element.

    ``conditions`` are those around it that could be evaluated.
    """

    position: int
    buffer: str
    writes: bool
    index: tuple[Array, ...] | None
    loops: tuple[LoopAxis, ...]
    conditions: tuple[Array, ...]


Shapes: TypeAlias = Mapping[str, Sequence[int]]  # of buffers, by name


def accesses(body: Stmt, shapes: Shapes, env: Mapping[str, int]) -> list[ElementAccess]:
    """Return the accesses to buffers of a statement without calls, at sizes ``env``."""
    nest = _measure(body, frozenset(shapes), dict(env))
    points = nest.points
    most = None if points <= MOST_POINTS else max(4, int(MOST_POINTS ** (1 / nest.depth)))
    walk = _Collector(shapes, env, nest.depth, most)
    walk.stmt(body, nest)
    return walk.found


@dataclass(frozen=True, slots=True)
class _NestSize:
    """Of a statement: the most loops around an access in it, and their most iterations.

    Both are 0 for a statement that holds no access.  ``inside`` are those of its substatements.
    """

    depth: int
    points: int
    inside: tuple[_NestSize, ...]


def _measure(s: Stmt, buffers: frozenset[str], env: dict[str, Value]) -> _NestSize:
    if isinstance(s, Let):
        env[s.var.name] = evaluate(s.value, env)
    inside = tuple(_measure(c, buffers, env) for c in stmt_children(s))
    depth = max((n.depth for n in inside), default=0)
    points = max((n.points for n in inside), default=0) or int(_touches(s, buffers))
    if points and isinstance(s, For | While):
        n = evaluate(s.extent, env) if isinstance(s, For) else None
        depth, points = depth + 1, points * (AGAIN if n is None else max(1, int(n)))
    return _NestSize(depth, points, inside)


def _touches(s: Stmt, buffers: frozenset[str]) -> bool:
    if isinstance(s, Store | Atomic) and s.buffer in buffers:
        return True
    if isinstance(s, ExternalCall):
        return not buffers.isdisjoint((*s.outputs, *s.inputs))
    return any(_loads(e, buffers) for e in stmt_exprs(s))


def _loads(e: Expr, buffers: frozenset[str]) -> bool:
    return (isinstance(e, Load) and e.buffer in buffers) or any(
        _loads(c, buffers) for c in expr_children(e)
    )


class _Collector:
    """Collects the accesses of a statement, with the loops and conditions around each."""

    def __init__(
        self, shapes: Shapes, env: Mapping[str, int], depth: int, most: int | None
    ) -> None:
        self.shapes = shapes
        self.env: dict[str, Value] = dict(env)
        self.depth = depth
        self.most = most  # iterations of each loop
        self.loops: list[LoopAxis] = []
        self.conditions: list[Array] = []
        self.found: list[ElementAccess] = []
        self.position = 0

    def access(self, buffer: str, index: Sequence[Expr] | None, *, writes: bool) -> None:
        self.position += 1
        if buffer not in self.shapes:
            return
        at = None if index is None else self.place(index, self.shapes[buffer])
        known = None
        if at is not None and all(i is not None for i in at):
            known = tuple(np.asarray(i) for i in at)
        loops, conditions = tuple(self.loops), tuple(self.conditions)
        self.found.append(ElementAccess(self.position, buffer, writes, known, loops, conditions))

    def place(self, index: Sequence[Expr], shape: Sequence[int]) -> list[Value]:
        """Return the index on each axis; one that depends on data is 0 where only 0 is inside."""
        at = (evaluate(i, self.env) for i in index)
        return [0 if i is None and n == 1 else i for i, n in zip(at, shape, strict=True)]

    def under(self, cond: Expr, run: Callable[[], None], *, holds: bool = True) -> None:
        """Collect the accesses under a condition, or with ``holds=False`` under its negation."""
        value = evaluate(cond, self.env)
        if value is None:
            run()
            return
        self.conditions.append(np.asarray(value, np.bool_) == holds)
        run()
        self.conditions.pop()

    def stmt(self, s: Stmt, nest: _NestSize) -> None:
        if not nest.points:
            return
        if not isinstance(s, While):
            for e in stmt_exprs(s):
                self.expr(e)
        match s:
            case Block(body):
                for b, inside in zip(body, nest.inside, strict=True):
                    self.stmt(b, inside)
            case For(var, extent, body, kind):
                n, serial = evaluate(extent, self.env), kind in SERIAL
                self.loop(var.name, n, serial, partial(self.stmt, body, nest.inside[0]))
            case While(cond, body):
                self.loop("", None, True, partial(self.round, cond, body, nest.inside[0]))
            case If(cond, then, other):
                self.under(cond, partial(self.stmt, then, nest.inside[0]))
                if other is not None:
                    self.under(cond, partial(self.stmt, other, nest.inside[1]), holds=False)
            case Let(var, value, body):
                self.env[var.name] = evaluate(value, self.env)
                self.stmt(body, nest.inside[0])
            case Exchange(var=var, body=body) | Chain(var=var, body=body):  # others give its value
                self.env[var.name] = None
                self.stmt(body, nest.inside[0])
            case Allocate(_, body) | PlacementAllocate(_, _, body) | AttrStmt(_, _, body):
                self.stmt(body, nest.inside[0])
            case Store(buffer, index) | Atomic(_, buffer, index):
                self.access(buffer, index, writes=True)
            case ExternalCall(_, outputs, inputs):
                for name in inputs:
                    self.access(name, None, writes=False)
                for name in outputs:
                    self.access(name, None, writes=True)
            case _:
                pass

    def loop(self, var: str, extent: Value, serial: bool, run: Callable[[], None]) -> None:
        """Collect the accesses of one round, ``run``, for every round of a loop."""
        n = AGAIN if extent is None else int(np.max(extent, initial=0))
        rounds = np.arange(n)
        if self.most is not None and n > self.most:
            half = self.most // 2
            rounds = np.concatenate([rounds[:half], rounds[-half:]])
        axis = len(self.loops)
        along = rounds.reshape([-1 if k == axis else 1 for k in range(self.depth)])
        self.env[var] = None if extent is None else along
        self.loops.append(LoopAxis(np.arange(along.size).reshape(along.shape), serial))
        varies = np.ndim(extent) > 0 if extent is not None else False
        if varies:  # another number of rounds in each outer iteration
            self.conditions.append(along < np.asarray(extent))
        run()
        if varies:
            self.conditions.pop()
        self.loops.pop()

    def round(self, cond: Expr, body: Stmt, nest: _NestSize) -> None:
        """Collect the accesses of one round of a ``while``."""
        self.expr(cond)
        self.stmt(body, nest)

    def expr(self, e: Expr) -> None:
        match e:
            case LetExpr(var, value, body):
                self.expr(value)
                self.env[var.name] = evaluate(value, self.env)
                self.expr(body)
            case Select(cond, then, other):
                self.expr(cond)
                self.under(cond, lambda: self.expr(then))
                self.under(cond, lambda: self.expr(other), holds=False)
            case _:
                for c in expr_children(e):
                    self.expr(c)
                if isinstance(e, Load):
                    self.access(e.buffer, e.index, writes=False)


def evaluate(e: Expr, env: Mapping[str, Value]) -> Value:
    """Return the value of an expression over indices; None where it depends on data."""
    match e:
        case Const(value, dtype):
            return None if dtype.is_float else int(value)
        case Var(name):
            return env.get(name)
        case Binary(op, lhs, rhs) if e.dtype in (INDEX, DType.BOOL) and op in _BINARY:
            a, b = evaluate(lhs, env), evaluate(rhs, env)
            return None if a is None or b is None else _BINARY[op](a, b)
        case Compare(op, lhs, rhs):
            a, b = evaluate(lhs, env), evaluate(rhs, env)
            return None if a is None or b is None else _COMPARE[op](a, b)
        case Unary("not", arg) if e.dtype is DType.BOOL:
            a = evaluate(arg, env)
            return None if a is None else np.logical_not(a)
        case Unary("neg", arg) if e.dtype is INDEX:
            a = evaluate(arg, env)
            return None if a is None else -a
        case Select(cond, then, other):
            c, a, b = evaluate(cond, env), evaluate(then, env), evaluate(other, env)
            return None if c is None or a is None or b is None else np.where(c, a, b)
        case Cast(arg, dtype) if dtype is INDEX and not arg.dtype.is_float:
            return evaluate(arg, env)
        case LetExpr(var, value, body):
            return evaluate(body, {**env, var.name: evaluate(value, env)})
        case _:
            return None


def _floordiv(a: int | Array, b: int | Array) -> int | Array:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    return np.where(np.equal(b, 0), 0, a // np.where(np.equal(b, 0), 1, b))


def _floormod(a: int | Array, b: int | Array) -> int | Array:
    return np.where(np.equal(b, 0), 0, a - _floordiv(a, b) * b)


_BINARY: Mapping[str, Callable[[int | Array, int | Array], int | Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": _floordiv,
    "floormod": _floormod,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
}
_COMPARE: Mapping[str, Callable[[int | Array, int | Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
