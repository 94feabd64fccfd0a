"""Ops of two and three numbers: sums, products, the divisions and remainders, powers, extremes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from didyma.refimpl.ir.loop import Binary, Expr
from didyma.refimpl.ir.types import FLOATS, INTS, NUMBERS, Array, DType
from didyma.refimpl.ops import bar_math as bm
from didyma.refimpl.ops import powers
from didyma.refimpl.ops.attributes import Nothing
from didyma.refimpl.ops.bars import Bar
from didyma.refimpl.ops.elementwise import intrinsic, numbers, through_f64, unrounded
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.folds import has_negative_zero
from didyma.refimpl.ops.payloads import larger, scalar
from didyma.refimpl.ops.pointwise import pointwise, within
from didyma.refimpl.ops.spec import Domain, Domains, Laws, Neutral, Op, Use, Work


def maximum(a: Array, b: Array) -> Array:
    """Return the larger number: NaN if either is NaN, +0 of zeros of different signs."""
    r = np.maximum(a, b)
    return np.where((a == 0) & (b == 0), a + b, r) if has_negative_zero(r) else r


def minimum(a: Array, b: Array) -> Array:
    """Return the smaller number: NaN if either is NaN, -0 of zeros of different signs."""
    r = np.minimum(a, b)
    return np.where((a == 0) & (b == 0), -((-a) + (-b)), r) if r.dtype.kind == "f" else r


def clip(x: Array, lo: Array, hi: Array) -> Array:
    """Return ``minimum(maximum(x, lo), hi)``."""
    return minimum(maximum(x, lo), hi)


def truncated_quotient(a: Array, b: Array) -> Array:
    """Return the integer quotient rounded towards zero; 0 where the divisor is 0."""
    return np.asarray((a - np.fmod(a, b)) // b)


_float_power = through_f64(powers.power)


def power(a: Array, b: Array) -> Array:
    """Return the power; of integers it wraps, and a negative exponent truncates the reciprocal."""
    if a.dtype.kind == "f":
        return _float_power(a, b)
    if a.dtype.kind == "u" or not (b < 0).any():
        return np.asarray(np.power(a, b))
    zero, one = np.zeros_like(a), np.ones_like(a)
    odd: Array = np.where(b & one == one, -one, one)
    inverse: Array = np.where(a == one, one, np.where(a == -one, odd, zero))
    return np.where(b < 0, inverse, np.asarray(np.power(a, np.maximum(b, zero))))


def _clip_rule(x: Expr, lo: Expr, hi: Expr) -> Expr:
    return Binary("min", Binary("max", x, lo), hi)


def _clip_ring(
    bars: Sequence[Bar], payloads: Sequence[Array], _use: Use[Nothing], _out: Bar
) -> Array:
    (x, lo, hi), (p, q, r) = bars, payloads
    raised = larger(True, (p, q), (x, lo))
    return larger(False, (raised, r), (bm.ends(maximum, (x, lo)), hi))


def _divisors(dtype: DType) -> Domains:
    return (None, Domain(0.1, 100) if dtype.is_float else Domain(1, 100), None)


def _exponents(dtype: DType) -> Domains:
    return (Domain(0.1, 8), Domain(-4, 4)) if dtype.is_float else (None, Domain(0, 5))


_BY_ZERO = "Integers: x / 0 is 0, and the least number divided by -1 is itself (it wraps)."
_MOD_ZERO = "Integers: the remainder by 0 is 0, and so is that of the least number by -1."

ALL: tuple[Op, ...] = (
    pointwise(
        "add",
        "Sum.",
        "NaN if an operand is NaN, and of inf + -inf; -0 + -0 = -0, other zero sums are +0."
        " Integers wrap.",
        arity=2,
        dtypes=NUMBERS,
        evaluate=np.add,
        bar=numbers(bm.add, np.add),
        element=partial(Binary, "add"),
        ring=scalar("add"),
        laws=Laws(commutative=True, neutral=(Neutral(0, INTS), Neutral(-0.0, FLOATS))),
        pending=True,
        example=example([[1.0, 2.5], [0.5]], [1.5, 3.0]),
    ),
    pointwise(
        "subtract",
        "Difference.",
        "NaN if an operand is NaN, and of inf - inf; x - x = +0. Integers wrap.",
        arity=2,
        dtypes=NUMBERS,
        evaluate=np.subtract,
        bar=numbers(bm.subtract, np.subtract),
        element=partial(Binary, "sub"),
        ring=scalar("sub"),
        laws=Laws(neutral=(Neutral(0, NUMBERS, (1,)),)),
        pending=True,
        example=example([[1.0, 2.5], [0.5]], [0.5, 2.0]),
    ),
    pointwise(
        "multiply",
        "Product.",
        "NaN if an operand is NaN, and of 0 * inf; signs multiply, zeros' too. Integers wrap.",
        arity=2,
        dtypes=NUMBERS,
        evaluate=np.multiply,
        bar=numbers(bm.multiply, np.multiply),
        element=partial(Binary, "mul"),
        ring=scalar("mul"),
        laws=Laws(commutative=True, neutral=(Neutral(1, NUMBERS),)),
        example=example([[1.0, 2.5], [-2.0]], [-2.0, -5.0]),
    ),
    pointwise(
        "divide",
        "Quotient of floats, correctly rounded.",
        "NaN if an operand is NaN, and of 0 / 0 and inf / inf; x / ±0 is an infinity whose sign is"
        " the product of the signs; x / ±inf = ±0.",
        arity=2,
        dtypes=FLOATS,
        evaluate=np.divide,
        bar=numbers(bm.divide),
        element=partial(Binary, "div"),
        ring=scalar("div"),
        laws=Laws(neutral=(Neutral(1, FLOATS, (1,)),)),
        work=Work.SLOW,
        example=example([[1.0, 3.0], [-2.0]], [-0.5, -1.5]),
        domains=_divisors,
    ),
    pointwise(
        "floor_divide",
        "Quotient rounded down to a whole number.",
        f"{_BY_ZERO} Floats: the quotient of x - remainder(x, y) and y, rounded to a whole number;"
        " NaN if an operand is NaN or x is infinite; x / ±0 as divide; a zero has the sign of"
        " x / y; finite x by an infinity of the other sign gives -1.",
        arity=2,
        dtypes=NUMBERS,
        evaluate=np.floor_divide,
        bar=numbers(bm.floor_quotient, np.floor_divide),
        element=partial(Binary, "floordiv"),
        ring=scalar("floordiv"),
        laws=Laws(neutral=(Neutral(1, INTS, (1,)),)),
        work=Work.SLOW,
        example=example([[-7, 7], [2]], [-4, 3], DType.I32),
        domains=_divisors,
    ),
    pointwise(
        "trunc_divide",
        "Quotient of integers, rounded to zero as in C.",
        _BY_ZERO,
        arity=2,
        dtypes=INTS,
        evaluate=truncated_quotient,
        bar=unrounded(bm.integers, truncated_quotient),
        element=partial(Binary, "truncdiv"),
        laws=Laws(neutral=(Neutral(1, INTS, (1,)),)),
        work=Work.SLOW,
        example=example([[-7, 7], [2]], [-3, 3], DType.I32),
        domains=_divisors,
    ),
    pointwise(
        "remainder",
        "What is left of x after floor_divide, with the divisor's sign, as Python's %.",
        f"{_MOD_ZERO} Floats: NaN if an operand is NaN, x is infinite or y is zero; a zero has the"
        " sign of y; finite x by an infinity is x where signs agree or x is zero, else that"
        " infinity. Where the signs of x and y differ the result is rounded, and may be y.",
        arity=2,
        dtypes=NUMBERS,
        evaluate=np.remainder,
        bar=numbers(partial(bm.modulo, np.remainder, np.floor), np.remainder),
        element=partial(Binary, "floormod"),
        ring=scalar("floormod"),
        work=Work.SLOW,
        example=example([[-7, 7], [3]], [2, 1], DType.I32),
        domains=_divisors,
    ),
    pointwise(
        "fmod",
        "What is left of x after division rounded to zero, with the sign of x, as C's % and fmod.",
        f"{_MOD_ZERO} Floats: exact; NaN if an operand is NaN, x is infinite or y is zero; a zero"
        " has the sign of x; finite x by an infinity is x.",
        arity=2,
        dtypes=NUMBERS,
        evaluate=np.fmod,
        bar=numbers(partial(bm.modulo, np.fmod, np.trunc), np.fmod),
        element=partial(Binary, "truncmod"),
        ring=scalar("truncmod"),
        work=Work.SLOW,
        example=example([[-7, 7], [3]], [-1, 1], DType.I32),
        domains=_divisors,
    ),
    pointwise(
        "pow",
        "x to the power of y.",
        "Floats as C's pow: x**0 = 1 and 1**y = 1 even for NaN, NaN for negative x and fractional"
        " y, (-1)**±inf = 1. Integers wrap; a negative exponent gives 0, but 1 for base 1 and ±1"
        " for base -1.",
        arity=2,
        dtypes=NUMBERS,
        evaluate=power,
        bar=numbers(bm.power, power),
        element=partial(Binary, "pow"),
        ring=scalar("pow"),
        work=Work.SLOW,
        example=example([[2, 3, -1], [3, 2, -3]], [8, 9, -1], DType.I32),
        domains=_exponents,
        corners=(2.0, 3.0, 0.5, -2.0),
    ),
    pointwise(
        "atan2",
        "Angle of the point (y, x) from the positive x axis, in [-pi, pi].",
        "NaN if an operand is NaN; signs of zeros choose the side: atan2(±0, -0) = ±pi,"
        " atan2(±0, +0) = ±0; infinities as in C.",
        arity=2,
        dtypes=FLOATS,
        evaluate=through_f64(np.arctan2),
        bar=numbers(bm.angle),
        element=partial(Binary, "atan2"),
        ring=scalar("atan2"),
        work=Work.SLOW,
        example=example([[1.0, 0.0], [1.0, -1.0]], [0.7853982, 3.1415927]),
    ),
    pointwise(
        "copysign",
        "Size of x with the sign of y.",
        "The sign of zeros and infinities counts; the sign of a NaN is unspecified. NaN x stays.",
        arity=2,
        dtypes=FLOATS,
        evaluate=np.copysign,
        bar=numbers(bm.signed),
        element=intrinsic("copysign"),
        ring=scalar("copysign"),
        example=example([[2.0, -3.0], [-0.0, 1.0]], [-2.0, 3.0]),
    ),
    pointwise(
        "maximum",
        "Larger of two numbers.",
        "NaN if either is NaN; +0 of +0 and -0.",
        arity=2,
        dtypes=NUMBERS,
        evaluate=maximum,
        bar=unrounded(bm.ends, maximum),
        element=partial(Binary, "max"),
        ring=scalar("max"),
        laws=Laws(commutative=True, idempotent=True),
        example=example([[1.0, -0.0], [0.5, 0.0]], [1.0, 0.0]),
    ),
    pointwise(
        "minimum",
        "Smaller of two numbers.",
        "NaN if either is NaN; -0 of +0 and -0.",
        arity=2,
        dtypes=NUMBERS,
        evaluate=minimum,
        bar=unrounded(bm.ends, minimum),
        element=partial(Binary, "min"),
        ring=scalar("min"),
        laws=Laws(commutative=True, idempotent=True),
        example=example([[1.0, -0.0], [0.5, 0.0]], [0.5, -0.0]),
    ),
    pointwise(
        "clip",
        "x, but at least the second operand and at most the third, which wins.",
        "minimum(maximum(x, lo), hi): NaN if any is NaN; where lo > hi the result is hi.",
        arity=3,
        dtypes=NUMBERS,
        evaluate=clip,
        bar=unrounded(bm.ends, clip),
        element=_clip_rule,
        ring=_clip_ring,
        example=example([[-5, 0, 5], [-1], [2]], [-1, 0, 2], DType.I32),
        domains=within(None, (-10, 0), (0, 10)),
    ),
)
