"""Find folds of which each result takes the terms alone whose place in memory is its own.

Such is a scatter: each element of the result folds the updates whose index is the element's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from didyma.codegen.lower.scalar import identity
from didyma.codegen.schedule.folds import needed, with_lets
from didyma.codegen.schedule.nest import Nest, NestFacts, guarded
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.loop import (
    Accumulator,
    Binary,
    BinaryOp,
    Block,
    Compare,
    Const,
    Expr,
    Fold,
    If,
    Let,
    LetExpr,
    Select,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.walk import stmts, subexprs

Part: TypeAlias = Expr | Let  # a condition, or a variable that is bound; its body is not used


@dataclass(frozen=True, slots=True)
class Meeting:
    """A nest whose body is ``lets``, then a fold whose terms each meet one element of an axis.

    Term ``k`` of ``count`` meets the element at ``place`` along the axis of the nest at position
    ``axis``, and only where ``parts`` hold: conditions, and variables bound in between.  What it
    then adds by ``op`` is ``value``.  Place and parts depend on ``k``, and on the variables of the
    nest at the positions ``apart``: for each of their values, terms meet elements of their own.
    """

    nest: Nest
    lets: tuple[Let, ...]
    fold: Fold
    op: BinaryOp
    parts: tuple[Part, ...]
    axis: int
    place: Expr
    value: Expr
    apart: tuple[int, ...]

    @property
    def k(self) -> Var:
        """The number of a term."""
        return self.fold.axes[0].var

    @property
    def count(self) -> Expr:
        """The number of terms."""
        return self.fold.axes[0].extent

    @property
    def acc(self) -> Accumulator:
        """What the fold keeps."""
        return self.fold.accs[0]

    @property
    def own(self) -> Var:
        """The variable of the axis along which terms have places."""
        return self.nest.index[self.axis]

    @property
    def size(self) -> Expr:
        """The number of elements along the axis."""
        return self.nest.extents[self.axis]

    @property
    def lines(self) -> tuple[Var, ...]:
        """The variables of the nest that places depend on."""
        return tuple(self.nest.index[n] for n in self.apart)

    @property
    def line_sizes(self) -> tuple[Expr, ...]:
        """How far they run."""
        return tuple(self.nest.extents[n] for n in self.apart)

    @property
    def bound(self) -> tuple[Let, ...]:
        """The variables that are bound before the fold, and in its step."""
        return (*self.lets, *(x for x in self.parts if isinstance(x, Let)))

    @property
    def inside(self) -> Expr:
        """Whether the place of term ``k`` is one of the axis."""
        ends = ix.compare("ge", self.place, ix.ZERO), ix.compare("lt", self.place, self.size)
        return ix.all_of(ends)

    def key(self, nowhere: Expr) -> Expr:
        """Return the place of term ``k``, or ``nowhere`` if it meets no element."""
        e = ix.select(self.inside, self.place, nowhere)
        for part in reversed(self.parts):
            if isinstance(part, Let):
                e = LetExpr(part.var, part.value, e)
            else:
                e = ix.select(part, e, nowhere)
        return e

    def where_met(self, met: Expr, body: Stmt) -> Stmt:
        """Return a statement that is run where the parts of term ``k`` hold, and ``met``."""
        body = guarded([met], body)
        for part in reversed(self.parts):
            body = with_lets([part], body) if isinstance(part, Let) else If(part, body)
        return with_lets(self.lets, body)

    def after(self, result: Expr) -> Stmt:
        """Return what is done with the fold of an element."""
        return with_lets(self.lets, Let(self.acc.var, result, self.fold.body))


def find(facts: NestFacts) -> Meeting | None:
    """Return the fold of a nest whose terms have places; None if there is none, or more.

    Sizes must be sums and products of the sizes of parameters.
    """
    s, lets = facts.nest.body, list[Let]()
    while isinstance(s, Let):
        lets.append(s)
        s = s.body
    if not isinstance(s, Fold) or len(s.axes) != 1 or s.op is None or s.merger is None:
        return None
    flat = all(isinstance(x, (Let, Block, Store)) for x in stmts(s.body))
    ends = (s.axes[0].extent, *facts.nest.extents)
    if not flat or any(size_of(facts, e) is None for e in ends):
        return None
    parts, e = list[Part](), s.step
    while isinstance(e, Let):
        parts.append(e)
        e = e.body
    if not isinstance(e, Yield):
        return None
    return _peeled(facts, tuple(lets), s, s.op, parts, e.values[0])


def _peeled(
    facts: NestFacts,
    lets: tuple[Let, ...],
    fold: Fold,
    op: BinaryOp,
    parts: list[Part],
    e: Expr,
) -> Meeting | None:
    """Take the conditions off a term, up to the one that compares its place with an index."""
    own: tuple[int, Expr] | None = None
    while own is None:
        if isinstance(e, LetExpr):
            parts.append(Let(e.var, e.value, Block(())))
            e = e.body
        elif isinstance(e, Select) and _changes_nothing(e.other, fold, op):
            for cond in _conjuncts(e.cond):
                found = _compared(facts.nest, cond) if own is None else None
                own = found or own
                parts += [] if found else [cond]
            e = e.then
        else:
            return None
    axis, place = own
    named = {x.var.name: x for x in (*lets, *parts) if isinstance(x, Let)}
    conds = [x for x in parts if not isinstance(x, Let)]
    used = needed(tuple(named.values()), (x for c in (place, *conds) for x in subexprs(c)))
    apart = tuple(n for n, v in enumerate(facts.nest.index) if v.name in used)
    found_ = Meeting(facts.nest, lets, fold, op, tuple(parts), axis, place, e, apart)
    return None if axis in apart else found_


def _changes_nothing(e: Expr, fold: Fold, op: BinaryOp) -> bool:
    """Return whether a fold that has taken any terms stays as it is when it takes a value."""
    start = fold.accs[0].start
    if op in ("min", "max", "and", "or") and isinstance(e, Const) and e == start:
        return not e.dtype.is_float
    if not isinstance(e, Const) or op not in ("add", "mul", "min", "max", "and", "or"):
        return False
    if op == "add" and e.dtype.is_float:
        return e.value == 0 and math.copysign(1, e.value) < 0
    return e == identity(op, e.dtype)


def _conjuncts(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op == "and":
        yield from _conjuncts(e.lhs)
        yield from _conjuncts(e.rhs)
    else:
        yield e


def _compared(nest: Nest, e: Expr) -> tuple[int, Expr] | None:
    """Return the axis of the nest whose variable a condition says a value equals, and the value."""
    if isinstance(e, Compare) and e.op == "eq":
        for a, b in ((e.lhs, e.rhs), (e.rhs, e.lhs)):
            if isinstance(b, Var) and b in nest.index:
                return nest.index.index(b), a
    return None


def size_of(facts: NestFacts, e: Expr) -> Dim | None:
    """Return the size that an extent is, for shapes of buffers; None where it is none."""
    return ix.dim_of(e, {d.name: dims.symbol(d.name) for d in facts.func.dims})
