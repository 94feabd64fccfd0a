"""The laws of vectors, which only a store by a ramp computes.

| law | says |
|---|---|
| L-lanes | a store by one ramp, of 2 to 64 lanes and an i32 stride not 0, has operands of as many |
| L-apart | no lane of a vector reads what another lane stores |
"""

from __future__ import annotations

from collections.abc import Iterable

from didyma.refimpl.errors import counted
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.vectors import lanes_of
from didyma.refimpl.ir.walk import expr_children, subexprs
from didyma.refimpl.verify.scalars import Scalars

MOST = 64


def verify_store(s: ir.Store, scalars: Scalars) -> None:
    """Raise DidymaError unless a store by a ramp obeys the laws of vectors."""
    lanes = lanes_of(s)
    ramps = [i for i in s.index if isinstance(i, ir.Ramp)]
    if len(ramps) != 1 or not 2 <= lanes <= MOST or not 0 < abs(ramps[0].stride) < 1 << 31:
        got = ", ".join(f"{i.lanes} lanes by {i.stride}" for i in ramps)
        want = f"one ramp, of 2 to {MOST} lanes and an i32 stride other than 0"
        raise scalars.broken("L-lanes", s, got, want)
    counts = _Lanes(s, scalars)
    found = [counts.of(i) for i in s.index if not isinstance(i, ir.Ramp)]
    if (extra := max(found, default=1)) != 1:
        raise scalars.broken("L-lanes", s, f"another index of {extra} lanes", "scalars beside it")
    counts.of(ramps[0])
    if (own := counts.of(s.value)) != lanes:
        help = f"write broadcast(x, {lanes}) for a scalar x" if own == 1 else ""
        raise scalars.broken(
            "L-lanes", s, f"a value of {counted(own, 'lane')}", f"{lanes}, as its ramp", help
        )
    for e in (x for part in (*s.index, s.value) for x in subexprs(part)):
        if isinstance(e, ir.Load) and scalars.may_be_one(e.buffer, s.buffer) and e.index != s.index:
            want = f"{s.buffer} read where it is stored, at the same index, or another buffer"
            raise scalars.broken("L-apart", s, f"{e.buffer} read at another index", want)


class _Lanes:
    """Counts the lanes of expressions; a scalar has one."""

    def __init__(self, s: ir.Store, scalars: Scalars) -> None:
        self.s = s
        self.scalars = scalars
        self.vars: dict[str, int] = {}

    def of(self, e: ir.Expr) -> int:
        match e:
            case ir.Var(name):
                return self.vars.get(name, 1)
            case ir.LetExpr(var, value, body):
                self.vars[var.name] = self.of(value)
                return self.of(body)
            case ir.Ramp(inner, _, lanes) | ir.Broadcast(inner, lanes):
                if self.of(inner) != 1:
                    raise self.scalars.broken("L-lanes", e, "a vector of vectors", "a scalar")
                return lanes
            case ir.Load(_, index):
                return self.same(e, {self.of(i) for i in index} - {1})
            case _:
                return self.same(e, {self.of(c) for c in expr_children(e)})

    def same(self, e: ir.Expr, counts: Iterable[int]) -> int:
        """Return the one count of lanes that there is; 1 for none."""
        found = sorted(counts)
        if len(found) > 1:
            got = f"{' and '.join(map(str, found))} lanes"
            help = f"write broadcast(x, {found[-1]}) for a scalar x" if found[0] == 1 else ""
            raise self.scalars.broken("L-lanes", e, got, "operands of as many lanes", help)
        return found[0] if found else 1
