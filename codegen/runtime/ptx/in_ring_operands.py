"""Operands in the ring: their units and their floats, and how those of results are set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx import units
from didyma.codegen.runtime.ptx.code import Imm, Operand, Pair, Reg, Vector, registers
from didyma.codegen.runtime.ptx.kinds import FLOATS, PACKED, TYPES
from didyma.codegen.runtime.ptx.meaning import Meaning
from didyma.codegen.runtime.ptx.memory import UNIT
from didyma.codegen.runtime.ptx.operands import Operands
from didyma.refimpl.interp.scalar_ring import PAYLOAD
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

Finish: TypeAlias = Callable[[], None]
# Looks at operands; what it returns sets the units of results when the instruction has run.
Rule: TypeAlias = "Callable[[Machine], Finish]"
Floats: TypeAlias = "Callable[[Machine], tuple[Array, Array]]"


def target(ops: Operands, k: int = 0) -> Operand | None:
    """Return the register or registers that an instruction sets."""
    o = ops.ins.args[k] if len(ops) > k else None
    return o.first if isinstance(o, Pair) else o


def put(m: Machine, ops: Operands, o: Operand | None, found: Array | None) -> None:
    """Set the units of a register, or those of several from one row; None for clean ones."""
    assert m.shadow is not None
    if isinstance(o, Reg) and ops.regs[o.index] != "pred":
        m.shadow.set(m.shadow.regs, o.index, m.ids, found, units.count(ops.regs[o.index]))
        have = m.shadow.regs.get(o.index)
        if have is not None and found is not None and found.shape[1] < have.shape[1]:
            have[m.ids, found.shape[1] :] = 0
    elif isinstance(o, Vector):
        first = 0
        for p in o.parts:
            width = units.count(ops.regs[p.index]) if isinstance(p, Reg) else 1
            put(m, ops, p, None if found is None else found[:, first : first + width])
            first += width


def held(m: Machine, ops: Operands, o: Operand, width: int) -> Array | None:
    """Return units of an operand in the active lanes; None where all are clean."""
    assert m.shadow is not None
    if isinstance(o, Reg):
        found = m.shadow.of(m.shadow.regs, o.index, m.ids)
        if found is None or units.is_clean(found):
            return None
        if found.shape[1] < width:
            found = np.concatenate(
                [found, np.zeros((m.ids.size, width - found.shape[1]), UNIT)], axis=1
            )
        return found[:, :width]
    if isinstance(o, Pair):
        return held(m, ops, o.first, width)
    if isinstance(o, Vector):
        each = width // len(o.parts)
        parts = [held(m, ops, p, each) for p in o.parts]
        if all(p is None for p in parts):
            return None
        blank = np.zeros((m.ids.size, each), UNIT)
        return np.concatenate([blank if p is None else p for p in parts], axis=1)
    return None


def floats(ops: Operands, o: Operand, kind: str, meaning: Meaning) -> Floats:
    """Return the function for the values of an operand, lanes by elements, and their payloads."""
    get, half = ops.read(o, kind), TYPES[PACKED.get(kind, kind)]
    width = units.count(kind)

    def read(m: Machine) -> tuple[Array, Array]:
        v = np.ascontiguousarray(m.active(get(m))).view(half).reshape(m.ids.size, -1)
        if isinstance(o, Imm) and kind in FLOATS:
            p = np.zeros(v.shape, PAYLOAD)
            p[:] = meaning.constant(v[0, 0]) if v.size else 0
            return v, p
        return v, units.payloads(v, held(m, ops, o, width))

    return read


def finished(m: Machine, ops: Operands, found: Array | None) -> Finish:
    """Return what sets the units of the result."""
    return lambda: put(m, ops, target(ops), found)


def cleared(ops: Operands) -> Rule:
    """Return the rule of what yields no float, or the number that its bits are."""

    def rule(m: Machine) -> Finish:
        def finish() -> None:
            for o in ops.ins.args[:1]:
                for r in registers((o,)):
                    put(m, ops, Reg(r), None)

        return finish

    return rule
