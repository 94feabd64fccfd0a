"""Decide dependences between accesses: may two iterations touch one element, in this order?

An access is an affine function of loop variables where its index is one; what is not affine may be
any element.  The question is asked for a direction of each loop that both accesses have around
them (U. Banerjee, *Dependence Analysis*, 1997; M. Wolfe, *High Performance Compilers*, 1996): the
iteration of the first is less than, equal to or greater than that of the second.  The answer "no"
is proved, by bounds of the difference of the two indices or by its greatest common divisor;
otherwise it is "yes".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

from didyma.codegen.lower.affine import Affine, Poly
from didyma.codegen.schedule.steps.accesses import Access, Scan, commutes
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import constant, is_constant, nonnegative_on, plus
from didyma.refimpl.ir.loop import Barrier, Const, Expr, For, Load, LoopKind, Var
from didyma.refimpl.ir.walk import map_expr, stmts

Direction: TypeAlias = Literal["<", "=", ">", "*"]
Directions: TypeAlias = Mapping[str, Direction]  # by loop; other common loops are "="

AT_ONCE = (LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.BOUND)


@dataclass(frozen=True, slots=True)
class Dependence:
    """Two accesses that may touch one element, and the loop whose iterations they differ in."""

    first: Access
    second: Access
    loop: str

    @property
    def kind(self) -> str:
        """``flow`` (written, then read), ``anti`` (read, then written) or ``output``."""
        if self.first.writes:
            return "output" if self.second.writes else "flow"
        return "anti"

    def __str__(self) -> str:
        carried = f", carried by loop {self.loop}" if self.loop else ""
        return f"{self.first}, then {self.second}: {self.kind} dependence{carried}"


def refuse(step: str, found: Dependence, want: str, help: str = "") -> DidymaError:
    """Return the error of a step that a dependence forbids."""
    return DidymaError("dependence", step, got=str(found), want=want, help=help)


class Dependences:
    """Answers questions about the accesses of one function."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.ranges = {d.name: (d.lo, d.hi) for d in scan.func.dims}
        self.written = scan.written
        self.synchronised = any(isinstance(s, Barrier) for s in stmts(scan.func.body))

    def may(self, a: Access, b: Access, directions: Directions) -> bool:
        """Return whether ``a`` in one iteration and ``b`` in another may touch one element."""
        roots = self.scan.roots
        if roots[a.buffer] != roots[b.buffer]:
            return False
        signs = self._signs(a, b, directions)
        if signs is None:
            return False
        if a.index is None or b.index is None or a.buffer != b.buffer:
            return True
        return not self._differ(a, b, signs)

    def _signs(self, a: Access, b: Access, directions: Directions) -> Directions | None:
        """Return the directions of the common loops; None where there are no such iterations."""
        signs: dict[str, Direction] = {}
        outer_equal = True
        for x, y in zip(a.loops, b.loops, strict=False):
            if x.var.name != y.var.name:
                break
            sign = directions.get(x.var.name, "=")
            # Each iteration of a loop around the declaration has a buffer of its own; iterations
            # that run at once touch different elements, or the loop would not be of that kind.
            apart = x.var.name in a.owners or (outer_equal and self._is_at_once(x))
            once = isinstance(x.extent, Const) and x.extent.value <= 1
            if (apart or once) and sign != "=":
                if sign != "*":
                    return None
                sign = "="
            signs[x.var.name] = sign
            outer_equal = outer_equal and sign == "="
        return signs

    def _is_at_once(self, loop: For) -> bool:
        if loop.axis.startswith("thread") and self.synchronised:
            return False  # what lies between two barriers may touch what lies before or after them
        return loop.kind in AT_ONCE

    def _differ(self, a: Access, b: Access, signs: Directions) -> bool:
        """Return whether the elements of two accesses certainly differ."""
        assert a.index is not None
        assert b.index is not None
        affine = Affine(self.scan.func.dims)
        mine, other = _rename(affine, self.scan, self.written, a, b, signs)
        first, second = (
            [affine.poly(r(i)) for i in x] for r, x in ((mine, a.index), (other, b.index))
        )
        if any(self._nonzero(affine, plus(p, q, -1)) for p, q in zip(first, second, strict=True)):
            return True
        shape = [affine.poly(ix.of_dim(d)) for d in self.scan.buffers[a.buffer].shape]
        if len(shape) < 2 and not any("@" in v for p in (*first, *second) for m in p for v in m):
            return False
        flat = [affine.offset(map(r, x), shape) for r, x in ((mine, a.index), (other, b.index))]
        return self._nonzero(affine, plus(flat[0], flat[1], -1))

    def _nonzero(self, affine: Affine, p: Poly) -> bool:
        if is_constant(p):
            return bool(p.get(()))
        factors = [abs(k) for m, k in p.items() if m]
        if any(self._off_multiples(affine, p, k) for k in (math.gcd(*factors), *factors)):
            return True
        low, high = affine.lower(p), affine.upper(p)
        return self._positive(low) or self._positive(None if high is None else plus({}, high, -1))

    def _off_multiples(self, affine: Affine, p: Poly, k: int) -> bool:
        """Return whether the terms that ``k`` does not divide never sum up to a multiple of it."""
        rest = {m: c for m, c in p.items() if c % k}
        low, high = affine.lower(rest), affine.upper(rest)
        if low is None or high is None or not is_constant(low) or not is_constant(high):
            return False
        return high.get((), 0) // k * k < low.get((), 0)

    def _positive(self, p: Poly | None) -> bool:
        if p is None or any(v not in self.ranges for m in p for v in m):
            return False
        return nonnegative_on(plus(p, constant(-1)), self.ranges)


