"""Write arithmetic on i64 terms, with intervals that contain the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from didyma.codegen.emit.terms import (
    ADD,
    I64_MAX,
    I64_MIN,
    INT_MAX,
    MUL,
    UNARY,
    Term,
    index_literal,
)

Interval = tuple[int, int]


def call(name: str, args: Sequence[Term]) -> Term:
    """Write the call of an intrinsic."""
    return Term(f"{name}({', '.join(a.text for a in args)})")


def _add(a: Term, b: Term) -> Interval:
    return a.lo + b.lo, a.hi + b.hi


def _sub(a: Term, b: Term) -> Interval:
    return a.lo - b.hi, a.hi - b.lo


def _mul(a: Term, b: Term) -> Interval:
    ends = (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)
    return min(ends), max(ends)


INTERVALS: dict[str, Callable[[Term, Term], Interval]] = {"add": _add, "sub": _sub, "mul": _mul}
_FOLD: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__,
    "sub": int.__sub__,
    "mul": int.__mul__,
}


def bounded(op: str, a: Term, b: Term) -> Interval | None:
    """Return an interval that holds the result of an intrinsic, or None where little is known.

    >>> bounded("shl", index_literal(1), Term("k", lo=0, hi=5))
    (0, 32)
    >>> bounded("floordiv", Term("i", lo=0, hi=9), Term("d"))
    (-9, 9)
    """
    if op == "min":
        return min(a.lo, b.lo), min(a.hi, b.hi)
    if op == "max":
        return max(a.lo, b.lo), max(a.hi, b.hi)
    size = max(-a.lo, a.hi)
    if op in ("floordiv", "truncdiv"):
        # A quotient is no larger than the dividend, but MIN / -1 wraps.
        return (-size, size) if a.lo > I64_MIN else None
    if op == "truncmod":
        return min(a.lo, 0), max(a.hi, 0)
    if op == "floormod" and b.lo > 0:
        return 0, b.hi - 1
    if op == "shr" and b.lo >= 0:
        return min(a.lo, 0), max(a.hi, 0)
    if op == "shl" and a.lo >= 0 and b.lo >= 0 and b.hi < 64 and a.hi << b.hi <= I64_MAX:
        return 0, a.hi << b.hi
    return None


_SIGN = {"add": "+", "sub": "-", "mul": "*"}


def plain(op: str, a: Term, b: Term) -> Term:
    """Write ``+ - *`` with C's operator; literals fold, since C would compute them as int."""
    if a.value is not None and b.value is not None:
        return index_literal(_FOLD[op](a.value, b.value))
    if b.value == (1 if op == "mul" else 0):
        return a
    if op != "mul" and b.value is not None and I64_MIN < b.value < 0:
        op, b = ("sub" if op == "add" else "add"), index_literal(-b.value)
    lo, hi = INTERVALS[op](a, b)
    level = MUL if op == "mul" else ADD
    is_int = a.is_int and b.is_int
    if is_int and not (lo >= -INT_MAX and hi <= INT_MAX):  # C would compute a choice as int
        a, is_int = Term(f"(i64){a.at(UNARY)}", UNARY, a.lo, a.hi, a.plain), False
    return Term(
        f"{a.at(level)} {_SIGN[op]} {b.at(level + 1)}",
        level,
        max(lo, I64_MIN),
        min(hi, I64_MAX),
        a.plain and b.plain,
        is_int=is_int,
    )


def divide(op: str, a: Term, b: Term) -> Term | None:
    """Write ``/`` or ``%`` of nonnegative by positive numbers, where C rounds down too."""
    if a.lo < 0 or b.lo <= 0:
        return None
    plain, is_int = a.plain and b.plain, a.is_int and b.is_int
    if op == "floordiv":
        text = f"{a.at(MUL)} / {b.at(UNARY)}"
        return Term(text, MUL, a.lo // b.hi, a.hi // b.lo, plain, is_int=is_int)
    text = f"{a.at(MUL)} % {b.at(UNARY)}"
    return Term(text, MUL, 0, min(a.hi, b.hi - 1), plain, is_int=is_int)
