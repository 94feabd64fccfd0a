"""Loads, stores, atomics and fences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx.code import (
    SIZES,
    KernelParam,
    Operand,
    Place,
    Reg,
    Slot,
    unknown,
)
from didyma.codegen.runtime.ptx.kinds import BITS, PACKED, TYPES, halves, packed
from didyma.codegen.runtime.ptx.meeting import warps_of
from didyma.codegen.runtime.ptx.memory import (
    ANYWHERE,
    BLIND,
    GLOBAL,
    LOCAL,
    SHARED,
    SPACES,
    TESTED,
    VOLATILE,
    WINDOW,
    WRITE,
)
from didyma.codegen.runtime.ptx.operands import Action, Operands
from didyma.codegen.runtime.ptx.taint import COMPUTED, PARTIAL, unfolded
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_ORDERS = ("acquire", "release", "acq_rel", "relaxed", "volatile", "sc", "mmio")
UPDATES = {
    n: k
    for k, n in enumerate(("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"))
}
TYPE_NUMBERS = {
    "u32": 0,
    "b32": 0,
    "s32": 1,
    "u64": 2,
    "b64": 2,
    "s64": 3,
    "f32": 4,
    "f64": 5,
    "b16": 6,
}


HALVES = ("f16", "bf16")
_OF_HALVES: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "min": np.fmin, "max": np.fmax
}  # fmt: skip


def compile_access(ops: Operands) -> Action | None:
    """Compile an instruction on memory; None where it is none."""
    match ops.ins.op:
        case "ld" | "ldu":
            return _load(ops)
        case "st" if "async" not in ops.ins.mods:
            return _store(ops)
        case "atom" | "red" if "async" not in ops.ins.mods:
            return _atomic(ops)
        case "membar" | "fence":
            return _fence(ops)
        case "isspacep":
            return _is_space(ops)
        case "activemask":
            put = ops.target(0, "b32")
            return lambda m: put(m, m.widened(warps_of(m, m.ids)[m.ids >> 5]))
        case _:
            return None


def space_of(mods: tuple[str, ...]) -> str | None:
    """Return the space that an instruction names."""
    heads = (x.split("::")[0] for x in mods)
    return next((h for h in heads if h in SPACES or h == "param"), None)


def width(ops: Operands) -> tuple[int, str]:
    """Return how many elements an access has, and their type."""
    mods = ops.ins.mods
    kind = mods[-1]
    count = next((int(x[1:]) for x in mods if x in ("v2", "v4", "v8")), 1)
    if kind not in TYPES or count * SIZES[kind] > 32:
        raise unknown(ops.ins)
    return count, kind


def _order(mods: tuple[str, ...]) -> tuple[str, bool, int]:
    """Return an access's order, whether its scope is more than a block, and its strength."""
    order = next((x for x in mods if x in _ORDERS), "")
    wide = "cta" not in mods
    strength = 0 if not order else VOLATILE if order == "volatile" else 2 if wide else 1
    return order, wide, strength


