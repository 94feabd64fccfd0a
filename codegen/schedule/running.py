"""Find nests in which each element folds those before it along an axis, or those after it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from didyma.codegen.schedule.folds import needed, starts_empty, with_lets
from didyma.codegen.schedule.nest import Nest, NestFacts
from didyma.refimpl.ir.dims.polynomial import constant, plus
from didyma.refimpl.ir.loop import (
    INDEX,
    Binary,
    Block,
    Expr,
    Fold,
    Let,
    Load,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.walk import map_expr, stmts, subexprs, substitute_expr

_FEW = (constant(0), constant(1))


@dataclass(frozen=True, slots=True)
class Running:
    """A nest whose body is ``lets``, then a running fold along an axis, then its ``body``.

    Element i of a line folds the terms of elements 0 to i, or of i to the last in ``reverse``; i
    itself is left out unless ``inclusive``.  ``step`` and ``term`` are of the element itself.
    """

    nest: Nest
    lets: tuple[Let, ...]
    fold: Fold
    axis: int
    inclusive: bool
    reverse: bool
    step: tuple[Let, ...]
    term: Expr

    @property
    def along(self) -> Var:
        """The variable of the axis."""
        return self.nest.index[self.axis]

    @property
    def size(self) -> Expr:
        """The number of elements of a line."""
        return self.nest.extents[self.axis]

    @property
    def others(self) -> tuple[int, ...]:
        """The positions of the other axes."""
        return tuple(n for n in range(len(self.nest.index)) if n != self.axis)

    def joined(self, a: Expr, b: Expr) -> Expr:
        """Return the result of two parts of the terms together, of which ``a`` is the first."""
        op = self.fold.op
        assert op is not None
        return Binary(op, a, b)

    @property
    def start(self) -> Expr:
        """The result of a fold of no terms."""
        return self.fold.accs[0].start

    def kept(self, where: str, at: Expr) -> Stmt:
        """Return the store of an element's term."""
        return with_lets((*self.lets, *self.step), Store(where, (at,), self.term))

    def done(self, value: Expr) -> Stmt:
        """Return what is done with the fold of an element."""
        return with_lets(self.lets, Let(self.fold.accs[0].var, value, self.fold.body))


def find(facts: NestFacts) -> Running | None:
    """Return the running fold of a nest; None if it has none, or does anything besides."""
    s, lets = facts.nest.body, list[Let]()
    while isinstance(s, Let):
        lets.append(s)
        s = s.body
    if not isinstance(s, Fold) or len(s.axes) != 1 or s.op is None or s.merger is None:
        return None
    inner, step = s.step, list[Let]()
    while isinstance(inner, Let):
        step.append(inner)
        inner = inner.body
    flat = all(isinstance(x, (Let, Block, Store)) for x in stmts(s.body))
    if not isinstance(inner, Yield) or not flat or not starts_empty(s):
        return None
    for axis in range(len(facts.nest.index)):
        found = Running(facts.nest, tuple(lets), s, axis, True, False, tuple(step), inner.values[0])
        if (own := _own(facts, found)) is not None:
            return own
    return None


def _own(facts: NestFacts, run: Running) -> Running | None:
    """Return the running fold with the term of the element itself; None if it is none."""
    poly, v, (k,) = facts.affine.poly, run.along, run.fold.axes
    length, size = poly(k.extent), poly(run.size)
    before = plus(length, poly(v), -1)  # 1 if element i folds those up to i, 0 if those before
    after = plus(plus(size, poly(v), -1), length, -1)  # 0 if it folds those from i on, else 1
    lets = needed(run.lets, (x for e in _values(run) for x in subexprs(e)))
    if (v.name,) not in length or any(_has(x.value, v) for x in run.lets if x.var.name in lets):
        return None
    here = Var(facts.names.fresh(v.name))
    facts.affine.loop(here, run.size)
    if before in _FEW:
        inclusive, reverse, at = bool(before), False, poly(here)
    elif after in _FEW:
        inclusive, reverse, at = not after, True, plus(plus(poly(here), poly(v), -1), after, -1)
    else:
        return None
    table = {k.var.name: facts.affine.expr(at)}
    values = [_shortened(facts, substitute_expr(e, table), v) for e in _values(run)]
    if any(_has(e, v) for e in values):
        return None
    *step, term = (substitute_expr(e, {here.name: v}) for e in values)
    if not inclusive and not all(_exists(facts, e, v) for e in (*step, term)):
        return None
    lets_ = tuple(replace(x, value=e) for x, e in zip(run.step, step, strict=True))
    return replace(run, inclusive=inclusive, reverse=reverse, step=lets_, term=term)


def _values(run: Running) -> tuple[Expr, ...]:
    return (*(x.value for x in run.step), run.term)


def _has(e: Expr, v: Var) -> bool:
    return any(isinstance(x, Var) and x.name == v.name for x in subexprs(e))


def _exists(facts: NestFacts, e: Expr, v: Var) -> bool:
    """Return whether each element of a line certainly has what an expression loads for it.

    That of one end of a line is loaded, though no fold has it as a term.
    """
    loads = (x for x in subexprs(e) if isinstance(x, Load))
    return all(
        facts.affine.within(p, facts.affine.poly(n))
        for x in loads
        for i, n in zip(x.index, facts.shape(x.buffer), strict=True)
        for p in [facts.affine.poly(i)]
        if v.name in facts.affine.names(p) and not any(isinstance(y, Load) for y in subexprs(i))
    )


def _shortened(facts: NestFacts, e: Expr, v: Var) -> Expr:
    """Return an expression in which sums of indices that use a variable are added up."""
    if isinstance(e, Binary) and e.dtype is INDEX and _has(e, v):
        return facts.affine.expr(facts.affine.poly(e))
    return map_expr(lambda c: _shortened(facts, c, v), e)
