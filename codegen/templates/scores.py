"""Write the scores of an attention with few operations, where they are polynomials of its product.

A modified score, such as ``(s + (j - i) / 100) / 2 + s * s / 4``, is often a polynomial of the
product of query and key, beside a multiple of an index.  Multiplied out it takes a fused
multiply-add for each power (Horner's scheme); and a thread, whose elements lie at constant
distances, converts the index of its first element alone to a float, and adds constants to it.
Products of constants are exact until they are rounded once (``exact``), so that a score is rounded
less often than by the operations that it stands for.  Two sums are not multiplied out: near 300,
the terms of ``(s - 300) * (s - 300)`` are large, and their roundings too, where the product is
small.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from typing import TypeVar

import numpy as np

from didyma.codegen.lower.affine import Affine
from didyma.codegen.templates.exact import exact
from didyma.codegen.templates.problem import Problem, Subgraph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims.polynomial import Number, plus, times
from didyma.refimpl.ir.loop import INDEX, Binary, Cast, Const, Expr, LetExpr, Unary, Var
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import map_expr, subexprs

APART = Var("the_apart", DType.F32)  # the index as a float, which the text gives
POWERS = 3  # of the product, at most
EXACT = 1 << 23  # an integer less than this, and what a tile adds to it, are floats
RANGE = (2.0**-64, 2.0**64)  # of coefficients
LEAST = 2.0**-10  # factor of an index that all else is divided by

N = TypeVar("N")
Poly = Mapping[tuple[str, ...], Number]


def shortened(p: Problem) -> tuple[Problem, dict[str, int], Fraction]:
    """Return an attention with a short ``open_score``, names that texts use, and a factor.

    The score is the factor times the value of the body.  With an index the body has an input more,
    ``the_apart``, and body ``apart`` is its value for a row and column: it grows by ``column_step``
    with the column and by ``row_step`` with the row.  Both are 0 where there is none.
    """
    body = p.bodies["open_score"]
    dot = body.inputs[3]
    known: dict[Expr, Var] = {dot: dot}
    casts = {e for e in subexprs(body.value) if _integer(e) is not None}
    steps = _steps(p, min(casts, key=str)) if len(casts) == 1 else None
    if steps is not None:
        known |= dict.fromkeys(casts, APART)
    spoils = "empty" not in p.bodies
    by = abs(Fraction((_poly(body.value, known, {}) or {}).get((APART.name,), 1)))
    value = None
    if LEAST < by < 1 / LEAST:
        value = _horner(body.value, _Scope(known, dot, spoils, by), {})
    if value is None:
        by, value = Fraction(1), _short(body.value, _Scope(known, dot, spoils), {})
    used = APART in subexprs(value)
    new = replace(body, inputs=(*body.inputs, APART) if used else body.inputs, value=value)
    bodies = {**p.bodies, "open_score": new}
    if used:
        bodies["apart"] = Subgraph(body.inputs[:3], min(casts, key=str), body.extents)
    by_column, by_row = steps if used and steps else (0, 0)
    return replace(p, bodies=bodies), {"column_step": by_column, "row_step": by_row}, by


@dataclass(frozen=True, slots=True)
class _Scope:
    """What polynomials are of, and how the expression at hand is used.

    ``known`` are the expressions that the product and the index are.  Where the expression
    ``spoils`` its row it is a score, of which NaN and infinity do so alike.  It is divided by
    ``by``.
    """

    known: Mapping[Expr, Var]
    dot: Var
    spoils: bool = False
    by: Fraction = Fraction(1)

    def inside(self) -> _Scope:
        """Return the scope of a part of the expression."""
        return _Scope(self.known, self.dot)


def _integer(e: Expr) -> Expr | None:
    """Return the index that casts make a float of, or None for another expression."""
    if e.dtype is not DType.F32:
        return None
    while isinstance(e, Cast) and e.dtype in (DType.F32, DType.I32, INDEX):
        e = e.arg
    return e if e.dtype is INDEX else None


def _steps(p: Problem, cast: Expr) -> tuple[int, int] | None:
    """Return what an index grows by with column and row; None unless it is exact as a float."""
    _, row, column = (v.name for v in p.bodies["open_score"].inputs[:3])
    index = _integer(cast)
    assert index is not None
    grows = Affine(p.loop.dims).poly(index)
    if not {*grows} <= {(), (row,), (column,)}:
        return None
    ranges = {d.name: (d.lo, d.hi) for d in p.loop.dims}
    sides = (p.operands["query"].extents[1], p.operands["key"].extents[1])
    rows, columns = (dims.bounds(p.dim(e), ranges)[1] for e in sides)
    by_row, by_column = grows.get((row,), 0), grows.get((column,), 0)
    most = abs(by_row) * rows + abs(by_column) * columns + abs(grows.get((), 0))
    return (by_column, by_row) if most < EXACT else None


def _short(e: Expr, scope: _Scope, lets: Mapping[Var, Expr]) -> Expr:
    """Return an expression with its largest polynomials written short.

    ``lets`` are variables that are bound outside, and the polynomials that they stand for.
    """
    if e.dtype is DType.F32 and (short := _horner(e, scope, lets)) is not None:
        return short
    if isinstance(e, LetExpr):
        if e.var.dtype is DType.F32 and _poly(e.value, scope.known, lets) is not None:
            body = _short(e.body, scope, {**lets, e.var: e.value})
        else:
            body = _short(e.body, scope, lets)
        if e.var not in subexprs(body):
            return body
        return LetExpr(e.var, _short(e.value, scope.inside(), lets), body)
    return map_expr(lambda x: _short(x, scope.inside(), lets), e)


def _poly(e: Expr, known: Mapping[Expr, Var], lets: Mapping[Var, Expr]) -> Poly | None:
    """Return an expression as a polynomial of the product and the index.

    None if it is not, or multiplies sums that may be much smaller than their terms: another sum, or
    one of the index and a constant, which is exact, unlike the product.
    """

    def of(x: Fraction) -> Poly:
        return {(): x} if x else {}

    def add(a: Poly, b: Poly) -> Poly:
        return plus(a, b)

    def mul(a: Poly, b: Poly) -> Poly | None:
        few, many = sorted((a, b), key=len)
        exact = {(), (APART.name,)} <= {*many} and few not in ({(): 1}, {(): -1})
        return None if len(few) > 1 or exact else times(few, many)

    named: dict[Expr, Poly] = {k: {(v.name,): Fraction(1)} for k, v in known.items()}
    return _evaluated(e, named, lets, (of, add, mul))


def _evaluated(
    e: Expr,
    known: Mapping[Expr, N],
    lets: Mapping[Var, Expr],
    by: tuple[Callable[[Fraction], N], Callable[[N, N], N], Callable[[N, N], N | None]],
) -> N | None:
    """Evaluate sums and products of what is known by functions for constants, sums and products.

    None for another expression, or where the function for products gives None.
    """
    of, add, mul = by

    def both(a: Expr, b: Expr, function: Callable[[N, N], N | None]) -> N | None:
        x, y = (_evaluated(part, known, lets, by) for part in (a, b))
        return None if x is None or y is None else function(x, y)

    def less(x: N, y: N) -> N | None:
        minus = mul(of(Fraction(-1)), y)
        return None if minus is None else add(x, minus)

    if e in known:
        return known[e]
    match e:
        case Const(value, DType.F32) if math.isfinite(value):
            return of(Fraction(value))
        case Var() if e in lets:
            return _evaluated(lets[e], known, lets, by)
        case LetExpr(var, value, body) if var.dtype is DType.F32:
            return _evaluated(body, known, {**lets, var: value}, by)
        case Binary("add", a, b):
            return both(a, b, add)
        case Binary("sub", a, b):
            return both(a, b, less)
        case Binary("mul", a, b):
            return both(a, b, mul)
        case Binary("div", a, Const(value)) if value and math.isfinite(value):
            return both(a, Const(1.0, DType.F32), lambda x, _: mul(x, of(1 / Fraction(value))))
        case Unary("neg", a):
            return both(Const(0.0, DType.F32), a, less)
        case _:
            return None


def _horner(e: Expr, scope: _Scope, lets: Mapping[Var, Expr]) -> Expr | None:
    """Return a polynomial by Horner's scheme.

    None for what is no polynomial with a power of the product, or has another value where that is
    infinite.
    """
    poly, dot = _poly(e, scope.known, lets), scope.dot
    powers = {(dot.name,) * n: n for n in range(POWERS + 1)} | {(APART.name,): -1}
    if poly is None or not {*poly} <= {*powers}:
        return None
    factors = {powers[m]: Fraction(c) / scope.by for m, c in poly.items()}
    top = max(factors, default=0)
    if top < 1 or not all(RANGE[0] < abs(c) < RANGE[1] for c in factors.values()):
        return None

    def summed(constant: Callable[[Fraction], Expr]) -> Expr:
        low = [_times(APART, factors[-1], constant)] if -1 in factors else []
        if 0 in factors:
            low = [*low, constant(factors[0])]
        value = _times(dot, factors[top], constant)
        for n in range(top - 1, 0, -1):
            if n in factors:
                value = Binary("add", value, constant(factors[n]))
            value = Binary("mul", value, dot)
        return Binary("add", value, reduce(partial(Binary, "add"), low)) if low else value

    rounded = summed(lambda c: Const(float(np.float32(float(c))), DType.F32))
    pairs = [(at(e), at(rounded)) for at in _limits(scope, lets)]
    return summed(exact) if all(repr(a) == repr(b) for a, b in pairs) else None


def _times(x: Var, factor: Fraction, constant: Callable[[Fraction], Expr]) -> Expr:
    """Return a variable times a constant."""
    return x if factor == 1 else Binary("mul", x, constant(factor))


def _limits(scope: _Scope, lets: Mapping[Var, Expr]) -> list[Callable[[Expr], float | None]]:
    """Return functions that evaluate an expression where the product is infinite."""

    def at(e: Expr, infinity: float) -> float | None:
        numbers = {k: infinity if v == scope.dot else 1.0 for k, v in scope.known.items()}
        by = (float, operator.add, operator.mul)
        found = _evaluated(e, numbers | {APART: 1.0}, lets, by)
        return math.inf if scope.spoils and found is not None and math.isnan(found) else found

    return [partial(at, infinity=x) for x in (math.inf, -math.inf)]
