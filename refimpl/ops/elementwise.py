"""Ops of one number: sign, square and roots, rounding to whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from didyma.refimpl.ir.loop import (
    Binary,
    Compare,
    Const,
    Expr,
    Intrinsic,
    Select,
    Unary,
)
from didyma.refimpl.ir.types import FLOATS, NUMBERS, Array, DType
from didyma.refimpl.ops import bar_math as bm
from didyma.refimpl.ops.attributes import Nothing
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.payloads import of_result, scalar
from didyma.refimpl.ops.pointwise import Eval, ToBar, ToExpr, pointwise, within
from didyma.refimpl.ops.ring import UNIT
from didyma.refimpl.ops.spec import Laws, Op, Use, Work

OfArray = Callable[[Array], Array]


def numbers(on_floats: Callable[..., Bar], on_ints: Callable[..., Array] | None = None) -> ToBar:
    """Return a bar rule: ``on_floats`` of bars, dtype and contract, ``on_ints`` of exact values."""

    def run(bars: Sequence[Bar], dtype: DType, contract: Contract) -> Bar:
        if on_ints is not None and not dtype.is_float:
            return bm.integers(on_ints, bars)
        return on_floats(*bars, dtype, contract)

    return run


def unrounded(rule: Callable[..., Bar], f: Callable[..., Array]) -> ToBar:
    """Return the bar rule of a function that never rounds, by a rule of it and of bars."""

    def run(bars: Sequence[Bar], _dtype: DType, _contract: Contract) -> Bar:
        return rule(f, bars)

    return run


def monotone(name: str, f: OfArray, lo: float = -np.inf, hi: float = np.inf) -> ToBar:
    """Return the bar rule of an intrinsic that is monotone on the domain [lo, hi]."""
    return numbers(partial(bm.monotone, name, f, lo=lo, hi=hi))


def intrinsic(name: str) -> ToExpr:
    """Return the loop rule that calls the intrinsic of that name."""

    def rule(*args: Expr) -> Expr:
        return Intrinsic(name, args)

    return rule


def through_f64(f: Callable[..., Array]) -> Eval:
    """Evaluate in f64 and round once, so that a value does not depend on the CPU's f32 code."""

    def run(*args: Array) -> Array:
        dtype = args[0].dtype
        return np.asarray(f(*(a.astype(np.float64) for a in args))).astype(dtype)

    return run


def _whole(name: str, f: OfArray, doc: str, special: str, case: tuple[float, float]) -> Op:
    """Return an op that rounds to a whole number."""
    return pointwise(
        name,
        doc,
        f"NaN and infinities stay; whole numbers, -0 among them, stay. {special}",
        arity=1,
        dtypes=FLOATS,
        evaluate=f,
        bar=unrounded(bm.ends, f),
        element=intrinsic(name),
        ring=of_result,
        laws=Laws(idempotent=True),
        example=example([[case[0]]], [case[1]]),
        corners=(0.5, -0.5, 1.5, 2.5, -1.5, 8388607.5, 0.49999997),
    )


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _reciprocal_bar(a: Bar, dtype: DType, contract: Contract) -> Bar:
    top = Bar(np.ones_like(a.c), np.zeros_like(a.e))
    return bm.divide(top, a, dtype, contract)


def _square_ring(
    bars: Sequence[Bar], payloads: Sequence[Array], use: Use[Nothing], out: Bar
) -> Array:
    return scalar("mul")([bars[0]] * 2, [payloads[0]] * 2, use, out)


def _reciprocal_ring(
    bars: Sequence[Bar], payloads: Sequence[Array], use: Use[Nothing], out: Bar
) -> Array:
    top = Bar(np.ones_like(out.c), np.zeros_like(out.e))
    return scalar("div")([top, bars[0]], [np.full(out.c.shape, UNIT), payloads[0]], use, out)


def _square_rule(x: Expr) -> Expr:
    return Binary("mul", x, x)


def _reciprocal_rule(x: Expr) -> Expr:
    return Binary("div", Const(1.0, x.dtype), x)


def _reciprocal(x: Array) -> Array:
    return np.asarray(x.dtype.type(1) / x)


def _abs_rule(x: Expr) -> Expr:
    return Unary("abs", x) if x.dtype.is_signed else x


def _sign_rule(x: Expr) -> Expr:
    def number(v: int) -> Expr:
        return Const(float(v) if x.dtype.is_float else v, x.dtype)

    zero = number(0)
    rest: Expr = zero
    if x.dtype.is_float:
        rest = Select(Compare("eq", x, zero), zero, x)  # NaN stays
    if x.dtype.is_signed:
        rest = Select(Compare("lt", x, zero), number(-1), rest)
    return Select(Compare("gt", x, zero), number(1), rest)


