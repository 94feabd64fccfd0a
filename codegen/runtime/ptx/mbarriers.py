"""``mbarrier``: barriers in shared memory, with phases in which threads arrive and wait.

Copies that a barrier counts arrive as late as they may: when somebody tests it for the end of the
phase that counts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx.access import change
from didyma.codegen.runtime.ptx.code import Place, unknown
from didyma.codegen.runtime.ptx.copies import copies_of, land_all
from didyma.codegen.runtime.ptx.memory import ASYNC, LAND, READ, SPACES, UPDATE, WRITE
from didyma.codegen.runtime.ptx.operands import Action, Operands
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_SHARED = SPACES["shared"]
_EVERYONE = -1  # in place of a block: those who wait in any block of the cluster


@dataclass(slots=True)
class LateCopy:
    """A bulk copy of a lane under way to addresses of shared memory.

    ``update`` is how it changes what is there, and the type of its numbers.
    """

    lane: int
    to: Array
    data: Array
    pc: int
    update: tuple[str, str] | None = None


@dataclass(slots=True)
class _LateArrival:
    """An arrival of lanes that comes once their copies up to a number have landed."""

    lanes: Array
    number: int


@dataclass(slots=True)
class Mbarrier:
    """Arrivals that a phase wants and still misses, and what the arrivals tell those who wait.

    ``nbytes`` are the bytes of copies that the phase waits for; ``late`` what is under way.  What
    arrivals tell is by block of who waits.
    """

    wanted: int
    missing: int
    nbytes: int = 0
    phase: int = 0
    late: list[LateCopy | _LateArrival] = field(default_factory=list[LateCopy | _LateArrival])
    telling: dict[int, Array] = field(default_factory=dict[int, Array])
    told: dict[int, Array] = field(default_factory=dict[int, Array])

    def tell(self, block: int, row: Array) -> None:
        """Add to what the arrivals of this phase tell."""
        before = self.telling.get(block)
        self.telling[block] = row if before is None else np.maximum(before, row)

    def turn(self) -> None:
        """Begin the next phase once all have arrived."""
        if self.missing <= 0 and not self.nbytes:
            self.missing, self.phase = self.wanted, self.phase + 1
            for block, row in self.telling.items():
                before = self.told.get(block)
                self.told[block] = row if before is None else np.maximum(before, row)
            self.telling = {}


def compile_mbarrier(ops: Operands) -> Action | None:
    """Compile an ``mbarrier`` instruction; None for another."""
    ins = ops.ins
    if ins.op == "cp" and "mbarrier" in ins.mods and "arrive" in ins.mods:
        return _arrive_late(ops)
    if ins.op != "mbarrier":
        return None
    match ins.mods[0]:
        case "init" | "inval":
            return _init(ops)
        case "arrive" | "arrive_drop" | "expect_tx" | "complete_tx":
            return _arrive(ops)
        case "test_wait" | "try_wait":
            return _wait(ops)
        case "pending_count":
            get, put = ops.source(1, "u64"), ops.target(0, "u32")
            return lambda m: put(m, (get(m) >> np.uint64(32)).astype(np.uint32))
        case _:
            raise unknown(ins)


def _barriers(m: Machine) -> dict[int, Mbarrier]:
    found: dict[int, Mbarrier] = m.under_way.setdefault("mbarriers", {})
    return found


def _touch(
    m: Machine, ids: Array, addresses: Array, how: int, strength: int, values: Array | None
) -> Array:
    """Access barriers as memory; return where each is, -1 for none."""
    places = np.empty(ids.size, np.int64)
    m.tell(m.memory.access(ids, addresses, 8, _SHARED, how, strength, values, m.at, places))
    return places


def locate(m: Machine, lane: int, address: int) -> int:
    """Return where the barrier of a lane's address is, -1 for none."""
    ids = np.array([lane], np.int32)
    return int(_touch(m, ids, np.array([address], np.int64), UPDATE, 2, None)[0])


def mbarrier(m: Machine, place: int, lanes: Array) -> Mbarrier | None:
    """Return the barrier at a place, or report that lanes use none."""
    found = _barriers(m).get(place)
    if found is None and place >= 0:
        m.report("uninitialised", "an mbarrier is used that was not initialised", lanes)
    return found


def _init(ops: Operands) -> Action:
    address = ops.address(0)
    count = ops.source(1, "u32") if ops.ins.mods[0] == "init" else None

    def init(m: Machine) -> None:
        a = m.active(address(m)).astype(np.int64, copy=False)
        if count is None:
            places = _touch(m, m.ids, a, UPDATE, 2, None)
            for place in places.tolist():
                _barriers(m).pop(place, None)
            return
        places = _touch(m, m.ids, a, WRITE, 0, np.zeros(m.ids.size, np.uint64))
        for place, n in zip(places.tolist(), m.active(count(m)).tolist(), strict=True):
            _barriers(m)[place] = Mbarrier(int(n), int(n))

    return init


