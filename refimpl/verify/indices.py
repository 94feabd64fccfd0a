"""Index expressions of a kernel as polynomials over loop variables, sizes and atoms.

``3 * (i // 3) + i % 3`` and ``i`` are one polynomial.  A quotient, a minimum or a maximum is an
atom that holds two polynomials.  The result of any other operation is an atom of which no more is
known than the loop variables that it may change with: those in its operands, or every loop around
for what is loaded from a buffer or computed in another dtype.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from didyma.refimpl.ir.dims.polynomial import coefficient, constant, is_constant, plus, times
from didyma.refimpl.ir.expr import ZERO
from didyma.refimpl.ir.loop import INDEX, Binary, Const, Expr, LetExpr, Load, Var
from didyma.refimpl.ir.walk import expr_children, map_expr, subexprs

Poly: TypeAlias = dict[tuple[str, ...], int]  # names of variables and atoms -> coefficient

ONE: Poly = {(): 1}


@dataclass(frozen=True, slots=True)
class _Atom:
    """The quotient, minimum or maximum (``op``) of two polynomials, or an unknown (no ``op``)."""

    loops: frozenset[str]
    op: str = ""
    parts: tuple[Poly, ...] = ()


class Indices:
    """Turns the index expressions of one kernel into polynomials, and answers questions about them.

    ``ranges`` are those of its sizes.  ``divisors`` are the polynomials b of which
    ``b * (a // b) + a % b == a`` has been used; it does not hold of 0, since ``a % 0`` is 0.
    """

    def __init__(self, ranges: Mapping[str, tuple[int, int]]) -> None:
        self.ranges = ranges
        self.divisors: list[Poly] = []
        self._values: dict[str, Poly] = {}  # of variables that a let binds
        self._loops: set[str] = set()
        self._atoms: dict[str, _Atom] = {}
        self._names: dict[object, str] = {}  # of atoms, by what they are made of

    def let(self, var: Var, value: Expr, loops: Collection[str]) -> None:
        """Note that a variable is bound to a value inside loops."""
        self._values[var.name] = self.poly(value, loops)

    def unknown(self, var: Var, loops: Collection[str]) -> None:
        """Note that a variable may have any value, another one in each turn of loops."""
        self._values[var.name] = self._any(loops)

    def loop(self, name: str, extent: Poly) -> bool:
        """Note a loop variable; return whether it has other values than 0."""
        if extent == ONE:
            self._values[name] = {}
        else:
            self._loops.add(name)
        return extent != ONE

    # ---- reading

    def poly(self, e: Expr, loops: Collection[str]) -> Poly:
        """Return the polynomial of an expression inside loops."""
        if not isinstance(e, Var) and (e.dtype is not INDEX or _loads(e)):
            return self._any(loops)
        return self._read(e)

    def _read(self, e: Expr) -> Poly:
        if isinstance(e, Var):
            return self._values.get(e.name, {(e.name,): 1})
        if e.dtype is not INDEX:
            return self._unknown(e)
        match e:
            case Const(value):
                return constant(int(value))
            case LetExpr(_, _, body):
                return self._read(body)
            case Binary("add", a, b):
                return plus(self._read(a), self._read(b))
            case Binary("sub", a, b):
                return plus(self._read(a), self._read(b), -1)
            case Binary("mul", a, b):
                return times(self._read(a), self._read(b))
            case Binary("floordiv" | "min" | "max" as op, a, b):
                return self._of_two(op, self._read(a), self._read(b))
            case Binary("floormod", a, b):
                x, y = self._read(a), self._read(b)
                if (not y or not is_constant(y)) and y not in self.divisors:
                    self.divisors.append(y)
                return plus(x, times(y, self._of_two("floordiv", x, y)), -1)
            case _:
                return self._unknown(e)

    def _of_two(self, op: str, a: Poly, b: Poly) -> Poly:
        """Return the quotient, minimum or maximum of two polynomials."""
        if op == "floordiv" and b == ONE:
            return a
        if is_constant(a) and is_constant(b) and (b or op != "floordiv"):
            x, y = a.get((), 0), b.get((), 0)
            return constant(x // y if op == "floordiv" else min(x, y) if op == "min" else max(x, y))
        loops = frozenset(self.loops(a) | self.loops(b))
        return self._atom(_Atom(loops, op, (a, b)), (op, _key(a), _key(b)))

    def _unknown(self, e: Expr) -> Poly:
        """Return the atom of an operation: one for the same operation on the same operands."""
        operands = [self._read(c) for c in expr_children(e)]
        loops = frozenset[str]().union(*map(self.loops, operands))
        return self._atom(_Atom(loops), (map_expr(lambda _: ZERO, e), *map(_key, operands)))

    def _any(self, loops: Collection[str]) -> Poly:
        """Return an atom that may have any value in each turn of loops."""
        return self._atom(_Atom(frozenset(loops)), len(self._atoms))

    def _atom(self, atom: _Atom, key: object) -> Poly:
        name = self._names.setdefault(key, f"\0{len(self._atoms)}")  # a name that no variable has
        self._atoms.setdefault(name, atom)
        return {(name,): 1}

    # ---- questions

    def loops(self, p: Poly) -> set[str]:
        """Return the loop variables that a polynomial may change with."""
        names = {name for m in p for name in m}
        inside = (self._atoms[name].loops for name in names if name in self._atoms)
        return (names & self._loops).union(*inside)

    def factor(self, p: Poly, var: str) -> Poly | None:
        """Return the factor of a loop variable; None where the polynomial is not linear in it."""
        atoms = (self._atoms[name] for m in p for name in m if name in self._atoms)
        return None if any(var in a.loops for a in atoms) else coefficient(p, var)

    def sizes(self, p: Poly) -> set[str]:
        """Return the names of the sizes in a polynomial, also those inside atoms."""
        names = {name for m in p for name in m}
        parts = (q for name in names if name in self._atoms for q in self._atoms[name].parts)
        return (names & self.ranges.keys()).union(*map(self.sizes, parts))

    def substitute(self, p: Poly, values: Mapping[str, Poly]) -> Poly:
        """Replace sizes by polynomials, also those inside atoms."""
        out: Poly = {}
        for m, c in p.items():
            product = constant(c)
            for name in m:
                product = times(product, self._substituted(name, values))
            out = plus(out, product)
        return out

    def _substituted(self, name: str, values: Mapping[str, Poly]) -> Poly:
        atom = self._atoms.get(name)
        if atom is None or not atom.op:
            return values.get(name, {(name,): 1})
        return self._of_two(atom.op, *(self.substitute(q, values) for q in atom.parts))

    def nonnegative(self, p: Poly) -> bool:
        """Return whether a polynomial is seen to be at least 0: no part of it is negative."""
        return all(c >= 0 and all(map(self._is_nonnegative, m)) for m, c in p.items())

    def _is_nonnegative(self, name: str) -> bool:
        atom = self._atoms.get(name)
        if atom is None:  # a size or a loop variable
            return True
        parts = map(self.nonnegative, atom.parts)
        return any(parts) if atom.op == "max" else atom.op != "" and all(parts)

    def at_most(self, p: Poly) -> float:
        """Return a number, at least 0, that a polynomial over sizes never exceeds."""
        most = 0.0
        for m, c in p.items():
            if not all(map(self._is_nonnegative, m)) and (c < 0 or len(m) > 1):
                return math.inf
            if c > 0:
                most += c * math.prod(max(0, self._most(name)) for name in m)
        return most

    def _most(self, name: str) -> float:
        atom = self._atoms.get(name)
        if atom is None:
            return self.ranges.get(name, (0, math.inf))[1]
        if not atom.op or (atom.op == "floordiv" and not self.nonnegative(atom.parts[1])):
            return math.inf
        a, b = map(self.at_most, atom.parts)
        return {"floordiv": a, "min": min(a, b), "max": max(a, b)}[atom.op]


def _key(p: Poly) -> frozenset[tuple[tuple[str, ...], int]]:
    return frozenset(p.items())


def _loads(e: Expr) -> bool:
    return Load in map(type, subexprs(e))