def _sign(x: Array) -> Array:
    return np.asarray(np.sign(x) + x.dtype.type(0))  # -0 + 0 is +0


ALL: tuple[Op, ...] = (
    pointwise(
        "abs",
        "Size of a number, without its sign.",
        "NaN stays; |-0| = 0, |-inf| = inf. The least signed integer stays itself (it wraps).",
        arity=1,
        dtypes=NUMBERS,
        evaluate=np.abs,
        bar=numbers(bm.magnitude, np.abs),
        element=_abs_rule,
        ring=scalar("abs"),
        laws=Laws(idempotent=True),
        example=example([[-2.0, 3.0, -0.0]], [2.0, 3.0, 0.0]),
    ),
    pointwise(
        "negative",
        "The number with the opposite sign.",
        "NaN stays NaN; -(0) = -0. Integers wrap: the least signed integer stays itself,"
        " and unsigned x becomes 2**bits - x.",
        arity=1,
        dtypes=NUMBERS,
        evaluate=np.negative,
        bar=numbers(bm.negative, np.negative),
        element=partial(Unary, "neg"),
        ring=scalar("neg"),
        laws=Laws(involution=True),
        pending=True,
        example=example([[-2.0, 3.0, 0.0]], [2.0, -3.0, -0.0]),
    ),
    pointwise(
        "sign",
        "1 for positive numbers, -1 for negative ones, 0 for zero.",
        "NaN stays NaN; both zeros give +0.",
        arity=1,
        dtypes=NUMBERS,
        evaluate=_sign,
        bar=unrounded(bm.ends, _sign),
        element=_sign_rule,
        ring=of_result,
        laws=Laws(idempotent=True),
        example=example([[-2.5, 3.0, -0.0]], [-1.0, 1.0, 0.0]),
    ),
    pointwise(
        "square",
        "A number times itself.",
        "NaN stays; infinities give inf, zeros +0. Integers wrap.",
        arity=1,
        dtypes=NUMBERS,
        evaluate=np.square,
        bar=numbers(bm.square, np.square),
        element=_square_rule,
        ring=_square_ring,
        example=example([[-2.0, 3.0]], [4.0, 9.0]),
        domains=within((-100, 100)),
    ),
    pointwise(
        "reciprocal",
        "One divided by a number.",
        "NaN stays; 1 / ±0 = ±inf, 1 / ±inf = ±0.",
        arity=1,
        dtypes=FLOATS,
        evaluate=_reciprocal,
        bar=numbers(_reciprocal_bar),
        element=_reciprocal_rule,
        ring=_reciprocal_ring,
        work=Work.SLOW,
        example=example([[-2.0, 4.0]], [-0.5, 0.25]),
        domains=within((0.01, 100)),
    ),
    pointwise(
        "sqrt",
        "Square root, correctly rounded.",
        "NaN for numbers below zero; sqrt(-0) = -0; sqrt(inf) = inf.",
        arity=1,
        dtypes=FLOATS,
        evaluate=np.sqrt,
        bar=monotone("sqrt", np.sqrt, 0.0),
        element=intrinsic("sqrt"),
        ring=scalar("sqrt"),
        work=Work.SLOW,
        example=example([[4.0, 2.25]], [2.0, 1.5]),
        domains=within((0, 1000)),
    ),
    pointwise(
        "rsqrt",
        "One divided by the square root.",
        "NaN for numbers below zero; rsqrt(±0) = ±inf; rsqrt(inf) = 0.",
        arity=1,
        dtypes=FLOATS,
        evaluate=through_f64(_rsqrt),
        bar=monotone("rsqrt", _rsqrt, 0.0),
        element=intrinsic("rsqrt"),
        ring=scalar("rsqrt"),
        work=Work.SLOW,
        example=example([[4.0, 0.25]], [0.5, 2.0]),
        domains=within((0.01, 1000)),
    ),
    _whole("floor", np.floor, "Largest whole number not above x.", "", (-1.5, -2.0)),
    _whole(
        "ceil",
        np.ceil,
        "Smallest whole number not below x.",
        "Numbers in (-1, 0) give -0.",
        (1.5, 2.0),
    ),
    _whole(
        "trunc", np.trunc, "x without its fraction.", "Numbers in (-1, 0) give -0.", (-1.5, -1.0)
    ),
    _whole(
        "round",
        np.rint,
        "Nearest whole number; halves go to the even one.",
        "Numbers in [-0.5, 0) give -0.",
        (2.5, 2.0),
    ),
)
