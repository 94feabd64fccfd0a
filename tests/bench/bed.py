"""Correct implementations that differ, of ops on floats, written from the ops' definitions.

Nothing here is the op table's own code.  An implementation is drawn from one generator: in which
order it adds, whether it rounds a product before the sum, where in its stated last places each
intrinsic lands, and which intermediates it stores in their dtype on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import Contract

ERF = np.frompyfunc(math.erf, 1, 1)
DIGITS: Mapping[DType, int] = {DType.F64: 53, DType.F32: 24, DType.F16: 11, DType.BF16: 8}
LEAST: Mapping[DType, int] = {DType.F64: -1074, DType.F32: -149, DType.F16: -24, DType.BF16: -133}


def rsqrt(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


# Functions in the precision of their argument, which is wider than the result's.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": ERF, "rsqrt": rsqrt, "pow": np.power, "atan2": np.arctan2,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
}  # fmt: skip


def ulp(x: Array, dtype: DType) -> Array:
    """Unit in the last place of numbers of a dtype, in float64 (longdouble for f64)."""
    wide = np.abs(np.asarray(x).astype(np.longdouble if dtype is DType.F64 else np.float64))
    _, power = np.frexp(wide)
    place = np.where(wide == 0, LEAST[dtype], np.maximum(power - DIGITS[dtype], LEAST[dtype]))
    out: Array = np.ldexp(np.ones_like(wide), place)
    return out


def stored(x: Array, dtype: DType) -> Array:
    """Value as found in memory."""
    return x.astype(np.float32).astype(dtype.numpy) if dtype is not DType.F64 else x


@dataclass(slots=True)
class Implementation:
    """One correct way to run a kernel under a contract.

    ``order`` is how it adds; ``fuse`` lets products and sums round once; ``jitter`` moves
    intrinsics by as much as the contract allows; ``keep`` is the share of intermediates that are
    stored on the way.
    """

    rng: np.random.Generator
    contract: Contract
    order: str = "sequential"
    fuse: bool = False
    jitter: bool = False
    keep: float = 0.0
    made: dict[str, tuple[str, Sequence[Array]]] = field(default_factory=dict[str, Any], init=False)

    def run(
        self, nodes: Sequence[Node], inputs: Mapping[str, tuple[Array, DType]]
    ) -> dict[str, Array]:
        """Every value of a kernel, in its compute dtype."""
        found = {k: a.astype(d.compute.numpy) for k, (a, d) in inputs.items()}
        types = {k: d for k, (_, d) in inputs.items()}
        self.made.clear()
        for n in nodes:
            dtype = n.types[0].dtype
            name = n.results[0]
            args = [found[a] for a in n.args]
            out = self.node(n, args, types[n.args[0]])
            if n.op in ("multiply", "square"):
                self.made[name] = (n.op, (args[0], args[-1]))
            if self.keep and dtype.is_float and self.rng.random() < self.keep:
                out = stored(out, dtype).astype(dtype.compute.numpy)
                self.made.pop(name, None)
            found[name], types[name] = out, dtype
        return found

    def node(self, n: Node, args: Sequence[Array], dtype: DType) -> Array:
        """One op; ``dtype`` is its first operand's."""
        x, y = args[0], args[-1]
        attrs = n.attr
        if n.op in FUNCTIONS:
            return self.function(n.op, *args)
        if n.op in COMPARISONS:
            return COMPARISONS[n.op](x, y)
        if n.op in ("add", "subtract"):
            return self.add(n, x, y)
        if n.op in ("sum", "mean"):
            return self.fold(n, x)
        if n.op == "cumulative_sum":
            return self.running(x, bool(attrs["reverse"]), bool(attrs["exclusive"]))
        if n.op == "matmul":
            return self.total(x[:, :, None] * y[None], 1, (x[:, :, None], y[None]))[:, 0]
        if n.op == "cast":
            to = n.types[0].dtype
            if to is dtype:  # the same value: nothing is rounded
                return x
            return (x if to is DType.F64 else stored(x, to)).astype(to.compute.numpy)
        if n.op == "where":
            return np.where(x, args[1], y)
        return ELEMENTWISE[n.op](*args) if n.op in ELEMENTWISE else self.extreme(n, x)

    def function(self, name: str, *args: Array) -> Array:
        """A named function, rounded from a wider dtype after it was moved within its ulps."""
        x = args[0]
        f64 = x.dtype == np.float64
        wide: Any = np.longdouble if f64 and name != "erf" else np.float64
        y = np.asarray(FUNCTIONS[name](*(a.astype(wide) for a in args))).astype(wide)
        if not self.jitter:
            return y.astype(x.dtype)
        dtype = DType.F64 if f64 else DType.F32
        room = self.contract.of(name, dtype) - 0.5
        room = max(0.0, room - (1.0 if f64 and name == "erf" else 2.0**-8))
        near = np.abs(y.astype(x.dtype))
        # Above a power of two an ulp is twice that below: the smaller one is what is promised.
        place = np.minimum(ulp(near, dtype), ulp(np.nextafter(near, x.dtype.type(0)), dtype))
        far = self.rng.integers(0, 2, y.shape) * 2 - 1 if self.rng.random() < 0.3 else None
        moved = y + (self.rng.uniform(-1, 1, y.shape) if far is None else far) * room * place
        moved = np.where(np.signbit(moved) == np.signbit(y), moved, y * 0)
        return np.where(np.isfinite(near) & (y != 0), moved, y).astype(x.dtype)

    def add(self, n: Node, x: Array, y: Array) -> Array:
        sign = -1 if n.op == "subtract" else 1
        if self.fuse and self.rng.random() < 0.5:
            if n.args[0] in self.made:
                a, b = self.made[n.args[0]][1]
                return fused(a, b, sign * y)
            if n.args[1] in self.made:
                a, b = self.made[n.args[1]][1]
                return fused(sign * a, b, x)
        return np.asarray(x + y if sign > 0 else x - y)

    def fold(self, n: Node, x: Array) -> Array:
        made = self.made.get(n.args[0])
        total = self.total(x, 1, made[1] if made is not None else None)
        if n.op == "sum":
            return total
        return np.asarray(total / x.dtype.type(x.shape[1]))

    def total(self, x: Array, axis: int, factors: Sequence[Array] | None = None) -> Array:
        """Sum over an axis, kept with size 1; of products, if there are ``factors``."""
        n = x.shape[axis]
        if n == 0:
            return np.zeros_like(x, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))
        if factors is not None and self.fuse and self.order == "sequential" and n <= 64:
            a, b = (np.broadcast_to(f, x.shape) for f in factors)
            acc: Array = np.take(a, [0], axis) * np.take(b, [0], axis)
            for k in range(1, n):
                acc = fused(np.take(a, [k], axis), np.take(b, [k], axis), acc)
            return acc
        return self.added(x, axis)

    def added(self, x: Array, axis: int) -> Array:
        n = x.shape[axis]
        match self.order:
            case "sequential":
                pass
            case "reversed":
                x = np.flip(x, axis)
            case "wide":  # an accumulator of a wider dtype
                wide = np.longdouble if x.dtype == np.float64 else np.float64
                return np.add.reduce(x, axis, dtype=wide, keepdims=True).astype(x.dtype)
            case "tree":
                return tree(x, axis)
            case "shuffled tree":
                return tree(np.take(x, self.rng.permutation(n), axis), axis)
            case "lanes":  # each of some threads in strides, then a tree
                return tree(lanes(x, axis, 1 << max(0, (n - 1).bit_length() // 2)), axis)
            case _:
                x = np.take(x, self.rng.permutation(n), axis)
        return np.take(np.add.accumulate(x, axis, dtype=x.dtype), [-1], axis)

    def running(self, x: Array, reverse: bool, exclusive: bool) -> Array:
        """Sums of prefixes, each added up by itself unless the order is sequential."""
        x = np.flip(x, 1) if reverse else x
        if self.order == "sequential":
            out = np.add.accumulate(x, 1, dtype=x.dtype)
        else:
            parts = [self.added(x[:, : i + 1], 1) for i in range(x.shape[1])]
            out = np.concatenate(parts, 1) if parts else x
        if exclusive:
            out = np.concatenate([np.zeros_like(out[:, :1]), out[:, :-1]], 1)
        return np.flip(out, 1) if reverse else out

    def extreme(self, n: Node, x: Array) -> Array:
        """Folds without sums: extremes, and products in some order."""
        if n.op == "prod":
            if self.order != "sequential":
                x = np.take(x, self.rng.permutation(x.shape[1]), 1)
            return np.take(np.multiply.accumulate(x, 1, dtype=x.dtype), [-1], 1)
        best = x[:, :1]
        larger = n.op == "max"
        for k in range(1, x.shape[1]):
            best = (maximum if larger else minimum)(best, x[:, k : k + 1])
        return best


def tree(x: Array, axis: int) -> Array:
    """Neighbours added, until one is left."""
    while x.shape[axis] > 1:
        n = x.shape[axis]
        odd = np.take(x, [n - 1], axis) if n % 2 else None
        even = np.take(x, range(0, n - 1, 2), axis) + np.take(x, range(1, n, 2), axis)
        x = even if odd is None else np.concatenate([even, odd], axis)
    return x


def lanes(x: Array, axis: int, width: int) -> Array:
    """Sum of every ``width``-th term, for each of ``width`` lanes."""
    n = x.shape[axis]
    total = np.take(x, range(min(width, n)), axis)
    for at in range(width, n, width):
        more = np.take(x, range(at, min(at + width, n)), axis)
        k = more.shape[axis]
        some = np.take(total, range(k), axis) + more
        total = np.concatenate([some, np.take(total, range(k, total.shape[axis]), axis)], axis)
    return total


def fused(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` with one rounding (and one far below it)."""
    if a.dtype == np.float32:
        wide = a.astype(np.longdouble) * b + c
        return np.asarray(wide.astype(np.float32))
    p = a * b
    split = 134217729.0  # T. J. Dekker's exact product, 1971
    (ah, al), (bh, bl) = ((x * split - (x * split - x), x) for x in (a, b))
    al, bl = al - ah, bl - bh
    low = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    s = p + c  # D. E. Knuth's exact sum
    v = s - p
    rest = (p - (s - v)) + (c - v)
    wide = s.astype(np.longdouble) + (rest.astype(np.longdouble) + low)
    safe = np.isfinite(wide) & (np.abs(p) > 1e-250) & (np.abs(p) < 1e290)
    safe &= (np.abs(a) < 1e150) & (np.abs(b) < 1e150)
    return np.where(safe, wide.astype(np.float64), p + c)


def maximum(a: Array, b: Array) -> Array:
    """Larger: NaN if either is, +0 above -0."""
    out = np.where((a > b) | ((a == b) & np.signbit(b)), a, b)
    return np.where(np.isnan(a), a, out)


def minimum(a: Array, b: Array) -> Array:
    """Smaller: NaN if either is, -0 below +0."""
    out = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a), a, out)


def sign(x: Array) -> Array:
    return np.where(np.isnan(x), x, (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype))


def remainder(x: Array, y: Array) -> Array:
    """Python's ``%``: what C's ``fmod`` leaves, moved to the divisor's sign."""
    left = np.fmod(x, y)
    moved = np.where((left != 0) & ((left < 0) != (y < 0)), left + y, left)
    return np.where(left == 0, np.copysign(left, y), moved)


def floor_divide(x: Array, y: Array) -> Array:
    """Python's ``//`` of floats, as CPython has it."""
    left = np.fmod(x, y)
    q = (x - left) / y
    q = np.where((left != 0) & ((left < 0) != (y < 0)), q - 1, q)
    down = np.floor(q)
    down = np.where(q - down > 0.5, down + 1, down)
    down = np.where(q == 0, np.copysign(np.zeros_like(q), x / y), down)
    return np.where(y == 0, x / y, down).astype(x.dtype)


def halves_to_even(x: Array) -> Array:
    down = np.floor(x)
    rest = x - down
    up = (rest > 0.5) | ((rest == 0.5) & (np.fmod(down, 2) != 0))
    out = np.where(up, down + 1, down)
    return np.where(np.isfinite(x), np.copysign(out, x), x).astype(x.dtype)


def absolute(x: Array) -> Array:
    return np.where(np.signbit(x), -x, x)


def negative(x: Array) -> Array:
    return -x


def square(x: Array) -> Array:
    return x * x


def reciprocal(x: Array) -> Array:
    return np.ones_like(x) / x


def ceil(x: Array) -> Array:
    return -np.floor(-x)


def trunc(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x)), x)


def copysign(x: Array, y: Array) -> Array:
    return np.where(np.signbit(x) == np.signbit(y), x, -x)


def clip(x: Array, lo: Array, hi: Array) -> Array:
    return minimum(maximum(x, lo), hi)


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "abs": absolute, "negative": negative, "sign": sign, "square": square,
    "reciprocal": reciprocal, "sqrt": np.sqrt, "floor": np.floor, "ceil": ceil, "trunc": trunc,
    "round": halves_to_even, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": floor_divide, "remainder": remainder, "fmod": np.fmod, "copysign": copysign,
    "maximum": maximum, "minimum": minimum, "clip": clip,
}  # fmt: skip