class _Renamer:
    """Writes an index with the variables of one of two iterations."""

    def __init__(self, table: Mapping[str, Expr], changing: frozenset[str], mark: str) -> None:
        self.table = table
        self.changing = changing
        self.mark = mark

    def __call__(self, e: Expr) -> Expr:
        match e:
            case Var(name, dtype):
                if name in self.changing:
                    return Var(name + self.mark, dtype)
                return self.table.get(name, e)
            case Load(buffer, index, dtype) if buffer in self.changing:
                return Load(buffer + self.mark, tuple(map(self, index)), dtype)
            case _:
                return map_expr(self, e)


def _rename(
    affine: Affine, scan: Scan, written: frozenset[str], a: Access, b: Access, signs: Directions
) -> tuple[_Renamer, _Renamer]:
    """Declare the loop variables of two iterations; return what writes indices in each."""
    tables: tuple[dict[str, Expr], dict[str, Expr]] = ({}, {})
    unstable = {n for n, r in scan.roots.items() if r in written}
    changing = scan.opaque | unstable
    mine, other = (_Renamer(t, changing, m) for t, m in zip(tables, ("'", "''"), strict=True))

    def extent(loop: For, r: _Renamer) -> Expr:
        return r(_written_out(loop.extent, scan))

    common = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        name = x.var.name
        if name != y.var.name:
            break
        common += 1
        match signs[name]:
            case "=":
                var = Var(name)
                affine.loop(var, extent(x, mine))
                tables[0][name] = tables[1][name] = var
            case "*":
                for t, r in zip(tables, (mine, other), strict=True):
                    t[name] = _fresh(affine, name + r.mark, extent(x, r))
            case sign:
                less, more = (mine, other) if sign == "<" else (other, mine)
                base = _fresh(affine, name + less.mark, extent(x, less))
                further = ix.sub(extent(x, less), ix.ONE)
                more_by = _fresh(affine, name + more.mark, further)
                tables[0 if sign == "<" else 1][name] = base
                tables[1 if sign == "<" else 0][name] = ix.add(base, ix.add(more_by, ix.ONE))
    for loops, t, r in ((a.loops, tables[0], mine), (b.loops, tables[1], other)):
        for x in loops[common:]:
            t[x.var.name] = _fresh(affine, x.var.name + r.mark, extent(x, r))
    return mine, other


