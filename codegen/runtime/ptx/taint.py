"""Values that nothing has written: they may be copied, and are reported where they are used.

Each byte of a register is tainted that comes from memory which nothing has written.  Copies keep
the taint, to memory too.  What is computed of such a value is tainted as a whole, and as computed.
A use is an address, a branch or another guard, an atomic, and a store of what was computed; a
computed value that is dropped, as where a compiler computes both sides of a choice, is none.  A
mask or an insertion changes some bits of a byte, as for a bit field: when that is stored, its bytes
count as written.  What a shuffle reads of a lane that takes no part is tainted, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

COMPUTED, PARTIAL = 0x100, 0x200  # beside a bit for each byte


@dataclass(slots=True)
class Taints:
    """Which bytes of which registers are tainted, in all lanes; and of parameters of calls.

    ``origin`` is the load or shuffle from which a register's taint comes; ``texts`` say what it
    read, and ``kinds`` what a use is to be called if not uninitialised.
    """

    size: int
    masks: dict[int, Array] = field(default_factory=dict[int, Array])
    origin: dict[int, int] = field(default_factory=dict[int, int])
    slots: dict[int, Array] = field(default_factory=dict[int, Array])
    texts: dict[int, str] = field(default_factory=dict[int, str])
    kinds: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def some(self) -> bool:
        """Whether anything is tainted."""
        return bool(self.masks or self.slots)

    def of(self, reg: int, ids: Array) -> Array | None:
        """Return the taint of a register in some lanes; None where there is none."""
        mask = self.masks.get(reg)
        if mask is None:
            return None
        found = mask[ids]
        return found if found.any() else None

    def set(self, reg: int, ids: Array, mask: Array | int | None, origin: int) -> None:
        """Taint a register in some lanes, or clear it."""
        have = self.masks.get(reg)
        if mask is None or not np.any(mask):
            if have is not None:
                have[ids] = 0
                if not have.any():
                    del self.masks[reg]
            return
        if have is None:
            have = self.masks[reg] = np.zeros(self.size, np.uint16)
        have[ids] = mask
        self.origin[reg] = origin


def use(m: Machine, reg: int, ids: Array, computed: bool = False) -> None:
    """Report that lanes use a tainted register; with ``computed`` only what was computed counts."""
    found = m.taints.of(reg, ids)
    if found is None:
        return
    lanes = ids[(found & COMPUTED) != 0] if computed else ids
    lanes = ids[found != 0] if not computed else lanes
    if lanes.size:
        origin = m.taints.origin[reg]
        pc = origin if origin >= 0 else -1 - origin
        kind = m.taints.kinds.get(origin, "uninitialised")
        m.report(kind, m.taints.texts.get(origin, "memory is read"), lanes, pc=pc)
        for r in [*m.taints.masks]:  # one report is enough
            if m.taints.origin.get(r) == origin:
                m.taints.set(r, lanes, None, origin)


def unset(m: Machine, registers_: Sequence[tuple[int, int]], ids: Array) -> None:
    """Taint registers of a function that lanes enter, which nothing has set."""
    for reg, at in registers_:
        m.taints.texts.setdefault(-1 - at, "a variable is read that nothing has set")
        m.taints.set(reg, ids, np.full(ids.size, 0xFF, np.uint16), -1 - at)


def unfolded(mask: Array, size: int) -> Array:
    """Return which bytes of a size are tainted."""
    found: Array = (mask[:, None] >> np.arange(size, dtype=np.uint16) & np.uint16(1)) != 0
    return found
