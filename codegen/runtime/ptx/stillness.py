"""By which registers a loop could end, or do something new: what must change in one that ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from didyma.codegen.runtime.ptx.access import space_of
from didyma.codegen.runtime.ptx.code import Instr, Place, registers

_ACTS = frozenset((
    "atom", "bar", "barrier", "bra", "brkpt", "brx", "call", "cp", "discard", "exit", "extern",
    "fence", "mbarrier", "membar", "multimem", "red", "ret", "st", "stmatrix", "tensormap", "trap",
    "wgmma", "wmma",
))  # fmt: skip
_IDLE = frozenset(("nanosleep", "prefetch", "prefetchu", "applypriority", "pmevent"))
_LOCAL = -1  # in place of a register: all that a thread has in local memory


def needed(instrs: Iterable[Instr]) -> frozenset[int]:
    """Return the registers that decide what instructions do, but to registers and local memory.

    These are their guards, addresses and stored values, and what those are computed from.
    """
    found, flows = set[int](), list[tuple[frozenset[int], frozenset[int]]]()
    for ins in instrs:
        if ins.op in _IDLE:
            continue
        guard = frozenset(() if ins.guard is None else (ins.guard[0].index,))
        if ins.op == "st" and space_of(ins.mods) == "local":
            flows.append((frozenset((_LOCAL,)), registers(ins.args) | guard))
        elif ins.op in _ACTS:
            gives = ins.op in ("atom", "mbarrier") and not isinstance(ins.args[0], Place)
            found |= registers(ins.args[gives:]) | guard
        else:
            sources = registers(ins.args[1:]) | guard
            if ins.op in ("ld", "ldu") and space_of(ins.mods) in (None, "local"):
                sources |= {_LOCAL}
            flows.append((registers(ins.args[:1]), sources))
    return _closed(found, flows)


def _closed(
    found: set[int], flows: Sequence[tuple[frozenset[int], frozenset[int]]]
) -> frozenset[int]:
    """Add what registers are computed from, until there is no more."""
    before = -1
    while len(found) != before:
        before = len(found)
        for to, sources in flows:
            if to & found:
                found |= sources
    return frozenset(found - {_LOCAL})
