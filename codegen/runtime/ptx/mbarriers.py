"""``mbarrier``: barriers in shared memory, with phases in which threads arrive and wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx.code import Place, unknown
from didyma.codegen.runtime.ptx.memory import READ, SPACES, UPDATE, WRITE
from didyma.codegen.runtime.ptx.operands import Action, Operands
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_SHARED = SPACES["shared"]


@dataclass(slots=True)
class _Mbarrier:
    """Arrivals that a phase wants and still misses, and what the arrivals tell those who wait.

    ``missing`` are also the bytes of copies that the phase waits for.
    """

    wanted: int
    missing: int
    nbytes: int = 0
    phase: int = 0
    telling: Array | None = None
    told: Array | None = None

    def turn(self) -> None:
        """Begin the next phase once all have arrived."""
        if self.missing <= 0 and not self.nbytes:
            self.missing, self.phase = self.wanted, self.phase + 1
            self.told = _both(self.told, self.telling)
            self.telling = None


def _both(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else np.maximum(a, b)


def compile_mbarrier(ops: Operands) -> Action | None:
    """Compile an ``mbarrier`` instruction; None for another."""
    ins = ops.ins
    if ins.op != "mbarrier":
        return None
    match ins.mods[0]:
        case "init" | "inval":
            return _init(ops)
        case "arrive" | "expect_tx":
            return _arrive(ops)
        case "test_wait" | "try_wait":
            return _wait(ops)
        case _:
            raise unknown(ins)


def _barriers(m: Machine) -> dict[int, _Mbarrier]:
    found: dict[int, _Mbarrier] = m.under_way.setdefault("mbarriers", {})
    return found


def _touch(m: Machine, addresses: Array, how: int, strength: int, values: Array | None) -> Array:
    """Access barriers as memory; return where each is, -1 for none."""
    places = np.empty(m.ids.size, np.int64)
    m.tell(m.memory.access(m.ids, addresses, 8, _SHARED, how, strength, values, m.at, places))
    return places


def _init(ops: Operands) -> Action:
    address = ops.address(0)
    count = ops.source(1, "u32") if ops.ins.mods[0] == "init" else None

    def init(m: Machine) -> None:
        a = m.active(address(m)).astype(np.int64, copy=False)
        places = _touch(m, a, WRITE, 0, np.zeros(m.ids.size, np.uint64))
        counts = m.active(count(m)) if count else np.zeros(m.ids.size)
        for place, n in zip(places.tolist(), counts.tolist(), strict=True):
            _barriers(m)[place] = _Mbarrier(int(n), int(n))

    return init


def _known(m: Machine, place: int, lanes: Array) -> _Mbarrier | None:
    found = _barriers(m).get(place)
    if found is None:
        m.report("uninitialised", "an mbarrier is used that was not initialised", lanes)
    return found


def _arrive(ops: Operands) -> Action:
    ins = ops.ins
    first = 0 if isinstance(ops.at(0), Place) else 1
    if "noComplete" in ins.mods or "shared::cluster" in ins.mods:
        raise unknown(ins)
    address = ops.address(first)
    amount = ops.source(first + 1, "u32") if len(ops) > first + 1 else None
    put = ops.target(0, "b64") if first else None
    bytes_ = "expect_tx" in ins.mods
    arrives = ins.mods[0] == "arrive"

    def arrive(m: Machine) -> None:
        ids = m.ids
        places = _touch(m, m.active(address(m)).astype(np.int64, copy=False), UPDATE, 1, None)
        amounts = m.active(amount(m)).astype(np.int64) if amount else np.ones(ids.size, np.int64)
        states = np.zeros(ids.size, np.uint64)
        for place in np.unique(places[places >= 0]).tolist():
            mine = places == place
            b = _known(m, place, ids[mine])
            if b is None:
                continue
            states[mine] = b.phase
            if bytes_:
                b.nbytes += int(amounts[mine].sum())
            if arrives:
                b.missing -= int(mine.sum() if bytes_ else amounts[mine].sum())
                b.telling = _both(b.telling, m.knowledge.told(ids[mine]))
            b.turn()
        if put:
            put(m, m.widened(states))
        m.progress()

    return arrive


def _wait(ops: Operands) -> Action:
    mods = ops.ins.mods
    address, put = ops.address(1), ops.target(0, "pred")
    given = ops.source(2, "u32" if "parity" in mods else "u64")

    def wait(m: Machine) -> None:
        ids = m.ids
        raw: Any = np.empty(ids.size, np.uint64)
        places = _touch(m, m.active(address(m)).astype(np.int64, copy=False), READ, 1, raw)
        phases = m.active(given(m)).astype(np.int64)
        out = np.zeros(ids.size, np.bool_)
        for place in np.unique(places[places >= 0]).tolist():
            mine = places == place
            b = _known(m, place, ids[mine])
            if b is None:
                out[mine] = True
                continue
            out[mine] = (b.phase ^ phases[mine]) & 1 == 1
            passed = ids[mine & out]
            if passed.size and b.told is not None:
                m.knowledge.teach(passed, b.told)
        put(m, m.widened(out))

    return wait
