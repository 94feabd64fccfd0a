"""The definition of a chain: the results of the blocks of a line, folded in their order."""

from __future__ import annotations

import numpy as np

from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.loop_thread import Thread, evaluate
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir import loop as ir


def chained(t: Thread, s: ir.Chain) -> Value:
    """Return the result of the blocks before this one; leave that which includes this one."""
    block, size = 0, 1
    for axis in ir.AXES[:3]:
        i, extent = t.at.get(axis, (0, 1))
        block, size = block + i * size, size * extent
    first = t.at[ir.AXES[0]][0] == 0

    def place(name: str, i: int) -> tuple[int, ...]:
        return t.memory.element(name, [np.int64(i)], s)

    begun, state = place(s.states, 0), place(s.states, 1 + block)
    if t.memory.load(s.states, state, s) != 0:
        raise stmt_fault("assert", s, f"{s.states} does not begin as zeros")
    if first:
        before = evaluate(t, s.start, s)
    else:
        before = t.memory.load(s.totals, place(s.totals, 2 * block - 1), s)
    value = t.given[0]
    together = t.arithmetic.binary_fn(s.op, s.var.dtype)(before, value)
    t.memory.store(s.totals, place(s.totals, 2 * block), value, s)
    t.memory.store(s.totals, place(s.totals, 2 * block + 1), together, s)
    count = t.memory.load(s.states, begun, s)
    t.memory.store(s.states, begun, np.int32(count + 1), s)
    t.memory.store(s.states, state, np.int32(2), s)
    return before
