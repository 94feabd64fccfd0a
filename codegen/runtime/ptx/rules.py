"""What each instruction does to the taint of registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx.code import (
    SIZES,
    Imm,
    Instr,
    Operand,
    Place,
    Reg,
    Slot,
    Vector,
    registers,
)
from didyma.codegen.runtime.ptx.kinds import kind_of
from didyma.codegen.runtime.ptx.taint import COMPUTED, PARTIAL, unfolded, use
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_KEPT = np.uint16(COMPUTED | PARTIAL)
_WHOLE = np.uint16(0xFF | COMPUTED)
Rule: TypeAlias = "Callable[[Machine, Array], None]"


def rule_of(ins: Instr, regs: Sequence[str]) -> Rule:
    """Return what an instruction does to the taint of registers, before it runs."""
    match ins.op:
        case "ld" | "ldu":
            return _load(ins)
        case "st":
            return _store(ins, regs)
        case "atom" | "red" | "vote" | "match" | "redux" | "mma" | "wmma" | "stmatrix" | "brx":
            return _used(ins)
        case "shfl":
            return lambda m, ids: None  # the shuffle moves the taint itself
        case "mov" | "cvta":
            return _moved(ins, regs)
        case "selp":
            return _chosen(ins)
        case "and" | "or":
            return _joined(ins)
        case "cvt":
            return _converted(ins)
        case "bfi":
            return _computed(ins, np.uint16(0xFF | PARTIAL))
        case "shl" | "shr" if isinstance(ins.args[2], Imm):
            return _shifted(ins)
        case _:
            return _computed(ins)


def _targets(ins: Instr) -> tuple[int, ...]:
    return tuple(registers((ins.args[0],))) if ins.args else ()


def _computed(ins: Instr, taint: Any = _WHOLE) -> Rule:
    """What is made of a tainted value is tainted as a whole."""
    to, sources = _targets(ins), sorted(registers(ins.args[1:]))

    def rule(m: Machine, ids: Array) -> None:
        mask, origin = _merged(m, sources, ids)
        whole = None if mask is None else np.where(mask != 0, taint, 0)
        for r in to:
            m.taints.set(r, ids, whole, origin)

    return rule


def _merged(m: Machine, sources: Sequence[int], ids: Array) -> tuple[Array | None, int]:
    out, origin = None, -1
    for r in sources:
        found = m.taints.of(r, ids)
        if found is not None:
            out, origin = (found if out is None else out | found), m.taints.origin[r]
    return out, origin


def _used(ins: Instr) -> Rule:
    sources = sorted(registers(ins.args[1:] if ins.op != "red" else ins.args))
    to = _targets(ins) if ins.op not in ("red", "stmatrix") else ()

    def rule(m: Machine, ids: Array) -> None:
        for r in sources:
            use(m, r, ids)
        for r in to:
            m.taints.set(r, ids, None, -1)

    return rule


def _load(ins: Instr) -> Rule:
    place = sorted(registers((ins.args[1],)))
    to = _targets(ins)
    slot = ins.args[1].base if isinstance(ins.args[1], Place) else None
    if isinstance(slot, Slot) and isinstance(ins.args[1], Place):
        first = slot.offset + ins.args[1].offset
        size = SIZES[ins.mods[-1]]
        parts = list(_parts(ins.args[0]))

        def from_slot(m: Machine, ids: Array) -> None:
            t = m.taints.slots.get(slot.number)
            origin = m.taints.origin.get(-1 - slot.number, m.at)
            for k, o in enumerate(parts):
                at = first + k * size
                mask = None if t is None else _folded(t[ids, at : at + size])
                if mask is not None and origin in m.taints.kinds:  # as the shuffle left it
                    mask |= np.where(mask != 0, np.uint16(COMPUTED), np.uint16(0))
                if isinstance(o, Reg):
                    m.taints.set(o.index, ids, mask, origin)

        return from_slot

    def rule(m: Machine, ids: Array) -> None:
        for r in place:
            use(m, r, ids)
        for r in to:
            m.taints.set(r, ids, None, -1)

    return rule


def _parts(o: Operand) -> Iterator[Operand]:
    if isinstance(o, Vector):
        for p in o.parts:
            yield from _parts(p)
    else:
        yield o


def _folded(tainted: Array) -> Array:
    """Return a bit for each tainted byte of rows."""
    bits = np.uint16(1) << np.arange(tainted.shape[1], dtype=np.uint16)
    found: Array = np.where(tainted, bits, np.uint16(0)).sum(1, dtype=np.uint16)
    return found


def _store(ins: Instr, regs: Sequence[str]) -> Rule:
    place, values = sorted(registers((ins.args[0],))), sorted(registers((ins.args[1],)))
    slot = ins.args[0].base if isinstance(ins.args[0], Place) else None
    if isinstance(slot, Slot) and isinstance(ins.args[0], Place):
        first, size = slot.offset + ins.args[0].offset, SIZES[ins.mods[-1]]
        parts = list(_parts(ins.args[1]))

        def to_slot(m: Machine, ids: Array) -> None:
            for k, o in enumerate(parts):
                mask = m.taints.of(o.index, ids) if isinstance(o, Reg) else None
                t = m.taints.slots.get(slot.number)
                if mask is None and t is None:
                    continue
                if t is None:
                    shape = m.slots[slot.number].shape
                    t = m.taints.slots[slot.number] = np.zeros(shape, np.bool_)
                at = first + k * size
                t[ids, at : at + size] = unfolded(mask, size) if mask is not None else False
                if mask is not None and isinstance(o, Reg):
                    m.taints.origin[-1 - slot.number] = m.taints.origin[o.index]
                if not t.any():
                    del m.taints.slots[slot.number]

        return to_slot

    def rule(m: Machine, ids: Array) -> None:
        for r in place:
            use(m, r, ids)
        for r in values:
            use(m, r, ids, computed=True)

    return rule


def _moved(ins: Instr, regs: Sequence[str]) -> Rule:
    """Copies: whole registers, and several narrow ones from or to a wide one."""
    to, source = ins.args[0], ins.args[1]
    if not isinstance(to, Vector) and not isinstance(source, Vector):
        if not isinstance(source, Reg) or not isinstance(to, Reg):
            return _computed(ins)
        a, b = to.index, source.index
        return lambda m, ids: m.taints.set(a, ids, m.taints.of(b, ids), m.taints.origin.get(b, -1))
    outs, ins_ = list(_parts(to)), list(_parts(source))
    widths = [SIZES[regs[o.index]] if isinstance(o, Reg) else 0 for o in ins_]
    narrow = SIZES[ins.mods[-1]]

    def rule(m: Machine, ids: Array) -> None:
        whole, at, origin = np.zeros(ids.size, np.uint16), 0, -1
        step = narrow // len(ins_)
        for o, width in zip(ins_, widths, strict=True):
            mask = m.taints.of(o.index, ids) if isinstance(o, Reg) else None
            if mask is not None and isinstance(o, Reg):
                low = mask & np.uint16((1 << min(width, step)) - 1)
                whole |= (low << np.uint16(at)) | (mask & _KEPT)
                origin = m.taints.origin[o.index]
            at += step
        step = narrow // len(outs)
        for k, o in enumerate(outs):
            if isinstance(o, Reg):
                part = whole >> np.uint16(k * step) & np.uint16((1 << step) - 1)
                part = np.where(part, part | (whole & _KEPT), np.uint16(0))
                m.taints.set(o.index, ids, part, origin)

    return rule


def _chosen(ins: Instr) -> Rule:
    """``selp``: the taint of what is chosen."""
    to = _targets(ins)[0]
    first, second, guard = ins.args[1:4]
    if not isinstance(guard, Reg):
        return _computed(ins)
    general = _computed(ins)

    def rule(m: Machine, ids: Array) -> None:
        if m.taints.of(guard.index, ids) is not None:
            general(m, ids)
            return
        p = m.full(guard.index)[ids]
        masks = [m.taints.of(o.index, ids) if isinstance(o, Reg) else None for o in (first, second)]
        zero = np.zeros(ids.size, np.uint16)
        a, b = (zero if x is None else x for x in masks)
        origin = max(
            (m.taints.origin.get(o.index, -1) for o, x in zip((first, second), masks, strict=True)
             if isinstance(o, Reg) and x is not None), default=-1,
        )  # fmt: skip
        m.taints.set(to, ids, np.where(p, a, b), origin)

    return rule


def _joined(ins: Instr) -> Rule:
    """``and`` and ``or``: a byte that the other operand decides is not tainted."""
    to, pair = _targets(ins)[0], ins.args[1:3]
    kind = kind_of(ins.mods) or "b32"
    size, decided = SIZES[kind], 0 if ins.op == "and" else 0xFF
    masks_ = [int(o.text.rstrip("U"), 0) for o in pair if isinstance(o, Imm) and kind != "pred"]
    partial = ins.op == "and" and any(
        b not in (0, 0xFF) for n in masks_ for b in (n % (1 << (8 * size))).to_bytes(size, "little")
    )

    def rule(m: Machine, ids: Array) -> None:
        masks = [m.taints.of(o.index, ids) if isinstance(o, Reg) else None for o in pair]
        if all(x is None for x in masks):
            m.taints.set(to, ids, None, -1)
            return
        out, origin = np.zeros(ids.size, np.uint16), -1
        for mine, other, mask, theirs in zip(pair, pair[::-1], masks, masks[::-1], strict=True):
            if mask is None or not isinstance(mine, Reg):
                continue
            free = _bytes(m, other, ids, size, kind) == (decided & 1 if kind == "pred" else decided)
            if theirs is not None:
                free &= ~unfolded(theirs, size)
            left = _folded(unfolded(mask, size) & ~free)
            out |= np.where(left, left | (mask & _KEPT), np.uint16(0))
            origin = m.taints.origin[mine.index]
        if partial:
            out = np.where(out, out | np.uint16(PARTIAL), out)
        if kind == "pred":
            out = np.where(out, np.uint16(_WHOLE), np.uint16(0))
        m.taints.set(to, ids, out, origin)

    return rule


def _bytes(m: Machine, o: Operand, ids: Array, size: int, kind: str) -> Array:
    if isinstance(o, Reg):
        v = np.ascontiguousarray(m.full(o.index)[ids])
        return v.view(np.uint8).reshape(ids.size, -1)[:, :size]
    if isinstance(o, Imm) and kind != "pred":
        number = int(o.text.rstrip("U"), 0) % (1 << (8 * size))
        row = np.frombuffer(number.to_bytes(size, "little"), np.uint8)
        return np.broadcast_to(row, (ids.size, size))
    return np.full((ids.size, size), 0x55, np.uint8)


def _converted(ins: Instr) -> Rule:
    """``cvt`` between integers keeps the lower bytes."""
    kinds = [x for x in ins.mods if x in SIZES]
    if len(kinds) != 2 or any(k[0] not in "usb" for k in kinds) or not isinstance(ins.args[1], Reg):
        return _computed(ins)
    to, source, size = _targets(ins)[0], ins.args[1].index, SIZES[kinds[0]]
    have = SIZES[kinds[1]]

    def rule(m: Machine, ids: Array) -> None:
        mask = m.taints.of(source, ids)
        if mask is not None:
            low = mask & (np.uint16((1 << min(size, have)) - 1) | _KEPT)
            top = (low >> np.uint16(have - 1)) & np.uint16(1)
            spread = np.uint16(((1 << size) - 1) & ~((1 << have) - 1) if size > have else 0)
            signed = kinds[1][0] == "s"
            mask = np.where(low & np.uint16(0xFF), low | (spread * top if signed else 0), 0)
        m.taints.set(to, ids, mask, m.taints.origin.get(source, -1))

    return rule


def _shifted(ins: Instr) -> Rule:
    """A shift by whole bytes moves them."""
    amount = ins.args[2]
    assert isinstance(amount, Imm)
    by, source = int(amount.text.rstrip("U"), 0), ins.args[1]
    if not isinstance(source, Reg):
        return _computed(ins)
    to, size = _targets(ins)[0], SIZES[kind_of(ins.mods) or "b32"]
    left, low = ins.op == "shl", (1 << size) - 1

    def rule(m: Machine, ids: Array) -> None:
        mask = m.taints.of(source.index, ids)
        if mask is not None:
            bits = mask & np.uint16(low)
            step, rest = divmod(by, 8)
            moved = bits << np.uint16(step) if left else bits >> np.uint16(step)
            if rest:
                moved = moved | (moved << np.uint16(1) if left else bits >> np.uint16(step + 1))
            moved = moved & np.uint16(low)
            mask = np.where(moved, moved | (mask & _KEPT), 0)
        m.taints.set(to, ids, mask, m.taints.origin.get(source.index, -1))

    return rule
