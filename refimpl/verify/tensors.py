"""The laws of producers and of parts of buffers.

| law | says |
|---|---|
| L-realize | a part is of a local buffer, or of a producer whose operands are realized around it |
| L-compute | a producer's step stores its own element, from inputs and producers above it |
"""

from __future__ import annotations

from typing import Protocol

from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.expr import ZERO
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.walk import exprs, stmts, subexprs
from didyma.refimpl.verify.scalars import Construct, Scalars
from didyma.refimpl.verify.sizes import Sizes

# What no step holds: it is for one element, by one thread, and needs no other place.
_NO_STEP = (
    ir.Barrier, ir.Call, ir.Free, ir.PlacementAllocate, ir.BufferRealize,
    ir.Compute, ir.ProducerRealize,
)  # fmt: skip


class Verifier(Protocol):
    """What checks the statements around; ``producers`` are those defined there."""

    f: ir.PrimFunc
    scalars: Scalars
    sizes: Sizes
    producers: dict[str, ir.Compute]
    fold: ir.Fold | None
    outer: bool

    def stmt(self, s: ir.Stmt) -> None:
        """Check a statement."""
        ...

    def broken(self, law: str, at: Construct, got: str, want: str) -> DidymaError:
        """Return the error of a broken law."""
        ...


def buffer_realize(v: Verifier, s: ir.BufferRealize) -> None:
    """Check a buffer of which a part exists."""
    v.scalars.declare(s.buffer.name, s)
    _part(v, s, s.buffer, s.starts, s.extents)
    v.scalars.written.add(s.buffer.name)
    _realized(v, s.buffer, s.body)


def compute(v: Verifier, s: ir.Compute) -> None:
    """Check the definition of a producer, whose step sees inputs and the producers above."""
    b, known = s.buffer, v.scalars
    known.declare(b.name, s)
    _part(v, s, b, (ZERO,) * len(b.shape), ())
    if len(s.vars) != len(b.shape):
        got, want = counted(len(s.vars), "variable"), f"{len(b.shape)}, one for each axis"
        raise v.broken("L-compute", s, got, want)
    for below in stmts(s.step):
        if isinstance(below, _NO_STEP) or (isinstance(below, ir.For) and below.axis):
            want = "loads, stores, folds and loops of one thread"
            raise v.broken("L-compute", s, f"`{show_line(below)}` in a step", want)
        match below:
            case ir.Store(name, index) | ir.Atomic(_, name, index) if name == b.name:
                if index != s.vars or isinstance(below, ir.Atomic):
                    want = f"a store to the element at {', '.join(x.name for x in s.vars)}"
                    raise v.broken("L-compute", below, "another access", want)
            case _:
                pass
    around = known.vars, known.buffers, known.written, known.freed, v.fold, v.outer
    seen = [*(ir.Var(d.name) for d in v.f.dims), *v.f.scalars]
    known.vars, v.fold = {x.name: x.dtype for x in seen}, None
    inputs = {p.name: p for p in v.f.params if p.name not in v.f.outputs}
    known.buffers = {**inputs, **{n: c.buffer for n, c in v.producers.items()}, b.name: b}
    known.written = {b.name}
    known.freed = set()
    for x in s.vars:
        known.bind(x, ir.INDEX, s)
    v.stmt(s.step)
    known.vars, known.buffers, known.written, known.freed, v.fold, v.outer = around
    v.producers[b.name] = s
    v.stmt(s.body)
    del v.producers[b.name]


def producer_realize(v: Verifier, s: ir.ProducerRealize) -> None:
    """Check where a part of a producer is computed: what its step loads is there."""
    live = v.scalars.buffers.keys() - v.scalars.freed
    found = v.producers.get(s.producer)
    if found is None or s.producer in live:
        known = ", ".join(v.producers) or "there is none"
        want = f"a producer that is not realized around: {known}"
        raise v.broken("L-realize", s, s.producer, want)
    _part(v, s, found.buffer, s.starts, s.extents)
    loaded = {e.buffer for e in exprs(found.step) if isinstance(e, ir.Load)}
    for name in sorted((loaded & v.producers.keys()) - {s.producer} - live):
        raise v.broken("L-realize", s, f"no {name} around", f"{name}, which its step loads")
    _realized(v, found.buffer, s.body)


def _part(
    v: Verifier, s: ir.Stmt, b: ir.Buffer, starts: tuple[ir.Expr, ...], extents: tuple[int, ...]
) -> None:
    """Check the part of a buffer that is made."""
    where = f"@{v.scalars.where}, {b.name}"
    v.scalars.unpacked(b.dtype, s)
    v.sizes.shape(b.shape, b.dtype, where)
    v.sizes.shape(extents, b.dtype, where)
    if b.scope is not ir.Scope.LOCAL:
        raise v.broken("L-realize", s, str(b.scope), str(ir.Scope.LOCAL))
    if len(starts) != len(b.shape):
        got = counted(len(starts), "axis")
        raise v.broken("L-realize", s, got, f"{len(b.shape)}, as {b.name} has")
    for e in starts:
        if (dtype := v.scalars.expr(e)) is not ir.INDEX:
            raise v.broken("L-index-dtype", s, str(dtype), str(ir.INDEX))
        if any(isinstance(x, ir.Load) for x in subexprs(e)):
            raise v.broken("L-realize", s, "a load in a start", "variables and literals")


def _realized(v: Verifier, b: ir.Buffer, body: ir.Stmt) -> None:
    """Check where a part of a buffer exists, which is loaded and stored and nothing else."""
    for below in stmts(body):
        used: tuple[str, ...] = ()
        match below:
            case ir.Call(args=args):
                used = args
            case ir.Free(name) | ir.PlacementAllocate(over=name):
                used = (name,)
            case _:
                pass
        if b.name in used:
            want = "loads and stores of a buffer that exists in part"
            raise v.broken("L-realize", below, b.name, want)
    v.scalars.buffers[b.name] = b
    v.scalars.freed.discard(b.name)
    v.stmt(body)
    v.scalars.freed.add(b.name)
