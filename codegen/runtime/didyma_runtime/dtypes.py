"""Arrays of Didyma's dtypes, as NumPy has them.

NumPy has no bf16, no f8 and no numbers of less than a byte.  Where ``ml_dtypes`` has been imported,
arrays of these are its arrays; else they are arrays of unsigned integers that hold the bits.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .refused import Refused

Array = np.ndarray[Any, np.dtype[Any]]

_NUMPY = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
OWN = {name: np.dtype(kind) for name, kind in _NUMPY.items()}
_OTHERS = {
    "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu",
    "f4e2m1": "float4_e2m1fn", "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2",
}  # fmt: skip
_BITS = {"f4e2m1": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2}  # of those that share bytes


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of arrays of a dtype of Didyma.

    Error ``dtype-missing`` for one of less than a byte, where nobody has imported ``ml_dtypes``.
    """
    if name in OWN:
        return OWN[name]
    try:
        return np.dtype(_OTHERS[name])
    except TypeError:
        if name in _BITS:
            raise Refused(
                "dtype-missing", name, got="NumPy without that dtype", want=f"{_OTHERS[name]}",
                help="python3 -m pip install ml_dtypes, and import it before the call",
            ) from None  # fmt: skip
        return np.dtype(np.uint16 if name == "bf16" else np.uint8)


def nbytes_of(dtype: str, shape: Sequence[int]) -> int:
    """Return the bytes that an array takes in memory."""
    bits = _BITS.get(dtype) or 8 * dtype_of(dtype).itemsize
    return -(-math.prod(shape) * bits // 8)


PACKED = {_OTHERS[name]: bits for name, bits in _BITS.items()}


def to_memory(array: Array) -> Array:
    """Return an array as kernels see it: elements of less than a byte several to one.

    The first is in the lowest bits.
    """
    bits = PACKED.get(array.dtype.name)
    if bits is None:
        return array
    count = 8 // bits
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    rows = np.zeros((-(-raw.size // count), count), np.uint8)
    rows.reshape(-1)[: raw.size] = raw
    out: Array = np.bitwise_or.reduce(rows << (bits * np.arange(count, dtype=np.uint8)), axis=1)
    return out


def from_memory(raw: Array, dtype: str, shape: Sequence[int]) -> Array:
    """Return the array that bytes in memory stand for."""
    bits = _BITS.get(dtype)
    if bits is None:
        return raw.view(dtype_of(dtype)).reshape(tuple(shape))
    shifts = bits * np.arange(8 // bits, dtype=np.uint8)
    each = ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[: math.prod(shape)]
    return each.view(dtype_of(dtype)).reshape(tuple(shape))


def constant(dtype: str, shape: tuple[int, ...], text: str) -> Array:
    """Return the array of a constant from the base64 of its bytes."""
    return from_memory(np.frombuffer(base64.b64decode(text), np.uint8), dtype, shape)


def part(weights: bytes, dtype: str, shape: tuple[int, ...], offset: int) -> Array:
    """Return the array of a constant that starts at a byte of the weights."""
    raw = np.frombuffer(weights, np.uint8, nbytes_of(dtype, shape), offset)
    return from_memory(raw, dtype, shape)


def beside(module: str, name: str, what: str) -> bytes:
    """Return the bytes of a file beside a module; ``file-missing`` where there is none."""
    path = Path(module).with_name(name)
    if not path.is_file():
        raise Refused(
            "file-missing", str(path), got="no such file", want=what,
            help="keep it beside the module: `didyma build` writes both",
        )  # fmt: skip
    return path.read_bytes()


def checked(data: bytes, digest: str, where: str) -> bytes:
    """Return bytes if they have this SHA-256, else raise ``hash-mismatch``."""
    got = hashlib.sha256(data).hexdigest()
    if got != digest:
        raise Refused("hash-mismatch", where, got=f"sha256 {got}", want=f"sha256 {digest}")
    return data


def strided(array: Array, shape: Sequence[int], strides: Sequence[int], offset: int) -> Array:
    """Return a view of an array; strides and offset count its elements in row-major order.

    It shows a copy of an array that is not in that order.  As with ``np.broadcast_to`` it is
    read-only where it shows an element more than once.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if 0 in shape:
        return flat[:0].reshape(tuple(shape))
    repeats = any(s == 0 and n > 1 for n, s in zip(shape, strides, strict=True))
    steps = [s * flat.itemsize for s in strides]
    words = flat[offset:].view(f"V{flat.itemsize}")  # as NumPy shows no f8 by strides
    return as_strided(words, tuple(shape), steps, writeable=not repeats).view(array.dtype)
