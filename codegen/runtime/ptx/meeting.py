"""What lanes of a warp do together: shuffles, votes, matches, sums, and their barrier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx.code import Pair, Reg, unknown
from didyma.codegen.runtime.ptx.kinds import TYPES
from didyma.codegen.runtime.ptx.machine import AT_WARP, DONE, RUN
from didyma.codegen.runtime.ptx.operands import Operands, Source
from didyma.codegen.runtime.ptx.taint import COMPUTED
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

ALL = np.uint32(0xFFFFFFFF)
OPS = frozenset(("shfl", "vote", "match", "redux", "elect"))
MATRICES = frozenset(("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"))
# What the active lanes do, given those of their warp that are present, and their masks.
Body: TypeAlias = "Callable[[Machine, Array, Array], None]"


def meets(op: str, mods: tuple[str, ...]) -> bool:
    """Return whether lanes of a warp meet at an instruction."""
    if op == "wgmma":
        return mods[0] == "mma_async"
    return op in OPS or op in MATRICES or (op in ("bar", "barrier") and "warp" in mods)


def warps_of(m: Machine, lanes: Array) -> Array:
    """Return for each warp the bits of those of its lanes that are given."""
    here = np.zeros(m.size, np.uint32)
    here[lanes] = np.uint32(1) << (lanes & 31).astype(np.uint32)
    found: Array = here.reshape(-1, 32).sum(1, dtype=np.uint32)
    return found


def compile_meeting(body: Body, mask: Source, at: int) -> Callable[[Machine], Any]:
    """Return the function that runs ``body`` once all lanes of a mask are there."""

    def meet(m: Machine) -> int | None:
        m.memory.now += 1
        want = mask(m)
        if m.ids.size == m.size and np.ndim(want) == 0 and want == ALL:
            full = np.full(m.size, ALL)
            body(m, full, full)
            return at + 1
        group = m.ids
        earlier = np.flatnonzero((m.state == AT_WARP) & (m.pc == at)).astype(np.int32)
        here = np.union1d(earlier, group) if earlier.size else group
        m.state[earlier] = RUN
        m.select(here)
        wanted = m.active(np.asarray(mask(m)).astype(np.uint32))
        warp = here >> 5
        present = warps_of(m, here)
        live = warps_of(m, np.flatnonzero(m.state != DONE))
        outside = (wanted >> (here & 31).astype(np.uint32)) & np.uint32(1) == 0
        if outside.any():
            text = f"a lane is not in its own mask {int(wanted[outside][0]):#x}"
            m.report("wrong-mask", text, here[outside])
        missing = (wanted & live[warp] & ~present[warp]) != 0
        if missing.any():
            m.state[here[missing]] = AT_WARP
            m.pc[here[missing]] = at
            here, wanted = here[~missing], wanted[~missing]
            if not here.size:
                return None
            m.select(here)
            present = warps_of(m, here)
        body(m, present[here >> 5], wanted)
        m.pc[here] = at + 1
        return at + 1 if here.size == group.size and not missing.any() else None

    return meet


def compile_warp(ops: Operands) -> tuple[Body, Source]:
    """Compile what a warp does together; the body and the mask of lanes."""
    match ops.ins.op:
        case "bar" | "barrier":
            return _sync, ops.source(0, "u32")
        case "shfl":
            return _shuffle(ops), ops.source(4, "u32")
        case "vote":
            return _vote(ops), ops.source(2, "u32")
        case "redux":
            return _reduce(ops), ops.source(2, "u32")
        case "match":
            return _match(ops), ops.source(2, "u32")
        case "elect":
            return _elect(ops), ops.source(1, "u32")
        case _:
            raise unknown(ops.ins)


def _sync(m: Machine, present: Array, want: Array) -> None:
    """Let lanes know what those of their mask did before."""
    mem, ids = m.memory, m.ids
    exist = warps_of(m, np.flatnonzero(m.exists))[ids >> 5]
    whole = (want & exist) == exist
    whole &= present == exist
    mem.warp[ids[whole]] = mem.now
    if mem.rows or not whole.all():
        keys = (ids >> 5).astype(np.int64) << 32 | (want & present)
        _, group = np.unique(keys, return_inverse=True)
        if not whole.all():
            mates = mem.with_mates()
            known = np.zeros((int(group.max()) + 1, 32), np.int32)
            np.maximum.at(known, group, np.maximum(mates[ids], mem.warp[ids][:, None]))
            there = (want & present)[:, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
            mates[ids] = np.where(there == 1, mem.now, known[group])
        if mem.rows:
            for g in np.unique(group):
                m.knowledge.share(ids[group == g])


def _shuffle(ops: Operands) -> Body:
    mods = ops.ins.mods
    how = mods[1]
    put, other = ops.pair(0, "b32")
    a, b, c = (ops.source(k, "u32") for k in (1, 2, 3))

    def shuffle(m: Machine, present: Array, want: Array) -> None:
        ids = m.ids
        j, inside = partners(m, how, b, c)
        taking, lost = present & want, np.zeros(m.ids.size, np.bool_)
        if (taking != ALL).any():
            lost = (taking >> j.astype(np.uint32)) & np.uint32(1) == 0
        every = np.zeros(m.size, np.uint32)
        every[ids] = m.active(a(m))
        if m.taints.masks:
            _shuffle_taint(m, ids, (ids & ~31) + j)
        if lost.any():
            text = f"shfl.{how} reads lane {int(j[lost][0])}, which takes no part"
            _lose(m, ids[lost], text)
        put(m, m.widened(every[(ids & ~31) + j]))
        if other:
            other(m, m.widened(inside))

    return shuffle


def partners(m: Machine, how: str, by_: Source, bounds_: Source) -> tuple[Array, Array]:
    """Return from which lane of its warp each lane reads in a shuffle, and whether it is in bounds.

    ``by_`` and ``bounds_`` are the second and third operand of ``shfl``.
    """
    lane = (m.ids & 31).astype(np.int64)
    by, bounds = m.active(by_(m)).astype(np.int64) & 31, m.active(bounds_(m)).astype(np.int64)
    segment, clamp = (bounds >> 8) & 31, bounds & 31
    limit = (lane & segment) | (clamp & ~segment)
    if how == "up":
        j = lane - by
        inside = j >= limit
    else:
        j = {"down": lane + by, "bfly": lane ^ by, "idx": (lane & segment) | (by & ~segment)}[how]
        inside = j <= limit
    return np.where(inside, j, lane), inside


def _lose(m: Machine, ids: Array, text: str) -> None:
    """Taint what lanes get from lanes that take no part: it is reported where it is used."""
    to = _received(m)
    if to is not None:
        m.taints.texts[m.at] = text
        m.taints.kinds[m.at] = "inactive-lane"
        m.taints.set(to.index, ids, 0xFF | COMPUTED, m.at)


def _received(m: Machine) -> Reg | None:
    to = m.kernel.program.instrs[m.at].args[0]
    to = to.first if isinstance(to, Pair) else to
    return to if isinstance(to, Reg) else None


def _shuffle_taint(m: Machine, ids: Array, source: Array) -> None:
    to, given = _received(m), m.kernel.program.instrs[m.at].args[1]
    if to is not None:
        mask = m.taints.masks.get(given.index) if isinstance(given, Reg) else None
        origin = m.taints.origin.get(given.index, -1) if isinstance(given, Reg) else -1
        m.taints.set(to.index, ids, None if mask is None else mask[source], origin)


def _vote(ops: Operands) -> Body:
    how = ops.ins.mods[1]
    test, put = ops.source(1, "pred"), ops.target(0, "b32" if how == "ballot" else "pred")

    def vote(m: Machine, present: Array, want: Array) -> None:
        holds = m.active(test(m))
        yes = warps_of(m, m.ids[holds])[m.ids >> 5] & want
        here = present & want
        results: Mapping[str, Array] = {
            "ballot": yes, "any": yes != 0, "all": yes == here, "uni": (yes == here) | (yes == 0),
        }  # fmt: skip
        put(m, m.widened(results[how]))

    return vote


def _reduce(ops: Operands) -> Body:
    how, kind = ops.ins.mods[1], ops.ins.mods[-1]
    functions: Mapping[str, Any] = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
        "or": np.bitwise_or, "xor": np.bitwise_xor,
    }  # fmt: skip
    if kind == "f32":
        raise unknown(ops.ins)
    f, a, put = functions[how], ops.source(1, kind), ops.target(0, kind)

    def reduce(m: Machine, present: Array, want: Array) -> None:
        _, group = np.unique((m.ids >> 5).astype(np.int64) << 32 | want, return_inverse=True)
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        folded = f.reduceat(m.active(a(m))[order], starts)
        put(m, m.widened(folded[group].astype(TYPES[kind])))

    return reduce


def _match(ops: Operands) -> Body:
    how, kind = ops.ins.mods[0], ops.ins.mods[-1]
    a = ops.source(1, kind)
    put, other = ops.pair(0, "b32")

    def match(m: Machine, present: Array, want: Array) -> None:
        ids, mine = m.ids, m.active(a(m))
        v = np.zeros(m.size, mine.dtype)
        v[ids] = mine
        takes = present & want
        out = np.zeros(ids.size, np.uint32)
        for k in range(32):
            bit = np.uint32(1 << k)
            out |= np.where((v[(ids & ~31) + k] == mine) & (takes & bit != 0), bit, np.uint32(0))
        if how == "all":
            same = out == takes
            out = np.where(same, out, np.uint32(0))
            if other:
                other(m, m.widened(same))
        put(m, m.widened(out))

    return match


def _elect(ops: Operands) -> Body:
    put, other = ops.pair(0, "b32")

    def elect(m: Machine, present: Array, want: Array) -> None:
        here: Array = present & want
        lowest: Array = here & (~here + np.uint32(1))
        leader = np.log2(np.maximum(lowest, 1).astype(np.float64)).astype(np.uint32)
        put(m, m.widened(leader))
        if other:
            other(m, m.widened(leader == (m.ids & 31)))

    return elect
