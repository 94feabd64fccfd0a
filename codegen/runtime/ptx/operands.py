"""Operands compiled to functions of the machine: what they hold in the active lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx.code import (
    SIZES,
    Imm,
    Instr,
    KernelParam,
    Not,
    Operand,
    Pair,
    Place,
    Reg,
    Sink,
    Special,
    Symbol,
    Tensor,
    Vector,
    unknown,
)
from didyma.codegen.runtime.ptx.kinds import BITS, TYPES, container, number

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

Source: TypeAlias = "Callable[[Machine], Any]"
Target: TypeAlias = "Callable[[Machine, Any], None]"
Action: TypeAlias = "Callable[[Machine], None]"


class Operands:
    """The operands of one instruction, with the types of all registers."""

    def __init__(self, ins: Instr, regs: Sequence[str]) -> None:
        self.ins = ins
        self.regs = regs

    def __len__(self) -> int:
        return len(self.ins.args)

    def at(self, k: int) -> Operand:
        """Return an operand; DidymaError where the instruction has too few."""
        if k >= len(self.ins.args):
            raise unknown(self.ins, f"{len(self.ins.args)} operands")
        return self.ins.args[k]

    def source(self, k: int, kind: str) -> Source:
        """Return the function that reads an operand by its number."""
        return self.read(self.at(k), kind)

    def target(self, k: int, kind: str) -> Target:
        """Return the function that sets an operand by its number."""
        return self.write(self.at(k), kind)

    def pair(self, k: int, kind: str) -> tuple[Target, Target | None]:
        """Return the functions for a destination, and for the predicate beside it."""
        o = self.at(k)
        if isinstance(o, Pair):
            return self.write(o.first, kind), self.write(o.second, "pred")
        return self.write(o, kind), None

    def parts(self, k: int) -> tuple[Operand, ...]:
        """Return the elements of a vector; of another operand, itself."""
        o = self.at(k)
        return o.parts if isinstance(o, Vector) else (o,)

    def integer(self, k: int) -> int:
        """Return an operand that must be a number."""
        o = self.at(k)
        if not isinstance(o, Imm):
            raise unknown(self.ins, "an operand that is no number")
        return int(o.text.rstrip("U"), 0)

    def read(self, o: Operand, kind: str) -> Source:
        """Return the function that reads an operand as a type."""
        d = TYPES[kind]
        match o:
            case Reg(i):
                have = container(self.regs[i])
                if have.itemsize == d.itemsize or have.kind == "b":
                    return lambda m: m.get(i).view(d)
                if have.itemsize < d.itemsize:
                    raise unknown(self.ins, f"a register of {self.regs[i]} read as {kind}")
                narrow = BITS[d.itemsize]
                return lambda m: m.get(i).astype(narrow).view(d)
            case Imm(text):
                v = number(text, kind)
                return lambda m: v
            case Special(name):
                return lambda m: m.special(name).astype(d)
            case Symbol(name, off):
                return lambda m: d.type(m.symbol(name) + off)
            case KernelParam(name, off):
                return lambda m: d.type(m.param_address(name) + off)
            case Not(x):
                f = self.read(x, kind)
                return lambda m: ~f(m)
            case Pair(x, _):
                return self.read(x, kind)
            case Vector(parts):
                return self._packed(parts, kind)
            case _:
                raise unknown(self.ins, "an operand of this kind")

    def _packed(self, parts: tuple[Operand, ...], kind: str) -> Source:
        wide = BITS[SIZES[kind]]
        size = SIZES[kind] // len(parts)
        fs = [self.read(p, f"u{8 * size}") for p in parts]

        def pack(m: Machine) -> Any:
            v = np.zeros(m.n, wide)
            for k, f in enumerate(fs):
                v |= np.asarray(f(m)).astype(wide) << wide.type(8 * size * k)
            return v.view(TYPES[kind])

        return pack

    def write(self, o: Operand, kind: str) -> Target:
        """Return the function that sets an operand to values of a type."""
        match o:
            case Sink():
                return lambda m, v: None
            case Pair(x, _):
                return self.write(x, kind)
            case Reg(i):
                have, d = container(self.regs[i]), TYPES[kind]
                if have.kind == "b":
                    return lambda m, v: m.put(i, v)
                if d.itemsize < have.itemsize:
                    full = np.dtype(f"i{have.itemsize}") if d.kind == "i" else have
                    raw = d if d.kind in "iu" else BITS[d.itemsize]
                    return lambda m, v: m.put(i, np.asarray(v, d).view(raw).astype(full).view(have))
                return lambda m, v: m.put(i, np.asarray(v, d).view(have))
            case Vector(parts):
                size = SIZES[kind] // len(parts)
                narrow, wide = BITS[size], BITS[SIZES[kind]]
                puts = [self.write(p, f"u{8 * size}") for p in parts]

                def unpack(m: Machine, v: Any) -> None:
                    whole = np.asarray(v, TYPES[kind]).view(wide)
                    for k, put in enumerate(puts):
                        put(m, (whole >> wide.type(8 * size * k)).astype(narrow))

                return unpack
            case _:
                raise unknown(self.ins, "a destination of this kind")

    def address(self, k: int) -> Source:
        """Return the function for the address that an operand in brackets names, as int64."""
        return self.locate(self.at(k))

    def locate(self, o: Operand) -> Source:
        """Return the function for an address, as int64."""
        if isinstance(o, Tensor) or not isinstance(o, Place):
            raise unknown(self.ins, "an address of this kind")
        base, off = o.base, o.offset
        if isinstance(base, Reg) and SIZES[self.regs[base.index]] == 4:
            f, low = self.read(base, "u32"), np.uint32(off % (1 << 32))
            return lambda m: (f(m) + low).astype(np.int64)
        f = self.read(base, "u64")
        if off == 0:
            return lambda m: np.asarray(f(m), np.uint64).view(np.int64)
        high = np.uint64(off % (1 << 64))
        return lambda m: np.asarray(f(m) + high, np.uint64).view(np.int64)
