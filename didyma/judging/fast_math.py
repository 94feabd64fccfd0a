"""How wrong the functions of ``nvcc -use_fast_math`` may be.

The numbers are those of the *CUDA C++ Programming Guide*, "Intrinsic Functions", and, for sine and
cosine outside of [-pi, pi], of the *PTX ISA*, ``sin.approx`` and ``cos.approx``.  Functions that
are computed from others have the errors that follow from these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import Bar, Looser

ULPS: Mapping[str, float] = MappingProxyType({
    "div": 2.0, "sqrt": 3.0, "rsqrt": 2.0, "exp": 3.0, "exp2": 2.0, "log": 3.0, "log2": 2.0,
    "log10": 3.0, "tan": 4.0, "pow": 4.0, "sinh": 8.0, "cosh": 8.0, "tanh": 2.0**13,
})  # fmt: skip
_ULP = 2.0**-23  # at most, relative to the number
_EXPONENT = 1.173  # ulp of exp for each unit of its argument
_WAVE = 2.0**-20.5  # in [-2 pi, 2 pi]
_FAR_WAVE = 2.0**-14.7  # in [-100 pi, 100 pi]; nothing is stated beyond
_QUOTIENT = 2.0**126  # from this divisor on a quotient may be 0
_LN2 = math.log(2.0)


def _reach(b: Bar) -> Array:
    """Return how far from zero an operand may be."""
    return np.asarray(np.abs(b.c).astype(np.float64) + b.e)


def _exponential(operands: Sequence[Bar], out: Bar) -> Array:
    """Return the error of an exponential, which is exact for infinities, as of masked scores."""
    (a,) = operands
    exact = np.isinf(a.c) & np.isfinite(a.e)
    with np.errstate(invalid="ignore"):
        e = _EXPONENT * _reach(a) * _ULP * _reach(out)
    return np.where(exact, 0.0, e)


def _wave(x: Array) -> Array:
    far = np.where(x <= 100 * np.pi, np.full(x.shape, _FAR_WAVE), np.inf)
    return np.where(x <= 2 * np.pi, np.full(x.shape, _WAVE), far)


def _sine(operands: Sequence[Bar], out: Bar) -> Array:
    del out
    return _wave(_reach(operands[0]))


def _tangent(operands: Sequence[Bar], out: Bar) -> Array:
    """Return the error of a quotient of sine and cosine."""
    e, t = _wave(_reach(operands[0])), _reach(out)
    room = 1 / np.sqrt(1 + t * t) - e  # of the cosine
    return np.where(room > 0, e * (1 + t) / room, np.inf)


def _logarithm(error: float) -> Looser:
    """Return the absolute error of a logarithm of numbers from 0.5 to 2."""

    def rule(operands: Sequence[Bar], out: Bar) -> Array:
        del out
        (a,) = operands
        return np.where((a.c + a.e >= 0.5) & (a.c - a.e <= 2), error, 0.0)

    return rule


def _power(operands: Sequence[Bar], out: Bar) -> Array:
    """Return the error of ``exp2(y * log2(x))``, which knows no negative base."""
    base, exponent = operands
    size = _reach(exponent)
    logarithm = np.abs(np.log2(np.maximum(base.c.astype(np.float64), 2.0**-149)))
    lost = size * (2.0**-22 + 2 * _ULP * logarithm) + _ULP * size * logarithm
    e = np.expm1(_LN2 * lost) * _reach(out)
    return np.where(base.c - base.e > 0, e, np.inf)


def _quotient(operands: Sequence[Bar], out: Bar) -> Array:
    return np.where(_reach(operands[1]) >= _QUOTIENT, _reach(out), 0.0)


LOOSER: Mapping[str, Looser] = MappingProxyType({
    "exp": _exponential, "sin": _sine, "cos": _sine, "tan": _tangent, "pow": _power,
    "log": _logarithm(2.0**-21.41), "log2": _logarithm(2.0**-22), "log10": _logarithm(2.0**-24),
    "divide": _quotient,
})  # fmt: skip
