"""Index arithmetic in loop expressions: constructors that fold constants as they build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, reduce
from typing import Any

import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.loop import (
    INDEX,
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    Select,
    Var,
)
from didyma.refimpl.ir.types import DType

_FOLD: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__,
    "sub": int.__sub__,
    "mul": int.__mul__,
    "floordiv": lambda a, b: a // b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}
_COMPARE: dict[CompareOp, Callable[[int, int], bool]] = {
    "eq": int.__eq__,
    "ne": int.__ne__,
    "lt": int.__lt__,
    "le": int.__le__,
    "gt": int.__gt__,
    "ge": int.__ge__,
}
TRUE: Expr = Const(True, DType.BOOL)
FALSE: Expr = Const(False, DType.BOOL)


def index(i: int) -> Expr:
    """Return an index literal."""
    return Const(i, INDEX)


ZERO: Expr = index(0)
ONE: Expr = index(1)


def _fold(op: BinaryOp, a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return index(_FOLD[op](int(a.value), int(b.value)))
    return Binary(op, a, b)


def add(*terms: Expr) -> Expr:
    """Return the sum of indices; 0 for none.

    >>> add(Var("i"), index(0)), add(index(2), index(3))
    (Var(name='i', dtype=<DType.I64: 'i64'>), Const(value=5, dtype=<DType.I64: 'i64'>))
    """
    return reduce(_plus, terms) if terms else ZERO


def _plus(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and a == ZERO:
        return b
    return a if isinstance(b, Const) and b == ZERO else _fold("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """Return the difference of two indices."""
    return a if b == ZERO else ZERO if a == b else _fold("sub", a, b)


def mul(*factors: Expr) -> Expr:
    """Return the product of indices; 1 for none."""
    return reduce(_times, factors) if factors else ONE


def _times(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and a in (ZERO, ONE):
        return b if a == ONE else ZERO
    if isinstance(b, Const) and b in (ZERO, ONE):
        return a if b == ONE else ZERO
    return _fold("mul", a, b)


def floordiv(a: Expr, b: Expr) -> Expr:
    """Return the quotient of two indices, rounded down; x // 0 = 0."""
    return a if b == ONE else ZERO if a == ZERO else _fold("floordiv", a, b)


def ceildiv(a: Expr, b: Expr) -> Expr:
    """Return the quotient of two nonnegative indices, rounded up."""
    return a if b == ONE else floordiv(add(a, sub(b, ONE)), b)


def mod(a: Expr, b: Expr) -> Expr:
    """Return the remainder of a division, with the divisor's sign; x mod 0 = 0."""
    return ZERO if b == ONE or a == ZERO else _fold("floormod", a, b)


def minimum(a: Expr, b: Expr) -> Expr:
    """Return the smaller of two indices."""
    return a if a == b else _fold("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    """Return the larger of two indices."""
    return a if a == b else _fold("max", a, b)


def compare(op: CompareOp, a: Expr, b: Expr) -> Expr:
    """Return the comparison of two indices, a bool."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(_COMPARE[op](int(a.value), int(b.value)), DType.BOOL)
    return Compare(op, a, b)


def all_of(conds: Iterable[Expr]) -> Expr:
    """Return the conjunction of conditions; true for none."""

    def one(a: Expr, b: Expr) -> Expr:
        if FALSE in (a, b):
            return FALSE
        return b if a == TRUE else a if b == TRUE else Binary("and", a, b)

    return reduce(one, conds, TRUE)


def select(cond: Expr, then: Expr, other: Expr) -> Expr:
    """Return ``then`` where ``cond`` holds, else ``other``."""
    return then if cond == TRUE else other if cond == FALSE else Select(cond, then, other)


def of_dim(d: Dim) -> Expr:
    """Return the loop expression of a size; symbols become variables of the same name.

    >>> from didyma.refimpl.ir.dims import symbol
    >>> of_dim(symbol("n") + 1) == add(index(1), Var("n"))
    True
    """
    return index(d) if isinstance(d, int) else _of(d)


_DIMS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "add": dims.add,
    "sub": dims.sub,
    "mul": dims.mul,
    "min": dims.minimum,
    "max": dims.maximum,
}


