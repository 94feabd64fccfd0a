"""Expressions of loop programs on lanes: from trees to closures.

What does not depend on loads, serial loops or masks met at run time is evaluated while the closure
is made, so that a serial loop repeats only what it must.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

import numpy as np

from didyma.refimpl.interp import scalar
from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.lanes.buffers import Dense, Local, Memory, row_major
from didyma.refimpl.interp.lanes.code import (
    Code,
    Eval,
    apply,
    apply1,
    apply2,
    index_interval,
    known,
    remembering,
)
from didyma.refimpl.interp.lanes.races import Lanes, Mask
from didyma.refimpl.interp.lanes.windows import LaneVar, window
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir.loop import (
    INDEX,
    Binary,
    Block,
    Cast,
    Compare,
    Const,
    Expr,
    Intrinsic,
    LetExpr,
    Load,
    Select,
    Stmt,
    Unary,
    Var,
)
from didyma.refimpl.ir.types import Array

Static: TypeAlias = Array | bool | None  # the mask as known beforehand; None: all, False: unknown


MANY_LANES = 1 << 13  # from here on a value is worth keeping until a variable changes


class NeedsMemory(Exception):
    """A local buffer is shared by lanes, or indexed by them: it cannot be a row of registers."""

    def __init__(self, buffer: Local) -> None:
        self.buffer = buffer
        super().__init__(buffer.name)


@dataclass(frozen=True, slots=True)
class Frame:
    """What names mean in one function, while one call of it is made ready.

    ``env`` has the values of variables that change while running.
    """

    vars: dict[str, Code] = field(default_factory=dict[str, Code])
    lane_vars: dict[str, LaneVar] = field(default_factory=dict[str, LaneVar])
    memory: dict[str, Memory] = field(default_factory=dict[str, Memory])
    env: dict[str, Value] = field(default_factory=dict[str, Value])


def both(mask: Mask, cond: Array) -> Array:
    """Lanes that are active and for which ``cond`` holds."""
    return cond if mask is None else mask & cond


def but(mask: Mask, cond: Array) -> Array:
    """Lanes that are active and for which ``cond`` does not hold."""
    return ~cond if mask is None else mask & ~cond


class ExprCompiler:
    """Makes closures of expressions; one object serves one run of one function."""

    def __init__(self, dims: Mapping[str, int], depth: int) -> None:
        self.lanes = Lanes(depth)
        self.total = depth
        self.depth: int = 0  # enclosing lane loops of the place being compiled
        self.mask: Static = None
        self.frame: Frame = Frame({n: known(np.int64(v), (v, v)) for n, v in dims.items()})
        self.stmt: Stmt = Block(())
        self.clock = [0]  # ticks when a variable of ``env`` changes
        self.seen: dict[int, Code] = {}  # pure subexpressions of the statement, by identity

    def expr(self, e: Expr) -> Code:
        """Make an expression ready; one that stands in a statement twice is made once."""
        code = self.seen.get(id(e))
        if code is None:
            code = self._expr(e)
            if not code.loads:
                if not (code.known or code.uniform) and math.prod(self.lanes.shape) >= MANY_LANES:
                    code = remembering(code, self.clock)
                self.seen[id(e)] = code
        return code

    def _expr(self, e: Expr) -> Code:
        match e:
            case Var(name):
                return self.frame.vars[name]
            case Binary(op, a, b):
                x, y = self.expr(a), self.expr(b)
                dtype = a.dtype
                within = index_interval(op, x.interval, y.interval) if dtype == INDEX else None
                return apply2(scalar.binary_fn(op, dtype), x, y, within)
            case Const(value, dtype):
                literal = scalar.constant(value, dtype)
                return known(literal, (int(value), int(value)) if dtype == INDEX else None)
            case Load():
                return self.load(e)
            case Cast(arg, dtype):
                return apply1(scalar.cast_fn(arg.dtype, dtype), self.expr(arg))
            case Compare(op, a, b):
                return apply2(scalar.compare_fn(op), self.expr(a), self.expr(b))
            case Unary(op, arg):
                return apply1(scalar.unary_fn(op, arg.dtype), self.expr(arg))
            case Intrinsic(name, args):
                f = scalar.intrinsic_fn(name, args[0].dtype)
                return apply(f, tuple(self.expr(a) for a in args))
            case Select():
                return self.select(e)
            case LetExpr(var, value, body):
                return self.let(var, value, body)
            case _:
                assert_never(e)

    def bind(self, name: str, code: Code) -> bool:
        """Bind a variable; tell whether its value must be set in ``env`` while running."""
        self.frame.lane_vars.pop(name, None)
        if code.known:
            many = not code.uniform and code.value.size >= MANY_LANES
            self.frame.vars[name] = known(squeezed(code.value), code.interval) if many else code
            return False
        env = self.frame.env

        def run(mask: Mask) -> Value:
            del mask
            return env[name]

        self.frame.vars[name] = Code(run, code.uniform, False, code.interval)
        return True

    def let(self, var: Var, value: Expr, body: Expr) -> Code:
        """Code of a let expression."""
        bound = self.expr(value)
        if not self.bind(var.name, bound):
            return self.expr(body)
        inner, env, name, get = self.expr(body), self.frame.env, var.name, bound.run
        then, clock = inner.run, self.clock

        def run(mask: Mask) -> Value:
            env[name] = get(mask)
            clock[0] += 1
            return then(mask)

        return Code(run, inner.uniform, inner.loads or bound.loads, inner.interval)

    def select(self, e: Select) -> Code:
        """Code of a selection; a side that may fault sees only the lanes that chose it."""
        cond = self.expr(e.cond)
        if cond.known and cond.uniform:
            return self.expr(e.then if cond.value else e.other)
        outer = self.mask
        if cond.known and outer is not False:
            assert not isinstance(outer, bool)
            return self._static_select(e, cond.value, outer)
        self.mask = False
        then, other = self.expr(e.then), self.expr(e.other)
        self.mask = outer
        if not (then.loads or other.loads):
            return apply(scalar.where, (cond, then, other))
        choose, a, b = cond.run, then.run, other.run

        def run(mask: Mask) -> Value:
            chosen = choose(mask)
            if chosen.ndim == 0:
                return a(mask) if chosen else b(mask)
            yes = both(mask, chosen)
            if not yes.any():
                return b(mask)
            no = but(mask, chosen)
            if not no.any():
                return a(mask)
            return scalar.where(chosen, a(yes), b(no))

        return Code(run, cond.uniform and then.uniform and other.uniform, True)

    def _static_select(self, e: Select, cond: Array, outer: Mask) -> Code:
        yes, no = both(outer, cond), but(outer, cond)
        if not no.any():
            return self.expr(e.then)
        if not yes.any():
            return self.expr(e.other)
        self.mask = yes
        then = self.expr(e.then)
        self.mask = no
        other = self.expr(e.other)
        self.mask = outer
        a, b = then.run, other.run

        def run(mask: Mask) -> Value:
            del mask
            return scalar.where(cond, a(yes), b(no))

        if then.known and other.known:
            return known(run(None))
        return Code(run, False, then.loads or other.loads)

    def load(self, e: Load) -> Code:
        """Code of a load."""
        buffer, stmt = self.frame.memory[e.buffer], self.stmt
        if isinstance(buffer, Local):
            return self._load_local(e, buffer)
        buffer.loaded = True
        lanes = self.lanes
        if not buffer.writers and buffer.init is None:
            seen = window(e.index, buffer.shape, self.total, self.frame.lane_vars, self.expr)
            if seen is not None:
                grid, offset = buffer.grid, self.address_later(buffer, e.index)

                def run_window(mask: Mask) -> Value:
                    value = seen.view(grid, mask)
                    return buffer.load(offset(mask), lanes, mask, stmt) if value is None else value

                return Code(run_window, not seen.axes, True)
        at = self.address(buffer, e.index)
        offsets = at.run

        def run(mask: Mask) -> Value:
            return buffer.load(offsets(mask), lanes, mask, stmt)

        return Code(run, at.uniform, True)

    def _load_local(self, e: Load, buffer: Local) -> Code:
        at, stmt = self.row(buffer, e.index), self.stmt
        if at.known:
            row = int(at.value)

            def run_known(mask: Mask) -> Value:
                return buffer.load(row, mask, stmt)

            return Code(run_known, buffer.depth == 0, True)
        offset = at.run

        def run(mask: Mask) -> Value:
            return buffer.load(int(offset(mask)), mask, stmt)

        return Code(run, buffer.depth == 0, True)

    def row(self, buffer: Local, index: tuple[Expr, ...]) -> Code:
        """Offset in a local buffer; NeedsMemory if it is not one for all lanes."""
        if buffer.depth != self.depth:
            raise NeedsMemory(buffer)
        parts = [self.expr(i) for i in index]
        if not all(p.uniform for p in parts):
            raise NeedsMemory(buffer)
        return self._offset(buffer.name, buffer.shape, parts)

    def address(self, buffer: Dense, index: tuple[Expr, ...]) -> Code:
        """Flat offset of an index, bounds checked; lanes that are off get one inside."""
        parts = [self.expr(i) for i in index]
        at = self._offset(buffer.name, buffer.shape, parts)
        if buffer.prefix == 0:
            return at
        if buffer.base is not None:
            return apply2(np.add, known(buffer.base), at)

        def base(mask: Mask) -> Value:
            del mask
            return buffer.copies(self.lanes)

        return apply2(np.add, Code(base, False), at)

    def _offset(self, name: str, shape: tuple[int, ...], parts: list[Code]) -> Code:
        strides, stmt = row_major(shape), self.stmt
        static = self.mask
        fixed: Value = np.int64(0)
        scalars: list[tuple[Code, int, int]] = []
        arrays: list[tuple[Code, np.int64, int, bool]] = []
        for axis, (p, size, stride) in enumerate(zip(parts, shape, strides, strict=True)):
            safe = p.interval is not None and p.interval[0] >= 0 and p.interval[1] < size
            if p.known and not safe and static is not False:
                assert not isinstance(static, bool)
                checked = within(p.value, size, static)
                if checked is None:
                    return _failing(self._oob(name, axis, size, p.value, static))
                p, safe = known(checked), True
            if p.known and safe:
                fixed = fixed + p.value * np.int64(stride)
            elif p.uniform:
                scalars.append((p, stride, axis))
            else:
                arrays.append((p, np.int64(stride), axis, safe))
        if not scalars and not arrays:
            return known(fixed)

        def run(mask: Mask) -> Value:
            shift = 0
            for p, step, axis in scalars:
                k = int(p.run(mask))
                if not 0 <= k < shape[axis]:
                    raise _bounds(stmt, name, axis, shape[axis], np.int64(k), mask)
                shift += k * step
            at = fixed if shift == 0 else fixed + np.int64(shift)
            for p, stride, axis, safe in arrays:
                i = p.run(mask)
                if not safe:
                    i = within(i, shape[axis], mask)
                    if i is None:
                        raise _bounds(stmt, name, axis, shape[axis], p.run(mask), mask)
                at = at + (i if stride == 1 else i * stride)
            return at

        return Code(run, fixed.ndim == 0 and not arrays, True)

    def _oob(self, name: str, axis: int, size: int, value: Value, mask: Mask) -> Eval:
        stmt = self.stmt

        def run(now: Mask) -> Value:
            del now
            raise _bounds(stmt, name, axis, size, value, mask)

        return run

    def address_later(self, buffer: Dense, index: tuple[Expr, ...]) -> Eval:
        """Address made when it is first needed: where a window turns out not to be one."""
        place = self.depth, self.mask, self.stmt, self.frame
        found: list[Eval] = []

        def run(mask: Mask) -> Value:
            if not found:
                saved = self.depth, self.mask, self.stmt, self.frame
                self.depth, self.mask, self.stmt, self.frame = place
                self.seen.clear()
                found.append(self.address(buffer, index).run)
                self.depth, self.mask, self.stmt, self.frame = saved
            return found[0](mask)

        return run


def squeezed(value: Array) -> Array:
    """Drop the axes along which a value is constant, as a column is along a grid of whole rows.

    >>> squeezed(np.array([[1, 2], [1, 2]]))
    array([[1, 2]])
    """
    for axis in range(value.ndim):
        first = value[(slice(None),) * axis + (slice(0, 1),)]
        if (value == first).all():
            value = first
    return value


def within(i: Value, size: int, mask: Mask) -> Value | None:
    """Return an index with the lanes that are off brought inside; None if an active one is not."""
    if i.ndim == 0:
        return i if 0 <= i < size else None
    if i.view(np.uint64).max() < size:  # a negative index is a huge one
        return i
    if mask is None:
        return None
    near = np.minimum(np.maximum(i, 0), size - 1)
    return None if ((near != i) & mask).any() else near


def _bounds(stmt: Stmt, name: str, axis: int, size: int, i: Value, mask: Mask) -> Exception:
    bad = np.asarray((i < 0) | (i >= size))
    wrong = bad if mask is None else bad & mask
    worst = int(np.broadcast_to(i, wrong.shape)[wrong].flat[0])
    return stmt_fault(
        "out-of-bounds", stmt, f"{name}, axis {axis}: index {worst} outside [0, {size})"
    )


def _failing(run: Eval) -> Code:
    return Code(run, False, True)
