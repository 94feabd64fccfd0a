"""What a kernel does with its parameters: which decide what threads do, and which may be null."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from didyma.codegen.runtime.ptx.code import (
    Imm,
    Instr,
    KernelParam,
    Operand,
    Place,
    Reg,
    Slot,
    Special,
    Vector,
    registers,
)
from didyma.codegen.runtime.ptx.flat import Program

# In place of a parameter: the index of a thread or a block, and what was read from memory.
_INDEX, _MEMORY = "index of a thread", "memory"
_INDICES = ("tid", "ctaid", "laneid", "cluster_ctaid", "cluster_ctarank", "clusterid")
_CHOOSES = frozenset(("setp", "set", "min", "max", "slct"))


class Uses(NamedTuple):
    """Names of parameters, by what they are for.

    ``sizes`` bound the index of a thread, or address memory; ``chosen`` are equal to the index of
    some thread; ``optional`` are compared with null.
    """

    sizes: frozenset[str]
    chosen: frozenset[str]
    optional: frozenset[str]


def uses(program: Program) -> Uses:
    """Return what a kernel does with its parameters.

    What registers hold is followed through all instructions at once, whatever their order.
    """
    held = _held(program.instrs)
    sizes, chosen, optional = set[str](), set[str](), set[str]()
    for ins in program.instrs:
        known = [_sources((a,), held) for a in ins.args]
        if ins.op in _CHOOSES:
            compared = frozenset[str]().union(*known[1:])
            equals = ins.op in ("setp", "set") and ins.mods[0] in ("eq", "ne")
            zero = any(isinstance(a, Imm) and a.text.rstrip("U") in ("0", "0x0") for a in ins.args)
            if _INDEX in compared:
                (chosen if equals else sizes).update(compared)
            elif equals and zero and "64" in ins.mods[-1] and len(compared) == 1:
                optional |= compared
        for a, found in zip(ins.args, known, strict=True):
            if isinstance(a, Place) and isinstance(a.base, Reg):
                sizes |= found
    params = {p.name for p in program.kernel.params}
    return Uses(*(frozenset(s & params) for s in (sizes, chosen, optional)))


def _held(instrs: Iterable[Instr]) -> Mapping[int, frozenset[str]]:
    """Return of which parameters and other sources each register may be made."""
    flows = [(registers(i.args[:1]), _read(i)) for i in instrs if i.args and i.op != "st"]
    held: dict[int, frozenset[str]] = {}
    moved = True
    while moved:
        moved = False
        for to, operands in flows:
            found = _sources(operands, held)
            for r in to:
                if not found <= held.get(r, frozenset()):
                    held[r], moved = held.get(r, frozenset()) | found, True
    return held


def _read(ins: Instr) -> tuple[Operand, ...]:
    """Return the operands of which a result is made; of a load from memory, that alone."""
    if ins.op in ("ld", "ldu", "atom"):
        place = ins.args[1]
        base = place.base if isinstance(place, Place) else place
        return (base,) if isinstance(base, KernelParam | Slot) else (Special(_MEMORY),)
    return ins.args[1:]


def _sources(operands: Iterable[Operand], held: Mapping[int, frozenset[str]]) -> frozenset[str]:
    return frozenset(s for o in operands for s in _source(o, held))


def _source(o: Operand, held: Mapping[int, frozenset[str]]) -> Iterator[str]:
    match o:
        case KernelParam(name):
            yield name
        case Special(name):
            if name == _MEMORY or name.startswith(_INDICES):
                yield name if name == _MEMORY else _INDEX
        case Reg(i):
            yield from held.get(i, ())
        case Place(base):
            yield from _source(base, held)
        case Vector(parts):
            yield from _sources(parts, held)
        case _:
            pass
