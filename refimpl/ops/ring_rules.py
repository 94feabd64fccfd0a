"""What the scalar operations of loop programs mean in the ring (``ring``).

Each is keyed by its name at the loop level.  A function of payloads alone is exact whatever an
implementation rounds.  A *decision* (the larger of two, a sign, a rounding to whole numbers)
follows the IEEE values, and is the payload of what was chosen, or of the number that it yields.

| op | in the ring | identities that hold |
|---|---|---|
| add, sub, mul, neg, fma, div | those of the ring | all of rational functions |
| exp, exp2 | homomorphisms | exp(x + y) = exp(x) exp(y), exp(-x) = 1 / exp(x), exp(0) = 1 |
| | | exp2(x c) = exp(x) for ``LOG2_E``, the f32 c nearest to log2(e) |
| expm1, sinh, cosh, tanh | their definitions by exp | those that follow |
| pow | products; sqrt; exp(y log(x)) | by exponent: whole, to 1024; 0.5; any other |
| sqrt, rsqrt | a tag and its inverse | sqrt(0) = 0, sqrt(1) = 1, x rsqrt(y) = x / sqrt(y) |
| log, log2, log10, log1p | one tag | log(1) = 0, log2(2) = 1, log1p(x) = log(1 + x) |
| sin, asin, atan, asinh, atanh, erf | odd tags | f(-x) = -f(x), f(0) = 0 |
| cos, tan | even tag, sin / cos | cos(-x) = cos(x), cos(0) = 1 |
| acos, acosh, atan2 | tags | acos(1) = acosh(1) = 0 |
| abs, copysign, min, max | the operand chosen, or its negative | |
| floor, ceil, trunc, round, floordiv | the whole number that IEEE yields | |
| floormod, truncmod | x - n y, with the whole number n that IEEE yields | |

Where an operand is an infinity and IEEE yields a whole number (exp(-inf) = 0, 1 / inf = 0,
tanh(inf) = 1), the payload is that number's (``LIMITED``); unknown where it is too large a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from didyma.refimpl.ir.intrinsic import INTRINSICS
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import ring
from didyma.refimpl.ops.ring import UNKNOWN, Payload

Value: TypeAlias = Any  # an array of numbers or a NumPy scalar
OfPayload: TypeAlias = Callable[[Payload], Payload]

MOST = 1024  # the largest size of an exponent that is a number of factors


def _at(argument: int, result: int, f: OfPayload) -> OfPayload:
    """Return a function with one more value fixed."""
    where, there = ring.fraction(argument), ring.fraction(result)

    def run(p: Payload) -> Payload:
        return ring.where(p == where, there, f(p))

    return run


LOG2_E = np.float32(1.4426950408889634)
_LN2 = ring.fraction(*reversed(float(LOG2_E).as_integer_ratio()))  # without tables of the ring


_log = _at(1, 0, lambda p: ring.where(p == ring.fraction(2), _LN2, ring.tag("log", p)))
_sqrt = _at(0, 0, _at(1, 1, partial(ring.tag, "sqrt")))
_sin = partial(ring.odd_tag, "sin")
_cos = _at(0, 1, partial(ring.even_tag, "cos"))
_HALF = ring.fraction(1, 2)
with np.errstate(over="ignore"):
    _LN10 = _log(ring.fraction(10))


def _exp2(p: Payload) -> Payload:
    return ring.exp(ring.multiply(p, _LN2))


def _log2(p: Payload) -> Payload:
    return ring.divide(_log(p), _LN2)


def _log10(p: Payload) -> Payload:
    return ring.divide(_log(p), _LN10)


def _log1p(p: Payload) -> Payload:
    return _log(ring.add(p, ring.UNIT))


def _expm1(p: Payload) -> Payload:
    return ring.subtract(ring.exp(p), ring.UNIT)


def _rsqrt(p: Payload) -> Payload:
    return ring.reciprocal(_sqrt(p))


def _tan(p: Payload) -> Payload:
    return ring.divide(_sin(p), _cos(p))


def _sinh(p: Payload) -> Payload:
    return ring.multiply(ring.subtract(ring.exp(p), ring.exp(ring.negate(p))), _HALF)


def _cosh(p: Payload) -> Payload:
    return ring.multiply(ring.add(ring.exp(p), ring.exp(ring.negate(p))), _HALF)


def _tanh(p: Payload) -> Payload:
    square = ring.exp(ring.add(p, p))
    return ring.divide(ring.subtract(square, ring.UNIT), ring.add(square, ring.UNIT))


SMOOTH: dict[str, OfPayload] = {
    "neg": ring.negate,
    "exp": ring.exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log2": _log2,
    "log10": _log10,
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "asin": partial(ring.odd_tag, "asin"),
    "acos": _at(1, 0, partial(ring.tag, "acos")),
    "atan": partial(ring.odd_tag, "atan"),
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "asinh": partial(ring.odd_tag, "asinh"),
    "acosh": _at(1, 0, partial(ring.tag, "acosh")),
    "atanh": partial(ring.odd_tag, "atanh"),
    "erf": partial(ring.odd_tag, "erf"),
}
WHOLE = ("floor", "ceil", "trunc", "round")  # unary, to a whole number
# What may be a whole number of an infinite operand.
LIMITED = frozenset({"exp", "exp2", "expm1", "rsqrt", "tanh", "erf", "div", "pow", "atan2"})


@cache
def _small_numbers() -> tuple[Array, Array]:
    """Return the payloads of the whole numbers up to ``MOST``, sorted, and those numbers."""
    numbers = np.arange(-MOST, MOST + 1)
    payloads = ring.embed(numbers)
    order = np.argsort(payloads)
    return payloads[order], numbers[order]


def _pow(p: Payload, q: Payload) -> Payload:
    """Return powers; which rule holds is decided by the exponent's payload, so it is exact."""
    p, q = np.broadcast_arrays(p, q)
    payloads, numbers = _small_numbers()
    place: Array = np.minimum(np.searchsorted(payloads, np.asarray(q)), len(payloads) - 1)
    whole = payloads[place] == q
    found = ring.exp(ring.multiply(q, _log(p)))
    found = ring.where(q == _HALF, _sqrt(p), found)
    if not whole.any():
        return found
    return ring.where(whole, ring.power(p, np.where(whole, numbers[place], 1)), found)


