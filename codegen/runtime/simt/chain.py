"""Blocks that wait for those before them: here they run in the order of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from didyma.codegen.emit.intrinsics import TABLE
from didyma.codegen.runtime.simt import access
from didyma.codegen.runtime.simt.access import Mask, Run, Value
from didyma.codegen.runtime.simt.memory import LaneArray
from didyma.codegen.runtime.simt.values import Arithmetic, Fn

Eval: TypeAlias = Callable[[Run, Mask], Value]

TICKET: Final = "chain_ticket"
_OPERATORS: Final = {"add": "+", "mul": "*"}


def compiled(
    name: str, arithmetic: Arithmetic, arrays: Sequence[str], given: Sequence[Eval], line: int
) -> Eval:
    """Compile the call of an intrinsic, by the names of arrays and the other arguments."""
    if name == TICKET:
        return lambda r, m: _ticket(r, r.arrays[arrays[0]], m, line)
    t, op = TABLE[name].result, name.split("_")[1]
    floats = t in ("f32", "f64")
    combine = arithmetic.binary(_OPERATORS[op]) if floats else arithmetic.function(f"{op}_{t}")
    convert = arithmetic.converter(t)

    def run(r: Run, m: Mask) -> Value:
        number, blocks, start, value = (f(r, m) for f in given)
        states, totals = (r.arrays[a] for a in arrays)
        values = number, blocks, convert(start), convert(value)
        return _chain(r, combine, states, totals, values, m, line)

    return run


def _ticket(r: Run, states: LaneArray, m: Mask, line: int) -> Value:
    """Number the blocks, which begin in the order of their indices here; count them."""
    if m is not None:
        access.arrived(r, m, "ticket", line)
    first = np.arange(r.warps.size) % r.warps.threads == 0
    access.atomic(r, "add", states, np.int64(0), np.int32(1), first, line)
    r.warps.epoch += 1
    return r.warps.lane // r.warps.threads


def _chain(
    r: Run,
    combine: Fn,
    states: LaneArray,
    totals: LaneArray,
    given: Sequence[Value],
    m: Mask,
    line: int,
) -> Value:
    """Return for each block the result of those before it, along lines of ``blocks``.

    ``given`` are the number of the block, ``blocks``, what the first of a line has, and the value.
    Blocks run in the order of their numbers, so none ever waits; how they wait elsewhere, and what
    orders their accesses then, is the affair of the intrinsic.
    """
    if m is not None:
        access.arrived(r, m, "chain", line)
    w = r.warps
    n, blocks, start, value = (r.lanes(x)[:: w.threads] for x in given)
    n = n.astype(np.int64)
    if (last := int(n.max())) + 2 > states.count or 2 * last + 2 > totals.count:
        detail = f"global {states.name} and {totals.name} have no place for block {last}"
        r.report("out-of-bounds", detail, w.threads, line)
        return r.lanes(given[2])
    if (states.data[n + 1] != 0).any() or (
        states.written is not None and not states.written[n].all()
    ):
        r.report("uninitialised", f"global {states.name} does not begin as zeros", w.size, line)
    before = start.copy()
    for i, (at, along) in enumerate(zip(n, n % blocks, strict=True)):
        if along:
            before[i] = totals.read(2 * at - 1)
        totals.write(2 * at, value[i])
        totals.write(2 * at + 1, combine(before[i], value[i]))
    firsts = np.arange(w.blocks) * w.threads
    for a, some in ((states, n + 1), (totals, 2 * n), (totals, 2 * n + 1)):
        if a.written is not None:
            a.written[some] = True
        access.account(r, a, some, firsts, read=1, written=1)
    states.data[n + 1] = 2
    w.epoch += 1
    return np.repeat(before, w.threads)
