"""Another correct implementation: loop rules on arrays in the compute dtype, with noise.

Arithmetic is NumPy's in the native dtype.  With a generator, intrinsics are moved at random within
their stated last places, and products that feed sums are fused at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, assert_never

import numpy as np

from didyma.refimpl.ir.loop import (
    BITCASTS,
    Binary,
    Broadcast,
    Cast,
    Compare,
    Const,
    Expr,
    Intrinsic,
    LetExpr,
    Load,
    Ramp,
    Select,
    Unary,
    Var,
)
from didyma.refimpl.ir.types import Array, DType


def rsqrt(x: Array) -> Any:
    return 1 / np.sqrt(x)


INTRINSIC: dict[str, Callable[..., Any]] = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "round": np.rint,
    "rsqrt": rsqrt,
    "erf": np.frompyfunc(math.erf, 1, 1),
}
EXACT = {"sqrt", "floor", "ceil", "trunc", "round", "isnan", "isinf", "signbit", "copysign"}
COMPARE: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "floormod": np.remainder,
    "truncmod": np.fmod,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
}


def extreme(a: Array, b: Array, largest: bool) -> Array:
    out = np.maximum(a, b) if largest else np.minimum(a, b)
    if out.dtype.kind != "f":
        return out
    swap = (a == b) & (np.signbit(a) == largest)
    return np.where(a == b, np.where(swap, b, a), out)


def int_power(a: Array, b: Array) -> Array:
    modulus, most = 1 << int(np.iinfo(a.dtype).bits), int(np.iinfo(a.dtype).max)

    def one(x: int, n: int) -> int:
        if n < 0:
            return {1: 1, -1: -1 if n % 2 else 1}.get(x, 0)
        v = pow(x, n, modulus)
        return v - modulus if v > most else v

    each: Callable[..., Any] = np.frompyfunc(one, 2, 1)
    return np.asarray(each(a.astype(object), b.astype(object))).astype(a.dtype)


def to_int(x: Array, dtype: DType) -> Array:
    info = np.iinfo(dtype.numpy)

    def one(v: float) -> int:
        if math.isnan(v):
            return 0
        if math.isinf(v):
            return int(info.max if v > 0 else info.min)
        return max(int(info.min), min(int(info.max), int(v)))

    each: Callable[..., Any] = np.frompyfunc(one, 1, 1)
    return np.asarray(each(x.astype(np.float64))).astype(dtype.numpy)


class Machine:
    """Evaluates a loop expression over whole arrays; ``Load`` names operands by number."""

    def __init__(
        self, args: Sequence[Array], rng: np.random.Generator | None = None, ulp: float = 3.0
    ) -> None:
        self.args = args
        self.rng = rng
        self.ulp = ulp
        self.bound: dict[str, Any] = {}
        self.known: dict[int, Any] = {}  # by identity: a value is computed once

    def noisy(self, y: Array) -> Array:
        """Move a result of an intrinsic by less than its stated last places."""
        if self.rng is None or y.dtype.kind != "f":
            return y
        steps = self.rng.integers(-int(self.ulp), int(self.ulp) + 1, y.shape)
        moved = y + steps.astype(y.dtype) * np.spacing(np.abs(y))
        fixed = ~np.isfinite(y) | (y == 0) | (np.sign(moved) != np.sign(y))
        return np.where(fixed, y, moved).astype(y.dtype)

    def library(self, f: Callable[..., Any], *xs: Array) -> Array:
        """A function as a good library has it: rounded from f64, then moved."""
        y = np.asarray(f(*(x.astype(np.float64) for x in xs)))
        return self.noisy(y.astype(xs[0].dtype))

    def fused(self, e: Binary) -> Array | None:
        """``a * b + c`` rounded once, in f32."""
        if self.rng is None or e.dtype is not DType.F32 or self.rng.integers(2):
            return None
        sign = -1 if e.op == "sub" else 1
        for product, other, s1, s2 in ((e.lhs, e.rhs, 1, sign), (e.rhs, e.lhs, sign, 1)):
            if isinstance(product, Binary) and product.op == "mul":
                a, b, c = (self.run(x) for x in (product.lhs, product.rhs, other))
                wide = s1 * a.astype(np.longdouble) * b + s2 * c.astype(np.longdouble)
                return np.asarray(wide.astype(np.float32))
        return None

    def run(self, e: Expr) -> Any:
        if id(e) not in self.known:
            self.known[id(e)] = self.compute(e)
        return self.known[id(e)]

    def compute(self, e: Expr) -> Any:
        match e:
            case Const(value, dtype):
                return np.asarray(dtype.numpy.type(value))
            case Load(name, _, _):
                return self.args[int(name)]
            case Cast(arg, dtype):
                x = self.run(arg)
                if dtype is DType.BOOL:
                    return x != 0
                wants_int = dtype.is_int and x.dtype.kind not in "iub"
                return to_int(x, dtype) if wants_int else x.astype(dtype.numpy)
            case Unary("neg", x):
                return np.negative(self.run(x))
            case Unary("abs", x):
                return np.abs(self.run(x))
            case Unary(_, x):
                return np.invert(self.run(x))
            case Binary("min" | "max", a, b):
                return extreme(self.run(a), self.run(b), e.op == "max")
            case Binary("truncdiv", a, b):
                x, y = self.run(a), self.run(b)
                q = np.floor_divide(x, y)
                return q + ((q < 0) & (q * y != x) & (y != 0)).astype(q.dtype)
            case Binary("pow", a, b):
                x, y = self.run(a), self.run(b)
                if x.dtype.kind != "f":
                    return int_power(x, y)
                return self.library(np.power, x, y)
            case Binary("atan2", a, b):
                return self.library(np.arctan2, self.run(a), self.run(b))
            case Binary(op, a, b):
                if op in ("add", "sub") and (once := self.fused(e)) is not None:
                    return once
                return BINARY[op](self.run(a), self.run(b))
            case Compare(op, a, b):
                return COMPARE[op](self.run(a), self.run(b))
            case Select(c, a, b):
                then: Array = self.run(a)
                other: Array = self.run(b)
                return np.where(self.run(c), then, other)
            case Intrinsic(name, (arg,)) if name in BITCASTS:
                return np.ascontiguousarray(self.run(arg)).view(BITCASTS[name].numpy)
            case LetExpr(var, value, body):
                self.bound[var.name] = self.run(value)
                return self.run(body)
            case Var(name):
                return self.bound[name]
            case Intrinsic(name, args):
                xs = [self.run(a) for a in args]
                f: Callable[..., Any] = INTRINSIC.get(name) or getattr(np, name)
                if name in EXACT:
                    return np.asarray(f(*xs))
                return self.library(f, *xs)
            case Ramp() | Broadcast():
                raise AssertionError("no operator is defined by vectors")
            case _:
                assert_never(e)
