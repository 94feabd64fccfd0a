"""Index expressions as polynomials over loop variables and dims: strides, bounds, division.

A polynomial maps a sorted tuple of variable names to an integer factor.  What is no polynomial
(a division that does not come out, a value read from memory) becomes an atom: a variable of its
own.  Loop variables run from 0 to a bound that is itself a polynomial; dims are nonnegative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.dims.polynomial import constant, is_constant, plus, times, without
from didyma.refimpl.ir.loop import Binary, Const, Expr, Var
from didyma.refimpl.ir.walk import expr_children, subexprs

Poly: TypeAlias = dict[tuple[str, ...], int]


def has_division(e: Expr) -> bool:
    """Return whether an expression divides."""
    if isinstance(e, Binary):
        return e.op in ("floordiv", "floormod") or has_division(e.lhs) or has_division(e.rhs)
    return False


def size(e: Expr) -> int:
    """Count the nodes of an expression."""
    return 1 + sum(size(c) for c in expr_children(e))


class Affine:
    """Converts the index expressions of one function to polynomials and back.

    ``bounds`` holds the largest value of each loop variable; ``lets`` what a bound variable
    stands for.  Those of the ``sizes`` that are never 0 bound the remainders of divisions by them.
    """

    def __init__(self, sizes: Iterable[DimVar] = ()) -> None:
        self._positive = frozenset(d.name for d in sizes if d.lo >= 1)
        self.bounds: dict[str, Poly] = {}
        self.lets: dict[str, Expr] = {}
        self._atoms: dict[Expr, str] = {}
        self._exprs: dict[str, Expr] = {}
        self._pairs: dict[str, tuple[str, Poly, Poly]] = {}  # remainder: quotient, divisor, of

    def loop(self, var: Var, extent: Expr) -> None:
        """Declare a loop variable."""
        self.bounds[var.name] = plus(self.poly(extent), constant(-1))

    def poly(self, e: Expr) -> Poly:
        """Return the polynomial of an index expression."""
        match e:
            case Const(value):
                return constant(int(value))
            case Var(name):
                if self.bounds.get(name) == {}:  # a loop of one iteration
                    return {}
                return self.poly(self.lets[name]) if name in self.lets else {(name,): 1}
            case Binary("add", a, b):
                return plus(self.poly(a), self.poly(b))
            case Binary("sub", a, b):
                return plus(self.poly(a), self.poly(b), -1)
            case Binary("mul", a, b):
                return times(self.poly(a), self.poly(b))
            case Binary("floordiv", a, b):
                return self._divide(e, self.poly(a), self.poly(b))[0]
            case Binary("floormod", a, b):
                return self._divide(e, self.poly(a), self.poly(b))[1]
            case _:
                return self._atom(e)

    def offset(self, index: Iterable[Expr], shape: Sequence[Poly]) -> Poly:
        """Return the polynomial of a row-major offset."""
        out: Poly = {}
        for i, n in zip(index, shape, strict=True):
            out = plus(times(out, n) if out else out, self.poly(i))
        return self._rejoined(out) if self._pairs else out

    def _atom(self, e: Expr, bound: Poly | None = None) -> Poly:
        if e not in self._atoms:
            name = f"@{len(self._atoms)}"
            self._atoms[e] = name
            self._exprs[name] = e
            if bound is not None:
                self.bounds[name] = bound
        return {(self._atoms[e],): 1}

    def _divide(self, e: Expr, p: Poly, d: Poly) -> tuple[Poly, Poly]:
        """Return quotient and remainder; ``e`` is the expression of one of them."""
        assert isinstance(e, Binary)
        if len(d) != 1 or min(d.values()) < 0:
            rebuilt = Binary(e.op, self.expr(p), self.expr(d))
            return self._atom(rebuilt), self._atom(rebuilt)
        (mono, k) = next(iter(d.items()))
        exact: Poly = {}
        rest: Poly = {}
        for m, c in p.items():
            left = without(m, mono)
            if left is not None and c % k == 0:
                exact[left] = exact.get(left, 0) + c // k
            elif not m and not mono:
                exact = plus(exact, constant(c // k))
                rest = plus(rest, constant(c % k))
            else:
                rest[m] = c
        # A divisor that may be zero gives 0, but then nothing of that size is ever read.
        if not rest or self.within(rest, d):
            return exact, rest
        inner = self.expr(rest)
        floor = None
        low, high = self.lower(rest), self.upper(rest)
        if not mono and low is not None and min(low.values(), default=0) >= 0:
            floor = None if high is None or not is_constant(high) else high
        if floor is not None:
            floor = constant(floor.get((), 0) // k)
        quotient = self._atom(ix.floordiv(inner, self.expr(d)), floor)
        below = plus(d, constant(-1)) if self._positive.issuperset(mono) else None
        remainder = self._atom(ix.mod(inner, self.expr(d)), below)
        self._pairs[next(iter(remainder))[0]] = (next(iter(quotient))[0], d, rest)
        return plus(exact, quotient), remainder

    def _rejoined(self, p: Poly) -> Poly:
        """Replace ``x // d * d + x % d`` by ``x``."""
        for m, k in p.items():
            for v in m:
                if v in self._pairs:
                    quotient, d, rest = self._pairs[v]
                    left = list(m)
                    left.remove(v)
                    factor = {tuple(left): k}
                    part = times(times({(quotient,): 1}, d), factor)
                    if all(p.get(n) == j for n, j in part.items()):
                        without = plus(plus(p, part, -1), {m: k}, -1)
                        return self._rejoined(plus(without, times(rest, factor)))
        return p

    def expr(self, p: Poly) -> Expr:
        """Return the index expression of a polynomial."""
        terms: list[Expr] = []
        minus: list[Expr] = []
        for m, k in p.items():
            factors = [self._exprs.get(v, Var(v)) for v in m]
            if k < 0 and m:
                minus.append(ix.mul(*factors, ix.index(-k)))
            else:
                terms.append(ix.mul(*factors, ix.index(k)))
        total = ix.add(*terms)
        for t in minus:
            total = ix.sub(total, t)
        return total

    def names(self, p: Poly) -> set[str]:
        """Return the variables on which a polynomial depends, also where it reads memory."""
        todo, seen = [v for m in p for v in m], set[str]()
        while todo:
            if (name := todo.pop()) not in seen:
                seen.add(name)
                whole = self._exprs.get(name, self.lets.get(name))
                if whole is not None:
                    todo += [e.name for e in subexprs(whole) if isinstance(e, Var)]
        return seen

    def simplify(self, e: Expr) -> Expr:
        """Return an expression without the divisions that come out even."""
        return self.expr(self._rejoined(self.poly(e))) if has_division(e) else e

    def upper(self, p: Poly) -> Poly | None:
        """Return the largest value, as a polynomial over dims; None if unknown."""
        return self._extreme(p, 1)

    def lower(self, p: Poly) -> Poly | None:
        """Return the smallest value, as a polynomial over dims; None if unknown."""
        return self._extreme(p, -1)

    def within(self, p: Poly, n: Poly) -> bool:
        """Return whether ``0 <= p < n`` is certain wherever the loops run."""
        low, high = self.lower(p), self.upper(p)
        if low is None or high is None or any(k < 0 for k in low.values()):
            return False
        return all(k >= 0 for k in plus(plus(n, constant(-1)), high, -1).values())

    def _extreme(self, p: Poly, sign: int) -> Poly | None:
        out: Poly = {}
        again = False
        for m, k in p.items():
            loops = [v for v in m if v in self.bounds]
            if any(v.startswith("@") and v not in self.bounds for v in m):
                return None
            if not loops:
                out = plus(out, {m: k})
            elif k * sign > 0:
                left = list(m)
                left.remove(loops[0])
                out = plus(out, times(self.bounds[loops[0]], {tuple(left): k}))
                again = True
            # else: the loop variable is 0 at that end, and the term with it
        return self._extreme(out, sign) if again else out
