"""What registers and memory hold in the ring: a payload beside each two bytes of a float.

The bits of a float may go anywhere, as integers or as halves of a wider register, so each unit of
two bytes says which part of an element it is.  A unit is ``CLEAN`` where it is no part of a float
that anything has been computed from: its payload is then that of the number that its bits are.  It
is ``OPAQUE`` where instructions on integers have changed the bits of a float, which tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx.code import SIZES
from didyma.codegen.runtime.ptx.kinds import BF16
from didyma.codegen.runtime.ptx.memory import (
    ANYWHERE,
    GLOBAL,
    LOCAL,
    OWNER,
    SHARED,
    UNIT,
    WINDOW,
    Space,
)
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import ring
from didyma.refimpl.ops.ring import UNKNOWN

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

WIDTH = 2  # bytes of a unit
CLEAN, OPAQUE = 0, 15
FIRST = {"f16": 1, "f32": 2, "f64": 4, "bf16": 8}  # the part that an element begins with
_BASES = (GLOBAL, SHARED, LOCAL)
_RANK = 24  # bits of an address in a cluster below the rank of its block


def count(kind: str) -> int:
    """Return the units of a type: one at least, two for f32."""
    return max(1, SIZES[kind] // WIDTH)


def made(payloads: Array, kind: str) -> Array:
    """Return the units of elements of a type: lanes, then elements.

    >>> made(np.uint64([[7], [8]]), "f32")["part"].tolist()
    [[2, 3], [2, 3]]
    """
    width = count(kind)
    out = np.zeros((*payloads.shape, width), UNIT)
    out["payload"] = payloads[..., None]
    out["part"] = FIRST[kind] + np.arange(width, dtype=np.uint8)
    return out.reshape(payloads.shape[0], -1)


def opaque(lanes: int, width: int) -> Array:
    """Return units of bits that tell nothing."""
    out = np.zeros((lanes, width), UNIT)
    out["payload"], out["part"] = UNKNOWN, OPAQUE
    return out


def payloads(values: Array, units: Array | None) -> Array:
    """Return the payloads of floats, lanes and then elements, that units say; UNKNOWN of others.

    The upper half of an f32 is a bf16 that was rounded, and a bf16 above a zero is an f32.
    """
    if units is None:
        return np.asarray(ring.embed(values))
    width = max(1, values.dtype.itemsize // WIDTH)
    u = units.reshape(*values.shape, width)
    part, found = u["part"], u["payload"][..., 0]
    first = FIRST["bf16"] if values.dtype == BF16 else width
    known = (part == first + np.arange(width)).all(-1)
    if values.dtype == BF16:
        known |= part[..., 0] == 3
    if known.all():
        return found.copy()
    out = np.where(known, found, UNKNOWN)
    clean = (part == CLEAN).all(-1)
    if clean.any():
        out = np.where(clean, ring.embed(values), out)
    if width == 2:
        low = np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFF)
        short = (part[..., 0] == CLEAN) & np.isin(part[..., 1], (FIRST["bf16"], 3)) & (low == 0)
        out = np.where(short, u["payload"][..., 1], out)
    return np.asarray(out)


def width_of(dtype: DType) -> int:
    """Return the units of a dtype's elements; 0 of integers and of floats of eight bits."""
    return dtype.nbytes // WIDTH if dtype.is_float and not dtype.is_packed else 0


def payloads_of(values: Array, units: Array) -> Array:
    """Return the payloads of an array of floats that lies in memory with such units.

    Those of floats of eight bits are unknown: integers make them, of what tests of floats decide.
    """
    each = width_of(DType.of(values))
    if not each:
        return np.full(values.shape, UNKNOWN)
    flat = values.reshape(-1, 1)
    with np.errstate(all="ignore"):
        found = payloads(flat, units[: flat.size * each].reshape(flat.size, each))
    return found.reshape(values.shape)


def is_clean(units: Array | None) -> bool:
    """Return whether no unit is part of a float that something was computed from."""
    return units is None or not units["part"].any()