def _arrive(ops: Operands) -> Action:
    ins = ops.ins
    first = 0 if isinstance(ops.at(0), Place) else 1
    address = ops.address(first)
    amount = ops.source(first + 1, "u32") if len(ops) > first + 1 else None
    put = ops.target(0, "b64") if first else None
    what, mods = ins.mods[0], ins.mods
    signed = -1 if what == "complete_tx" else 1 if "expect_tx" in mods else 0
    arrives, drops = what in ("arrive", "arrive_drop"), what == "arrive_drop"
    near = "cta" in mods

    def arrive(m: Machine) -> None:
        ids = m.ids
        at = m.active(address(m)).astype(np.int64, copy=False)
        places = _touch(m, ids, at, UPDATE, 2, None)
        amounts = m.active(amount(m)).astype(np.int64) if amount else np.ones(ids.size, np.int64)
        states = np.zeros(ids.size, np.uint64)
        for place in np.unique(places[places >= 0]).tolist():
            mine = places == place
            b = mbarrier(m, place, ids[mine])
            if b is None:
                continue
            states[mine] = b.phase | max(b.missing, 0) << 32
            b.nbytes += signed * int(amounts[mine].sum())
            if arrives:
                count = int(mine.sum() if signed else amounts[mine].sum())
                b.missing -= count
                b.wanted -= count if drops else 0
                if "relaxed" not in mods:
                    _told(m, b, ids[mine], near)
            b.turn()
        if put:
            put(m, m.widened(states))
        m.progress()

    return arrive


def _told(m: Machine, b: Mbarrier, lanes: Array, near: bool) -> None:
    """Let an arrival of lanes tell what they know: to all who wait, or those of their blocks."""
    if not near:
        b.tell(_EVERYONE, m.knowledge.told(lanes))
        return
    blocks = m.memory.block[lanes]
    for block in np.unique(blocks).tolist():
        b.tell(block, m.knowledge.told(lanes[blocks == block]))


def _arrive_late(ops: Operands) -> Action:
    """``cp.async.mbarrier.arrive``: an arrival when the copies of the lane so far have landed."""
    address, counts = ops.address(0), "noinc" not in ops.ins.mods

    def arrive(m: Machine) -> None:
        ids = m.ids
        at = m.active(address(m)).astype(np.int64, copy=False)
        places = _touch(m, ids, at, UPDATE, 2, None)
        for place in np.unique(places[places >= 0]).tolist():
            mine = ids[places == place]
            b = mbarrier(m, place, mine)
            if b is not None:
                b.missing += mine.size if counts else 0
                b.late.append(_LateArrival(mine.copy(), copies_of(m).number))

    return arrive


def arrive_early(m: Machine, b: Mbarrier, copy: LateCopy) -> None:
    """Let a bulk copy arrive as soon as it is issued."""
    _bring(m, b, copy)
    b.turn()
    m.progress()


def _bring(m: Machine, b: Mbarrier, copy: LateCopy) -> None:
    row = m.knowledge.base.copy()
    n, width = np.full(copy.to.size, copy.lane, np.int32), copy.data.shape[1]
    at = np.empty(copy.to.size, np.int64)
    data = copy.data if copy.update is None else None
    m.tell(m.memory.access(n, copy.to, width, _SHARED, LAND, 0, data, copy.pc, at))
    if copy.update is not None:
        change(m, copy.lane, copy.to, copy.data, "shared", copy.update, copy.pc)
    m.memory.spaces[1].flags[at[at >= 0][:, None] + np.arange(width)] |= ASYNC
    b.nbytes -= copy.data.size
    if copy.update is None:
        row[copy.lane] = m.memory.now
    else:  # memory remembers one update of a warp in place of several
        warp = copy.lane & ~31
        row[warp : warp + 32] = m.memory.now
    b.tell(_EVERYONE, row)


def _deliver(m: Machine, b: Mbarrier) -> None:
    """Let arrive what is under way, once nothing else is missing."""
    arrivals = [x for x in b.late if isinstance(x, _LateArrival)]
    if b.missing > sum(x.lanes.size for x in arrivals):
        return
    late, b.late = b.late, []
    for x in late:
        if isinstance(x, LateCopy):
            _bring(m, b, x)
            continue
        land_all(m, x.lanes, x.number)
        b.missing -= x.lanes.size
        row = m.knowledge.base.copy()
        row[x.lanes] = m.memory.now
        b.tell(_EVERYONE, row)
    b.turn()
    m.progress()


def _wait(ops: Operands) -> Action:
    mods = ops.ins.mods
    address, put = ops.address(1), ops.target(0, "pred")
    given = ops.source(2, "u32" if "parity" in mods else "u64")
    learns = "relaxed" not in mods

    def wait(m: Machine) -> None:
        ids = m.ids
        raw: Any = np.empty(ids.size, np.uint64)
        at = m.active(address(m)).astype(np.int64, copy=False)
        places = _touch(m, ids, at, READ, 2, raw)
        phases = m.active(given(m)).astype(np.int64)
        out = np.zeros(ids.size, np.bool_)
        for place in np.unique(places[places >= 0]).tolist():
            mine = places == place
            b = mbarrier(m, place, ids[mine])
            if b is None:
                out[mine] = True
                continue
            out[mine] = _passed(m, b, ids[mine], phases[mine], learns)
            if b.late and not out[mine].all():
                _deliver(m, b)
                out[mine] |= _passed(m, b, ids[mine], phases[mine], learns)
        put(m, m.widened(out))

    return wait


def _passed(m: Machine, b: Mbarrier, lanes: Array, phases: Array, learns: bool) -> Array:
    """Return for which lanes the phase is over that they wait for; these learn what it tells."""
    over = np.asarray((b.phase ^ phases) & 1 == 1)
    if learns and over.any():
        _learn(m, b, lanes[over])
    return over


def _learn(m: Machine, b: Mbarrier, lanes: Array) -> None:
    everyone = b.told.get(_EVERYONE)
    if everyone is not None:
        m.knowledge.teach(lanes, everyone)
    blocks = m.memory.block[lanes]
    for block, row in b.told.items():
        if block != _EVERYONE and (blocks == block).any():
            m.knowledge.teach(lanes[blocks == block], row)
