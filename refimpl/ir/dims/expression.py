"""Sizes known before launch: integers, or sympy expressions over declared symbols.

Ints stay ints, so that static programs never pay for sympy.  Every expression is kept in
sympy's expanded form, in which two polynomials are equal when they are the same object tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import sympy

from didyma.refimpl.errors import DidymaError

Dim: TypeAlias = int | sympy.Expr
Ranges: TypeAlias = Mapping[str, tuple[int, int]]
MOST_TERMS = 1 << 11  # of a product that is written out


@dataclass(frozen=True, slots=True)
class DimVar:
    """A symbolic size with its inclusive range."""

    name: str
    lo: int
    hi: int


def symbol(name: str) -> sympy.Symbol:
    """Return the symbol of that name: a nonnegative integer."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def canonical(e: Any) -> Dim:
    """Return an expression in expanded form, as an int if it is one.

    >>> n = symbol("n")
    >>> canonical(2 * (n + 1)), canonical(sympy.Integer(3))
    (2*n + 2, 3)
    """
    if isinstance(e, int):
        return int(e)
    return _int_if_whole(sympy.expand(e))


def _int_if_whole(e: Any) -> Dim:
    return int(e) if e.is_Integer else e


def _ints(ds: Sequence[Dim]) -> list[int] | None:
    ints = [d for d in ds if isinstance(d, int)]
    return ints if len(ints) == len(ds) else None


def add(*ds: Dim) -> Dim:
    """Sum; 0 for none."""
    ints = _ints(ds)
    return canonical(sympy.Add(*ds)) if ints is None else sum(ints)


def sub(a: Dim, b: Dim) -> Dim:
    """Return the difference of two sizes."""
    return a - b if isinstance(a, int) and isinstance(b, int) else canonical(a - b)


def mul(*ds: Dim) -> Dim:
    """Return the product of sizes; 1 for none.

    DidymaError ``D-too-large`` for sums of so many terms that nobody could write it out.
    """
    ints = _ints(ds)
    if ints is not None:
        return math.prod(ints)
    count = math.prod(terms(d) for d in ds)
    if count > MOST_TERMS:
        raise DidymaError(
            "D-too-large", "a product of sizes", got=f"{count:,} terms",
            want=f"at most {MOST_TERMS:,}",
        )  # fmt: skip
    product = sympy.Mul(*ds)
    return _int_if_whole(product) if count == 1 else canonical(product)


def floordiv(a: Dim, b: Dim) -> Dim:
    """Return the quotient of two sizes, rounded down.

    >>> floordiv(7, 2), floordiv(2 * symbol("n"), 2)
    (3, n)
    """
    if isinstance(b, int):
        if isinstance(a, int):
            return a // b
        if b > 0 and (parts := _polynomial(a)) is not None:
            return _quotient(parts, b)
    return canonical(sympy.floor(sympy.sympify(a) / b))


