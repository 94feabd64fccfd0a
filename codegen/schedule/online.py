"""Two folds of a row in one pass, of which the second depends on the result of the first.

The sum of a softmax is one of distances from the largest element, and a variance a sum of squares
of distances from the mean.  A thread can take the largest element, or the mean, of those that it
has met so far, and correct the sum whenever that changes.  Roundings are others than those of
folding the row twice; special values are the same.
(M. Milakov and N. Gimelshein, *Online normalizer calculation for softmax*, 2018; T. F. Chan,
G. H. Golub and R. J. LeVeque, *Updating formulae and a pairwise algorithm for computing sample
variances*, 1979.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

import numpy as np

from didyma.codegen.schedule.nest import NestFacts
from didyma.codegen.schedule.row_values import Numbers, lets_of
from didyma.codegen.schedule.row_wide import Wide
from didyma.codegen.schedule.rows import RowNest, parts_of, renamed, sure_loads
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Binary,
    Block,
    Cast,
    Compare,
    Const,
    Expr,
    Fold,
    Intrinsic,
    Let,
    Load,
    Select,
    Stmt,
    Var,
    Yield,
)
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt, stmts, substitute

COUNTED = {DType.F32: 1 << 24, DType.F64: 1 << 53}  # whole numbers that a float tells apart
_LARGEST = ("exp", "exp2")


@dataclass(frozen=True, slots=True)
class Online:
    """Stages ``first`` and ``second`` of rows, two folds with lets between, in one pass.

    ``step`` is the step of the second, on the axes of the row, with ``shift`` in place of what it
    asks of the first, ``asked``.  ``scale`` names the function whose sum the second is; where it is
    empty, that is a sum of squares of distances from a mean.  With ``kept`` threads keep its terms,
    so that none may be flushed, and a part of nothing but -inf has finite ones.
    """

    first: int
    second: int
    asked: Expr
    shift: Var
    step: Stmt
    scale: str
    kept: bool = False

    def shifted(self, result: Expr, count: Expr) -> Expr:
        """Return the shift of a part of a row, from the result of its first fold and its size."""
        if self.kept:
            return _largest(result, -float(np.finfo(result.dtype.numpy).max))
        return result if self.scale else Binary("div", result, _largest(count, 1.0))

    def corrected(self, total: Expr, count: Expr, old: Expr, new: Expr) -> Expr:
        """Return the result of the second fold of a part, with a new shift in place of an old one.

        ``count`` is the number of elements, a float.  A part of nothing but -inf is left out where
        there is more, and keeps its NaN where there is not.  Means that are equal may be rounded,
        so a sum of squares is corrected there too, by nothing or by what the ring counts; it stays
        as it is only where both are the same infinity, whose difference is NaN.
        """
        same: Expr = Compare("eq", old, new)
        if self.scale:
            factor = Intrinsic(self.scale, (Binary("sub", old, new),))
            other: Expr = Binary("mul", total, factor)
            if not self.kept:
                none = Compare("eq", old, Const(-math.inf, old.dtype))
                other = Select(none, Const(0.0, total.dtype), other)
            return Select(same, total, other)
        none = Compare("eq", count, Const(0.0, count.dtype))
        far = Binary("sub", old, new)
        squares = Binary("mul", Binary("mul", far, count), far)
        endless = Binary("and", same, Compare("ne", far, far))
        return Select(Binary("or", endless, none), total, Binary("add", total, squares))


@dataclass(frozen=True, slots=True)
class OnePass:
    """Two folds in one pass: each thread corrects its part of the second every so many turns.

    Threads keep the ``terms`` of the second, unless that is None.
    """

    online: Online
    turns: int
    terms: Load | None = None


def find(facts: NestFacts, rows: RowNest) -> Online | None:
    """Return the first two folds of rows that can be done in one pass; None if there are none."""
    folds = [(i, s) for i, s in enumerate(rows.stages) if isinstance(s, Fold)]
    numbers, steps = Numbers(), list(parts_of(rows))
    for s in rows.stages:
        if isinstance(s, Let):
            numbers.lets[s.var.name] = numbers.of(s.value)
    for n, ((i, a), (j, b)) in enumerate(pairwise(folds)):
        found = _Pair(facts, rows, numbers, a, b, steps[n], steps[n + 1]).online(i, j)
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True)
class _Pair:
    """Neighbouring folds ``a`` and ``b`` of rows, and their steps on the axes of the row."""

    facts: NestFacts
    rows: RowNest
    numbers: Numbers
    a: Fold
    b: Fold
    before: Stmt
    after: Stmt

    def online(self, first: int, second: int) -> Online | None:
        dtypes = {x.var.dtype for s in (self.a, self.b) for x in s.accs}
        if self.b.op != "add" or len(dtypes) != 1 or not dtypes <= COUNTED.keys():
            return None
        x, y = (self._term(s) for s in (self.before, self.after))
        term = None if x is None or y is None else self.numbers.exprs[y]
        at = None if x is None or term is None else self._shift(x, term)
        if at is None:
            return None
        dtype, names = self.a.accs[0].var.dtype, self.facts.names
        shift = Var(names.fresh("shift"), dtype)
        step = self._with(self.after, at, shift)
        between = [s.var.name for s in self.rows.stages[first:second] if isinstance(s, Let)]
        late = {self.a.accs[0].var.name, *between}
        if late & {e.name for e in exprs(step) if isinstance(e, Var)}:
            return None
        scale = term.name if isinstance(term, Intrinsic) else ""
        return Online(first, second, self.numbers.exprs[at], shift, step, scale)

    def _term(self, step: Stmt) -> int | None:
        """Return the number of what a step yields."""
        lets_of(self.numbers, step)
        found = [s.values for s in stmts(step) if isinstance(s, Yield)]
        return self.numbers.of(found[0][0]) if len(found) == 1 == len(found[0]) else None

    def _shift(self, x: int, term: Expr) -> int | None:
        """Return the number of what the second fold asks of the first, whose terms are ``x``."""
        numbers, acc = self.numbers, self.a.accs[0].var
        match self.a.op, term:
            case "max", Intrinsic(name, (Binary("sub", left, right),)) if name in _LARGEST:
                found = numbers.of(right)
                return found if (numbers.of(left), found) == (x, numbers.of(acc)) else None
            case "add", Binary("mul", Binary("sub", left, right) as one, other):
                same = numbers.of(one) == numbers.of(other) and numbers.of(left) == x
                return numbers.of(right) if same and self._is_mean(right) else None
            case _:
                return None

    def _is_mean(self, e: Expr) -> bool:
        acc, poly = self.a.accs[0].var, self.facts.affine.poly
        most = self.facts.largest(self.rows.length)
        match e:
            case Binary("div", Var(name), Cast(count, dtype)) if dtype is acc.dtype:
                counted = poly(count) == poly(self.rows.length) and most <= COUNTED[dtype]
                return name == acc.name and counted
            case _:
                return False

    def _with(self, s: Stmt, number: int, new: Var) -> Stmt:
        """Return a step that uses a variable in place of what has a number."""

        def on_expr(e: Expr) -> Expr:
            found = not isinstance(e, Const) and self.numbers.of(e) == number
            return new if found else map_expr(on_expr, e)

        def on_stmt(b: Stmt) -> Stmt:
            return map_stmt(b, on_expr, on_stmt)

        return on_stmt(s)


def loads(facts: NestFacts, rows: RowNest, online: Online) -> list[Load]:
    """Return what both folds of one pass surely load of an element of a row."""
    first = rows.stages[online.first]
    assert isinstance(first, Fold)
    steps = Block((substitute(first.step, renamed(first, rows)), online.step))
    return sorted(dict.fromkeys(sure_loads(facts, rows, steps)), key=attrgetter("buffer"))


def shelvable(facts: NestFacts, rows: RowNest, wide: Wide, online: Online) -> list[Load]:
    """Return what one pass and the results load of a row, all neighbours by one access."""
    again = set(sure_loads(facts, rows, rows.each)) if rows.each is not None else set[Load]()
    found = (x for x in loads(facts, rows, online) if x in again)
    return [x for x in found if wide.width == 1 or wide.has(x)]


def taken(units: Expr, place: Expr, threads: int, turns: Expr | None) -> Expr:
    """Return how many of ``units`` one of several threads has after some turns, or after all."""
    left = ix.ceildiv(ix.sub(units, place), ix.index(threads))
    return ix.maximum(ix.ZERO, left if turns is None else ix.minimum(left, turns))


def _largest(e: Expr, other: float) -> Expr:
    return Binary("max", e, Const(other, e.dtype))
