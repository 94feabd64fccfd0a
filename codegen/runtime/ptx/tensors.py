"""Boxes of arrays that the asynchronous unit copies to shared memory, and maps that describe them.

The bytes of a map are the driver's secret, so maps here have a layout of their own: both those that
a kernel writes by ``tensormap.replace``, and those that are passed to it (``maps``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from didyma.codegen.runtime.ptx import units
from didyma.codegen.runtime.ptx.bulk import fenced, issue, of_rank, send, sent, update_of, updates
from didyma.codegen.runtime.ptx.code import Tensor, Vector, unknown
from didyma.codegen.runtime.ptx.memory import ANYWHERE, BUSY, READ, SPACES, UNIT, WRITE
from didyma.codegen.runtime.ptx.operands import Action, Operands, Source
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

BYTES = 128  # of a map
_PIECE = 16
# Where a field of a map is, and the bytes of it; those that have several are one after the other.
# Where a map is one of images, "pixels" is 1, and "box_dim" has the channels and pixels of a box,
# and of width, height and depth the corners between which pixels are walked, the lower in the low
# half.
FIELDS: Mapping[str, tuple[int, int]] = {
    "global_address": (0, 8), "rank": (8, 4), "box_dim": (12, 4), "global_dim": (32, 4),
    "element_stride": (52, 4), "global_stride": (72, 8), "pixels": (104, 4), "elemtype": (112, 4),
    "interleave_layout": (116, 4), "swizzle_mode": (120, 4), "fill_mode": (124, 4),
}  # fmt: skip
SEVERAL = frozenset(("box_dim", "global_dim", "element_stride", "global_stride"))
_SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)  # of elements, by the number of their type
_KINDS = {
    2: "u32",
    3: "s32",
    4: "u64",
    5: "s64",
    6: "f16",
    7: "f32",
    8: "f32",
    9: "f64",
    10: "bf16",
}
_SWIZZLED = (16, 32, 64, 128)  # bytes in which pieces of 16 bytes are exchanged, by mode


def compile_tensor(ops: Operands) -> Action | None:
    """Compile what maps describe; None for another instruction."""
    mods = ops.ins.mods
    if ops.ins.op == "tensormap":
        return _replace(ops) if mods[0] == "replace" else _publish(ops)
    if ops.ins.op != "cp" or "tensor" not in mods:
        return None
    if "prefetch" in mods:
        return lambda m: None
    if any(m.startswith(("im2col::", "tile::")) for m in mods):
        raise unknown(ops.ins, "a copy through a tensor map by im2col::w, or by gather4")
    return _store(ops) if "bulk_group" in mods else _load(ops)


def _space(mods: tuple[str, ...]) -> int:
    return SPACES["shared"] if "shared::cta" in mods else ANYWHERE


def _replace(ops: Operands) -> Action:
    """``tensormap.replace``: set a field of a map."""
    mods = ops.ins.mods
    if mods[1] != "tile" or mods[2] not in FIELDS:
        raise unknown(ops.ins)
    at, size = FIELDS[mods[2]]
    if mods[2] in SEVERAL:
        at += size * ops.integer(1)
    address, value, where = ops.address(0), ops.source(len(ops) - 1, f"u{8 * size}"), _space(mods)

    def replace(m: Machine) -> None:
        v = m.active(value(m))
        m.tell(m.memory.access(m.ids, m.active(address(m)) + at, size, where, WRITE, 0, v, m.at))

    return replace


def _publish(ops: Operands) -> Action:
    """``tensormap.cp_fenceproxy``: a warp copies a map to global memory."""
    to, source = ops.address(0), ops.address(1)

    def publish(m: Machine) -> None:
        _, first = np.unique(m.ids >> 5, return_index=True)
        lanes = np.ascontiguousarray(m.ids[first])
        targets, sources = (m.active(f(m))[first] for f in (to, source))
        for k in range(0, BYTES, _PIECE):
            raw = np.zeros((lanes.size, _PIECE), np.uint8)
            shared, everywhere = SPACES["shared"], SPACES["global"]
            m.tell(m.memory.access(lanes, sources + k, _PIECE, shared, READ, 0, raw, m.at))
            m.tell(m.memory.access(lanes, targets + k, _PIECE, everywhere, WRITE, 0, raw, m.at))

    return publish


def _load(ops: Operands) -> Action:
    """``cp.async.bulk.tensor``: a box comes to shared memory, and an mbarrier counts its bytes."""
    mods, box = ops.ins.mods, ops.at(1)
    if not isinstance(box, Tensor) or not isinstance(box.parts[-1], Vector):
        raise unknown(ops.ins)
    at, to, barrier = ops.read(box.parts[0], "u64"), ops.address(0), ops.address(2)
    coordinates = [ops.read(p, "s32") for p in box.parts[-1].parts]
    images = "im2col" in mods
    shifts = [ops.read(p, "u16") for p in ops.parts(3)] if images else []
    several = ops.source(3 + images, "u16") if "multicast::cluster" in mods else None

    def load(m: Machine) -> None:
        columns = [_integers(m, f) for f in (at, to, barrier, *coordinates, *shifts)]
        masks = _integers(m, several) if several else [0] * m.ids.size
        for lane, mask, map_, target, signal, *start in zip(
            m.ids.tolist(), masks, *columns, strict=True
        ):
            rank = len(coordinates)
            given = start[:rank], start[rank:] if images else None
            data, where = _box(m, lane, map_, *given)
            moved = None if m.shadow is None else _units(m, lane, map_, *given)
            for peer in [k for k in range(16) if mask >> k & 1] if several else [None]:
                base = of_rank(target, peer)
                places = _swizzled(base + where, _map(m, lane, map_))
                send(m, lane, places, of_rank(signal, peer), data)
                if moved is not None:
                    at_, size = _by_element(places, data.size, len(moved))
                    lanes = np.full(at_.size, lane, np.int32)
                    units.store(m, lanes, at_, size, SPACES["shared"], moved)

    return load


def _by_element(places: Array, nbytes: int, count: int) -> tuple[Array, int]:
    """Return the addresses of elements in pieces that lie at places, and the bytes of one."""
    size = nbytes // max(1, count)
    first = np.arange(count, dtype=np.int64) * size
    return places[first // _PIECE] + first % _PIECE, size


def _units(
    m: Machine, lane: int, address: int, start: list[int], shifts: list[int] | None
) -> Array:
    """Return the units of the elements of a box: clean ones outside of its array."""
    d, inside, where = _elements(m, lane, address, start, shifts)
    size = _SIZES[d["elemtype"][0]]
    out = np.zeros((inside.size, max(1, size // units.WIDTH)), UNIT)
    lanes = np.full(where.size, lane, np.int32)
    out[inside] = units.load(m, lanes, where, size, SPACES["global"])
    return out


def _integers(m: Machine, f: Source) -> list[int]:
    found: list[int] = m.active(f(m)).astype(np.int64).tolist()
    return found


def _map(m: Machine, lane: int, address: int) -> dict[str, list[int]]:
    """Return the fields of a map, which a lane reads."""
    lanes = np.full(BYTES // _PIECE, lane, np.int32)
    at = address + _PIECE * np.arange(lanes.size, dtype=np.int64)
    raw = np.zeros((lanes.size, _PIECE), np.uint8)
    m.tell(m.memory.access(lanes, at, _PIECE, ANYWHERE, READ, 0, raw, m.at))
    flat = raw.reshape(-1)
    return {
        name: flat[k : k + size * (5 - size // 8 if name in SEVERAL else 1)]
        .view(f"u{size}")
        .tolist()
        for name, (k, size) in FIELDS.items()
    }


def _box(
    m: Machine, lane: int, address: int, start: list[int], shifts: list[int] | None
) -> tuple[Array, Array]:
    """Return the elements of a box as pieces, and where they go, counted from the first."""
    d, inside, where = _elements(m, lane, address, start, shifts)
    size = _SIZES[d["elemtype"][0]]
    data = np.zeros((inside.size, size), np.uint8)
    part = np.zeros((where.size, size), np.uint8)
    lanes = np.full(where.size, lane, np.int32)
    m.tell(m.memory.access(lanes, where, size, SPACES["global"], READ, 0, part, m.at))
    data[inside] = part
    if d["fill_mode"][0] and size in (2, 4):
        data[~inside] = 0xFF  # NaN
    pieces = data.reshape(-1, _PIECE)
    return pieces, _PIECE * np.arange(len(pieces), dtype=np.int64)


def _elements(
    m: Machine, lane: int, address: int, start: list[int], shifts: list[int] | None
) -> tuple[dict[str, list[int]], Array, Array]:
    """Return a map, which elements of a box are inside of its array, and the addresses of those.

    ``shifts`` are added to the positions of pixels, of a map of images; None for a tile.
    """
    d, rank = _map(m, lane, address), len(start)
    steps, kind = d["element_stride"][:rank], d["elemtype"][0]
    odd = d["rank"][0] != rank - 1 or d["interleave_layout"][0] or kind >= len(_SIZES)
    other = d["pixels"][0] if shifts is None else not d["pixels"][0]
    if odd or other or (shifts is None and any(n != 1 for n in steps)):
        raise unknown(m.kernel.program.instrs[m.at], "a map of another rank, layout, mode or step")
    extents, strides = d["global_dim"][:rank], [_SIZES[kind], *d["global_stride"][: rank - 1]]
    if shifts is None:
        grid = np.indices(d["box_dim"][:rank][::-1], np.int64).reshape(rank, -1)[::-1]
        at = grid + np.array(start)[:, None]
    else:
        at = _pixels(d, start, shifts)
    inside: Array = np.all((at >= 0) & (at < np.array(extents)[:, None]), axis=0)
    return d, inside, d["global_address"][0] + np.array(strides) @ at[:, inside]


def _pixels(d: Mapping[str, list[int]], start: list[int], shifts: list[int]) -> Array:
    """Return where the elements of a box of pixels are: a row for each axis, channels first.

    Pixels are walked by their steps from corner to corner, along the width first, and then from
    image to image; where each of them is read is shifted.
    """
    channels, count, *corners = d["box_dim"]
    axes = range(len(start) - 2)
    first = [_signed(c) for c in corners]
    last = [d["global_dim"][1 + k] - 1 + _signed(corners[k] >> 16) for k in axes]
    at, found = start[1:], list[list[int]]()
    for _ in range(count):
        found.append([*(at[k] + (shifts[k] if shifts else 0) for k in axes), at[-1]])
        for k in axes:
            at[k] += d["element_stride"][1 + k]
            if at[k] <= last[k]:
                break
            at[k] = first[k]
        else:
            at[-1] += 1
    pixels = np.repeat(np.array(found, np.int64), channels, axis=0).T
    return np.concatenate([np.tile(start[0] + np.arange(channels), count)[None], pixels])


def _signed(half: int) -> int:
    """Return the number of which the low half of a word has the bits."""
    return (half & 0xFFFF ^ 0x8000) - 0x8000


def _store(ops: Operands) -> Action:
    """A box of shared memory goes to global memory, in a group of its lane, or is added there."""
    box, source = ops.at(0), ops.address(1)
    if not isinstance(box, Tensor) or not isinstance(box.parts[-1], Vector):
        raise unknown(ops.ins)
    at = ops.read(box.parts[0], "u64")
    coordinates = [ops.read(p, "s32") for p in box.parts[-1].parts]
    how = update_of(ops) if "reduce" in ops.ins.mods else None
    shifts = list[int]() if "im2col_no_offs" in ops.ins.mods else None

    def store(m: Machine) -> None:
        columns = [_integers(m, f) for f in (at, source, *coordinates)]
        for lane, map_, first, *start in zip(m.ids.tolist(), *columns, strict=True):
            d, inside, where = _elements(m, lane, map_, start, shifts)
            kind = d["elemtype"][0]
            nbytes = inside.size * _SIZES[kind]
            update = None if how is None else (how, _KINDS.get(kind, ""))
            if update and not updates(*update):
                raise unknown(ops.ins, "a map whose elements are not updated so")
            fenced(m, lane, first, nbytes)
            places = _swizzled(first + np.arange(0, nbytes, _PIECE, dtype=np.int64), d)
            raw = np.zeros((places.size, _PIECE), np.uint8)
            lanes = np.full(places.size, lane, np.int32)
            m.tell(m.memory.access(lanes, places, _PIECE, SPACES["shared"], BUSY, 0, raw, m.at))
            elements = raw.reshape(inside.size, -1)[inside]
            issue(m, lane, where, elements, first, nbytes, update)
            if m.shadow is not None:
                begun = _by_element(places, nbytes, inside.size)[0][inside]
                sent(m, lane, begun, where, elements, update)

    return store


def _swizzled(places: Array, d: Mapping[str, list[int]]) -> Array:
    """Return where pieces lie that a map exchanges within lines."""
    width = _SWIZZLED[d["swizzle_mode"][0] & 3]
    exchanged: Array = places ^ ((places >> 7) % (width // 16) << 4)
    return exchanged
