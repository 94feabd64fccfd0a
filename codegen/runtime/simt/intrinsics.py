"""The named intrinsics of kernel text in NumPy: the loop level's scalar meaning, by C name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from didyma.codegen.emit.intrinsics import STORED, TYPES
from didyma.refimpl.interp import scalar
from didyma.refimpl.ir.loop import BINARY_OPS, UNARY_OPS, BinaryOp, UnaryOp
from didyma.refimpl.ir.narrow import narrow
from didyma.refimpl.ir.types import Array, DType

NUMPY_OF_C: dict[str, type[np.generic]] = {
    "double": np.float64,
    "float": np.float32,
    "unsigned short": np.uint16,
    "signed char": np.int8,
    "short": np.int16,
    "int": np.int32,
    "long long": np.int64,
    "unsigned char": np.uint8,
    "unsigned int": np.uint32,
    "unsigned long long": np.uint64,
}
_STORED = {d.value: d.numpy for d in STORED}


_BINARY: dict[str, BinaryOp] = {op: op for op in BINARY_OPS}
_UNARY: dict[str, UnaryOp] = {op: op for op in UNARY_OPS}
_LITERALS = {"inf": np.inf, "nan": np.nan}
_LEAST = {"exp": np.float32(-87.33654), "exp2": np.float32(-126)}  # whose results are normal


def function(name: str) -> Callable[..., Any]:
    """NumPy meaning of an intrinsic that computes; arguments have the dtypes that C declares.

    >>> function("floordiv_i32")(np.int32(-7), np.int32(2))
    np.int32(-4)
    >>> function("cast_f32_f16")(np.float32(1.0))
    np.uint16(15360)
    """
    op, _, c_name = name.rpartition("_")
    if op.startswith("cast_"):
        return _cast(op.removeprefix("cast_"), c_name)
    if op.startswith("bitcast_"):
        held = np.dtype(NUMPY_OF_C[TYPES[c_name]])
        return partial(_view, held)
    dtype = DType(c_name)
    if op.endswith("_flush"):
        return partial(_flush, op.removesuffix("_flush"))
    if op in _LITERALS:
        literal = dtype.numpy.type(_LITERALS[op])
        return lambda: literal
    if op in _BINARY:
        return scalar.binary_fn(_BINARY[op], dtype)
    if op in _UNARY:
        return scalar.unary_fn(_UNARY[op], dtype)
    return scalar.intrinsic_fn(op, dtype)


def _flush(name: str, x: Array) -> Any:
    return np.where(x < _LEAST[name], np.float32(0), scalar.intrinsic_fn(name, DType.F32)(x))[()]


def _cast(source: str, target: str) -> Callable[..., Any]:
    if source in _STORED:
        return partial(_widen, _STORED[source])
    if target in _STORED:
        return partial(_narrow, DType(target))
    convert = scalar.cast_fn(_dtype(source), _dtype(target))
    return partial(_of_bool, convert) if source == "b8" else convert


def _widen(dtype: np.dtype[Any], bits: Array) -> Array:
    return bits.view(dtype).astype(np.float32)


def _narrow(dtype: DType, x: Array) -> Any:
    return narrow(x, dtype).view(f"u{dtype.nbytes}")


def _view(dtype: np.dtype[Any], x: Array) -> Any:
    return x.view(dtype)


def _of_bool(convert: Callable[..., Any], x: Array) -> Any:
    return convert(x != 0)


def _dtype(c_name: str) -> DType:
    return DType.BOOL if c_name == "b8" else DType(c_name)
