"""Questions about dtypes, answered while tracing, and constants of mathematics."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, TypeAlias

import ml_dtypes

from didyma.functions.creation import numbers
from didyma.functions.public import public, wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import DType
from didyma.tracer.tensor import Tensor, promote, scalar
from didyma.tracer.types import (
    Element,
    bf16,
    bool_,
    f4e2m1,
    f8e4m3,
    f8e4m3fnuz,
    f8e5m2,
    f8e5m2fnuz,
    f8e8m0,
    f16,
    f32,
    f64,
    i2,
    i4,
    i8,
    i16,
    i32,
    i64,
    u2,
    u4,
    u8,
    u16,
    u32,
    u64,
)

bool = bool_
pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
newaxis = None

DTypeKind: TypeAlias = Literal[
    "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
    "numeric",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """What a floating-point dtype can hold."""

    dtype: Element
    bits: int
    eps: float  # from 1 to the next number
    max: float
    min: float
    smallest_normal: float


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """What an integer dtype can hold."""

    dtype: Element
    bits: int
    max: int
    min: int


def _dtype(x: Element | Tensor) -> DType:
    return x.dtype if isinstance(x, Element) else x.value.type.dtype


@public
def finfo(type: Element | Tensor, /) -> FloatInfo:
    """Return the limits of a float dtype, or of a tensor's.

    Example: ``dd.finfo(dd.f16).max``.  Errors: ``bad-call`` for another dtype.
    """
    d = _dtype(type)
    if not d.is_float:
        raise wrong("dd.finfo", str(d), "a float dtype", "dd.iinfo is for integers")
    library: Any = ml_dtypes
    i = library.finfo(d.numpy)
    numbers = (float(v) for v in (i.eps, i.max, i.min, i.smallest_normal))
    return FloatInfo(Element(d), d.bits, *numbers)


@public
def iinfo(type: Element | Tensor, /) -> IntegerInfo:
    """Return the limits of an integer dtype, or of a tensor's.

    Example: ``dd.iinfo(dd.i8).max``.  Errors: ``bad-call`` for another dtype.
    """
    d = _dtype(type)
    if not d.is_int:
        raise wrong("dd.iinfo", str(d), "an integer dtype", "dd.finfo is for floats")
    low, high = d.limits
    return IntegerInfo(Element(d), d.bits, high, low)


def _is(d: DType, kind: Element | str) -> builtins.bool:
    match kind:
        case Element():
            return d is kind.dtype
        case "bool":
            return d is DType.BOOL
        case "signed integer":
            return d.is_int and d.is_signed
        case "unsigned integer":
            return d.is_int and not d.is_signed
        case "integral":
            return d.is_int
        case "real floating":
            return d.is_float
        case "numeric":
            return d.is_int or d.is_float
        case _:
            return False  # there is no complex dtype


@public
def isdtype(
    dtype: Element, kind: DTypeKind | Element | Sequence[DTypeKind | Element], /
) -> builtins.bool:
    """Return whether a dtype is another dtype, of one of the standard's kinds, or one of several.

    Example: ``dd.isdtype(x.dtype, "real floating")``.
    """
    kinds = kind if isinstance(kind, Sequence) and not isinstance(kind, str) else [kind]
    return any(_is(dtype.dtype, k) for k in kinds)


@public
def can_cast(from_: Element | Tensor, to: Element, /) -> builtins.bool:
    """Return whether promotion may turn one dtype into another.

    Example: ``dd.can_cast(dd.i8, dd.i32)``.
    """
    try:
        return promote(_dtype(from_), to.dtype) is to.dtype
    except DidymaError:
        return False


@public
def result_type(*arrays_and_dtypes: Tensor | Element | builtins.bool | int | float) -> Element:
    """Return the dtype to which tensors, dtypes and numbers are promoted together.

    Python's numbers take the dtype of the others.  Example: ``dd.result_type(x, dd.f16)``.
    Errors: ``dtype-mismatch``, ``bad-call``.
    """
    dtypes = [
        a.dtype if isinstance(a, Element) else a.value.type.dtype
        for a in arrays_and_dtypes
        if isinstance(a, (Tensor, Element))
    ]
    if not dtypes:
        raise wrong("dd.result_type", "numbers of Python's alone", "a tensor or a dtype")
    dtype = reduce(promote, dtypes)
    if dtype is not DType.BOOL:
        like = numbers(0, dtype)
        for a in arrays_and_dtypes:
            if not isinstance(a, (Tensor, Element)):
                scalar(like, a)
    return Element(dtype)


__all__ = [
    "FloatInfo",
    "IntegerInfo",
    "bf16",
    "bool",
    "can_cast",
    "e",
    "f4e2m1",
    "f8e4m3",
    "f8e4m3fnuz",
    "f8e5m2",
    "f8e5m2fnuz",
    "f8e8m0",
    "f16",
    "f32",
    "f64",
    "finfo",
    "i2",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "iinfo",
    "inf",
    "isdtype",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
]  # fmt: skip
