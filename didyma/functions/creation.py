"""Tensors of constants, which belong to no function yet: any traced tensor takes them in.

The default dtypes are f32 for floats and i64 for integers; sizes may be symbolic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from didyma.composites import composite
from didyma.composites.builder import Builder
from didyma.functions.axes import AnyShape, AnySize, dim, promoted, rank, sizes
from didyma.functions.axes import shape as shape_of
from didyma.functions.public import ARRAYS, constant, public, wrong
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.rules import at_least_zero
from didyma.tracer.tensor import Scalar, Tensor, apply, common, scalar, within
from didyma.tracer.types import Element, Size

Numbers: TypeAlias = Any  # of any depth: numbers, sequences of them, arrays


def numbers(value: object, dtype: DType | None = None) -> Tensor:
    """Return numbers as a tensor; Python's floats become f32, its integers i64.

    DidymaError ``bad-call`` for what is no array of numbers.
    """
    if isinstance(value, Tensor):
        return value if dtype is None else value.astype(dtype)
    foreign: Any = value
    has_dtype = isinstance(foreign, ARRAYS) or hasattr(foreign, "__dlpack__")
    try:
        exchanged = has_dtype and not hasattr(foreign, "__array__")
        array = np.from_dlpack(foreign) if exchanged else np.asarray(foreign)
    except (TypeError, ValueError, OverflowError, BufferError) as e:
        raise wrong("dd.asarray", f"{type(value).__name__}: {e}", "an array of numbers") from None
    if not has_dtype and array.dtype == np.float64:
        kind = DType.F32 if dtype is None or not dtype.is_float else dtype
        array = array.astype(kind.numpy)
    elif not has_dtype and dtype is not None and array.dtype == np.int64:
        array = array.astype(dtype.numpy)
    tensor = constant(array)
    return tensor if dtype is None else tensor.astype(dtype)


@public
def asarray(obj: Numbers, /, dtype: Element | None = None, *, copy: bool | None = None) -> Tensor:
    """Return a tensor of numbers, nested sequences of them, or an array of another library.

    Arrays keep their dtype; Python's floats become f32, its integers i64, unless ``dtype`` says
    otherwise.  ``copy`` has no meaning for constants.
    Example: ``dd.asarray([1.0, 2.0])``.  Errors: ``bad-call``.
    """
    del copy
    return numbers(obj, None if dtype is None else dtype.dtype)


@public
def from_dlpack(x: Numbers, /) -> Tensor:
    """Return the array of another library as a constant, by the DLPack protocol.

    Example: ``dd.from_dlpack(weights)``.  Errors: ``bad-call``.
    """
    if not hasattr(x, "__dlpack__"):
        raise wrong("dd.from_dlpack", f"a {type(x).__name__}", "an array with __dlpack__")
    return numbers(x if isinstance(x, Tensor) else np.from_dlpack(x))


def _loose(*given: AnyShape) -> Builder:
    """Return a builder of constants, which knows the ranges of the symbols in sizes."""
    b = Builder(loose=True)
    every = (s for g in given for s in (g if isinstance(g, Sequence) else (g,)))
    b.know([v for s in every if isinstance(s, Size) for v in s.ranges])
    return b


def _filled(shape: AnyShape, value: Scalar, dtype: DType) -> Tensor:
    b = _loose(shape)
    v = b.scalar(value, dtype)
    return Tensor(b, b("broadcast_to", [v], shape=sizes(shape)))


@public
def full(shape: AnyShape, fill_value: Tensor | Scalar, dtype: Element | None = None) -> Tensor:
    """Return a tensor of a shape, filled with a number or a scalar tensor.

    The dtype is that of ``fill_value``: f32, i64 or bool for Python's numbers.
    Example: ``dd.full((3, n), 0.5)``.  Errors: ``bad-attr`` for a negative size.
    """
    value = (
        scalar(_filled((), 0, dtype.dtype), fill_value)
        if dtype is not None and not isinstance(fill_value, Tensor | bool)
        else numbers(fill_value, None if dtype is None else dtype.dtype)
    )
    if value.builder.loose:
        b = _loose(shape)
        value = Tensor(b, within(b, value))
    return apply("broadcast_to", value, shape=sizes(shape))


@public
def zeros(shape: AnyShape, dtype: Element | None = None) -> Tensor:
    """Return zeros, f32 unless ``dtype`` says otherwise.

    Example: ``dd.zeros((3, n))``.  Errors: ``bad-attr`` for a negative size.
    """
    return _filled(shape, 0, DType.F32 if dtype is None else dtype.dtype)


@public
def ones(shape: AnyShape, dtype: Element | None = None) -> Tensor:
    """Return ones, f32 unless ``dtype`` says otherwise.

    Example: ``dd.ones(5, dtype=dd.i32)``.  Errors: ``bad-attr`` for a negative size.
    """
    return _filled(shape, 1, DType.F32 if dtype is None else dtype.dtype)


@public
def empty(shape: AnyShape, dtype: Element | None = None) -> Tensor:
    """Return zeros, as memory that was never written has no meaning here.

    Example: ``dd.empty((3, n))``.  Errors: ``bad-attr`` for a negative size.
    """
    return zeros(shape, dtype=dtype)


@public
def full_like(x: Tensor, /, fill_value: Scalar, dtype: Element | None = None) -> Tensor:
    """Return a tensor of the shape of ``x``, and of its dtype unless ``dtype`` says otherwise.

    Example: ``dd.full_like(x, 0.5)``.
    """
    like = x if dtype is None else _filled((), 0, dtype.dtype)
    value = scalar(like, fill_value)
    b = common(x)
    return Tensor(b, b("broadcast_to", [within(b, value)], shape=shape_of(x)))


def _like(x: Tensor, value: Scalar, dtype: Element | None) -> Tensor:
    b = common(x)
    v = b.scalar(value, x.value.type.dtype if dtype is None else dtype.dtype)
    return Tensor(b, b("broadcast_to", [v], shape=shape_of(x)))


@public
def zeros_like(x: Tensor, /, dtype: Element | None = None) -> Tensor:
    """Return zeros of the shape of ``x``, and of its dtype unless ``dtype`` says otherwise.

    Example: ``dd.zeros_like(x)``.
    """
    return _like(x, 0, dtype)


@public
def ones_like(x: Tensor, /, dtype: Element | None = None) -> Tensor:
    """Return ones of the shape of ``x``, and of its dtype unless ``dtype`` says otherwise.

    Example: ``dd.ones_like(x)``.
    """
    return _like(x, 1, dtype)


@public
def empty_like(x: Tensor, /, dtype: Element | None = None) -> Tensor:
    """Return zeros of the shape of ``x``, as memory never written has no meaning here.

    Example: ``dd.empty_like(x)``.
    """
    return _like(x, 0, dtype)


@public
def eye(
    n_rows: AnySize, n_cols: AnySize | None = None, /, *, k: int = 0, dtype: Element | None = None
) -> Tensor:
    """Return ones on a diagonal, ``k`` places above the main one, else zeros; f32 by default.

    Example: ``dd.eye(3)``.  Errors: ``bad-attr`` for a negative size.
    """
    rows = dim(n_rows)
    columns = rows if n_cols is None else dim(n_cols)
    b = _loose(n_rows, n_rows if n_cols is None else n_cols)
    row = b("iota", [], dtype=DType.I64, shape=(rows, 1), axis=0)
    column = b("iota", [], dtype=DType.I64, shape=(1, columns), axis=1)
    hit = b("equal", [b("add", [row, b.scalar(k, DType.I64)]), column])
    kind = DType.F32 if dtype is None else dtype.dtype
    return Tensor(b, b("cast", [hit], dtype=kind) if kind is not DType.BOOL else hit)


@public
def arange(
    start: AnySize | float,
    /,
    stop: AnySize | float | None = None,
    step: AnySize | float = 1,
    *,
    dtype: Element | None = None,
) -> Tensor:
    """Return numbers from ``start`` (or 0) up to ``stop``, ``step`` apart.

    i64 where all are integers or sizes, else f32.  Floats must be numbers known now.
    Example: ``dd.arange(x.shape[0])``.  Errors: ``bad-call`` for a step of 0.
    """
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise wrong("dd.arange", "step = 0", "a step other than 0")
    if any(isinstance(v, float) for v in (first, last, step)):
        if any(not isinstance(v, (int, float)) for v in (first, last, step)):
            raise wrong("dd.arange", "a float and a symbolic size", "integers and sizes")
        plain = [float(v) for v in (first, last, step) if isinstance(v, (int, float))]
        if not all(math.isfinite(v) for v in plain):
            raise wrong("dd.arange", f"{first}, {last}, {step}", "finite numbers")
        kind = DType.F32 if dtype is None else dtype.dtype
        return numbers(np.arange(*plain).astype(kind.numpy))
    low, high, by = (_size(v) for v in (first, last, step))
    if not isinstance(by, int):
        raise wrong("dd.arange", f"step = {dims.text(by)}", "a step known now")
    span = dims.sub(high, low) if by > 0 else dims.sub(low, high)
    count = at_least_zero(dims.ceildiv(span, by if by > 0 else -by))
    return _counted(_loose(*(v for v in (first, last) if not isinstance(v, float))), count, low, by,
                    dtype)  # fmt: skip


def _size(v: AnySize | float) -> Dim:
    assert not isinstance(v, float)
    return dim(v)


def _counted(b: Builder, count: Dim, first: Dim, step: int, dtype: Element | None) -> Tensor:
    if not isinstance(first, int):
        raise wrong("dd.arange", f"start = {dims.text(first)}", "a start known now",
                    "add the start as a tensor")  # fmt: skip
    v = b("iota", [], dtype=DType.I64, shape=(count,), axis=0)
    if step != 1:
        v = b("multiply", [v, b.scalar(step, DType.I64)])
    if first != 0:
        v = b("add", [v, b.scalar(first, DType.I64)])
    if dtype is not None and dtype.dtype is not DType.I64:
        v = b("cast", [v], dtype=dtype.dtype)
    return Tensor(b, v)


@public
def linspace(
    start: float, stop: float, /, num: int, *, dtype: Element | None = None, endpoint: bool = True
) -> Tensor:
    """Return ``num`` numbers at equal distances from ``start`` to ``stop``, f32 by default.

    Example: ``dd.linspace(0, 1, 5)``.  Errors: ``bad-call`` for a negative number of them.
    """
    if num < 0:
        raise wrong("dd.linspace", f"num = {num}", "num >= 0")
    kind = DType.F32 if dtype is None else dtype.dtype
    return numbers(np.linspace(start, stop, num, endpoint=endpoint).astype(kind.numpy))


@public
def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Return coordinates of a grid from vectors along its axes, all of one shape.

    With ``xy`` the first two axes change places.  Example: ``dd.meshgrid(x, y, indexing="ij")``.
    Errors: ``bad-call`` for what is no vector.
    """
    if any(rank(a) > 1 for a in arrays):
        raise wrong("dd.meshgrid", f"{[str(a.value.type) for a in arrays]}", "vectors")
    lengths: list[Dim] = [dims.mul(*shape_of(a)) for a in arrays]
    order = list(range(len(arrays)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    grid = tuple(lengths[i] for i in order)
    grids: list[Tensor] = []
    for i, a in enumerate(promoted(arrays)):
        line = tuple(lengths[i] if k == i else 1 for k in order)
        grids.append(apply("broadcast_to", apply("reshape", a, shape=line), shape=grid))
    return tuple(grids)


def _triangle(x: Tensor, k: int, upper: bool) -> Tensor:
    if rank(x) < 2:
        name = "dd.triu" if upper else "dd.tril"
        raise wrong(name, str(x.value.type), "a matrix, or several")
    b = common(x)
    return Tensor(b, composite.triangle(b, within(b, x), k, upper=upper))


@public
def tril(x: Tensor, /, k: int = 0) -> Tensor:
    """Return the last two axes on and below a diagonal, else 0.

    The diagonal lies ``k`` places above the main one.  Example: ``dd.tril(x, k=-1)``.
    Errors: ``bad-call`` below rank 2.
    """
    return _triangle(x, k, False)


@public
def triu(x: Tensor, /, k: int = 0) -> Tensor:
    """Return the last two axes on and above a diagonal, else 0.

    The diagonal lies ``k`` places above the main one.  Example: ``dd.triu(x, k=1)``.
    Errors: ``bad-call`` below rank 2.
    """
    return _triangle(x, k, True)


__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip
