"""Elements of less than a byte in memory: several to a byte, the first in the lowest bits.

NumPy holds them unpacked, one per byte, in the low bits (as ``ml_dtypes`` does); memory, constants
and files hold them packed, as ONNX does.  A row of elements is packed as a whole, whatever its
shape, and the bits that are left over in the last byte are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack(array: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """Return the packed bytes of elements of 2 or 4 bits.

    >>> import ml_dtypes
    >>> pack(np.array([1, -1, 2], ml_dtypes.int4), 4)
    array([241,   2], dtype=uint8)
    """
    count = 8 // bits
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    rows = np.zeros((-(-raw.size // count), count), np.uint8)
    rows.reshape(-1)[: raw.size] = raw
    out: NDArray[np.uint8] = rows[:, 0].copy()
    for i in range(1, count):
        out |= rows[:, i] << (bits * i)
    return out


def unpack(
    data: bytes | NDArray[np.uint8], numpy: np.dtype[Any], bits: int, shape: Sequence[int]
) -> NDArray[Any]:
    """Return the elements that packed bytes hold, as a read-only array.

    >>> import ml_dtypes
    >>> unpack(bytes([0xF1, 0x02]), np.dtype(ml_dtypes.int4), 4, (3,)).tolist()
    [1, -1, 2]
    """
    count = 8 // bits
    packed = np.frombuffer(data, np.uint8)
    rows = np.stack([packed >> (bits * i) for i in range(count)], 1) & ((1 << bits) - 1)
    raw = rows.reshape(-1)[: math.prod(shape)].astype(np.uint8)
    out = raw.view(numpy).reshape(tuple(shape))
    out.flags.writeable = False
    return out


def memory(array: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """Return the bytes of an array as they stand in memory."""
    if bits < 8:
        return pack(array, bits)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
