"""Transcendental functions of floats; each is an intrinsic of the loop level."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from didyma.refimpl.ir.types import FLOATS, Array, DType
from didyma.refimpl.ops import bar_math as bm
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.elementwise import OfArray, intrinsic, monotone, numbers, through_f64
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.payloads import scalar
from didyma.refimpl.ops.pointwise import ByDType, pointwise, within
from didyma.refimpl.ops.spec import Op, Work


def _math(
    name: str,
    f: OfArray,
    doc: str,
    special: str,
    case: tuple[float, float],
    domains: ByDType | None = None,
    corners: tuple[float, ...] = (),
    bar: Callable[..., Bar] | None = None,
    on: tuple[float, float] = (-np.inf, np.inf),
) -> Op:
    """Return an op that is an intrinsic of the loop level, evaluated in f64 and rounded once.

    Without a rule for its bar it is monotone on the domain ``on``, and NaN outside.
    """
    return pointwise(
        name,
        doc,
        special,
        arity=1,
        dtypes=FLOATS,
        evaluate=through_f64(f),
        bar=numbers(bar) if bar else monotone(name, f, *on),
        element=intrinsic(name),
        ring=scalar(name),
        work=Work.SLOW,
        example=example([[case[0]]], [case[1]]),
        domains=domains,
        corners=corners,
    )


_ERF = np.frompyfunc(math.erf, 1, 1)
_ERFC = np.frompyfunc(math.erfc, 1, 1)
_SERIES = 100  # terms at most: for arguments up to 3, 80 are enough


def erf(x: Array) -> Array:
    """Return the error function to about one ulp of f64, or a few ulps of longdouble."""
    if x.dtype == np.longdouble:
        return _wide_erf(x)
    return np.asarray(_ERF(x.astype(np.float64))).astype(x.dtype)


def _wide_erf(x: Array) -> Array:
    """Return the error function of longdoubles.

    Below 3 the series of positive terms, M. Abramowitz and I. A. Stegun, *Handbook of Mathematical
    Functions*, 7.1.6; above, where the complement is below 2**-15, one minus that.
    """
    size = np.abs(x)
    near = size < 3
    t = np.where(near, size, 0)
    square = t * t
    term, total = t, t
    for n in range(1, _SERIES):
        term = term * (2 * square / (2 * n + 1))
        total = total + term
        if not (term > total * 2.0**-65).any():
            break
    scale = 2 / np.sqrt(np.longdouble(4) * np.arctan(np.longdouble(1)))
    below = scale * np.exp(-square) * total
    above = 1 - np.asarray(_ERFC(size.astype(np.float64))).astype(np.longdouble)
    return np.copysign(np.where(near, below, above), x)


def _erf_bar(a: Bar, dtype: DType, contract: Contract) -> Bar:
    if dtype is DType.F64:  # the series may be off by this much of an ulp of f64
        k = contract.of("erf", dtype) + 2.0**-6
        contract = replace(contract, ulp={**contract.ulp, "erf": k, "erf_f64": k})
    return bm.monotone("erf", erf, a, dtype, contract)


ALL: tuple[Op, ...] = (
    _math(
        "exp",
        np.exp,
        "Exponential function: e to the power of x.",
        "NaN stays; exp(inf) = inf, exp(-inf) = 0. Too large results are inf.",
        (1.0, 2.7182817),
        within((-9, 10)),
        (88.0, 89.0, -103.0, -104.0, 709.0, 710.0, -746.0),
    ),
    _math(
        "exp2",
        np.exp2,
        "Two to the power of x.",
        "NaN stays; exp2(inf) = inf, exp2(-inf) = 0. Too large results are inf.",
        (3.0, 8.0),
        within((-14, 15)),
        (127.0, 128.0, -149.0, -151.0, 1023.5, 1024.0),
    ),
    _math(
        "expm1",
        np.expm1,
        "exp(x) - 1, without cancellation near zero.",
        "NaN stays; expm1(±0) = ±0, expm1(-inf) = -1, expm1(inf) = inf.",
        (1.0, 1.7182819),
        within((-9, 10)),
        (88.0, 89.0, -17.0, 1e-8),
    ),
    _math(
        "log",
        np.log,
        "Natural logarithm.",
        "NaN for numbers below zero; log(±0) = -inf, log(1) = +0, log(inf) = inf.",
        (2.0, 0.6931472),
        within((0.01, 1000)),
        on=(0.0, np.inf),
    ),
    _math(
        "log2",
        np.log2,
        "Logarithm to base 2.",
        "NaN for numbers below zero; log2(±0) = -inf, log2(1) = +0, log2(inf) = inf.",
        (8.0, 3.0),
        within((0.01, 1000)),
        on=(0.0, np.inf),
    ),
    _math(
        "log10",
        np.log10,
        "Logarithm to base 10.",
        "NaN for numbers below zero; log10(±0) = -inf, log10(1) = +0, log10(inf) = inf.",
        (100.0, 2.0),
        within((0.01, 1000)),
        on=(0.0, np.inf),
    ),
    _math(
        "log1p",
        np.log1p,
        "log(1 + x), without cancellation near zero.",
        "NaN for numbers below -1; log1p(-1) = -inf, log1p(±0) = ±0, log1p(inf) = inf.",
        (1.0, 0.6931472),
        within((-0.9, 1000)),
        (-1.0, -0.99999994, 1e-8),
        on=(-1.0, np.inf),
    ),
    _math(
        "sin",
        np.sin,
        "Sine of an angle in radians; the angle is reduced exactly, however large.",
        "NaN of NaN and infinities; sin(±0) = ±0.",
        (1.0, 0.84147096),
        within((-100, 100)),
        (3.1415927, 1e5, 1e22),
        bar=partial(bm.wave, "sin", np.sin),
    ),
    _math(
        "cos",
        np.cos,
        "Cosine of an angle in radians; the angle is reduced exactly, however large.",
        "NaN of NaN and infinities; cos(±0) = 1.",
        (1.0, 0.5403023),
        within((-100, 100)),
        (1.5707964, 1e5, 1e22),
        bar=partial(bm.wave, "cos", np.cos),
    ),
    _math(
        "tan",
        np.tan,
        "Tangent of an angle in radians; the angle is reduced exactly, however large.",
        "NaN of NaN and infinities; tan(±0) = ±0.",
        (1.0, 1.5574077),
        within((-1.5, 1.5)),
        (1.5707964, 1e5, 1e22),
        bar=bm.tangent,
    ),
    _math(
        "asin",
        np.arcsin,
        "Angle in [-pi/2, pi/2] that has the given sine.",
        "NaN outside [-1, 1]; asin(±0) = ±0.",
        (0.5, 0.5235988),
        within((-1, 1)),
        on=(-1.0, 1.0),
    ),
    _math(
        "acos",
        np.arccos,
        "Angle in [0, pi] that has the given cosine.",
        "NaN outside [-1, 1]; acos(1) = +0.",
        (0.5, 1.0471976),
        within((-1, 1)),
        on=(-1.0, 1.0),
    ),
    _math(
        "atan",
        np.arctan,
        "Angle in [-pi/2, pi/2] that has the given tangent.",
        "NaN stays; atan(±0) = ±0, atan(±inf) = ±pi/2.",
        (1.0, 0.7853982),
    ),
    _math(
        "sinh",
        np.sinh,
        "Hyperbolic sine.",
        "NaN and infinities stay; sinh(±0) = ±0.",
        (1.0, 1.1752012),
        within((-9, 10)),
        (89.0, 90.0, -89.5),
    ),
    _math(
        "cosh",
        np.cosh,
        "Hyperbolic cosine.",
        "NaN stays; cosh(±inf) = inf, cosh(±0) = 1.",
        (1.0, 1.5430807),
        within((-9, 10)),
        (89.0, 90.0, -89.5),
        bar=partial(bm.even, np.cosh, "cosh"),
    ),
    _math(
        "tanh",
        np.tanh,
        "Hyperbolic tangent.",
        "NaN stays; tanh(±0) = ±0, tanh(±inf) = ±1.",
        (1.0, 0.7615942),
    ),
    _math(
        "asinh",
        np.arcsinh,
        "Inverse hyperbolic sine.",
        "NaN and infinities stay; asinh(±0) = ±0.",
        (1.0, 0.8813736),
    ),
    _math(
        "acosh",
        np.arccosh,
        "Inverse hyperbolic cosine.",
        "NaN for numbers below 1; acosh(1) = +0, acosh(inf) = inf.",
        (2.0, 1.316958),
        within((1, 1000)),
        on=(1.0, np.inf),
    ),
    _math(
        "atanh",
        np.arctanh,
        "Inverse hyperbolic tangent.",
        "NaN outside [-1, 1]; atanh(±1) = ±inf, atanh(±0) = ±0.",
        (0.5, 0.54930615),
        within((-0.99, 0.99)),
        on=(-1.0, 1.0),
    ),
    _math(
        "erf",
        erf,
        "Error function: 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x.",
        "NaN stays; erf(±0) = ±0, erf(±inf) = ±1.",
        (1.0, 0.8427008),
        within((-4, 4)),
        bar=_erf_bar,
    ),
)
