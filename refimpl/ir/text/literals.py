"""Words of the text form: names, strings, numbers, tensors; what is printed reads back exactly."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

import numpy as np
import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr, Attrs
from didyma.refimpl.ir.types import DType, Tensor, TensorType

DTYPES = {str(d): d for d in DType}
SMALL = 16  # elements; larger tensors are printed as base64, or as one value if all are equal
MOST_FILLED = 2**24  # bytes of a tensor printed as one value: a few words must not fill memory
WORDS = frozenset({"true", "false", "nan", "inf", "and", "or", "xor", "in", "base64"})

_PLAIN = re.compile(r"[A-Za-z0-9_.]+")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_DEVICE = re.compile(r"[A-Za-z0-9_.]+(?::[0-9]+)?")


def quote(s: str) -> str:
    """Return the text of a string: JSON's, in ASCII where a character would not show.

    >>> quote('a "b"')
    '"a \\\\"b\\\\""'
    """
    return json.dumps(s, ensure_ascii=not s.isprintable())


def value_name(name: str) -> str:
    """Name of a graph or program value: ``%x``, or ``%"a/b:0"`` where it is no plain word."""
    return f"%{name}" if _PLAIN.fullmatch(name) else f"%{quote(name)}"


def global_name(name: str) -> str:
    """Name of a function: ``@f``."""
    return f"@{name}" if _PLAIN.fullmatch(name) else f"@{quote(name)}"


def plain_name(name: str, reserved: frozenset[str] = WORDS) -> str:
    """Name of a buffer, variable or dim: bare where it can be mistaken for nothing else."""
    bare = _IDENTIFIER.fullmatch(name) and name not in reserved and name not in DTYPES
    return name if bare else f"%{quote(name)}"


def word(name: str) -> str:
    """Name of an op or attribute: bare, or a string."""
    return name if _IDENTIFIER.fullmatch(name) else quote(name)


def rounded(value: float, dtype: DType) -> float:
    """Return the nearest value of a float dtype, as a Python float.

    >>> rounded(0.1, DType.F16)
    0.0999755859375
    """
    if dtype is DType.F64 or not dtype.is_float:
        return value
    with np.errstate(all="ignore"):
        return float(dtype.numpy.type(value))


def float_text(value: float, dtype: DType = DType.F64) -> str:
    """Return the shortest decimal that rounds to ``value`` in the dtype; hexadecimal if none does.

    >>> float_text(rounded(0.1, DType.F32), DType.F32), float_text(0.1, DType.F32)
    ('0.1', '0x1.999999999999ap-4')
    """
    if math.isnan(value):
        return "-nan" if math.copysign(1, value) < 0 else "nan"
    text = repr(value)
    if math.isinf(value) or dtype is DType.F64 or not dtype.is_float:
        return text
    if rounded(value, dtype) != value:
        return value.hex()
    short = str(dtype.numpy.type(value))
    is_float = "." in short or "e" in short
    if is_float and len(short) < len(text) and rounded(float(short), dtype) == value:
        return short
    return text


def scalar_text(value: int | float | bool, dtype: DType = DType.F64) -> str:
    """Return the text of a number or truth value, without its dtype."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else float_text(value, dtype)


def dim_text(d: Dim) -> str:
    """Return the text of a size; symbols whose names are no plain words are quoted."""
    if isinstance(d, int):
        return str(d)
    names = {s: plain_name(s.name) for s in d.free_symbols}
    odd = {s: sympy.Symbol(text) for s, text in names.items() if text != s.name}
    return dims.text(d.xreplace(odd) if odd else d)


def shape_text(shape: tuple[Dim, ...]) -> str:
    """Return the text of a shape: ``[n, 4]``."""
    return f"[{', '.join(dim_text(d) for d in shape)}]"