def _load(ops: Operands) -> Action:
    mods = ops.ins.mods
    count, kind = width(ops)
    space, place = space_of(mods), ops.at(1)
    parts = ops.parts(0) if count > 1 else (ops.at(0),)
    puts = [ops.write(p, kind) for p in parts]
    size, d = SIZES[kind], TYPES[kind]
    if isinstance(place, Place) and isinstance(place.base, Slot):
        number, first = place.base.number, place.base.offset + place.offset

        def from_slot(m: Machine) -> None:
            rows = m.slots[number]
            for k, put in enumerate(puts):
                a = rows[:, first + k * size : first + (k + 1) * size]
                v = a.copy().view(d)[:, 0]
                put(m, v if m.index is None else v[m.index])

        return from_slot
    if isinstance(place, Place) and isinstance(place.base, KernelParam):
        name, start = place.base.name, place.base.offset + place.offset

        def from_params(m: Machine) -> None:
            at = m.kernel.param_at[name] + start
            for k, put in enumerate(puts):
                v = np.frombuffer(m.params, d, 1, at + k * size)[0]
                stride = m.strides.get(at + k * size)
                put(m, v if stride is None else v + m.copy().astype(d) * d.type(stride))

        return from_params
    f = ops.address(1)
    where = ANYWHERE if space in (None, "param") else SPACES[space]
    order, wide, strength = _order(mods)
    total, own = count * size, frozenset(p.index for p in parts if isinstance(p, Reg))

    def load(m: Machine) -> None:
        ids, addresses = m.ids, m.active(f(m)).astype(np.int64, copy=False)
        raw = np.empty((ids.size, total), np.uint8)
        syncs = bool(order) and m.kernel.synchronises
        places = np.empty(ids.size, np.int64) if syncs else None
        how = strength
        if strength == VOLATILE:
            how |= TESTED if own & m.kernel.tested else BLIND
        found, fresh = m.memory.load(ids, addresses, total, where, how, raw, m.at, places)
        m.tell(found)
        if fresh is not None and m.shape.copies == 1:
            _taint(m, parts, ids, addresses, fresh, size)
        if order:
            m.meets(addresses)
        if places is not None:
            at = _global(places, addresses)
            m.knowledge.strong(at, ids, (True, False), wide, order, False)
        values = raw.view(d)
        for k, put in enumerate(puts):
            put(m, m.widened(np.ascontiguousarray(values[:, k])))

    return load


def _taint(
    m: Machine, parts: Sequence[Operand], ids: Array, addresses: Array, fresh: Array, size: int
) -> None:
    """Taint the registers that were loaded from memory which nothing has written."""
    bits = np.uint16(1) << np.arange(size, dtype=np.uint16)
    first = int(np.flatnonzero(fresh.any(1))[0])
    m.taints.texts[m.at] = m.place(int(addresses[first]) + int(np.flatnonzero(fresh[first])[0]),
                                   m.kernel.program.instrs[m.at].mods)  # fmt: skip
    for k, o in enumerate(parts):
        if isinstance(o, Reg):
            mask = np.where(fresh[:, k * size : (k + 1) * size], bits, np.uint16(0)).sum(1)
            m.taints.set(o.index, ids, mask.astype(np.uint16), m.at)


def _keep_taint(
    m: Machine, parts: Sequence[Operand], ids: Array, addresses: Array, size: int, where: int
) -> None:
    """Let memory to which tainted bytes were copied count as not written.

    What was computed of them is reported where it is stored, and counts as written.
    """
    masks = [m.taints.of(o.index, ids) if isinstance(o, Reg) else None for o in parts]
    masks = [x if x is None else np.where(x & (PARTIAL | COMPUTED), np.uint16(0), x) for x in masks]
    if any(x is not None for x in masks):
        none = np.zeros((ids.size, size), np.bool_)
        which = np.concatenate([none if x is None else unfolded(x, size) for x in masks], 1)
        m.memory.forget(ids, addresses, size * len(masks), where, which)


def _global(places: Array, addresses: Array) -> Array:
    """Return one name for each address of the batch: places, tagged with their space."""
    shared = (addresses >= 0) & (addresses < SHARED + (1 << 32))
    return np.where(places < 0, -1, places * 4 + shared)


