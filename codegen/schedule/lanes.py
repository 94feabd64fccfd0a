"""How many neighbouring elements a thread may load and store at once, and where they begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from didyma.codegen.lower.affine import Poly
from didyma.codegen.schedule.nest import NestFacts
from didyma.refimpl.ir.dims.polynomial import plus
from didyma.refimpl.ir.loop import Expr, Var
from didyma.refimpl.ir.types import DType

PAIR = 2  # lanes whose elements are so large that two of them are the widest access
LEAST = 4  # of smaller elements
MOST = 16


def widths(facts: NestFacts) -> Iterator[int]:
    """Yield the numbers of lanes that accesses may have, the largest first."""
    lanes = MOST
    while facts.wide and lanes >= PAIR:
        yield lanes
        lanes //= 2


def suit(facts: NestFacts, names: Iterable[str], lanes: int) -> bool:
    """Return whether accesses to parameters with so many lanes are no wider than the target's.

    Those with the least lanes always are: several accesses may do the work of one.  Neighbouring
    threads then have gaps between their accesses, so of f64 two lanes are better, which fill one.
    """
    dtypes = [facts.buffers[n].dtype for n in names]
    largest = max((d.nbytes for d in dtypes), default=1)
    pairs = PAIR * largest == facts.target.access and DType.F64 in dtypes
    if lanes == PAIR:
        return pairs
    return lanes * largest <= facts.target.access or (lanes == LEAST and not pairs)


def part(p: Poly, lanes: int) -> Poly | None:
    """Return a polynomial divided by a number of lanes; None unless that certainly divides it."""
    if any(k % lanes for k in p.values()):
        return None
    return {m: k // lanes for m, k in p.items()}


def part_of_size(facts: NestFacts, size: Expr, lanes: int) -> Expr | None:
    """Return a size divided by a number of lanes; None for 0, and where that may not divide it."""
    p = facts.affine.poly(size)
    found = part(p, lanes) if p else None
    return None if found is None else facts.affine.expr(found)


def from_row(facts: NestFacts, offset: Poly, last: Var, lanes: int) -> Poly | None:
    """Return the group of lanes where an access begins that runs along a loop variable.

    None unless neighbours along the variable are neighbours in memory, and the offset of the first
    is certainly a multiple of the number of lanes.
    """
    rest = first_of_row(facts, offset, last)
    return None if rest is None else part(rest, lanes)


def first_of_row(facts: NestFacts, offset: Poly, last: Var) -> Poly | None:
    """Return where an access begins that runs along a loop variable; None for one that does not."""
    if offset.get((last.name,)) != 1:
        return None
    rest = plus(offset, {(last.name,): 1}, -1)
    return None if mentions(facts, rest, last) else rest


def mentions(facts: NestFacts, p: Poly, v: Var) -> bool:
    """Return whether a polynomial depends on a variable, also where it divides or reads memory."""
    return v.name in facts.affine.names(p)