@dataclass(slots=True)
class Shadow:
    """The units of registers and of parameters of calls, by their number, in all lanes of a batch.

    What is not there is clean.
    """

    size: int
    regs: dict[int, Array] = field(default_factory=dict[int, Array])
    slots: dict[int, Array] = field(default_factory=dict[int, Array])

    def of(self, table: dict[int, Array], number: int, ids: Array) -> Array | None:
        """Return the units of a register or a parameter in some lanes; None where all are clean."""
        found = table.get(number)
        return None if found is None else found[ids]

    def set(
        self,
        table: dict[int, Array],
        number: int,
        ids: Array,
        units: Array | None,
        width: int,
        first: int = 0,
    ) -> None:
        """Set units of a register or a parameter, of ``width`` in all, from ``first`` on."""
        have = table.get(number)
        if have is None:
            if units is None or not units["part"].any():
                return
            have = table[number] = np.zeros((self.size, width), UNIT)
        if units is None:
            have[ids, first:] = 0
            if not have["part"].any():
                del table[number]
            return
        n = min(units.shape[1], width - first)
        have[ids, first : first + n] = units[:, :n]

    def copied(self, source: int, to: int, ids: Array, nbytes: int) -> None:
        """Copy a parameter of a call to another, as its bytes are."""
        width = -(-nbytes // WIDTH)
        found = self.of(self.slots, source, ids)
        blank = np.zeros((ids.size, width), UNIT)
        self.set(self.slots, to, ids, blank if found is None else found[:, :width], width)


def bytes_of(
    m: Machine, ids: Array, addresses: Array, nbytes: int, where: int
) -> Iterator[tuple[Space, Array, Array]]:
    """Yield a space, which of the lanes access it, and at which of its bytes, of all its copies.

    Accesses outside of it are left out: the checks of memory report them.
    """
    spaces = m.memory.spaces
    if where == ANYWHERE:
        shared = (addresses >= SHARED) & (addresses < SHARED + WINDOW)
        local = (addresses >= LOCAL) & (addresses < LOCAL + WINDOW)
        number = np.where(shared, 1, np.where(local, 2, 0))
    else:
        number = np.full(addresses.shape, where)
    found: list[int] = np.unique(number).tolist()
    for k in found:
        space, lanes = spaces[k], np.flatnonzero(number == k)
        base, at = _BASES[k], addresses[lanes]
        at = np.where((at >= base) | (k == 0), at - base, at)
        block = m.memory.block[ids[lanes]].astype(np.int64)
        if k == 1 and m.memory.peers is not None:
            rank = at >> _RANK
            block = np.where(rank > 0, m.memory.peers[block, np.maximum(rank - 1, 0)], block)
            at = np.where(rank > 0, at & ((1 << _RANK) - 1), at)
        if k == 2:
            own = (at >> OWNER == 0) | (at >> OWNER == ids[lanes] + 1)
            at = np.where(own, at & ((1 << OWNER) - 1), -1)
        inside = (at >= 0) & (at + nbytes <= space.size)
        copy: Any = (0, block, ids[lanes].astype(np.int64))[space.copies]
        yield space, lanes[inside], (at + space.size * copy)[inside]


def load(m: Machine, ids: Array, addresses: Array, nbytes: int, where: int) -> Array:
    """Return the units at addresses, a row for each lane."""
    width = max(1, nbytes // WIDTH)
    out = np.zeros((ids.size, width), UNIT)
    for space, lanes, at in bytes_of(m, ids, addresses, nbytes, where):
        out[lanes] = space.units[at[:, None] // WIDTH + np.arange(width)]
    if nbytes < WIDTH:
        marked = out["part"] != CLEAN
        out["part"][marked], out["payload"][marked] = OPAQUE, UNKNOWN
    return out


def store(
    m: Machine, ids: Array, addresses: Array, nbytes: int, where: int, given: Array | None
) -> None:
    """Set the units at addresses, by a row for each lane; None for clean ones."""
    width = max(1, nbytes // WIDTH)
    for space, lanes, at in bytes_of(m, ids, addresses, nbytes, where):
        units, to = space.units, at[:, None] // WIDTH + np.arange(width)
        if nbytes < WIDTH:
            new = np.zeros(to.shape, np.bool_) if given is None else given["part"][lanes] != CLEAN
            mixed = to[new | (units["part"][to] != CLEAN)]
            units["part"][mixed], units["payload"][mixed] = OPAQUE, UNKNOWN
        else:
            units[to] = np.zeros((), UNIT) if given is None else given[lanes, :width]


def filled(m: Machine, ids: Array, source: Array, to: Array, counts: Array, nbytes: int) -> None:
    """Move the first units of an asynchronous copy from global to shared memory; clear the rest.

    They move at once: nobody may look before the copy lands.
    """
    row = load(m, ids, np.where(counts > 0, source, GLOBAL), nbytes, 0)
    row[np.arange(nbytes // WIDTH) * WIDTH >= counts[:, None]] = 0
    store(m, ids, to, nbytes, 1, row)