def _store(ops: Operands) -> Action:
    mods = ops.ins.mods
    count, kind = width(ops)
    space, place = space_of(mods), ops.at(0)
    parts = ops.parts(1) if count > 1 else (ops.at(1),)
    gets = [ops.read(p, kind) for p in parts]
    size, d = SIZES[kind], TYPES[kind]
    if isinstance(place, Place) and isinstance(place.base, Slot):
        number, first = place.base.number, place.base.offset + place.offset

        def to_slot(m: Machine) -> None:
            for k, get in enumerate(gets):
                raw = m.active(np.asarray(get(m), d)).view(np.uint8).reshape(-1, size)
                m.slots[number][m.ids, first + k * size : first + (k + 1) * size] = raw

        return to_slot
    f = ops.address(0)
    where = ANYWHERE if space in (None, "param") else SPACES[space]
    order, wide, strength = _order(mods)
    total = count * size

    def store(m: Machine) -> None:
        ids, addresses = m.ids, m.active(f(m)).astype(np.int64, copy=False)
        values = [m.active(np.asarray(g(m), d)) for g in gets]
        raw = values[0] if count == 1 else np.stack(values, 1)
        syncs = m.kernel.synchronises
        places = np.empty(ids.size, np.int64) if syncs else None
        m.tell(m.memory.access(ids, addresses, total, where, WRITE, strength, raw, m.at, places))
        if m.taints.masks:
            _keep_taint(m, parts, ids, addresses, size, where)
        if places is not None and (order or m.knowledge.left):
            at = _global(places, addresses)
            m.knowledge.strong(at, ids, (False, bool(order)), wide, order, False)

    return store


def _atomic(ops: Operands) -> Action:
    """An update of memory; of a vector, each element by itself, as PTX has it."""
    ins = ops.ins
    mods = ins.mods
    count, kind = width(ops)
    how = next((x for x in mods if x in UPDATES), "")
    halved = kind in PACKED or kind in ("f16", "bf16")
    if not how or not (kind in TYPE_NUMBERS or (halved and how in _OF_HALVES)):
        raise unknown(ins)
    whole = count == 2 and kind == "b64" and how in ("exch", "cas")  # 128 bits
    if count > 1 and how not in _OF_HALVES and not whole:
        raise unknown(ins)
    returns = ins.op == "atom"
    shift = 0 if returns else -1
    f = ops.address(1 + shift)
    given = [[ops.read(p, kind) for p in ops.parts(k)] if count > 1 else [ops.source(k, kind)]
             for k in range(2 + shift, len(ops))]  # fmt: skip
    puts = (
        [ops.write(p, kind) for p in (ops.parts(0) if count > 1 else (ops.at(0),))]
        if returns
        else []
    )
    space = space_of(mods)
    where = ANYWHERE if space is None else SPACES[space]
    order, wide, _ = _order(mods)
    d, strength = TYPES[kind], 2 if wide else 1
    op = (-1, 0) if halved else (UPDATES[how], TYPE_NUMBERS[kind])

    def element(m: Machine, addresses: Array, values: list[Array]) -> Array:
        turned = m.schedule & 1
        ids = m.ids[::-1].copy() if turned else m.ids
        if turned:
            values = [np.ascontiguousarray(v[::-1]) for v in values]
            addresses = np.ascontiguousarray(addresses[::-1])
        old, places = np.zeros(ids.size, d), np.empty(ids.size, np.int64)
        second = values[1] if len(values) > 1 else None
        m.tell(m.memory.atomic(
            ids, addresses, d.itemsize, where, strength, op, values[0], second, old, places, m.at
        ))  # fmt: skip
        if halved:
            change_halves(m, places, values[0], old, how, kind)
        if m.kernel.synchronises:
            m.knowledge.strong(
                _name(places), ids, (True, True), wide, order or "atomic", how == "cas"
            )
        return old[::-1] if turned else old

    def swapped(m: Machine, addresses: Array, values: list[list[Array]]) -> list[Array]:
        """Compare and swap two words at once, one lane after the other."""
        olds = [np.zeros(m.ids.size, d) for _ in range(count)]
        lanes, keep = range(m.ids.size), m.ids
        for k in reversed(lanes) if m.schedule & 1 else lanes:
            m.select(keep[k : k + 1])
            one = slice(k, k + 1)
            for w, old in enumerate(olds):
                none = [np.zeros(1, d)] * 2
                old[one] = element(m, addresses[one] + 8 * w, none)
            if all(old[k] == v[0][k] for old, v in zip(olds, values, strict=True)):
                for w, (want, put) in enumerate(values):
                    element(m, addresses[one] + 8 * w, [want[one], put[one]])
        m.select(keep)
        return olds

    def atomic(m: Machine) -> None:
        addresses = m.active(f(m)).astype(np.int64, copy=False)
        m.meets(addresses)
        odd = addresses % (count * d.itemsize) != 0
        if count > 1 and odd.any():
            text = f"{m.place(int(addresses[odd][0]), mods)}, access of {count * d.itemsize} bytes"
            m.report("misaligned", text, m.ids[odd])
        values = [[m.active(np.asarray(g(m), d)) for g in parts] for parts in given]
        by_word = [[v[k] for v in values] for k in range(count)]
        if whole and how == "cas":
            olds = swapped(m, addresses, by_word)
        else:
            olds = [element(m, addresses + k * d.itemsize, v) for k, v in enumerate(by_word)]
        for put, old in zip(puts, olds, strict=False):
            put(m, m.widened(old))

    return atomic


