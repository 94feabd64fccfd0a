"""Intrinsics: functions of floats that loops and texts call by name, one record each.

The meanings are NumPy's; the caller silences its warnings (``np.errstate(all="ignore")``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from didyma.refimpl.ir.types import DType

Value: TypeAlias = Any  # an array of lanes or a NumPy scalar: NumPy's types cannot say "either"
Fn: TypeAlias = Callable[..., Value]

ULP = 4.0  # of those that are not rounded correctly
_WIDER: Mapping[DType, np.dtype[Any]] = {
    DType.F32: np.dtype(np.float64),
    DType.F64: np.dtype(np.longdouble),
}


@dataclass(frozen=True, slots=True, eq=False)
class Intrinsic:
    """A function of floats, which texts call as ``NAME_f32`` and ``NAME_f64``, loops as ``NAME``.

    ``meaning`` computes it with NumPy, on ``operands`` arrays of one float dtype, f64 or wider; the
    reference is its result, rounded once.  If it is ``native``, it is given arrays of f32 or of f64
    and rounds as it does.  ``ulp`` is how far an implementation may be from that, in units in the
    last place.  ``text`` is its C for the preludes ``host`` and ``cuda``, in which ``T`` stands for
    f32 and f64 in turn, and ``@`` for what C adds to the name of a function of floats.  Of vectors,
    ``NAME_f32x4`` and ``NAME_f64x4`` do the same in each lane.  The result has the operands' dtype,
    or is bool (in C, b8) of a ``predicate``.
    """

    name: str
    operands: int
    meaning: Callable[..., Any]
    ulp: float
    text: Mapping[str, str] = field(default_factory=dict[str, str])
    predicate: bool = False
    native: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether every implementation must give the same bits."""
        return self.ulp <= 0.5

    def result(self, dtype: DType) -> DType:
        """Return the dtype of the result of operands of a dtype."""
        return DType.BOOL if self.predicate else dtype

    def function(self, dtype: DType) -> Fn:
        """Return what is computed of operands of f32 or f64; KeyError for another dtype."""
        wide, to = _WIDER[dtype], self.result(dtype).numpy
        if self.native:
            return self.meaning

        def apply(*args: Value) -> Value:
            found = self.meaning(*(np.asarray(a).astype(wide) for a in args))
            return np.asarray(found).astype(to)[()]

        return apply


def in_order(f: Fn) -> Fn:
    """Call a function on contiguous operands: on some machines NumPy rounds others differently."""

    def apply(*args: Value) -> Value:
        operands = np.broadcast_arrays(*args) if len(args) > 1 else args
        return f(*(np.asarray(a, order="C") for a in operands))

    return apply


def _elementwise(f: Callable[..., float], arity: int) -> Fn:
    """Make a function of Python floats one of arrays."""
    over = np.frompyfunc(f, arity, 1)

    def apply(*args: Value) -> Value:
        dtype = np.asarray(args[0]).dtype
        return np.asarray(over(*(np.asarray(a, np.float64) for a in args)), dtype)[()]

    return apply


def _rsqrt(x: Value) -> Value:
    return x.dtype.type(1) / np.sqrt(x)


def _fma_exact(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):  # a finite product is no infinity, even where a * b overflows
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:  # of two zeros IEEE addition knows the sign; a cancelled sum is +0
        return a * b + c if a == 0 or b == 0 else 0.0
    try:
        value = exact.numerator / exact.denominator  # Python rounds this division correctly
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    return math.copysign(value, 1 if exact > 0 else -1)  # the zero of an underflow keeps its sign


def _fma32(a: Value, b: Value, c: Value) -> Value:
    """Round ``a * b + c`` once: the product is exact in f64, the sum is rounded there to odd."""
    p = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    c = np.asarray(c, np.float64)
    s = np.asarray(p + c)
    t = s - p
    lost = (p - (s - t)) + (c - t)  # TwoSum: p + c = s + lost exactly
    bits = s.view(np.int64)
    even = (bits & 1 == 0) & np.isfinite(s) & (lost != 0) & (s != 0)
    step = np.where((lost > 0) == (s > 0), 1, -1)
    odd = np.where(even, bits + step, bits).view(np.float64)
    return odd.astype(np.float32)[()]


_fma64 = _elementwise(_fma_exact, 3)


def _fma(a: Value, b: Value, c: Value) -> Value:
    return (_fma32 if a.dtype == np.float32 else _fma64)(a, b, c)


def _unary(ulp: float, predicate: bool = False, **meanings: Fn) -> Iterator[Intrinsic]:
    for name, f in meanings.items():
        yield Intrinsic(name, 1, in_order(f), ulp, predicate=predicate, native=True)


_OWN = (
    *_unary(ULP, exp=np.exp, exp2=np.exp2, expm1=np.expm1),
    *_unary(ULP, log=np.log, log2=np.log2, log10=np.log10, log1p=np.log1p),
    *_unary(0.5, sqrt=np.sqrt),
    *_unary(ULP, rsqrt=_rsqrt, sin=np.sin, cos=np.cos, tan=np.tan),
    *_unary(ULP, asin=np.arcsin, acos=np.arccos, atan=np.arctan),
    *_unary(ULP, sinh=np.sinh, cosh=np.cosh, tanh=np.tanh),
    *_unary(ULP, asinh=np.arcsinh, acosh=np.arccosh, atanh=np.arctanh),
    *_unary(ULP, erf=_elementwise(math.erf, 1)),
    *_unary(0.0, floor=np.floor, ceil=np.ceil, trunc=np.trunc),
    *_unary(0.0, round=np.rint),  # half to even
    *_unary(0.0, predicate=True, isnan=np.isnan, isinf=np.isinf, signbit=np.signbit),
    Intrinsic("copysign", 2, in_order(np.copysign), 0.0, native=True),
    Intrinsic("fma", 3, _fma, 0.5, native=True),
)
# Didyma's own, whose C is that of the preludes.
INTRINSICS: Mapping[str, Intrinsic] = MappingProxyType({x.name: x for x in _OWN})
