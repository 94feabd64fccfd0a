"""Constants that are rounded once, and that the ring has as they were before.

A template multiplies constants together, such as the scale of an attention and the factor that
makes its exponential a power of two.  Written as one number, their product has another payload than
its factors in turn, as it is rounded.  Written as a quotient of doubles that are not rounded, which
is made an f32, it has theirs; a C compiler computes the same number of it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from didyma.codegen.emit.expressions import Expressions
from didyma.codegen.emit.lines import TextLines
from didyma.codegen.emit.names import c_names
from didyma.codegen.emit.terms import PRIMARY
from didyma.refimpl.ir.loop import Binary, Cast, Const, Expr
from didyma.refimpl.ir.types import DType

LOG2_E = Fraction(float(np.float32(1.4426950408889634)))  # as the ring has it (``ring_rules``)


def exact(value: Fraction) -> Expr:
    """Return an expression of f32 for a number: the f32 itself, if it is one.

    >>> exact(Fraction(3, 4)).value
    0.75
    >>> written(exact(Fraction(0.25) / 30)), written(exact(LOG2_E * LOG2_E))
    ('cast_f64_f32(0.125 / 15.0)', 'cast_f64_f32(2.081368925434063)')
    """
    near = float(np.float32(float(value)))
    if Fraction(near) == value:
        return Const(near, DType.F32)
    odd = value.denominator
    while odd % 2 == 0:
        odd //= 2
    number = _doubles(value * odd)
    return Cast(number if odd == 1 else Binary("div", number, _doubles(Fraction(odd))), DType.F32)


def _doubles(value: Fraction) -> Expr:
    """Return a number that is an integer times a power of two as a sum of f64.

    A cast of each, which changes nothing, keeps emission from rounding their sum and quotient.
    """
    near = float(value)
    first = Cast(Const(near, DType.F64), DType.F64)
    rest = value - Fraction(near)
    return Binary("add", first, _doubles(rest)) if rest else first


def written(e: Expr) -> str:
    """Return a constant as C text, of which operators take the whole."""
    return Expressions(c_names(), TextLines(), {}).value(e).at(PRIMARY)