def ceildiv(a: Dim, b: Dim) -> Dim:
    """Return the quotient of two sizes, rounded up."""
    if isinstance(b, int):
        if isinstance(a, int):
            return -(-a // b)
        if b > 0 and (parts := _polynomial(a)) is not None:
            return _quotient({**parts, (): parts.get((), 0) + b - 1}, b)
    return floordiv(add(a, b, -1), b)


Polynomial: TypeAlias = Mapping[tuple[Any, ...], int]


def _polynomial(d: Any) -> Polynomial | None:
    """Return coefficients by monomial, if a size is a polynomial with whole ones."""
    found: dict[tuple[Any, ...], int] = {}
    for term in d.args if d.func is sympy.Add else (d,):
        c, factors = term.as_coeff_mul()
        if not c.is_Integer or not all(_is_power(f) for f in factors):
            return None
        found[factors] = int(c)
    return found


def _is_power(e: Any) -> bool:
    if e.func is sympy.Pow:
        return bool(e.base.is_Symbol and e.exp.is_Integer and e.exp > 0)
    return bool(e.is_Symbol)


def _quotient(parts: Polynomial, by: int, times: int = 1) -> Dim:
    """Return a polynomial's quotient rounded down, in sympy's form at a thirtieth of its cost.

    What is a multiple for sure stands outside of the floor.
    """
    inside = {m: c for m, c in parts.items() if c % by}
    whole = [sympy.Mul(c // by * times, *m) for m, c in parts.items() if m not in inside]
    if inside.keys() == {()}:
        whole.append(sympy.Integer(inside[()] // by * times))
    elif inside:
        rest = (sympy.Mul(sympy.Rational(c, by), *m) for m, c in inside.items())
        whole.append(sympy.Mul(times, sympy.floor(sympy.Add(*rest), evaluate=False)))
    return _int_if_whole(sympy.Add(*whole))


def maximum(*ds: Dim) -> Dim:
    """Return the largest of sizes."""
    ints = _ints(ds)
    return _extreme(sympy.Max, ds, 1) if ints is None else max(ints)


def minimum(*ds: Dim) -> Dim:
    """Return the smallest of sizes."""
    ints = _ints(ds)
    return _extreme(sympy.Min, ds, -1) if ints is None else min(ints)


def _extreme(func: Any, ds: Sequence[Dim], sign: int) -> Dim:
    """Return the largest (``sign`` 1) or smallest of sizes, as sympy writes it.

    Of linear sizes we tell ourselves which can never be it, as sympy would, only much faster: the
    difference of two is never negative where no coefficient of it is.
    """
    rows = {d: _linear(d) for d in ds}
    kept: list[tuple[Dim, Polynomial]] = []
    for d, row in rows.items():
        if row is None:
            return canonical(func(*ds))
        if any(_never_below(k, row, sign) for _, k in kept):
            continue
        kept = [(e, k) for e, k in kept if not _never_below(row, k, sign)]
        kept.append((d, row))
    return kept[0][0] if len(kept) == 1 else func(*(d for d, _ in kept), evaluate=False)


def _never_below(a: Polynomial, b: Polynomial, sign: int) -> bool:
    return all(sign * (a.get(s, 0) - b.get(s, 0)) >= 0 for s in {*a, *b})


def _linear(d: Dim) -> Polynomial | None:
    """Return coefficients by monomial; None where a size is not linear."""
    row = {(): d} if isinstance(d, int) else _polynomial(d)
    whole = row is not None and all(not m or (len(m) == 1 and m[0].is_Symbol) for m in row)
    return row if whole else None


def align(d: Dim, to: int) -> Dim:
    """Round up to a multiple."""
    if not isinstance(d, int) and to > 0 and (parts := _polynomial(d)) is not None:
        return _quotient({**parts, (): parts.get((), 0) + to - 1}, to, times=to)
    return mul(ceildiv(d, to), to)


def equal(a: Dim, b: Dim) -> bool:
    """Return whether two sizes are equal for every binding of their symbols."""
    return a == b


def free(ds: Dim | Iterable[Dim]) -> tuple[str, ...]:
    """Return the names of the symbols in sizes, sorted.

    >>> free([2, symbol("n") * symbol("m")])
    ('m', 'n')
    """
    if isinstance(ds, int):
        return ()
    if isinstance(ds, sympy.Expr):
        return _free(ds)
    symbolic = [_free(d) for d in ds if not isinstance(d, int)]
    return tuple(sorted({name for names in symbolic for name in names})) if symbolic else ()


@lru_cache(maxsize=4096)
def _free(d: sympy.Expr) -> tuple[str, ...]:
    return tuple(sorted(s.name for s in d.free_symbols))


def terms(d: Dim) -> int:
    """Count the terms of a size: how much work it is to compute with it.

    >>> terms(7), terms(2 * symbol("n") + 1)
    (1, 2)
    """
    return len(d.args) if not isinstance(d, int) and d.func is sympy.Add else 1


def text(d: Dim) -> str:
    """Return the text of a size, which the parser reads back.

    >>> text(2 * symbol("n") + 1)
    '2*n + 1'
    """
    return str(d) if isinstance(d, int) else _text(d)


@lru_cache(maxsize=4096)
def _text(d: sympy.Expr) -> str:
    return str(d)


def count_text(n: int) -> str:
    """Return the text of a number for people: a power of two near it if it has many digits.

    >>> count_text(1 << 20), count_text(10**5000)
    ('1,048,576', '2**16609 or more')
    """
    return f"{n:,}" if n.bit_length() <= 128 else f"2**{n.bit_length() - 1} or more"


def substitute(d: Dim, new: Mapping[str, Dim]) -> Dim:
    """Replace symbols, all at once.

    >>> n, m = symbol("n"), symbol("m")
    >>> substitute(n + 2 * m, {"n": m, "m": n})
    m + 2*n
    """
    if isinstance(d, int):
        return d
    return canonical(d.xreplace({symbol(k): sympy.sympify(v) for k, v in new.items()}))
