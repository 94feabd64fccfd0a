"""Calls: of functions, as frames that share the caller's buffers, and of library routines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.lanes.code import Code, Eval
from didyma.refimpl.interp.lanes.exprs import Frame
from didyma.refimpl.interp.lanes.races import Mask
from didyma.refimpl.interp.lanes.stores import Run, StoreCompiler
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.loop import Call, ExternalCall, PrimFunc


class CallCompiler(StoreCompiler):
    """Makes closures of calls."""

    def __init__(
        self, f: PrimFunc, dims: Mapping[str, int], externals: Mapping[str, Routine]
    ) -> None:
        super().__init__(f, dims)
        self.externals = externals

    def call(self, s: Call) -> Run:
        """Call: the body in a frame of its own, for the lanes that are here."""
        f, outer = self.functions[s.callee], self.frame
        values = [self.expr(e) for e in s.dims]
        given = zip(f.params, s.args, strict=True)
        self.frame = Frame(memory={p.name: outer.memory[a] for p, a in given})
        env, clock = self.frame.env, self.clock
        dims: list[tuple[str, Eval]] = []
        for d, value in zip(f.dims, values, strict=True):
            self.bind(d.name, value)
            dims.append((d.name, _within(s, d, value)))
        body = self.ready(f.body)
        self.frame = outer

        def run(mask: Mask) -> None:
            for name, get in dims:
                env[name] = get(mask)
            clock[0] += 1
            body(mask)

        return run

    def routine(self, s: ExternalCall) -> Run:
        """External call, which sees whole arrays and so stands outside lane loops."""
        if self.depth:
            raise ValueError(f"{s.name}: an external call inside a parallel loop")
        routine, attrs = self.externals[s.name], dict(s.attrs)
        outputs = [self.whole(n) for n in s.outputs]
        inputs = [self.whole(n) for n in s.inputs]

        def run(mask: Mask) -> None:
            del mask
            for b in inputs:
                b.load(np.arange(b.numel), self.lanes, None, s)
            for b in outputs:
                b.init = None
            arrays = [[b.data.reshape(b.shape) for b in bs] for bs in (outputs, inputs)]
            routine(arrays[0], arrays[1], attrs)

        return run


def _within(s: Call, d: DimVar, value: Code) -> Eval:
    """How to get the value of a dim, which is in its range."""
    get, known = value.run, value.interval
    if known is not None and d.lo <= known[0] and known[1] <= d.hi:
        return get

    def run(mask: Mask) -> Value:
        found = get(mask)
        bad = np.asarray((found < d.lo) | (found > d.hi))
        if (bad if mask is None else bad & mask).any():
            raise stmt_fault("dim-out-of-range", s, f"{d.name} outside [{d.lo}, {d.hi}]")
        return found

    return run
