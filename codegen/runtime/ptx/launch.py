"""Launches of a kernel: memory for its arguments, batches of blocks, and what the checks found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx import bulk, clusters, units
from didyma.codegen.runtime.ptx.calls import FUNCTIONS, HEAP, allocates
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.machine import DONE, GIVEN_UP, Machine, Report, Shape
from didyma.codegen.runtime.ptx.memory import (
    CONSTANT,
    GLOBAL,
    GUARD,
    INIT,
    UNIT,
    Allocation,
    Memory,
    Space,
)
from didyma.codegen.runtime.ptx.running import Ended, run
from didyma.refimpl.ir.types import Array, DType

_BATCH, _TOGETHER = 1 << 14, 1 << 16  # lanes that run together; where blocks wait for each other
_WHOLE = 1 << 19  # lanes that run together at most, where the first blocks wait for others


@dataclass(slots=True)
class Region:
    """Bytes of global memory that a launch may use; it changes them, and what is written.

    ``writers`` has after a launch, for each byte, the instruction that wrote it last, or -1.
    ``units`` are those of a kernel in the ring (``units.UNIT``), two bytes each, before and after.
    Nothing writes to what is ``fixed``.
    """

    name: str
    data: Array
    written: Array
    writers: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    units: Array = field(default_factory=lambda: np.zeros(0, UNIT))
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument: the address of a byte of a region, by its number.

    Of several copies of the grid, each has a region of its own, one after the other, if it is
    ``own``.
    """

    region: int
    offset: int = 0
    own: bool = False


# An argument: a pointer, bytes, or the parts of a structure, each with its offset.
Value: TypeAlias = "Pointer | bytes | tuple[tuple[int, Pointer | bytes], ...]"


@dataclass(slots=True)
class Launch:
    """What a launch did; ``ended`` is false where it could not go on.

    ``late``: it was stopped at its time limit, or long after an access out of bounds, which ends
    a launch on a GPU.  ``met`` are the regions that atomics and ordered loads were seen to access.
    ``copies`` tells of the grid's copies which have ended, ``strayed`` which of several have made
    accesses out of bounds or misaligned.  ``left`` has the bytes of each variable
    of the module that has others than before the launch.
    """

    kernel: Kernel
    reports: dict[tuple[str, int], Report] = field(default_factory=dict[tuple[str, int], Report])
    ended: bool = True
    late: bool = False
    steps: int = 0
    lane_steps: int = 0
    met: set[int] = field(default_factory=set[int])
    copies: Array = field(default_factory=lambda: np.zeros(0, np.bool_))  # that ended
    given_up: Array = field(default_factory=lambda: np.zeros(0, np.bool_))  # and that would not
    strayed: Array = field(default_factory=lambda: np.zeros(0, np.bool_))  # and that did
    left: dict[str, bytes] = field(default_factory=dict[str, bytes])  # in changed variables
    left_units: dict[str, Array] = field(default_factory=dict[str, Array])  # in all, in the ring


def launch(
    kernel: Kernel,
    shape: Shape,
    regions: Sequence[Region],
    args: Sequence[Value],
    shared: int = 0,
    schedule: int = 0,
    seconds: float = 60.0,
    passed: Sequence[tuple[int, Array]] = (),
    held: Mapping[str, Array] | None = None,
) -> Launch:
    """Run all blocks of a kernel.

    ``shared``: bytes of dynamic shared memory.  ``schedule`` chooses which warps go first, where
    there is a choice.  A launch that takes ``seconds`` of processor time counts as a hang.
    ``passed`` are floats among the arguments whose digits somebody has computed, at bytes of the
    parameters, which in the ring are what constants of the text are.  ``held`` are the units of
    variables that a launch before has left in the ring.
    """
    most = _TOGETHER if kernel.synchronises else _BATCH
    lanes = shape.blocks * shape.padded
    if shape.copies > 1:
        most = lanes
    again = most < lanes <= _WHOLE
    kept = [(r.data.copy(), r.written.copy(), r.units.copy()) for r in regions if again]
    more = passed, held or {}
    done = _batches(kernel, shape, regions, args, shared, schedule, seconds, most, *more)
    if not again or not _hung(done):
        return done
    for r, (data, written, marks) in zip(regions, kept, strict=True):  # it may wait for a later one
        r.data[:], r.written[:], r.units = data, written, marks
    return _batches(kernel, shape, regions, args, shared, schedule, seconds, lanes, *more)


def _hung(done: Launch) -> bool:
    return any(r.kind == "hang" for r in done.reports.values())


