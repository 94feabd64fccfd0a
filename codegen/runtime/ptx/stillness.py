"""What registers decide: whether a loop could end or do something new, and what a thread does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from didyma.codegen.runtime.ptx.access import space_of
from didyma.codegen.runtime.ptx.code import (
    CLOCKS,
    Instr,
    Operand,
    Place,
    Slot,
    Special,
    registers,
)

_ACTS = frozenset((
    "atom", "bar", "barrier", "bra", "brkpt", "brx", "call", "cp", "discard", "exit", "extern",
    "fence", "mbarrier", "membar", "multimem", "red", "ret", "st", "stmatrix", "tensormap", "trap",
    "wgmma", "wmma",
))  # fmt: skip
_IDLE = frozenset(("nanosleep", "prefetch", "prefetchu", "applypriority", "pmevent"))
# In place of registers: a clock, local memory, and from there down the parameters of calls.
_CLOCK, _LOCAL, _CALLS = -1, -2, -3


def needed(instrs: Iterable[Instr]) -> frozenset[int]:
    """Return the registers that decide what instructions do beyond a thread's own memory.

    These are their guards, addresses and stored values, and what those are computed from.
    """
    found, flows = frozenset[int](), list[tuple[frozenset[int], frozenset[int]]]()
    for ins in instrs:
        if ins.op in _IDLE:
            continue
        own = ins.op == "st" and (space_of(ins.mods) == "local" or _slot(ins.args[0]))
        if own or ins.op not in _ACTS:
            flows.append(_flow(ins))
            continue
        gives = ins.op in ("atom", "mbarrier") and not isinstance(ins.args[0], Place)
        found |= registers(ins.args[gives:]) | _guard(ins)
    return frozenset(r for r in _closed(found, flows) if r >= 0)


def tested(instrs: Iterable[Instr], *, local: bool) -> frozenset[int]:
    """Return the registers that decide what a thread does next.

    Values are followed through registers, calls and, where there are variables in it, ``local``
    memory; not as addresses.
    """
    instrs = [*instrs]
    ignored = frozenset((_CLOCK,) if local else (_CLOCK, _LOCAL))
    flows = list[tuple[frozenset[int], frozenset[int]]]()
    for ins in instrs:
        to, sources = (frozenset(max(r, _CALLS) for r in rs - ignored) for rs in _flow(ins))
        read = ins.op in ("ld", "ldu", "atom")
        flows.append((to, sources - registers(ins.args[1:]) if read else sources))
    return _closed(frozenset[int]().union(*map(_guard, instrs)), flows)


def timed(instrs: Sequence[Instr]) -> frozenset[int]:
    """Return the registers that are computed from a clock."""
    return _closed(frozenset((_CLOCK,)), [(b, a) for a, b in map(_flow, instrs)])


def _guard(ins: Instr) -> frozenset[int]:
    return frozenset(() if ins.guard is None else (ins.guard[0].index,))


def _slot(o: Operand) -> frozenset[int]:
    base = o.base if isinstance(o, Place) else o
    return frozenset((_LOCAL - 1 - base.number,)) if isinstance(base, Slot) else frozenset()


def _flow(ins: Instr) -> tuple[frozenset[int], frozenset[int]]:
    """Return what an instruction computes, and from what."""
    memory = space_of(ins.mods) in (None, "local")
    if ins.op == "st":
        to = _slot(ins.args[0]) or frozenset((_LOCAL,) if memory else ())
        return to, registers(ins.args) | _guard(ins)
    sources = registers(ins.args[1:]) | _guard(ins)
    if any(isinstance(a, Special) and a.name.startswith(CLOCKS) for a in ins.args):
        sources |= {_CLOCK}
    if ins.op in ("ld", "ldu"):
        sources |= _slot(ins.args[1]) or frozenset((_LOCAL,) if memory else ())
    return registers(ins.args[:1]), sources


def _closed(
    found: frozenset[int], flows: Sequence[tuple[frozenset[int], frozenset[int]]]
) -> frozenset[int]:
    """Add the second of pairs of which the first has something that is found, again and again."""
    more = found
    while more:
        more = frozenset[int]().union(*(b for a, b in flows if a & found)) - found
        found |= more
    return found
