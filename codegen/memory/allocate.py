"""Give memory to the values of one program by one planner.

A planner hands whole allocations on within each block, or places values in one arena per device, in
which values of inner blocks lie too, so that no loop allocates.  A value whose size is not known
when the program starts gets an allocation of its own where it is first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from didyma.codegen.guards import guarded
from didyma.codegen.memory.arena.problem import Problem, loads, lower_bound
from didyma.codegen.memory.arena.registry import solve
from didyma.codegen.memory.insert import Insertion
from didyma.codegen.memory.oriented import layout
from didyma.codegen.memory.peak import peak, symbolic_peak
from didyma.codegen.memory.planners import LiveBuffer, Planner, ReusePlan, Whole
from didyma.codegen.memory.sizes import FitProver
from didyma.codegen.memory.values import PlannedValues, called_peak, static_problem
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Arena, Assert, Call, Program
from didyma.refimpl.ir.text import show_instruction

OVER = "over-capacity"


def allocated(values: PlannedValues, planner: Planner, capacity: int | None, stack: int) -> Program:
    """Return the program with memory for its values; arenas of at most ``stack`` bytes are on it.

    DidymaError ``over-capacity``; ``failed-part`` of a planner that fails.
    """
    out = Insertion(values.bare, values.lives)
    for name in values.alone:
        if name not in values.made:
            out.allocate(name)
        if name not in values.gone:
            out.free(name)
    if planner.whole is not None:
        where = f"planner {planner.name}, whole"
        reuse = guarded(where, planner.whole, "a ReusePlan", lambda x: isinstance(x, ReusePlan))
        _wholes(values, reuse, out)
    else:
        _arenas(values, planner, capacity, stack, out)
    planned = out.run()
    if capacity is None:
        return planned
    _require_peak(planned, planner, capacity)
    calls = any(isinstance(x, Call) for x in walk(planned.lines))
    return _within(planned, capacity) if calls or planner.whole is not None else planned


def _wholes(values: PlannedValues, reuse: Whole, out: Insertion) -> None:
    """Hand whole allocations on among the values of each block."""
    sizes = FitProver({v.name: (v.lo, v.hi) for v in values.bare.dims})
    by_block: dict[int, list[LiveBuffer]] = {}
    for b in values.buffers:
        by_block.setdefault(values.lives.of[b.name].block, []).append(b)
    for buffers in by_block.values():
        out.whole([b.name for b in buffers], reuse(buffers, sizes))


def _within(planned: Program, capacity: int) -> Program:
    """Return the program with an assertion for each device that may need more than the capacity."""
    ranges = {v.name: (v.lo, v.hi) for v in planned.dims}
    needed = (symbolic_peak(planned, d) for d in sorted({t.device for _, t in planned.types}))
    asserted = tuple(_asserted(n, capacity) for n in needed if dims.bounds(n, ranges)[1] > capacity)
    return replace(planned, lines=(*asserted, *planned.lines)) if asserted else planned


def _asserted(nbytes: Dim, capacity: int) -> Assert:
    over = dims.maximum(nbytes, capacity)
    return Assert(over, capacity, f"memory is within {capacity} bytes")


def _arenas(
    values: PlannedValues, planner: Planner, capacity: int | None, stack: int, out: Insertion
) -> None:
    """Place values in one arena per device: devices of integer sizes first, then symbolic ones."""
    by_device: dict[str, list[LiveBuffer]] = {}
    for b in values.buffers:
        by_device.setdefault(b.type.device, []).append(b)
    symbolic = {d: any(not isinstance(b.type.nbytes, int) for b in by_device[d]) for d in by_device}
    for device in sorted(by_device, key=lambda d: symbolic[d]):
        arena = _symbolic_arena if symbolic[device] else _static_arena
        arena(values, by_device[device], planner, capacity, stack, out)


def _static_arena(
    values: PlannedValues,
    buffers: Sequence[LiveBuffer],
    planner: Planner,
    capacity: int | None,
    stack: int,
    out: Insertion,
) -> None:
    """Place values whose sizes are integers."""
    beside = called_peak(values.bare, {v.name: v.lo for v in values.bare.dims})
    p = static_problem(buffers, None if capacity is None else max(0, capacity - beside))
    _require_bound(values, p, beside)
    assert planner.arena is not None
    placed = solve(p, planner.arena, planner.seconds, brief=planner.seconds is None)
    name = out.names.fresh("arena")
    device = buffers[0].type.device
    out.start.append(Arena(name, placed.peak, device, stack=placed.peak <= stack))
    for b, offset in zip(buffers, placed.offsets.tolist(), strict=True):
        out.place(b.name, name, offset)


def _symbolic_arena(
    values: PlannedValues,
    buffers: Sequence[LiveBuffer],
    planner: Planner,
    capacity: int | None,
    stack: int,
    out: Insertion,
) -> None:
    """Place values some of whose sizes are symbolic, and known when the program starts."""
    found = layout(buffers, values.bare.dims, planner, out.names.fresh)
    out.start += found.lines
    out.symbols += found.symbols
    if capacity is not None and found.most > capacity:
        out.start.append(_asserted(found.nbytes, capacity))
    name = out.names.fresh("arena")
    device = buffers[0].type.device
    out.start.append(Arena(name, found.nbytes, device, stack=found.most <= stack))
    for b in buffers:
        out.place(b.name, name, found.offsets[b.name])


def _require_peak(p: Program, planner: Planner, capacity: int) -> None:
    """Refuse a planned program that takes more than the capacity at the least sizes."""
    least = peak(p, {v.name: v.lo for v in p.dims})
    if least > capacity:
        raise DidymaError(
            OVER,
            f"@{p.name}, planner {planner.name}",
            got=f"a peak of {least} bytes" + " at the least sizes" * bool(p.dims),
            want=f"at most {capacity}",
            help="another planner may do better",
        )


def _require_bound(values: PlannedValues, p: Problem, beside: int) -> None:
    """Refuse values that no planner can place within the capacity, with the line that needs most.

    ``beside`` is what called functions take, in bytes.
    """
    if p.capacity is None or (bound := lower_bound(p)) <= p.capacity:
        return
    times, load = loads(p)
    at = int(times[int(load.argmax())])
    live = [i for i in range(p.count) if p.lower[i] <= at < p.upper[i] and p.size[i]]
    live.sort(key=lambda i: -int(p.size[i]))
    listed = ", ".join(f"%{p.names[i]} ({p.size[i]})" for i in live[:8])
    more = f" and {len(live) - 8} more" if len(live) > 8 else ""
    more += f", and {beside} bytes in functions" * bool(beside)
    line = values.lives.line(at)
    raise DidymaError(
        OVER,
        f"@{values.bare.name}, {show_instruction(line).splitlines()[0]}",
        got=f"{bound + beside} bytes alive at once: {listed}{more}",
        want=f"a capacity of at least {bound + beside}, not {p.capacity + beside}",
    )