BINARY: dict[str, Callable[[Payload, Payload], Payload]] = {
    "add": ring.add,
    "sub": ring.subtract,
    "mul": ring.multiply,
    "div": ring.divide,
    "pow": _pow,
    "atan2": partial(ring.tag, "atan2"),
}


def _limits(found: Payload, operands: Sequence[tuple[Payload, Value]], result: Value) -> Payload:
    """Give results of infinite operands that are whole numbers the payloads of those.

    An operand with a payload is no infinity but a number too large for its dtype, which another
    order of operations, or a routine that knows no payloads, may never meet: what it gives is
    unknown.
    """
    infinite: Value = np.False_
    large: Value = np.False_
    for p, x in operands:
        infinite = infinite | (np.isinf(x) & (p == UNKNOWN))
        large = large | (np.isinf(x) & (p != UNKNOWN))
    if not (np.any(infinite) or np.any(large)):
        return found
    exact = np.isfinite(result) & (np.rint(result) == result)
    found = ring.where(exact & infinite, ring.embed(result), found)
    return np.where(exact & large, UNKNOWN, found)


def unary(name: str, payload: Payload, value: Value, result: Value) -> Payload:
    """Return the payload of a unary operation or intrinsic on a float; KeyError if it has none.

    ``value`` is the operand and ``result`` what IEEE yields of it.
    """
    if name in WHOLE:
        return ring.embed(result)
    if name == "abs":
        return ring.where(np.signbit(value), ring.negate(payload), payload)
    found = SMOOTH[name](payload)
    return _limits(found, [(payload, value)], result) if name in LIMITED else found


def extreme(largest: bool, p: Payload, q: Payload, a: Value, b: Value) -> Payload:
    """Return the payload of the larger or smaller number; UNKNOWN of equal ones that differ in it.

    NaN compares with nothing, so that it is UNKNOWN, unless both payloads are the same.
    """
    first, second = (a > b, b > a) if largest else (a < b, b < a)
    return ring.where(first, p, np.where(second | (p == q), q, UNKNOWN))


def remainder(p: Payload, q: Payload, a: Value, b: Value, result: Value) -> Payload:
    """Return ``p - n * q`` with the whole number n = (a - result) / b; UNKNOWN of one too large."""
    n = np.rint((np.asarray(a, np.float64) - result) / b)
    exact = np.abs(n) < 2.0**50
    found = ring.subtract(p, ring.multiply(ring.embed(np.where(exact, n, 0)), q))
    found = ring.where(n == 0, p, found)  # also of an infinite divisor
    return ring.where(exact, found, UNKNOWN)


def binary(name: str, p: Payload, q: Payload, a: Value, b: Value, result: Value) -> Payload:
    """Return the payload of a binary operation on floats; KeyError if it has none.

    ``a`` and ``b`` are the operands with payloads ``p`` and ``q``, and ``result`` what IEEE yields.
    """
    match name:
        case "min" | "max":
            return extreme(name == "max", p, q, a, b)
        case "copysign":
            return ring.where(np.signbit(a) == np.signbit(b), p, ring.negate(p))
        case "floordiv":
            return ring.embed(result)
        case "floormod" | "truncmod":
            return remainder(p, q, a, b, result)
        case _:
            found = BINARY[name](p, q)
            return _limits(found, [(p, a), (q, b)], result) if name in LIMITED else found


def intrinsic(
    name: str, payloads: Sequence[Payload], values: Sequence[Value], result: Value
) -> Payload | None:
    """Return the payload of an intrinsic of any number of operands; None of one that has none.

    Predicates and the bits of a float have none; a float made of bits has that of its value.
    """
    if name == "fma":
        return ring.fma(*payloads)
    if name.startswith("as_"):
        return ring.embed(result) if DType(name.removeprefix("as_")).is_float else None
    if INTRINSICS[name].predicate:
        return None
    if len(payloads) == 2:
        return binary(name, payloads[0], payloads[1], values[0], values[1], result)
    return unary(name, payloads[0], values[0], result)


def cast(payload: Payload | None, value: Value, source: DType, target: DType) -> Payload | None:
    """Return the payload of a cast: kept between floats, the number's of an integer or bool."""
    if not target.is_float:
        return None
    return payload if source.is_float else ring.embed(value)