def type_text(t: TensorType) -> str:
    """Return the text of a tensor type: ``f32[n, 4]@cuda:1 strides (s, 1) offset 8``."""
    where = t.device and (t.device if _DEVICE.fullmatch(t.device) else quote(t.device))
    lies = ""
    if t.strides is not None:
        lies = f" strides ({', '.join(map(dim_text, t.strides))})"
        lies += f" offset {dim_text(t.offset)}" if t.offset != 0 else ""
    return f"{t.dtype}{shape_text(t.shape)}{'@' if where else ''}{where}{lies}"


def _nested(values: Any, rank: int, dtype: DType) -> str:
    if rank:
        return f"[{', '.join([_nested(v, rank - 1, dtype) for v in values])}]"
    return scalar_text(values, dtype)


def tensor_array(values: list[Any], dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor of numbers in row-major order.

    Raises OverflowError for an integer out of range."""
    if dtype.is_packed and dtype.is_int and values:
        least, most = dtype.limits
        if min(values) < least or max(values) > most:
            raise OverflowError(f"{min(values)} to {max(values)} in {dtype}")
    if dtype.is_float:  # the small ones take no integer beyond i64
        values = [float(v) for v in values]
    with np.errstate(all="ignore"):
        return Tensor.of(np.array(values, dtype.numpy).reshape(shape))


def _values_text(t: Tensor) -> str:
    """Return elements as numbers in nested lists; empty where numbers do not say it all."""
    array = t.array()
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN like any other
        values = array.astype(np.float64) if t.dtype.is_float else array
    flat = [math.copysign(math.nan, v) if v != v else v for v in values.ravel().tolist()]
    if tensor_array(flat, t.dtype, t.shape).data != t.data:
        return ""  # a NaN with a payload, or a bool that is neither 0 nor 1
    return _nested(values.tolist(), len(t.shape), t.dtype)


def filled(one: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor of equal elements, from a scalar."""
    if one.dtype.is_packed:
        return Tensor.of(np.full(shape, one.array()))
    return Tensor(one.dtype, shape, one.data * math.prod(shape))


def _filled_text(t: Tensor) -> str:
    """Return the text of the element that all are; empty if there is none, or it loses bits."""
    if t.dtype.is_packed:
        one = Tensor.of(t.array().reshape(-1)[0])
    else:
        one = Tensor(t.dtype, (), t.data[: t.dtype.nbytes])
    return _values_text(one) if filled(one, t.shape).data == t.data else ""


def tensor_text(t: Tensor, elide: bool = False) -> str:
    """Return the text of a constant: nested lists where it is small and exact so, else base64.

    A large one of equal elements is ``filled`` with that element.

    ``elide`` leaves out the bytes of a large one: for messages, not to be parsed.

    >>> print(tensor_text(Tensor.of(np.float32([[1, -0.0]]))))
    f32[1, 2] [[1.0, -0.0]]
    """
    head = f"{t.dtype}{shape_text(t.shape)}"
    count = math.prod(t.shape)
    if t.type.nbytes == len(t.data):
        if count <= SMALL and (count or len(t.shape) == 1):
            if text := _values_text(t):
                return f"{head} {text}"
        elif 0 < len(t.data) <= MOST_FILLED and (text := _filled_text(t)):
            return f"{head} filled {text}"
    if elide:
        return f'{head} base64 "...{len(t.data)} bytes..."'
    return f'{head} base64 "{base64.b64encode(t.data).decode()}"'


def attr_text(a: Attr, elide: bool = False) -> str:
    """Return the text of an attribute's value.

    >>> attr_text((1, (True,), "a", DType.F16))
    '(1, (true,), "a", f16)'
    """
    match a:
        case DType():
            return str(a)
        case str():
            return quote(a)
        case bool() | int() | float():
            return scalar_text(a)
        case Tensor():
            return tensor_text(a, elide)
        case tuple():
            items = ", ".join(attr_text(x, elide) for x in a)
            return f"({items},)" if len(a) == 1 else f"({items})"
        case _:
            return dim_text(a)


def attrs_text(attrs: Attrs, elide: bool = False) -> list[str]:
    """Return ``name=value`` for each attribute."""
    return [f"{word(k)}={attr_text(v, elide)}" for k, v in attrs]
