"""Instructions of a kernel by the line that they come from: those of one name and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didyma.codegen.runtime.ptx.code import Imm, Instr, Operand, Reg, Vector, registers
from didyma.codegen.runtime.ptx.kernel import Kernel

_FLOATS = frozenset(("f16", "f32", "f64", "f16x2", "bf16", "bf16x2"))


def places(instrs: Sequence[Instr]) -> list[tuple[str, int]]:
    """Return files and lines of instructions, where the outermost function has them inlined.

    What was moved, and so has no line, counts to the last line of what it computes with, or else
    to the line that uses it first.
    """
    found, known = list[tuple[str, int]](), dict[int, tuple[str, int]]()
    for i in instrs:
        file, line = _place(i)
        if not line:
            of = (known[r] for r in registers(i.args[1:]) if r in known)
            file, line = max(of, key=lambda p: p[1], default=(file, 0))
        if line:
            known |= dict.fromkeys(registers(i.args[:1]), (file, line))
        found.append((file, line))
    users = dict[int, tuple[str, int]]()
    for at in reversed(range(len(instrs))):
        if not found[at][1]:
            of = (users[r] for r in registers(instrs[at].args[:1]) if r in users)
            found[at] = next(of, found[at])
        users |= dict.fromkeys(registers(instrs[at].args[1:]), found[at])
    return found


def _place(i: Instr) -> tuple[str, int]:
    loc = i.loc
    while loc and loc.outer:
        loc = loc.outer
    return (loc.file, loc.line) if loc else ("", i.at)


@dataclass(frozen=True, slots=True)
class Group:
    """Instructions that come from a line and have one name and the same numbers."""

    file: str
    line: int
    places: tuple[int, ...]
    instrs: tuple[Instr, ...]
    width: str  # the bits of what they compute

    @property
    def first(self) -> Instr:
        """The first of them."""
        return self.instrs[0]

    @property
    def of_floats(self) -> bool:
        """Whether they compute floats."""
        return not _FLOATS.isdisjoint(self.first.mods)

    @property
    def gives(self) -> bool:
        """Whether they compute floats, or load what may be some."""
        return self.of_floats or self.first.op == "ld"

    @property
    def given(self) -> list[Reg]:
        """The registers that they set."""
        return [r for i in self.instrs for r in registers_of(i.args[0])]


def groups(kernel: Kernel) -> list[Group]:
    """Return the instructions of each name that come from a line, with the same numbers."""
    found: dict[tuple[str, int, tuple[str, ...]], list[int]] = {}
    instrs = kernel.program.instrs
    for at, (file, line) in enumerate(places(instrs)):
        numbers = (a.text for a in instrs[at].args if isinstance(a, Imm))
        if len(instrs[at].args) > 1 and line:
            found.setdefault((file, line, (instrs[at].name, *numbers)), []).append(at)
    return [
        Group(
            file, line, tuple(row), tuple(instrs[at] for at in row), _width(kernel, instrs[row[0]])
        )
        for (file, line, _), row in found.items()
    ]  # fmt: skip


def _width(kernel: Kernel, i: Instr) -> str:
    """Return the bits of the registers that an instruction sets, as the last part of their type."""
    types = {kernel.program.regs[r] for r in registers(i.args[:1])}
    return ",".join(sorted(t.lstrip("bfsu") for t in types))


def registers_of(a: Operand) -> list[Reg]:
    """Return the registers of an operand, which may be a vector."""
    parts = a.parts if isinstance(a, Vector) else (a,)
    return [r for r in parts if isinstance(r, Reg)]
