"""Interval arithmetic on sizes whose symbols have declared ranges."""

from __future__ import annotations

import math
from typing import Any

import sympy

from didyma.refimpl.ir.dims.evaluation import FOLDS
from didyma.refimpl.ir.dims.expression import Dim, Ranges


def bounds(d: Dim, ranges: Ranges) -> tuple[int, int]:
    """Interval that contains every value of a size, for symbols within their ranges.

    >>> from didyma.refimpl.ir.dims.expression import symbol
    >>> bounds(2 * symbol("n") + 1, {"n": (1, 8)})
    (3, 17)
    """
    if isinstance(d, int):
        return d, d
    lo, hi = _interval(d, ranges)
    return int(-(-lo // 1)), int(hi // 1)  # sympy's ends are sympy's numbers


def _interval(e: Any, ranges: Ranges) -> tuple[Any, Any]:
    if isinstance(e, sympy.Symbol):
        return ranges[e.name]
    if e.is_Rational:
        return e, e
    parts = [_interval(a, ranges) for a in e.args]
    if e.func is sympy.Mul:
        lo, hi = parts[0]
        for a, b in parts[1:]:
            corners = (lo * a, lo * b, hi * a, hi * b)
            lo, hi = min(corners), max(corners)
        return lo, hi
    if e.func is sympy.Pow:
        (a, b), (k, _) = parts
        if k < 0:
            return sympy.Integer(b) ** k, sympy.Integer(max(a, 1)) ** k
        return a**k, b**k
    if e.func is sympy.Mod:
        return 0, parts[1][1] - 1
    if e.func in FOLDS:
        fold = FOLDS[e.func]
        return fold([p[0] for p in parts]), fold([p[1] for p in parts])
    whole = math.floor if e.func is sympy.floor else math.ceil
    return whole(parts[0][0]), whole(parts[0][1])