def _fresh(affine: Affine, name: str, extent: Expr) -> Expr:
    affine.loop(Var(name), extent)
    return Var(name)


def _written_out(e: Expr, scan: Scan) -> Expr:
    if isinstance(e, Var):
        return scan.lets.get(e.name, e)
    return map_expr(lambda c: _written_out(c, scan), e)


# ---- questions that steps ask


def pairs(first: Iterable[Access], second: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """Yield the pairs of accesses to one buffer of which one at least writes.

    Atomic updates by one operation may come in any order; of others one may undo what comes first.
    """
    for a in first:
        for b in second:
            is_free = a.is_atomic and b.is_atomic and a.update == b.update
            if (a.writes or b.writes) and not is_free:
                yield a, b


def carried(known: Dependences, loop: For) -> Dependence | None:
    """Return a dependence between different iterations of a loop, if there may be one."""
    return carried_among(known, loop, known.scan.within(loop.body))


def carried_among(known: Dependences, loop: For, inside: Sequence[Access]) -> Dependence | None:
    """Return a dependence between different iterations of a loop, of some accesses in it."""
    for a, b in pairs(inside, inside):
        signs: dict[str, Direction] = {x.var.name: "*" for x in _below(a, loop)}
        if known.may(a, b, {**signs, loop.var.name: "<"}):
            return Dependence(a, b, loop.var.name)
    return None


def unsteady(known: Scan, loop: For) -> Dependence | None:
    """Return what keeps the extent of a loop from being computed again in the loop, if anything.

    A loop computes it once.
    """
    read = [a for a in known.accesses if a.stmt is loop]
    for a, b in pairs(read, known.within(loop.body) if read else ()):
        if known.roots[a.buffer] == known.roots[b.buffer]:
            return Dependence(a, b, "")
    return None


def _below(a: Access, loop: For) -> tuple[For, ...]:
    names = [x.var.name for x in a.loops]
    return a.loops[names.index(loop.var.name) + 1 :]


def reversed_by(
    known: Dependences,
    inside: Sequence[Access],
    before: Sequence[str],
    after: Sequence[str],
    reassociates: bool,
) -> Dependence | None:
    """Return a dependence whose two ends change places when loops are nested in another order.

    ``before`` and ``after`` are the same loops, outermost first.  Updates that commute may change
    places.
    """
    free = commuting(known.scan, inside, reassociates)
    turned = list(_turned(before, after))
    for a, b in pairs(inside, inside):
        if a.buffer in free or known.scan.roots[a.buffer] != known.scan.roots[b.buffer]:
            continue
        below: dict[str, Direction] = {x.var.name: "*" for x in a.loops}
        for x in a.loops:
            if x.var.name == before[0]:
                break
            below[x.var.name] = "="
        for signs in turned:
            if known.may(a, b, {**below, **signs}):
                return Dependence(a, b, next(n for n in before if signs[n] != "="))
    return None


def _turned(before: Sequence[str], after: Sequence[str]) -> Iterator[Directions]:
    """Yield the directions that are forward in one order of loops and backward in another."""
    choices: tuple[Direction, ...] = ("<", "=", ">")
    for signs in product(choices, repeat=len(before)):
        by_name = dict(zip(before, signs, strict=True))
        if _leading(by_name, before) == "<" and _leading(by_name, after) == ">":
            yield by_name


def _leading(signs: Mapping[str, Direction], order: Sequence[str]) -> Direction:
    for name in order:
        if signs[name] != "=":
            return signs[name]
    return "="


def commuting(scan: Scan, inside: Sequence[Access], reassociates: bool) -> frozenset[str]:
    """Return the buffers to which a region makes nothing but updates that may change places."""
    ops: dict[str, set[str]] = {}
    for a in inside:
        ops.setdefault(a.buffer, set()).add(a.update)
    return frozenset(
        name
        for name, found in ops.items()
        if len(found) == 1
        and commutes(next(iter(found)), scan.buffers[name], reassociates)
        and scan.roots[name] == name
    )
