"""ONNX's element types and tensors, checked and converted."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from didyma.onnx.values import Constant
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, DType, from_memory, nbytes_of

MAX_RANK = 64  # of NumPy's arrays
MAX_BYTES = 1 << 36  # of a tensor: larger ones are refused before anything is allocated
_DTYPES: dict[int, DType] = {
    onnx.TensorProto.DOUBLE: DType.F64,
    onnx.TensorProto.FLOAT: DType.F32,
    onnx.TensorProto.FLOAT16: DType.F16,
    onnx.TensorProto.BFLOAT16: DType.BF16,
    onnx.TensorProto.INT8: DType.I8,
    onnx.TensorProto.INT16: DType.I16,
    onnx.TensorProto.INT32: DType.I32,
    onnx.TensorProto.INT64: DType.I64,
    onnx.TensorProto.UINT8: DType.U8,
    onnx.TensorProto.UINT16: DType.U16,
    onnx.TensorProto.UINT32: DType.U32,
    onnx.TensorProto.UINT64: DType.U64,
    onnx.TensorProto.BOOL: DType.BOOL,
    onnx.TensorProto.FLOAT8E4M3FN: DType.F8E4M3,
    onnx.TensorProto.FLOAT8E4M3FNUZ: DType.F8E4M3FNUZ,
    onnx.TensorProto.FLOAT8E5M2: DType.F8E5M2,
    onnx.TensorProto.FLOAT8E5M2FNUZ: DType.F8E5M2FNUZ,
    onnx.TensorProto.FLOAT8E8M0: DType.F8E8M0,
    onnx.TensorProto.FLOAT4E2M1: DType.F4E2M1,
    onnx.TensorProto.INT4: DType.I4,
    onnx.TensorProto.UINT4: DType.U4,
    onnx.TensorProto.INT2: DType.I2,
    onnx.TensorProto.UINT2: DType.U2,
}
# Casts to these saturate by default.
SATURATED = (DType.F8E4M3, DType.F8E4M3FNUZ, DType.F8E5M2, DType.F8E5M2FNUZ)
_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


def dtype_of(code: int, where: str) -> DType:
    """Return the dtype of an ONNX type code; raise ``onnx-unsupported`` if there is none."""
    if code not in _DTYPES:
        names = {number: name for name, number in onnx.TensorProto.DataType.items()}
        raise DidymaError(
            "onnx-unsupported",
            where,
            got=f"element type {names.get(code, code)}",
            want=", ".join(DType),
        )
    return _DTYPES[code]


def code_of(dtype: DType) -> int:
    """Return the ONNX type code of a dtype."""
    return _CODES[dtype]


def check_size(dtype: DType, shape: tuple[int, ...], where: str) -> None:
    """Raise ``onnx-too-large`` for a tensor of more than ``MAX_BYTES`` or ``MAX_RANK`` axes."""
    if len(shape) > MAX_RANK:
        raise DidymaError(
            "onnx-too-large", where, got=f"{len(shape)} axes", want=f"at most {MAX_RANK}"
        )
    # an axis of size 0 counts as 1, since NumPy refuses huge shapes even of no elements
    nbytes = nbytes_of(dtype, tuple(d or 1 for d in shape))
    if nbytes > MAX_BYTES:
        raise DidymaError(
            "onnx-too-large", where, got=f"{dtype}{list(shape)}, {dims.count_text(nbytes)} bytes",
            want=f"at most {MAX_BYTES:,} bytes",
        )  # fmt: skip


def tensor(t: onnx.TensorProto, where: str, folder: Path | None) -> Constant:
    """Return the value of a TensorProto, whose external data may lie in ``folder`` only.

    Errors: ``onnx-broken``, ``onnx-external-data``, ``onnx-too-large``, ``onnx-unsupported``.
    """
    dtype = dtype_of(t.data_type, where)
    shape = tuple(int(d) for d in t.dims)
    if any(d < 0 for d in shape):
        raise _broken(where, f"a tensor of shape {list(shape)}", "sizes that are not negative")
    check_size(dtype, shape, where)
    if t.HasField("segment"):
        raise _broken(where, "a tensor in segments", "a tensor in one piece")
    if t.data_location == onnx.TensorProto.EXTERNAL:
        return Constant(_external(t, dtype, shape, where, folder), dtype, t.name)
    count = math.prod(shape)
    filled = [f for f in _FIELDS if t.HasField("raw_data") and len(getattr(t, f))]
    if filled:
        raise _broken(where, f"raw_data and {', '.join(filled)}", "numbers in one field")
    if t.HasField("raw_data"):
        if len(t.raw_data) != nbytes_of(dtype, shape):
            raise _broken(where, f"{len(t.raw_data)} bytes", f"{count} elements of {dtype}")
        return Constant(_elements(np.frombuffer(t.raw_data, np.uint8), dtype, shape), dtype, t.name)
    try:
        array = numpy_helper.to_array(t)
    except (ValueError, TypeError, OverflowError) as e:
        raise _broken(where, str(e), f"{count} elements of {dtype}") from None
    return Constant(np.asarray(array, dtype.numpy, order="C").reshape(shape), dtype, t.name)


def _elements(raw: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return the array that little-endian bytes hold, packed if the dtype is."""
    if dtype.is_packed:
        return from_memory(raw, dtype, shape)
    little = dtype.numpy if dtype.numpy.itemsize == 1 else dtype.numpy.newbyteorder("<")
    return raw.view(little).reshape(shape).astype(dtype.numpy, copy=False)


def _broken(where: str, got: str, want: str) -> DidymaError:
    return DidymaError("onnx-broken", where, got=got, want=want)


def _external(
    t: onnx.TensorProto, dtype: DType, shape: tuple[int, ...], where: str, folder: Path | None
) -> Array:
    entries = {e.key: e.value for e in t.external_data}
    location = entries.get("location", "")
    path = _inside(location, folder)
    if path is None:
        raise DidymaError(
            "onnx-external-data", where, got=f"data in {location!r}",
            want="a file in the model's own folder",
        )  # fmt: skip
    count = math.prod(shape)
    try:
        offset = int(entries.get("offset", 0))
        nbytes = nbytes_of(dtype, shape)
        length = int(entries.get("length", nbytes))
        size = path.stat().st_size
        if offset < 0 or length != nbytes or offset + length > size:
            got = f"{length} bytes at {offset} of a file of {size}"
            raise _broken(where, got, f"{count} elements of {dtype}")
        raw = np.fromfile(path, np.uint8, nbytes, offset=offset)
    except (ValueError, OSError) as e:
        raise DidymaError(
            "onnx-external-data", where, got=str(e), want=f"{count} elements of {dtype}"
        ) from None
    return _elements(raw, dtype, shape)


def _inside(location: str, folder: Path | None) -> Path | None:
    """Return the path of a file in the folder, links resolved; None if it lies elsewhere."""
    if folder is None or not location or "\0" in location or os.path.isabs(location):
        return None
    real, root = os.path.realpath(folder / location), os.path.realpath(folder)
    if os.path.commonpath([real, root]) != root:
        return None
    return Path(real)
