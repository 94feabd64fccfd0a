"""The laws of calls in loop programs.

| law | says |
|---|---|
| L-function-twice | no two functions have the same name, nor has one that of what holds it |
| L-nested | a called function does, and returns, nothing that one thread cannot do alone |
| L-callee | a call names a function above |
| L-call-args | a call gives each parameter a buffer of its dtype, scope and shape at these dims |
| L-call-scalars | a call gives each scalar parameter an expression of its dtype |
| L-call-dims | a call gives each dim an i64 that may lie in its range |
| L-noalias | the attribute ``noalias``, if there is one, is true or false |
| L-alias | what a function of a call writes shares no bytes with what it is given besides |
| L-written-out | a function with its calls inlined has at most 65536 statements, 32 calls deep |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.expr import dim_of
from didyma.refimpl.ir.text import show_expr
from didyma.refimpl.ir.text.show_loop import LoopPrinter
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify.scalars import Construct, Scalars
from didyma.refimpl.verify.sizes import Sizes

MOST_STATEMENTS = 1 << 16
MOST_DEEP = 32

Weight: TypeAlias = tuple[int, int]  # statements with calls written out, and how deep calls go

_OF_BLOCKS = (ir.Scope.SHARED, ir.Scope.CLUSTER)


@dataclass(frozen=True, slots=True)
class Calls:
    """Checks the calls in one function, and whether calls may name it.

    ``functions`` are those above, which calls may name.
    """

    scalars: Scalars
    sizes: Sizes
    functions: Mapping[str, ir.PrimFunc]

    def broken(self, law: str, at: Construct, got: str, want: str) -> DidymaError:
        """Make the error of a law broken at a statement."""
        return self.scalars.broken(law, at, got, want)

    def nested(self, f: ir.PrimFunc) -> None:
        """Check that a function may be called wherever a thread is."""
        if f.functions:
            self._unfit(f"@{f.functions[0].name}", "a function of its own")
        if f.returns is not None:
            self._unfit(f"@{f.name}", "a number that it returns")
        for s in stmts(f.body):
            match s:
                case ir.Barrier():
                    self._unfit(s, "a barrier")
                case ir.ExternalCall() | ir.ExternalAllocate():
                    self._unfit(s, "an external call")
                case ir.Exchange() | ir.Chain():
                    self._unfit(s, "an exchange")
                case ir.For(kind=ir.LoopKind.BOUND):
                    self._unfit(s, "a bound loop")
                case ir.Allocate(b) | ir.PlacementAllocate(b) if b.scope in _OF_BLOCKS:
                    self._unfit(s, "a shared buffer made inside")
                case _:
                    pass

    def weight(self, f: ir.PrimFunc, weights: Mapping[str, Weight]) -> Weight:
        """Check law L-written-out; return the weight, ``weights`` for the functions above."""
        body = list(stmts(f.body))
        called = [weights[s.callee] for s in body if isinstance(s, ir.Call)]
        count = len(body) + sum(n for n, _ in called)
        deep = max((1 + below for _, below in called), default=0)
        if count > MOST_STATEMENTS or deep > MOST_DEEP:
            got = f"{count} statements, calls {deep} deep"
            want = f"at most {MOST_STATEMENTS} statements, calls at most {MOST_DEEP} deep"
            raise self.broken("L-written-out", "calls written out", got, want)
        return count, deep

    def _unfit(self, at: ir.Stmt | str, got: str) -> None:
        raise self.broken(
            "L-nested", at, got, "in a function that is called, what one thread can do alone"
        )

    def call(self, s: ir.Call) -> None:
        """Check a call."""
        f = self.functions.get(s.callee)
        if f is None:
            known = ", ".join(f"@{name}" for name in self.functions) or "there is none"
            raise self.broken("L-callee", s, f"@{s.callee}", f"a function above: {known}")
        sizes = self._dims(s, f)
        self._scalars(s, f)
        if len(s.args) != len(f.params):
            got, want = counted(len(s.args), "buffer"), f"{len(f.params)}, as @{f.name}"
            raise self.broken("L-call-args", s, got, want)
        for p, a in zip(f.params, s.args, strict=True):
            self._argument(s, p, self.scalars.buffer(a, s), sizes)
            if p.name in f.outputs:
                self.scalars.writable(s, a)
                if f.noalias:
                    self._alone(s, p, a)

    def _alone(self, s: ir.Call, p: ir.Buffer, a: str) -> None:
        """Check that no other argument may be the buffer given for a parameter that is written."""
        uses = Counter(s.args)
        want = f"once, since @{s.callee} writes {p.name}"
        if uses[a] > 1:
            raise self.broken("L-alias", s, f"{a}, {uses[a]} times", want)
        for other in uses:
            if other != a and self.scalars.may_be_one(a, other):
                got = f"{a} and {other}, which may be one buffer here"
                raise self.broken("L-alias", s, got, want)

    def _dims(self, s: ir.Call, f: ir.PrimFunc) -> dict[str, Dim | None]:
        """Return the sizes that a call gives, by the callee's names; None for no size."""
        if len(s.dims) != len(f.dims):
            got, want = counted(len(s.dims), "dim"), f"{len(f.dims)}, as @{f.name}"
            raise self.broken("L-call-dims", s, got, want)
        given: dict[str, Dim | None] = {}
        declared = {name: dims.symbol(name) for name in self.sizes.ranges}
        for d, e in zip(f.dims, s.dims, strict=True):
            dtype = self.scalars.expr(e)
            if dtype is not ir.INDEX:
                raise self.broken("L-call-dims", s, f"{show_expr(e)}: {dtype}", str(ir.INDEX))
            size = given[d.name] = dim_of(e, declared)
            if size is not None:
                lo, hi = dims.bounds(size, self.sizes.ranges)
                if hi < d.lo or d.hi < lo:
                    want = f"{d.lo} <= {d.name} <= {d.hi}"
                    raise self.broken("L-call-dims", s, f"{d.name} = {show_expr(e)}", want)
        return given

    def _scalars(self, s: ir.Call, f: ir.PrimFunc) -> None:
        got = [self.scalars.expr(e) for e in s.scalars]
        want = [v.dtype for v in f.scalars]
        if got != want:
            shown, wanted = (", ".join(ds) or "none" for ds in (got, want))
            raise self.broken("L-call-scalars", s, f"scalars {shown}", f"{wanted}, as @{f.name}")

    def _argument(
        self, s: ir.Call, p: ir.Buffer, b: ir.Buffer, sizes: Mapping[str, Dim | None]
    ) -> None:
        """Check the buffer that a call gives for a parameter."""
        known = {n: d for n, d in sizes.items() if d is not None}
        for n in dims.free(p.shape):
            if n not in known:
                want = f"an expression over dims, since {p.name} is {TensorType(p.dtype, p.shape)}"
                raise self.broken("L-call-args", s, f"{n} that is no size", want)
        shape = tuple(dims.substitute(d, known) for d in p.shape)
        if (p.dtype, p.scope, shape) != (b.dtype, b.scope, b.shape):
            text = LoopPrinter().buffer
            want = text(ir.Buffer(p.name, p.dtype, shape, p.scope), True)
            raise self.broken("L-call-args", s, text(b, True), want)
