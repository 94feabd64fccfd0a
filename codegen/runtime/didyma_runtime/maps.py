"""Tensor maps: descriptions of arrays for the copies of boxes, which a kernel is launched with."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

WORDS = 16  # of eight bytes, in a map
LINE, NBYTES = 64, 2  # elements of a row of a box, and bytes of an element
PIECE = 16 // NBYTES  # elements to a multiple of which rows begin
_ALIGNED = 64  # bytes to a multiple of which the driver writes a map
_U16, _NONE, _BYTES_128, _BYTES_256 = 1, 0, 3, 3  # of types, interleaving, swizzling, promotion
_SECTOR = 128  # bytes of a line of the cache


class Described(NamedTuple):
    """What a map says beside an address: of which of a kernel's buffers, by its number.

    Elements of the buffer before the array, the array's extents, the elements between neighbours
    along the last two axes, and the rows of a box of 64 elements each.

    If there are ``images``, these axes are channels, columns and lines, and the rows are pixels; by
    ``step`` images follow each other.  The rest is for both axes of an image: where the walk of
    pixels begins, and how far from the last one it ends, and its strides.
    """

    buffer: int
    offset: int
    x: int
    y: int
    z: int
    near: int
    far: int
    rows: int
    images: int = 0
    step: int = 0
    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0
    across: int = 0
    down: int = 0

    @property
    def words(self) -> tuple[int, ...]:
        """All behind the offset, as the emulation of a map on the host has it."""
        return self[2:]


@lru_cache(maxsize=1 << 12)
def encoded(call: Callable[..., None], address: int, d: Described) -> tuple[int, ...]:
    """Return the words of a map of a buffer at an address.

    ``call`` calls a function of the driver, and raises where that refuses.  Elements are copied as
    words of two bytes, whatever they mean, and pieces of 16 bytes lie exchanged within 128.  Rows
    that begin between lines of the cache are fetched without what lies beside them.
    """
    u64, u32, i32 = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int32
    raw = (u64 * (2 * WORDS))()
    at = -(-ctypes.addressof(raw) // _ALIGNED) * _ALIGNED
    whole = d.near * NBYTES % _SECTOR == 0
    if d.images:
        call(
            "cuTensorMapEncodeIm2col", ctypes.c_void_p(at), _U16, 4,
            u64(address + d.offset * NBYTES), (u64 * 4)(d.x, d.y, d.z, d.images),
            (u64 * 3)(d.near * NBYTES, d.far * NBYTES, d.step * NBYTES),
            (i32 * 2)(d.left, d.top), (i32 * 2)(d.right, d.bottom), u32(LINE), u32(d.rows),
            (u32 * 4)(1, d.across, d.down, 1),
            _NONE, _BYTES_128, _BYTES_256 if whole else _NONE, _NONE,
        )  # fmt: skip
        return tuple((u64 * WORDS).from_address(at))
    call(
        "cuTensorMapEncodeTiled", ctypes.c_void_p(at), _U16, 3,
        u64(address + d.offset * NBYTES), (u64 * 3)(d.x, d.y, d.z),
        (u64 * 2)(d.near * NBYTES, d.far * NBYTES), (u32 * 3)(LINE, d.rows, 1), (u32 * 3)(1, 1, 1),
        _NONE, _BYTES_128, _BYTES_256 if whole else _NONE, _NONE,
    )  # fmt: skip
    return tuple((u64 * WORDS).from_address(at))


def starts(buffers: int, maps: int, words: int) -> tuple[int, ...]:
    """Return at which words the arguments of a launch begin: buffers, then maps, then the rest.

    >>> starts(2, 1, 19)
    (0, 1, 2, 18)
    """
    end = buffers + maps * WORDS
    return (*range(buffers), *range(buffers, end, WORDS), *range(end, words))
