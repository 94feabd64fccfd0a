"""Find the longest chain of additions in a kernel, from its loop program.

The bar of a sum depends on the longest chain of additions that a term goes through.  The judge does
not trust what an implementation states about it, but derives it.  The *depth* of a value gives, for
each source of the value, the number of additions in between: ``{"acc": 1, TERM: 3}`` is a value
that contains the content of ``acc`` after one more addition, and some operand after three.  Depths
are vectors of max-plus algebra; the body of a loop is a matrix over them, and a serial loop is its
power, found by squaring.  (F. Baccelli et al., *Synchronization and Linearity*, 1992, ch. 3.)

Depths are upper bounds.  A buffer has one depth for all its elements, conditions may go either
way, and extents that vary count with their largest value.  Adding an exact zero is no addition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel, loops
from didyma.refimpl.ir.loop import (
    AXES,
    Allocate,
    Assert,
    Atomic,
    AttrStmt,
    Barrier,
    Binary,
    Block,
    Broadcast,
    Cast,
    Chain,
    Compare,
    Const,
    Evaluate,
    Exchange,
    Expr,
    For,
    Free,
    If,
    Intrinsic,
    Let,
    LetExpr,
    Load,
    LoopKind,
    PlacementAllocate,
    Prefetch,
    Ramp,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.walk import subexprs
from didyma.refimpl.ops.bars import Contract

TERM = ""  # an operand, or any value that is no sum
WORST = "*"  # the deepest of all values stored
_TERM: Depth = {TERM: 0}
_LEAST = -(1 << 63)  # of an index

Depth: TypeAlias = dict[str, int]  # empty: an exact zero
Depths: TypeAlias = dict[str, Depth]  # of buffers and float variables; what is missing is unchanged
Interval: TypeAlias = tuple[int, int]


class _UnknownError(Exception):
    """A statement or an extent from which no chain length can be derived."""


def longest(kernels: Sequence[Kernel], env: Mapping[str, int]) -> int | None:
    """Return the longest chain of additions in kernels run in order; None if unknown.

    ``env`` binds the symbolic dims.  A kernel of text states its own chain, which is not trusted
    where it is longer than that of adding the terms up one by one, as the kernel's meaning does.
    """
    state: Depths = {WORST: {}}
    try:
        for k in kernels:
            state = _Interpreter(env).stmt(written_out(expand(loops(k))).body, state, 1)
    except _UnknownError:
        return None
    most = max(state[WORST].values(), default=0)
    stated = [k.text.chain for k in kernels if isinstance(k, ClaimedKernel)]
    if len(stated) == 1 and stated[0] is not None:
        rest = [k for k in kernels if not isinstance(k, ClaimedKernel)]  # that clear its workspace
        if longest(rest, env) == 0:
            return min(most, dims.evaluate(stated[0], env))
    return most


def rescalings(kernels: Sequence[Kernel], env: Mapping[str, int], stated: Contract) -> int:
    """Return the most roundings by which kernels correct a part of a fold; 0 if unknown.

    A correction is what a thread stores in the place of a running value: that value times another,
    or plus a product of other running values.  Each operation in it rounds once, and an intrinsic
    as often as ``stated`` says.
    """
    state: Depths = {WORST: {}}
    try:
        for k in kernels:
            state = _Corrections(env, stated).stmt(written_out(expand(loops(k))).body, state, 1)
    except _UnknownError:
        return 0
    return max(state[WORST].values(), default=0)


def with_chain(stated: Contract, most: int, rescaled: int = 0) -> Contract:
    """Return the contract with chains of at most ``most`` additions, and so many corrections."""

    def chain(n: int) -> int:
        del n
        return most

    def corrections(n: int) -> int:
        del n
        return rescaled

    return replace(stated, chain=chain, rescaled=corrections)


def _join(*many: Depth) -> Depth:
    out = dict(many[0])
    for d in many[1:]:
        for k, n in d.items():
            if n > out.get(k, -1):
                out[k] = n
    return out


def _deeper(d: Depth, n: int) -> Depth:
    return {k: m + n for k, m in d.items()}


def _added(a: Depth, b: Depth) -> Depth:
    return _deeper(_join(a, b), 1) if a and b else a or b


def _of(state: Depths, name: str) -> Depth:
    found = state.get(name)
    return {name: 0} if found is None else found


def _after(first: Depths, then: Depths) -> Depths:
    """Return the depths after two steps, one after the other."""

    def through(d: Depth) -> Depth:
        parts = [_TERM if k == TERM else _of(first, k) for k in d]
        return _join({}, *(_deeper(p, n) for p, n in zip(parts, d.values(), strict=True)))

    return {**first, **{name: through(d) for name, d in then.items()}}


def _power(step: Depths, n: int) -> Depths:
    """Return the depths after ``n`` repetitions of a step."""
    done: Depths = {}
    while n:
        if n & 1:
            done = _after(done, step)
        n >>= 1
        if n:
            step = _after(step, step)
    return done


def _either(a: Depths, b: Depths) -> Depths:
    return {name: _join(_of(a, name), _of(b, name)) for name in {*a, *b}}


class _Interpreter:
    """Computes the depths after a statement; a variable has one meaning in a kernel."""

    def __init__(self, env: Mapping[str, int]) -> None:
        self.ranges: dict[str, Interval] = {k: (n, n) for k, n in env.items()}
        self.values: dict[str, Expr] = {}  # of variables that are no floats
        self.met = False  # after an exchange between threads
        self.blocks = 1  # of a line

    def stmt(self, s: Stmt, state: Depths, times: int) -> Depths:
        """``times``: how many threads and parallel iterations run the statement at once."""
        match s:
            case Block(body):
                for b in body:
                    state = self.stmt(b, state, times)
                return state
            case For():
                return self.loop(s, state, times)
            case If(_, then, other):
                stays = state if other is None else self.stmt(other, state, times)
                return _either(self.stmt(then, state, times), stays)
            case Exchange(var, value, _, body):
                outer, self.met = self.met, True
                out = self.stmt(body, self.let(var, value, state), times)
                self.met = outer
                return out
            case Let(var, value, body):
                known = self.let(var, value, state)
                if self.met and var.dtype.is_float:  # the sum of threads may be stored as no sum
                    worst = _join(_of(known, WORST), _of(known, var.name))
                    known = {**known, WORST: worst}
                return self.stmt(body, known, times)
            case Chain():
                return self.chain(s, state, times)
            case Allocate(buffer, body) | PlacementAllocate(buffer, _, body):
                out = self.stmt(body, {**state, buffer.name: {}}, times)
                return {k: d for k, d in out.items() if k != buffer.name}
            case Store(buffer, index, value):
                d = self.depth(value, state)
                d = None if d is None else self.stored(buffer, value, d)
                return state if d is None else self.store(buffer, bool(index), d, state)
            case Atomic(op, buffer, _, value):
                d = self.depth(value, state)
                if d is None:
                    return state
                if op == "add":
                    d = _deeper(_join(d, _of(state, buffer)), self.many(times))
                return self.store(buffer, True, d, state)
            case Barrier() | Assert() | Free() | Evaluate() | Prefetch():
                return state
            case AttrStmt(body=body):
                return self.stmt(body, state, times)
            case _:
                raise _UnknownError

    def chain(self, s: Chain, state: Depths, times: int) -> Depths:
        """Fold what all blocks give, one after another."""
        d = self.both(s.start, s.value, state, _join)
        if d is not None:
            deep = _deeper(d, self.many(self.blocks) if s.op == "add" else 0)
            state = self.store(s.totals, True, deep, state)
            state = {**state, s.var.name: _of(state, s.totals)}
        return self.stmt(s.body, state, times)

    def stored(self, buffer: str, value: Expr, d: Depth) -> Depth:
        """Return the depth of what takes the place of a value."""
        del buffer, value
        return d

    def added(self, a: Depth, b: Depth) -> Depth:
        """Return the depth of a sum."""
        return _added(a, b)

    def many(self, n: int) -> int:
        """Return how far so many additions in a row deepen a value."""
        return n

    def store(self, buffer: str, one_of_many: bool, d: Depth, state: Depths) -> Depths:
        depth = _join(_of(state, buffer), d) if one_of_many else d
        return {**state, buffer: depth, WORST: _join(_of(state, WORST), d)}

    def loop(self, s: For, state: Depths, times: int) -> Depths:
        least, most = self.interval(s.extent)
        if most < 1:
            return state
        self.ranges[s.var.name] = (0, most - 1)
        if s.axis == AXES[0]:
            self.blocks = most
        self.values.pop(s.var.name, None)
        if s.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED):
            out = self.stmt(s.body, state, times * most)
        else:
            out = self.stmt(s.body, state, times)  # often adds to an exact zero
            if most > 1:
                out = _after(out, _power(self.stmt(s.body, {}, times), most - 1))
        return out if least >= 1 else _either(out, state)

    def let(self, var: Var, value: Expr, state: Depths) -> Depths:
        d = self.depth(value, state)
        if d is not None:
            return {**state, var.name: d}
        self.values[var.name] = value
        self.ranges.pop(var.name, None)  # a size outside may have the name
        return state

    def depth(self, e: Expr, state: Depths) -> Depth | None:
        """Return the depth of a float; None for integers and bools."""
        match e:
            case Const(value, dtype):
                return ({} if value == 0 else _TERM) if dtype.is_float else None
            case Var(name, dtype):
                return _of(state, name) if dtype.is_float else None
            case Load(buffer, _, dtype):
                return _of(state, buffer) if dtype.is_float else None
            case Cast(arg, dtype):
                if not dtype.is_float:
                    return None
                inner = self.depth(arg, state)
                return _TERM if inner is None else inner
            case Unary(_, arg):
                return self.depth(arg, state)
            case Compare():
                return None
            case Select(_, then, other):
                return self.both(then, other, state, _join)
            case LetExpr(var, value, body):
                return self.depth(body, self.let(var, value, state))
            case Binary("add" | "sub", a, b):
                return self.both(a, b, state, self.added)
            case Binary("mul" | "div" | "min" | "max", a, b):
                return self.both(a, b, state, _join)
            case Binary(_, a, _):
                return None if self.depth(a, state) is None else _TERM
            case Intrinsic("fma", (a, b, c)):
                product, addend = self.both(a, b, state, _join), self.depth(c, state)
                return None if product is None or addend is None else self.added(product, addend)
            case Intrinsic(_, _):
                return _TERM if e.dtype.is_float else None
            case Ramp() | Broadcast():
                raise AssertionError("stores of vectors are written out before")

    def both(
        self, a: Expr, b: Expr, state: Depths, f: Callable[[Depth, Depth], Depth]
    ) -> Depth | None:
        x = self.depth(a, state)
        y = None if x is None else self.depth(b, state)
        return None if x is None or y is None else f(x, y)

    def known(self, e: Expr) -> Interval | None:
        """Return the least and the largest value of an index; None where memory tells it."""
        try:
            return self.interval(e)
        except _UnknownError:
            return None

    def interval(self, e: Expr) -> Interval:
        """Return the least and the largest value of an index."""
        match e:
            case Const(value):
                return int(value), int(value)
            case Var(name) if name in self.ranges:
                return self.ranges[name]
            case Var(name) if name in self.values:
                return self.interval(self.values[name])
            case Binary("min", a, b):
                found = [x for x in (self.known(a), self.known(b)) if x is not None]
                if not found:
                    raise _UnknownError
                # Of a number from memory: the loop runs at most as often as the other side says.
                least = min(x[0] for x in found) if len(found) > 1 else _LEAST
                return least, min(x[1] for x in found)
            case Binary("add" | "sub" | "mul" | "max" as op, a, b):
                rule: dict[str, Callable[[int, int], int]] = {
                    "add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "max": max,
                }  # fmt: skip
                left, right = self.interval(a), self.interval(b)
                ends = [rule[op](x, y) for x in left for y in right]
                return min(ends), max(ends)
            case Binary("floordiv" | "floormod" | "shr" as op, a, Const(value)) if value > 0:
                (lo, hi), n = self.interval(a), int(value)
                if op == "floormod":
                    return (lo, hi) if 0 <= lo <= hi < n else (0, n - 1)
                n = n if op == "floordiv" else 1 << n
                return lo // n, hi // n
            case Select(_, a, b):
                (p, q), (r, t) = self.interval(a), self.interval(b)
                return min(p, r), max(q, t)
            case _:
                raise _UnknownError


class _Corrections(_Interpreter):
    """Computes the roundings of corrections alone, in place of additions."""

    def __init__(self, env: Mapping[str, int], stated: Contract) -> None:
        super().__init__(env)
        self.stated = stated

    def added(self, a: Depth, b: Depth) -> Depth:
        return _join(a, b)

    def many(self, n: int) -> int:
        del n
        return 0

    def stored(self, buffer: str, value: Expr, d: Depth) -> Depth:
        if not any(_corrects(e, buffer) for e in subexprs(value)):
            return d
        return _deeper(d, sum(map(self.roundings, subexprs(value))))

    def roundings(self, e: Expr) -> int:
        match e:
            case Binary("add" | "sub" | "mul" | "div") if e.dtype.is_float:
                return 1
            case Intrinsic(name, _) if e.dtype.is_float:
                return math.ceil(2 * self.stated.of(name, e.dtype))
            case _:
                return 0


def _corrects(e: Expr, buffer: str) -> bool:
    """Return whether an expression scales a running value, or adds a product of others to it."""
    match e:
        case Binary("mul", a, b):
            return buffer in _running(a) | _running(b)
        case Binary("add", Load(name, ()), b) if name == buffer:
            products = (x for x in subexprs(b) if isinstance(x, Binary) and x.op == "mul")
            return any(_running(x) for x in products)
        case _:
            return False


def _running(e: Expr) -> set[str]:
    """Return the buffers of one element that an expression loads."""
    return {x.buffer for x in subexprs(e) if isinstance(x, Load) and not x.index}
