"""Memory in the ring: loads, stores, atomics, shuffles and matrices move the units of floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from didyma.codegen.runtime.ptx import units
from didyma.codegen.runtime.ptx.access import UPDATES, space_of, width
from didyma.codegen.runtime.ptx.code import SIZES, KernelParam, Place, Slot, unknown
from didyma.codegen.runtime.ptx.in_ring_operands import Finish, Rule, held, put, target
from didyma.codegen.runtime.ptx.kinds import BITS, FLOATS, PACKED, TYPES
from didyma.codegen.runtime.ptx.memory import ANYWHERE, SPACES, UNIT
from didyma.codegen.runtime.ptx.operands import Operands
from didyma.codegen.runtime.ptx.units import WIDTH
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import ring

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_KEEPING = frozenset(("exch", "cas", "min", "max"))  # what leaves one of the values that came


def memory_rule(ops: Operands) -> Rule | None:
    """Return the rule of an instruction on memory; None where it is none."""
    match ops.ins.op:
        case "ld" | "ldu":
            return _load(ops)
        case "st":
            return _store(ops)
        case "atom" | "red" if "async" not in ops.ins.mods:
            return _atomic(ops)
        case "red" | "multimem":
            raise unknown(ops.ins, "in the ring")
        case _:
            return None


def _where(ops: Operands) -> int:
    space = space_of(ops.ins.mods)
    return ANYWHERE if space in (None, "param") else SPACES[str(space)]


def _addresses(m: Machine, f: Callable[[Machine], Any]) -> Array:
    return m.active(f(m)).astype(np.int64, copy=False)


def _load(ops: Operands) -> Rule:
    place = ops.at(1)
    count, kind = width(ops)
    nbytes, o = count * SIZES[kind], target(ops)
    if isinstance(place, Place) and isinstance(place.base, Slot):
        number, first = place.base.number, (place.base.offset + place.offset) // WIDTH

        def from_slot(m: Machine) -> Finish:
            assert m.shadow is not None
            found = m.shadow.of(m.shadow.slots, number, m.ids)
            part = None if found is None else found[:, first : first + max(1, nbytes // WIDTH)]
            return lambda: put(m, ops, o, part)

        return from_slot
    if isinstance(place, Place) and isinstance(place.base, KernelParam):
        name, start = place.base.name, place.base.offset + place.offset

        def from_params(m: Machine) -> Finish:
            at = np.full(m.ids.size, m.param_address(name) + start, np.int64)
            found = units.load(m, m.ids, at, nbytes, 0)
            return lambda: put(m, ops, o, found)

        return from_params
    address, where = ops.address(1), _where(ops)

    def rule(m: Machine) -> Finish:
        found = units.load(m, m.ids, _addresses(m, address), nbytes, where)
        return lambda: put(m, ops, o, found)

    return rule


def _row(m: Machine, ops: Operands, k: int, count: int, kind: str) -> Array | None:
    """Return the units of an operand, or of the elements of a vector, side by side."""
    each = units.count(kind)
    parts = [held(m, ops, p, each) for p in (ops.parts(k) if count > 1 else (ops.at(k),))]
    if all(p is None for p in parts):
        return None
    blank = np.zeros((m.ids.size, each), UNIT)
    return np.concatenate([blank if p is None else p for p in parts], axis=1)


def _store(ops: Operands) -> Rule:
    place = ops.at(0)
    count, kind = width(ops)
    nbytes = count * SIZES[kind]
    if isinstance(place, Place) and isinstance(place.base, Slot):
        number, first = place.base.number, (place.base.offset + place.offset) // WIDTH

        def to_slot(m: Machine) -> Finish:
            assert m.shadow is not None
            found, shadow = _row(m, ops, 1, count, kind), m.shadow
            if found is None:
                found = np.zeros((m.ids.size, max(1, nbytes // WIDTH)), UNIT)
            whole = -(-m.slots[number].shape[1] // WIDTH)
            shadow.set(shadow.slots, number, m.ids, found, whole, first)
            return _nothing

        return to_slot
    address, where = ops.address(0), _where(ops)

    def rule(m: Machine) -> Finish:
        given = _row(m, ops, 1, count, kind)
        units.store(m, m.ids, _addresses(m, address), nbytes, where, given)
        return _nothing

    return rule


def _nothing() -> None:
    pass


def _atomic(ops: Operands) -> Rule:
    """Sums of floats are added up; other updates leave the units of what is there then."""
    ins = ops.ins
    count, kind = width(ops)
    how = next((x for x in ins.mods if x in UPDATES), "")
    shift = 0 if ins.op == "atom" else -1
    address, where, size = ops.address(1 + shift), _where(ops), SIZES[kind]
    each = units.count(kind)
    to = target(ops) if ins.op == "atom" else None
    gets = [[ops.read(p, kind) for p in (ops.parts(k) if count > 1 else (ops.at(k),))]
            for k in range(2 + shift, len(ops))]  # fmt: skip

    def element(m: Machine, at: Array, k: int, rows: list[Array | None]) -> Array:
        """Update an element of each lane; return the units of what was there."""
        values = [m.active(np.asarray(g[k](m))) for g in gets]
        u = [None if r is None else r[:, k * each : (k + 1) * each] for r in rows]
        return _updated(m, _Update(m.ids, at, where, how, kind, to is not None), values, u)

    def rule(m: Machine) -> Finish:
        at = _addresses(m, address)
        rows = [_row(m, ops, k, count, kind) for k in range(2 + shift, len(ops))]
        old = np.concatenate([element(m, at + k * size, k, rows) for k in range(count)], axis=1)
        return lambda: put(m, ops, to, old)

    return rule


class _Update(NamedTuple):
    """An update of memory: by which lanes, where, how, of what type, and whether they see it."""

    ids: Array
    at: Array
    where: int
    how: str
    kind: str
    told: bool

    def turns(self, m: Machine) -> range:
        """Return the lanes in the order in which the engine runs them."""
        n = self.at.size
        return range(n - 1, -1, -1) if m.schedule & 1 else range(n)


def _updated(
    m: Machine, u: _Update, values: Sequence[Array], given: Sequence[Array | None]
) -> Array:
    """Update the units of memory; return those that each lane finds there."""
    size, real = SIZES[u.kind], PACKED.get(u.kind, u.kind)
    there = units.load(m, u.ids, u.at, size, u.where)
    if real in FLOATS and u.how == "add":
        v = np.ascontiguousarray(values[0]).view(TYPES[real]).reshape(u.at.size, -1)
        return _summed(m, u, v, units.payloads(v, given[0]), there)
    if all(units.is_clean(x) for x in (*given, there)):
        return there
    return _kept(m, u, values, given, there)


def changed(
    m: Machine, ids: Array, source: Array, to: Array, values: Array, update: tuple[str, str]
) -> None:
    """Update units of global memory by those of elements of shared memory."""
    how, kind = update
    given = units.load(m, ids, source, SIZES[kind], SPACES["shared"])
    _updated(m, _Update(ids, to, SPACES["global"], how, kind, False), [values], [given])


def _bytes_at(m: Machine, u: _Update) -> Array:
    """Return the bits of memory that is updated, and 0 for addresses that are none."""
    size = SIZES[u.kind]
    out = np.zeros(u.at.size, BITS[size])
    for space, lanes, byte in units.bytes_of(m, u.ids, u.at, size, u.where):
        raw = space.data[byte[:, None] + np.arange(size)]
        out[lanes] = np.ascontiguousarray(raw).view(BITS[size])[:, 0]
    return out


def _summed(m: Machine, u: _Update, values: Array, given: Array, there: Array) -> Array:
    """Add payloads to those in memory.

    A lane that shares its place with others finds a sum of some of them, in the order in which
    the engine adds.
    """
    before = np.ascontiguousarray(_bytes_at(m, u)).view(values.dtype).reshape(values.shape)
    old = units.payloads(before, there)
    _, first, number = np.unique(u.at, return_index=True, return_inverse=True)
    total, seen = old[first], old.copy()
    if u.told and first.size < u.at.size:
        for k in u.turns(m):
            seen[k] = total[number[k]]
            total[number[k]] = ring.add(total[number[k]], given[k])
    else:
        for e in range(values.shape[1]):
            column = np.ascontiguousarray(total[:, e])
            row = scalar_ring.joined(values[:, e].copy(), given[:, e].copy())
            scalar_ring.fold("add", column, number, row, row, values[:, e])
            total[:, e] = column
    kind = PACKED.get(u.kind, u.kind)
    units.store(m, u.ids[first], u.at[first], SIZES[u.kind], u.where, units.made(total, kind))
    return units.made(seen, kind)


def _kept(
    m: Machine, u: _Update, values: Sequence[Array], given: Sequence[Array | None], there: Array
) -> Array:
    """Follow an update of the bits of floats lane by lane."""
    bits = _bytes_at(m, u).view(TYPES[u.kind])
    now: dict[int, tuple[int, Any, Array]] = {}
    seen, blank = there.copy(), np.zeros(there.shape[1], UNIT)
    rows = [np.broadcast_to(blank, there.shape) if g is None else g for g in given]
    for k in u.turns(m):
        address = int(u.at[k])
        _, value, found = now.get(address, (k, bits[k], there[k]))
        seen[k] = found
        new, mine = values[-1][k], rows[-1][k]
        if u.how not in _KEEPING:
            new, mine = value, units.opaque(1, there.shape[1])[0]
        elif u.how == "cas":
            new, mine = (new, mine) if value == values[0][k] else (value, found)
        elif (u.how == "min" and value <= new) or (u.how == "max" and value >= new):
            new, mine = value, found
        now[address] = k, new, mine
    lanes = np.array([k for k, _, _ in now.values()])
    left = np.stack([x for _, _, x in now.values()])
    units.store(m, u.ids[lanes], u.at[lanes], SIZES[u.kind], u.where, left)
    return seen