def dim_of(e: Expr, values: Mapping[str, Dim | None]) -> Dim | None:
    """Return the size that an index is, with ``values`` of its variables; None where none is known.

    >>> from didyma.refimpl.ir.dims import symbol
    >>> dim_of(add(Var("i"), index(1)), {"i": symbol("n")})
    n + 1
    """
    match e:
        case Const(value, dtype) if dtype is INDEX:
            return int(value)
        case Var(name):
            return values.get(name)
        case Binary("floordiv" | "floormod" as op, a, Const(b)) if e.dtype is INDEX and b > 0:
            x = dim_of(a, values)
            if x is None or op == "floordiv":
                return None if x is None else dims.floordiv(x, int(b))
            return dims.sub(x, dims.mul(int(b), dims.floordiv(x, int(b))))
        case Binary(op, a, b) if op in _DIMS and e.dtype is INDEX:
            x, y = dim_of(a, values), dim_of(b, values)
            return None if x is None or y is None else _DIMS[op](x, y)
        case _:
            return None


@lru_cache(maxsize=4096)
def _of(e: Any) -> Expr:
    if isinstance(e, sympy.Symbol):
        return Var(e.name)
    if e.is_Integer:
        return index(int(e))
    if e.func in (sympy.Add, sympy.Mul) and _fractional(e):
        # a whole number all the same, such as n*(n + 1)/2: sympy has dropped its floor
        numerator, denominator = sympy.fraction(sympy.together(e))
        return floordiv(_of(sympy.expand(numerator)), _of(denominator))
    if e.func is sympy.Add:
        return add(*(_of(a) for a in e.args))
    if e.func is sympy.Mul:
        return mul(*(_of(a) for a in e.args))
    if e.func is sympy.Max:
        return reduce(maximum, (_of(a) for a in e.args))
    if e.func is sympy.Min:
        return reduce(minimum, (_of(a) for a in e.args))
    if e.func is sympy.Mod:
        return mod(_of(e.args[0]), _of(e.args[1]))
    if e.func is sympy.Pow and e.args[1].is_Integer and e.args[1] > 0:
        return mul(*[_of(e.args[0])] * int(e.args[1]))
    if e.func in (sympy.floor, sympy.ceiling):
        numerator, denominator = sympy.fraction(sympy.together(e.args[0]))
        quotient = floordiv if e.func is sympy.floor else ceildiv
        return quotient(_of(sympy.expand(numerator)), _of(sympy.expand(denominator)))
    raise TypeError(f"no loop expression for {e}")


def _fractional(e: Any) -> bool:
    """Return whether an expanded sum or product has a coefficient that is no whole number."""
    terms = e.args if e.func is sympy.Add else (e,)
    return any(t.as_coeff_Mul()[0].q != 1 for t in terms)


def flatten(at: Iterable[Expr], shape: Iterable[Expr]) -> Expr:
    """Return the row-major offset of a multi-index.

    >>> i, j = Var("i"), Var("j")
    >>> flatten([i, j], [index(4), index(5)]) == add(mul(i, index(5)), j)
    True
    """
    flat: Expr = ZERO
    for i, n in zip(at, shape, strict=True):
        flat = add(mul(flat, n), i)
    return flat


def unflatten(flat: Expr, shape: Iterable[Expr]) -> tuple[Expr, ...]:
    """Return the multi-index of a row-major offset."""
    out: list[Expr] = []
    sizes = list(shape)
    for axis in range(len(sizes) - 1, 0, -1):
        out.append(mod(flat, sizes[axis]))
        flat = floordiv(flat, sizes[axis])
    return (*([flat] if sizes else []), *reversed(out))
