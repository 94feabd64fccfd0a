"""What expressions mean at the loop level, to one thread; part of the definition in ``loop``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

import numpy as np

from didyma.refimpl.interp.loop_memory import Memory
from didyma.refimpl.interp.scalar import Arithmetic, Value
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import Array

# It gets arrays to write, arrays to read, and attributes; one that allocates returns the first.
Routine: TypeAlias = Callable[
    [Sequence[Array], Sequence[Array], Mapping[str, Attr]], Sequence[Array] | None
]


@dataclass(frozen=True, slots=True)
class Thread:
    """What names mean to one thread in the function that it runs.

    ``fold`` is that of its step, and ``lane`` the one of a vector that it computes.  ``at``
    has its index on each axis of its block, and how far that runs; ``given`` what threads gave at
    the last exchange.  ``returned`` has the number that the function returns, once it has.
    """

    arithmetic: Arithmetic
    functions: Mapping[str, ir.PrimFunc]
    externals: Mapping[str, Routine]
    vars: dict[str, Value]
    memory: Memory
    fold: ir.Fold | None = None
    lane: int = 0
    producers: Mapping[str, ir.Compute] = field(default_factory=dict[str, ir.Compute])
    at: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    given: dict[int, Value] = field(default_factory=dict[int, Value])
    returned: list[Value] = field(default_factory=list[Value])

    @property
    def number(self) -> int:
        """The number of the thread in its block: x runs fastest, then y, then z."""
        number, size = 0, 1
        for axis in ir.AXES[3:]:
            i, extent = self.at.get(axis, (0, 1))
            number, size = number + i * size, size * extent
        return number

    def bind(self, vars: Iterable[ir.Var], values: Iterable[Value]) -> None:
        """Give variables their values."""
        self.vars.update(zip((v.name for v in vars), values, strict=True))

    def fork(self, s: ir.For, i: int, extent: int) -> Thread:
        """Return the thread of one iteration, which begins with the names that this one has."""
        names = {**self.vars, s.var.name: np.int64(i)}
        at = {**self.at, s.axis: (i, extent)}
        memory = self.memory.fork()
        if s.axis == ir.RANK:  # a block of its own
            return replace(self, vars=names, memory=replace(memory, block={}), at=at, given={})
        return replace(self, vars=names, memory=memory, at=at)


def evaluate(t: Thread, e: ir.Expr, s: ir.Stmt) -> Value:
    """Return the value of an expression of statement ``s``: a NumPy scalar of its dtype."""
    match e:
        case ir.Const(value, dtype):
            return t.arithmetic.constant(value, dtype)
        case ir.Var(name):
            return t.vars[name]
        case ir.Cast(arg, dtype):
            return t.arithmetic.cast_fn(arg.dtype, dtype)(evaluate(t, arg, s))
        case ir.Binary(op, a, b):
            return t.arithmetic.binary_fn(op, a.dtype)(evaluate(t, a, s), evaluate(t, b, s))
        case ir.Compare(op, a, b):
            return t.arithmetic.compare_fn(op, a.dtype)(evaluate(t, a, s), evaluate(t, b, s))
        case ir.Unary(op, arg):
            return t.arithmetic.unary_fn(op, arg.dtype)(evaluate(t, arg, s))
        case ir.Intrinsic(name, args, own):
            f = t.arithmetic.intrinsic_fn(own or name, args[0].dtype)
            return f(*(evaluate(t, a, s) for a in args))
        case ir.Select(cond, then, other):
            return evaluate(t, then if evaluate(t, cond, s) else other, s)
        case ir.Load(name, index):
            return t.memory.load(name, element(t, name, index, s), s)
        case ir.LetExpr(var, value, body):
            t.vars[var.name] = evaluate(t, value, s)
            return evaluate(t, body, s)
        case ir.Ramp(base, stride):
            plus = t.arithmetic.binary_fn("add", ir.INDEX)
            return plus(evaluate(t, base, s), np.int64(t.lane * stride))
        case ir.Broadcast(value):
            return evaluate(t, value, s)
        case _:
            assert_never(e)


def element(t: Thread, name: str, index: Sequence[ir.Expr], s: ir.Stmt) -> tuple[int, ...]:
    """Return where an element of a buffer is; LoopFault if it is outside."""
    return t.memory.element(name, [evaluate(t, i, s) for i in index], s)