def _name(places: Array) -> Array:
    """Return for places of atomics the names that ``_global`` gives."""
    return np.where(places < 0, -1, (places >> 2) * 4 + ((places & 3) == 1))


def change_halves(m: Machine, places: Array, given: Array, old: Array, how: str, kind: str) -> None:
    """Change 16-bit floats, one lane after the other."""
    change_one = _OF_HALVES[how]
    half = PACKED.get(kind, kind)
    raw = BITS[old.dtype.itemsize]
    for k, place in enumerate(map(int, places)):
        if place < 0:
            continue
        data: Array = m.memory.spaces[place & 3].data[place >> 2 :][: raw.itemsize].view(raw)
        old[k : k + 1] = data.view(old.dtype)
        if kind in PACKED:
            a, b = halves(data, half), halves(given[k : k + 1].view(raw), half)
            data[:] = packed(*(change_one(x, y) for x, y in zip(a, b, strict=True)))
        else:
            was = data.view(TYPES[half])
            was[:] = change_one(was, given[k : k + 1])


def change(
    m: Machine, lane: int, to: Array, data: Array, space: str, update: tuple[str, str], pc: int
) -> None:
    """Let rows of numbers change what is at addresses, as atomics of a lane do.

    ``update`` is how, and the type of the numbers.
    """
    how, kind = update
    values = np.ascontiguousarray(data).reshape(-1).view(TYPES[kind])
    lanes = np.full(values.size, lane, np.int32)
    steps = np.arange(0, data.shape[1], values.itemsize, dtype=np.int64)
    at = (to[:, None] + steps).reshape(-1)
    old, places = np.zeros(values.size, values.dtype), np.zeros(values.size, np.int64)
    op = (-1, 0) if kind in HALVES else (UPDATES[how], TYPE_NUMBERS[kind])
    m.tell(m.memory.atomic(
        lanes, at, values.itemsize, SPACES[space], 2, op, values, None, old, places, pc
    ))  # fmt: skip
    if kind in HALVES:
        change_halves(m, places, values, old, how, kind)


def _fence(ops: Operands) -> Action:
    mods = ops.ins.mods
    if any(x.startswith(("proxy::async", "proxy::alias")) for x in (
        "::".join(p) for p in zip(mods, (*mods[1:], ""), strict=True)
    )):  # fmt: skip
        return _proxy_fence
    if any("proxy" in x or "mbarrier_init" in x for x in mods):
        return lambda m: None
    wide = "cta" not in mods
    return lambda m: m.knowledge.fence(m.ids, wide)


def _proxy_fence(m: Machine) -> None:
    """Let the asynchronous unit see what lanes have written until now."""
    m.memory.now += 1
    m.memory.proxied[m.ids] = m.memory.now


def _is_space(ops: Operands) -> Action:
    get, put = ops.source(1, "u64"), ops.target(0, "pred")
    base = {"shared": SHARED, "local": LOCAL}.get(space_of(ops.ins.mods) or "")

    def test(m: Machine) -> None:
        a = np.asarray(get(m)).view(np.int64)
        inside = a >= GLOBAL if base is None else (a >= base) & (a < base + WINDOW)
        put(m, np.broadcast_to(inside, (m.n,)).copy())

    return test