def _batches(
    kernel: Kernel,
    shape: Shape,
    regions: Sequence[Region],
    args: Sequence[Value],
    shared: int,
    schedule: int,
    seconds: float,
    most: int,
    passed: Sequence[tuple[int, Array]],
    units_of: Mapping[str, Array],
) -> Launch:
    """Run all blocks in batches of at most so many lanes."""
    out = Launch(kernel)
    room = sum(r.data.size + 2 * GUARD for r in regions) + kernel.param_bytes + 8 * GUARD
    variables = kernel.program.variables.values()
    room += sum((v.size + 256 + GUARD) * shape.copies for v in variables if v.space in _DEVICE)
    heap = HEAP if allocates(kernel.program) else 0
    ring = kernel.meaning is not None
    cell = kernel.cell if shape.copies == 1 else 0
    space = Space("global", room + heap, 0, 1, cell, ring=ring)
    places, symbols, params, spread = _fill(space, kernel, regions, args, shape.copies)
    strides = _strides(kernel, places, args)
    of_copies = [(symbols[n] - GLOBAL, apart) for n, apart in spread.items()]
    owner = _owner(space, places, args, of_copies, shape.copies)
    symbols["the heap"] = room
    if kernel.meaning is not None:
        for offset, number in passed:
            at = (symbols["parameters of the kernel"] - GLOBAL + offset) // units.WIDTH
            with np.errstate(all="ignore"):
                payload = np.full((1, 1), kernel.meaning.constant(number[()]), np.uint64)
            row = units.made(payload, DType.of(number))[0]
            space.units[at : at + row.size] = row
    own = [Allocation(v.name, symbols[v.name] - GLOBAL, v.size) for v in variables
           if v.space == "global" and not v.refers]  # fmt: skip
    for a in own:
        if a.name in units_of:
            _units(space, a)[:] = units_of[a.name]
    deadline = time.process_time() + seconds
    shape = replace(shape, cluster=kernel.cluster)
    whole = clusters.unit(shape)
    step = max(1, most // shape.padded // whole) * whole
    memory = None
    with np.errstate(all="ignore"):
        for first in range(0, shape.blocks, step):
            count = min(step, shape.blocks - first)
            memory = _memory(space, kernel, shape, first, count, shared, memory)
            m = Machine(kernel, shape, first, memory, symbols, params, schedule, deadline)
            strayed = memory.parted(owner, shape.copies) if owner.size else owner
            if memory.peers is not None:
                m.clusters = clusters.peers(shape, first, count)[1]
            m.specials["envreg1"], m.specials["envreg2"] = map(
                np.uint32, divmod(symbols[_WORKSPACE], 1 << 32)
            )
            m.specials["dynamic_smem_size"] = np.uint32(shared)
            m.specials["total_smem_size"] = np.uint32(kernel.shared_end + shared)
            m.reports, m.strides, m.spread = out.reports, strides, spread
            try:
                run(m)
                bulk.finish(m)
            except Ended:
                out.ended = False
                out.late = m.steps > m.last_step or time.process_time() > deadline
            out.copies = (m.state.reshape(shape.copies, -1) == DONE).all(1)
            out.given_up = (m.state.reshape(shape.copies, -1) == GIVEN_UP).any(1)
            out.strayed = np.asarray(strayed.reshape(shape.copies, -1).any(1))
            out.steps += m.steps
            out.lane_steps += m.lane_steps
            out.met |= _regions(places, m.met.values())
            if not out.ended or _hung(out):
                break
    for region, a in zip(regions, places, strict=True):
        region.data[:] = space.data[a.start : a.start + a.size]
        region.written[:] = (space.flags[a.start : a.start + a.size] & INIT) != 0
        region.writers = space.writers(a)
        if ring:
            region.units = _units(space, a).copy()
    for a in own:
        now = space.data[a.start : a.start + a.size].tobytes()
        if now != kernel.program.variables[a.name].init.ljust(a.size, b"\0")[: a.size]:
            out.left[a.name] = now
        if ring:
            out.left_units[a.name] = _units(space, a).copy()
    return out


def _regions(places: Sequence[Allocation], addresses: Iterable[int]) -> set[int]:
    """Return the numbers of the regions that addresses lie in."""
    offsets = [a - GLOBAL for a in addresses]
    return {
        k for k, p in enumerate(places) if any(p.start <= at < p.start + p.size for at in offsets)
    }


def _units(space: Space, a: Allocation) -> Array:
    """Return the units of an allocation."""
    return space.units[a.start // units.WIDTH :][: -(-a.size // units.WIDTH)]


_DEVICE = ("global", "const")
_WORKSPACE = "the barrier of the grid"  # which a cooperative launch gives to the kernel


def _fill(
    space: Space, kernel: Kernel, regions: Sequence[Region], args: Sequence[Value], copies: int
) -> tuple[list[Allocation], dict[str, int], bytes, dict[str, int]]:
    """Put regions, variables and parameters into global memory.

    Each copy of the grid has variables of its own, but for those that refer to others.  The last
    result has how far apart these are, by name.
    """
    end = GUARD

    def put(name: str, data: Array, flags: int) -> Allocation:
        nonlocal end
        a = Allocation(name, end, data.size)
        end += -(-data.size // 256) * 256 + GUARD
        space.allow(a, flags)
        space.data[a.start : a.start + a.size] = data
        return a

    places = [put(r.name, r.data, CONSTANT if r.fixed else 0) for r in regions]
    for r, a in zip(regions, places, strict=True):
        space.flags[a.start : a.start + a.size] |= np.where(r.written, INIT, 0).astype(np.uint8)
        if r.units.size and space.units.size:
            _units(space, a)[:] = r.units
    symbols, spread = dict(kernel.offsets), dict[str, int]()
    symbols |= {n: FUNCTIONS + 64 * k for k, n in enumerate(kernel.program.functions)}
    for v in kernel.program.variables.values():
        if v.space in _DEVICE:
            raw = np.frombuffer(v.init.ljust(v.size, b"\0")[: v.size], np.uint8)
            flags = INIT | (CONSTANT if v.space == "const" else 0)
            own = copies if v.space == "global" and not v.refers else 1
            starts = [put(v.name, raw, flags).start for _ in range(own)]
            symbols[v.name] = GLOBAL + starts[0]
            if own > 1:
                spread[v.name] = starts[1] - starts[0]
    for v in kernel.program.variables.values():
        for at, name, offset in v.refers if v.space in _DEVICE else ():
            start = symbols[v.name] - GLOBAL + at
            value_ = (symbols.get(name, -offset) + offset).to_bytes(8, "little")
            space.data[start : start + 8] = np.frombuffer(value_, np.uint8)
    symbols[_WORKSPACE] = GLOBAL + put(_WORKSPACE, np.zeros(64, np.uint8), INIT).start
    params = bytearray(kernel.param_bytes)
    for v, given in zip(kernel.program.kernel.params, args, strict=True):
        for offset, part in given if isinstance(given, tuple) else ((0, given),):
            value = part
            if isinstance(value, Pointer):
                value = (GLOBAL + places[value.region].start + value.offset).to_bytes(8, "little")
            at, value = kernel.param_at[v.name] + offset, value[: v.size - offset]
            params[at : at + len(value)] = value
    whole = np.frombuffer(bytes(params) or b"\0", np.uint8)
    name = "parameters of the kernel"
    symbols[name] = GLOBAL + put(name, whole, INIT | CONSTANT).start
    return places, symbols, bytes(params), spread


def _owner(
    space: Space,
    places: Sequence[Allocation],
    args: Sequence[Value],
    variables: Iterable[tuple[int, int]],
    copies: int,
) -> Array:
    """Return whose each 256 bytes are: a copy of the grid, from 1 on, or 0; empty for one copy.

    Copies have regions of their own, and ``variables``: where the first is, and how far apart.
    """
    if copies == 1:
        return np.zeros(0, np.uint16)
    parts = chain.from_iterable(a if isinstance(a, tuple) else ((0, a),) for a in args)
    own = [p.region for _, p in parts if isinstance(p, Pointer) and p.own]
    firsts = ((places[k].start, places[k + 1].start - places[k].start) for k in own)
    found = np.zeros(space.size // 256, np.uint16)
    for start, apart in (*firsts, *variables):
        for k in range(copies):
            at = start + k * apart
            found[at // 256 : (at + apart - GUARD) // 256] = k + 1
    return found


def _strides(kernel: Kernel, places: Sequence[Allocation], args: Sequence[Value]) -> dict[int, int]:
    """Return how far apart the regions of the grid's copies are, by the byte of a parameter."""
    found: dict[int, int] = {}
    for v, given in zip(kernel.program.kernel.params, args, strict=True):
        for offset, value in given if isinstance(given, tuple) else ((0, given),):
            if isinstance(value, Pointer) and value.own:
                first, second = (places[value.region + k].start for k in (0, 1))
                found[kernel.param_at[v.name] + offset] = second - first
    return found


def _memory(
    space: Space,
    kernel: Kernel,
    shape: Shape,
    first: int,
    count: int,
    dynamic: int,
    before: Memory | None,
) -> Memory:
    """Return the memory of a batch of blocks, whose global part is that of all."""
    n = count * shape.padded
    ring = kernel.meaning is not None
    size = kernel.shared_end + dynamic + 256
    shared = Space("shared", size, 1, count, space.cell, ring=ring)
    for a in kernel.shared:
        shared.allow(a)
    if dynamic:
        shared.allow(Allocation("dynamic shared memory", kernel.shared_end, dynamic))
    local = Space("local", max(16, kernel.local_end), 2, n if kernel.local_end else 1, 0, ring=ring)
    for a in kernel.local:
        local.allow(a)
    block = (np.arange(n) // shape.padded).astype(np.int32)
    peers = clusters.peers(shape, first, count)[0] if kernel.reaches_peers else None
    memory = Memory((space, shared, local), block, first * shape.padded, peers=peers)
    if before is not None:
        memory.follow(before)
    return memory
