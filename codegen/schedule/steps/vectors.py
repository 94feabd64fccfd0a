"""The step ``vectors``: a loop over one store becomes a store of a vector."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.lower.affine import Affine
from didyma.codegen.schedule.steps.kinds import independent, may_change
from didyma.codegen.schedule.steps.loops import replaced
from didyma.codegen.schedule.steps.records import Vectors
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.ir.loop import (
    INDEX,
    Broadcast,
    Const,
    Expr,
    Let,
    LetExpr,
    Load,
    PrimFunc,
    Ramp,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.walk import map_expr, mentions
from didyma.refimpl.verify.vectors import MOST


def vectors(step: Vectors, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function that stores, in place of a loop over one store, a vector.

    What all iterations share is broadcast; an index that grows by the same in each is a ramp.
    DidymaError ``no-such-loop``, ``bad-step``, ``dependence``; ``L-apart`` where a lane reads what
    another stores.
    """
    loop = may_change(f, step.loop)
    if not isinstance(loop.extent, Const) or not 2 <= loop.extent.value <= MOST:
        want = f"a loop of constant extent, 2 to {MOST}"
        raise wrong(f, f"`{show_line(loop)}`", want, help="split it first")
    independent(f, loop, "vectors", unchecked)
    lanes = _Lanes(f, loop.var.name, int(loop.extent.value))
    return replace(f, body=replaced(f.body, loop, lanes.store(loop.body)))


class _Lanes:
    """Writes the lanes of one loop; ``varying`` are the variables that differ among them."""

    def __init__(self, f: PrimFunc, loop: str, count: int) -> None:
        self.f = f
        self.loop = loop
        self.count = count
        self.varying = {loop}
        self.affine = Affine(f.dims)

    def store(self, s: Stmt) -> Store:
        match s:
            case Let(var, value, body):
                found = self.bind(var, value)
                inner = self.store(body)
                if any(mentions(i, {var.name}) for i in inner.index):
                    raise self.refused(f"`{show_line(s)}`, by which the place is known")
                return replace(inner, value=LetExpr(var, found, inner.value))
            case Store(buffer, index, value):
                return Store(buffer, tuple(self.place(i, s) for i in index), self.vector(value))
            case _:
                raise self.refused(f"`{show_line(s)}`")

    def refused(self, got: str) -> Exception:
        """Return the error of a body that is something else."""
        want = "one store, perhaps under `let`, at an index that grows by the same"
        return wrong(self.f, f"{got} in {self.loop}", want)

    def bind(self, var: Var, value: Expr) -> Expr:
        if not self.varies(value):
            return value
        self.varying.add(var.name)
        return self.vector(value)

    def varies(self, e: Expr) -> bool:
        return mentions(e, self.varying)

    def place(self, e: Expr, s: Stmt) -> Expr:
        """Return one index of the store: a ramp where it depends on the lane."""
        if not self.varies(e):
            return e
        found = self.ramp(e)
        if found is None:
            raise self.refused(f"`{show_line(s)}`")
        return found

    def ramp(self, e: Expr) -> Ramp | None:
        """Return the ramp that an index is, or None."""
        p = self.affine.poly(e)
        stride = p.get((self.loop,), 0)
        rest = self.affine.expr({m: k for m, k in p.items() if m != (self.loop,)})
        return Ramp(rest, stride, self.count) if stride and not self.varies(rest) else None

    def vector(self, e: Expr) -> Expr:
        """Return the vector of the values that an expression has in each lane."""
        if not self.varies(e):
            return Broadcast(e, self.count)
        if e.dtype is INDEX and (found := self.ramp(e)) is not None:
            return found
        match e:
            case Load(buffer, index, dtype):
                at = tuple(self.vector(i) if self.varies(i) else i for i in index)
                return Load(buffer, at, dtype)
            case LetExpr(var, value, body):
                return LetExpr(var, self.bind(var, value), self.vector(body))
            case _:
                return map_expr(self.vector, e)
