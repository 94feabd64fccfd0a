"""Types of PTX as dtypes of NumPy: registers are arrays of unsigned bits, and types their views."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from didyma.codegen.runtime.ptx.code import SIZES
from didyma.refimpl.ir.types import Array

DT: TypeAlias = np.dtype[Any]

BITS: Mapping[int, DT] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
BF16: DT = np.dtype(ml_dtypes.bfloat16)
_BOOL: DT = np.dtype(np.bool_)
FLOATS = frozenset(("f16", "bf16", "f32", "f64", "tf32"))
PACKED: Mapping[str, str] = {"f16x2": "f16", "bf16x2": "bf16"}
EIGHTS: Mapping[str, DT] = {
    "e4m3x2": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2x2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
_LETTERS = {"b": "u", "u": "u", "s": "i", "f": "f"}


def _dtype(name: str) -> DT:
    match name:
        case "pred":
            return _BOOL
        case "bf16":
            return BF16
        case "tf32":
            return np.dtype(np.float32)
        case _ if name in PACKED:
            return BITS[4]
        case _ if name in EIGHTS:
            return BITS[2]
        case _:
            found: DT = np.dtype(f"{_LETTERS[name[0]]}{SIZES[name]}")
            return found


TYPES: Mapping[str, DT] = {n: _dtype(n) for n, size in SIZES.items() if size <= 8}


def container(kind: str) -> DT:
    """Return the dtype in which registers of a type are kept."""
    return _BOOL if kind == "pred" else BITS[SIZES[kind]]


def kind_of(mods: tuple[str, ...]) -> str | None:
    """Return the last type that an instruction names.

    >>> kind_of(("wide", "s32"))
    's32'
    """
    return next((x for x in reversed(mods) if x in TYPES), None)


def number(text: str, kind: str) -> Any:
    """Return an immediate as a scalar of a type.

    >>> number("0f3F800000", "f32"), number("-1", "u16"), number("0x10", "s32")
    (np.float32(1.0), np.uint16(65535), np.int32(16))
    """
    d = TYPES[kind]
    if re.match(r"0[fFdD]", text):
        wide = text[1] in "dD"
        bits = np.array(int(text[2:], 16), np.uint64 if wide else np.uint32)
        v = bits.view(np.float64 if wide else np.float32)
        return v.astype(d)[()] if kind in FLOATS else bits.astype(d)[()]
    if kind in FLOATS:
        if SIZES[kind] == 2 and text.lower().startswith("0x"):
            return np.array(int(text, 16), np.uint16).view(d)[()]
        return d.type(float(text))
    if kind == "pred":
        return np.bool_(int(text, 0) != 0)
    n = int(text.rstrip("U"), 0) % (1 << (8 * d.itemsize))
    return np.array(n, BITS[d.itemsize]).view(d)[()]


def bits(v: Array) -> Array:
    """Return values as unsigned bits of the same width."""
    return np.ascontiguousarray(v).view(BITS[v.dtype.itemsize])


choose: Callable[[Any, Any, Any], Any] = np.where

_NAN: Mapping[DT, int] = {
    np.dtype(np.float32): 0x7FFFFFFF, np.dtype(np.float16): 0x7FFF, BF16: 0x7FFF
}  # fmt: skip


def canonical(v: Any) -> Array:
    """Return results of arithmetic as hardware writes them: with one NaN of f32, f16 and bf16.

    Threads that compute one value by different orders thus store the same bits.  In f64 a NaN of
    the operands goes on.

    >>> hex(canonical(np.float32([-np.nan])).view(np.uint32)[0])
    '0x7fffffff'
    """
    found: Array = np.asarray(v)
    nan, pattern = np.isnan(found), _NAN.get(found.dtype)
    if pattern is None or not nan.any():
        return found
    raw = BITS[found.dtype.itemsize]
    one: Array = np.where(nan, raw.type(pattern), bits(found))
    return one.view(found.dtype)


def halves(v: Array, kind: str) -> tuple[Array, Array]:
    """Return the two 16-bit floats of 32-bit registers, the lower first, of type f16 or bf16."""
    pair = np.ascontiguousarray(v).view(np.uint16).reshape(*v.shape, 2)
    d = TYPES[kind]
    return np.ascontiguousarray(pair[..., 0]).view(d), np.ascontiguousarray(pair[..., 1]).view(d)


def packed(low: Array, high: Array) -> Array:
    """Return two arrays of 16-bit values as one of 32-bit registers."""
    return bits(low).astype(np.uint32) | (bits(high).astype(np.uint32) << np.uint32(16))
