"""Index expressions as polynomials over loop variables, sizes and unknowns.

``3 * (i // 3) + i % 3`` and ``i`` are one polynomial.  A quotient, a minimum or a maximum is an
atom that holds two polynomials.  The result of any other operation is an unknown that may change
with every loop variable in its operands; what is loaded from a buffer, or computed in another
dtype, is one that may change with every loop around it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from didyma.refimpl.ir.expr import ZERO
from didyma.refimpl.ir.loop import INDEX, Binary, Const, Expr, LetExpr, Load, Var
from didyma.refimpl.ir.walk import expr_children, map_expr

# ("loop" | "dim", name), ("floordiv" | "min" | "max", a, b) or ("unknown", number, *loop variables)
Atom: TypeAlias = tuple[object, ...]
Poly: TypeAlias = dict[tuple[Atom, ...], int]  # sorted factors of a term -> its coefficient
_Key: TypeAlias = tuple[tuple[tuple[Atom, ...], int], ...]  # a polynomial that can be hashed
Ranges: TypeAlias = Mapping[str, tuple[int, int]]  # of sizes

ONE: Poly = {(): 1}
_OF_TWO = ("floordiv", "min", "max")


class Indices:
    """Turns the index expressions of one kernel into polynomials.

    ``divisors`` are those for which ``b * (a // b) + a % b == a`` has been used, which does not
    hold of 0: ``a // 0`` and ``a % 0`` are 0.
    """

    def __init__(self) -> None:
        self.divisors: list[Poly] = []
        self._names: dict[str, Poly] = {}
        self._unknowns: dict[tuple[object, ...], Poly] = {}
        self._number = itertools.count()

    def let(self, var: Var, value: Expr, loops: Sequence[Atom]) -> None:
        """Note that a variable is bound to a value inside loops."""
        self._names[var.name] = self.poly(value, loops)

    def loop(self, name: str, extent: Poly) -> Atom | None:
        """Note a loop variable; return its atom, or None where it is always 0."""
        var: Atom = ("loop", name)
        self._names[name] = {} if extent == ONE else {(var,): 1}
        return None if extent == ONE else var

    def poly(self, e: Expr, loops: Sequence[Atom]) -> Poly:
        """Return the polynomial of an expression inside loops."""
        if not isinstance(e, Var) and (e.dtype is not INDEX or _loads(e)):
            return {(("unknown", next(self._number), *loops),): 1}
        return self._poly(e)

    def _poly(self, e: Expr) -> Poly:
        if isinstance(e, Var):
            return self._names.get(e.name, {(("dim", e.name),): 1})
        if e.dtype is not INDEX:
            return self._unknown(e)
        match e:
            case Const(value):
                return constant(int(value))
            case LetExpr(_, _, body):
                return self._poly(body)
            case Binary("add", a, b):
                return add(self._poly(a), self._poly(b))
            case Binary("sub", a, b):
                return add(self._poly(a), scale(self._poly(b), -1))
            case Binary("mul", a, b):
                return multiply(self._poly(a), self._poly(b))
            case Binary("floordiv", a, b):
                return quotient(self._poly(a), self._poly(b))
            case Binary("floormod", a, b):
                x, y = self._poly(a), self._poly(b)
                if y.keys() != {()} and y not in self.divisors:
                    self.divisors.append(y)
                return add(x, scale(multiply(y, quotient(x, y)), -1))
            case Binary("min" | "max" as op, a, b):
                return _of_two(op, self._poly(a), self._poly(b))
            case _:
                return self._unknown(e)

    def _unknown(self, e: Expr) -> Poly:
        """Return the atom of an operation: the same for the same operation on the same operands."""
        operands = [self._poly(c) for c in expr_children(e)]
        key = (map_expr(lambda _: ZERO, e), *map(_key, operands))
        if key not in self._unknowns:
            loops = sorted({v for p in operands for v in _loops(p)}, key=repr)
            self._unknowns[key] = {(("unknown", next(self._number), *loops),): 1}
        return self._unknowns[key]


def _loads(e: Expr) -> bool:
    return isinstance(e, Load) or any(map(_loads, expr_children(e)))


# ---- arithmetic


def constant(value: int) -> Poly:
    """Return the polynomial of a number."""
    return {(): value} if value else {}


def add(a: Poly, b: Poly) -> Poly:
    """Return the sum of two polynomials."""
    out = dict(a)
    for term, c in b.items():
        out[term] = out.get(term, 0) + c
    return {t: c for t, c in out.items() if c}


def scale(a: Poly, by: int) -> Poly:
    """Return a polynomial times a number other than 0."""
    return {t: c * by for t, c in a.items()}


def multiply(a: Poly, b: Poly) -> Poly:
    """Return the product of two polynomials."""
    out: Poly = {}
    for s, c in a.items():
        for t, d in b.items():
            term = tuple(sorted((*s, *t), key=repr))
            out[term] = out.get(term, 0) + c * d
    return {t: c for t, c in out.items() if c}


def quotient(a: Poly, b: Poly) -> Poly:
    """Return ``a // b``."""
    return a if b == ONE else _of_two("floordiv", a, b)


def _of_two(op: str, a: Poly, b: Poly) -> Poly:
    """Return the quotient, minimum or maximum of two polynomials."""
    if a.keys() | b.keys() <= {()} and (b or op != "floordiv"):
        x, y = a.get((), 0), b.get((), 0)
        return constant(x // y if op == "floordiv" else min(x, y) if op == "min" else max(x, y))
    return {((op, _key(a), _key(b)),): 1}


def _key(p: Poly) -> _Key:
    return tuple(sorted(p.items(), key=repr))


def _parts(atom: Atom) -> tuple[Poly, Poly]:
    """Return the polynomials of which an atom is the quotient, minimum or maximum."""
    _, a, b = cast("tuple[str, _Key, _Key]", atom)
    return dict(a), dict(b)


def substitute(p: Poly, value: Callable[[Atom], Poly | None]) -> Poly:
    """Replace the atoms for which there is a value, also those inside others."""
    out: Poly = {}
    for term, c in p.items():
        product = constant(c)
        for atom in term:
            factor = value(atom)
            if factor is None and atom[0] in _OF_TWO:
                factor = _of_two(str(atom[0]), *(substitute(x, value) for x in _parts(atom)))
            product = multiply(product, {(atom,): 1} if factor is None else factor)
        out = add(out, product)
    return out


# ---- questions


def atoms(p: Poly) -> Iterator[Atom]:
    """Yield the atoms of a polynomial, also those inside others."""
    for term in p:
        for atom in term:
            yield atom
            if atom[0] in _OF_TWO:
                for part in _parts(atom):
                    yield from atoms(part)


def _loops(p: Poly) -> Iterator[Atom]:
    """Yield the loop variables that a polynomial may change with."""
    for atom in atoms(p):
        if atom[0] == "loop":
            yield atom
        elif atom[0] == "unknown":
            yield from cast("tuple[Atom, ...]", atom[2:])


def mentions(p: Poly, var: Atom) -> bool:
    """Return whether a polynomial may change with a loop variable."""
    return var in _loops(p)


def linear(p: Poly, var: Atom) -> Poly | None:
    """Return the factor of a loop variable; None where the polynomial is not linear in it."""
    factor: Poly = {}
    for term, c in p.items():
        rest = tuple(a for a in term if a != var)
        if len(term) - len(rest) > 1 or mentions({rest: 1}, var):
            return None
        if len(rest) < len(term):
            factor[rest] = c
    return factor


def nonnegative(p: Poly) -> bool:
    """Return whether no coefficient is negative, nor any atom: a polynomial that is at least 0."""
    return all(c >= 0 for c in p.values()) and all(map(_is_nonnegative, (a for t in p for a in t)))


def _is_nonnegative(atom: Atom) -> bool:
    if atom[0] in _OF_TWO:
        return (any if atom[0] == "max" else all)(map(nonnegative, _parts(atom)))
    return atom[0] != "unknown"


def at_most(p: Poly, ranges: Ranges) -> float:
    """Return a number, at least 0, that a polynomial over sizes never exceeds."""
    most = 0.0
    for term, c in p.items():
        if not all(map(_is_nonnegative, term)) and (c < 0 or len(term) > 1):
            return math.inf
        if c > 0:
            most += c * math.prod(max(0, _most(a, ranges)) for a in term)
    return most


def _most(atom: Atom, ranges: Ranges) -> float:
    if atom[0] == "dim":
        return ranges[str(atom[1])][1]
    if atom[0] not in _OF_TWO:
        return math.inf
    p, q = _parts(atom)
    if atom[0] == "floordiv":
        return at_most(p, ranges) if nonnegative(q) else math.inf
    return (min if atom[0] == "min" else max)(at_most(p, ranges), at_most(q, ranges))
