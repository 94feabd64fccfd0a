"""Folds over axes: sums, extremes, statistics, running sums.

Integers are summed and multiplied in i64 or u64, as the Python Array API standard has it.
"""

from __future__ import annotations

import builtins

from didyma.composites import composite
from didyma.functions.axes import Axis, axes_of, axis_of, composed, rank, shape
from didyma.functions.creation import numbers
from didyma.functions.public import public, wrong
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import DType
from didyma.tracer.tensor import Tensor, apply
from didyma.tracer.types import Element


def _kind(x: Tensor) -> DType:
    return x.value.type.dtype


def _summable(x: Tensor, dtype: Element | None) -> Tensor:
    """Convert to the dtype in which the standard sums: integers are widened."""
    if dtype is not None:
        return x.astype(dtype.dtype)
    kind = _kind(x)
    if kind is DType.BOOL or (kind.is_int and kind.is_signed):
        return x.astype(DType.I64)
    return x.astype(DType.U64) if kind.is_int else x


def _fold(op: str, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    return apply(op, x, axes=axes_of(x, axis), keepdims=keepdims)


def _truth(x: Tensor) -> Tensor:
    return x if _kind(x) is DType.BOOL else apply("not_equal", x, numbers(0, _kind(x)))


@public
def sum(
    x: Tensor, /, axis: Axis = None, *, dtype: Element | None = None, keepdims: bool = False
) -> Tensor:
    """Sum over an axis, several, or all.

    Numbers or bools of any shape.  The result has the dtype of a float ``x``, i64 or u64 of an
    integer one, or ``dtype``, to which elements are converted first; folded axes are dropped, or
    kept with size 1.  An empty sum is 0.
    Example: ``dd.sum(x, axis=-1, keepdims=True)``.  Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    return _fold("sum", _summable(x, dtype), axis, keepdims)


@public
def prod(
    x: Tensor, /, axis: Axis = None, *, dtype: Element | None = None, keepdims: bool = False
) -> Tensor:
    """Product over an axis, several, or all; dtypes are those of ``dd.sum``.

    An empty product is 1.  Example: ``dd.prod(x, axis=0)``.
    Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    return _fold("prod", _summable(x, dtype), axis, keepdims)


@public
def max(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Largest element over an axis, several, or all; NaN if any is.

    Numbers of any shape; of nothing -infinity, or the smallest integer.
    Example: ``dd.max(x, axis=1)``.  Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    return _fold("max", x, axis, keepdims)


@public
def min(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Smallest element over an axis, several, or all; NaN if any is.

    Numbers of any shape; of nothing infinity, or the largest integer.
    Example: ``dd.min(x, axis=1)``.  Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    return _fold("min", x, axis, keepdims)


@public
def mean(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over an axis, several, or all.

    Floats of any shape; NaN of nothing.  Example: ``dd.mean(x, axis=(1, 2))``.
    Errors: ``bad-axis``; ``dtype-mismatch`` for integers, which are cast first.
    """
    return _fold("mean", x, axis, keepdims)


def _correction(x: Tensor, axes: tuple[int, ...], correction: float, name: str) -> float:
    if float(correction).is_integer():
        return int(correction)
    if not isinstance(dims.mul(*(shape(x)[a] for a in axes)), int):
        raise wrong(f"dd.{name}", f"correction = {correction} over a symbolic size", "an integer")
    return correction


@public
def var(
    x: Tensor, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Variance over an axis, several, or all: mean square distance from the mean.

    Floats of any shape.  The sum of squares is divided by the count less ``correction``, at least
    0.  Example: ``dd.var(x, axis=-1, correction=1)``.  Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    axes = axes_of(x, axis)
    return composed(composite.variance, x, axes, keepdims, _correction(x, axes, correction, "var"))


@public
def std(
    x: Tensor, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Standard deviation over an axis, several, or all: the root of ``dd.var``.

    Example: ``dd.std(x, axis=-1)``.  Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    axes = axes_of(x, axis)
    return composed(composite.std, x, axes, keepdims, _correction(x, axes, correction, "std"))


@public
def any(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether an element over the axes is true, or not 0; false of nothing.

    Example: ``dd.any(x > 0, axis=0)``.  Errors: ``bad-axis``.
    """
    return _fold("any", _truth(x), axis, keepdims)


@public
def all(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether all elements over the axes are true, or not 0; true of nothing.

    Example: ``dd.all(x > 0)``.  Errors: ``bad-axis``.
    """
    return _fold("all", _truth(x), axis, keepdims)


@public
def count_nonzero(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """How many elements over the axes are not 0 (NaN is not), as i64.

    Example: ``dd.count_nonzero(x, axis=1)``.  Errors: ``bad-axis``.
    """
    return _fold("sum", _truth(x).astype(DType.I64), axis, keepdims)


def _position(op: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None:
        return apply(op, x, axis=axis_of(x, axis), keepdims=keepdims)
    flat = apply("reshape", x, shape=(dims.mul(*shape(x)),))
    position = apply(op, flat, axis=0, keepdims=False)
    return apply("reshape", position, shape=(1,) * rank(x)) if keepdims else position


@public
def argmax(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Position (i64) of the largest element along an axis, or in the flattened tensor.

    The first of equals, or the first NaN.  Example: ``dd.argmax(x, axis=-1)``.
    Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    return _position("argmax", x, axis, keepdims)


@public
def argmin(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Position (i64) of the smallest element along an axis, or in the flattened tensor.

    The first of equals, or the first NaN.  Example: ``dd.argmin(x, axis=-1)``.
    Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    return _position("argmin", x, axis, keepdims)


@public
def logsumexp(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials over an axis, several, or all.

    Floats of any shape.  Example: ``dd.logsumexp(x, axis=-1)``.
    Errors: ``bad-axis``, ``dtype-mismatch``.
    """
    return composed(composite.logsumexp, x, axes_of(x, axis), keepdims)


def _running(
    op: str,
    x: Tensor,
    axis: int | None,
    dtype: Element | None,
    include_initial: bool,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    if axis is None and rank(x) != 1:
        raise wrong(f"dd.{op}", f"{x.value.type} without an axis", "an axis, but for vectors")
    at = axis_of(x, 0 if axis is None else axis)
    x = _summable(x, dtype)
    y = apply(op, x, axis=at, exclusive=exclusive, reverse=reverse)
    if not include_initial:
        return y
    if exclusive:
        raise wrong(f"dd.{op}", "exclusive and include_initial", "one of the two")
    one = tuple(1 if a == at else n for a, n in enumerate(shape(x)))
    first = numbers(0 if op == "cumulative_sum" else 1, _kind(x))
    initial = apply("broadcast_to", first, shape=one)
    return apply("concat", *((y, initial) if reverse else (initial, y)), axis=at)


@public
def cumulative_sum(
    x: Tensor,
    /,
    axis: int | None = None,
    *,
    dtype: Element | None = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Sums of the elements so far along an axis, which only a vector may leave out.

    Dtypes are those of ``dd.sum``.  ``include_initial`` puts a 0 before the first; ``exclusive``
    leaves each element out of its own sum; ``reverse`` sums from the end.
    Example: ``dd.cumulative_sum(x, axis=1)``.  Errors: ``bad-axis``, ``bad-call``.
    """
    return _running("cumulative_sum", x, axis, dtype, include_initial, exclusive, reverse)


@public
def cumulative_prod(
    x: Tensor,
    /,
    axis: int | None = None,
    *,
    dtype: Element | None = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Products of the elements so far along an axis, which only a vector may leave out.

    Options are those of ``dd.cumulative_sum``.  Example: ``dd.cumulative_prod(x, axis=1)``.
    Errors: ``bad-axis``, ``bad-call``.
    """
    return _running("cumulative_prod", x, axis, dtype, include_initial, exclusive, reverse)


@public
def diff(
    x: Tensor,
    /,
    axis: int = -1,
    n: int = 1,
    *,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along an axis, ``n`` times over.

    Numbers; ``prepend`` and ``append`` are joined on first, and have the other axes of ``x``.
    Example: ``dd.diff(x, axis=0)``.  Errors: ``bad-axis``, ``bad-call``, ``shape-mismatch``.
    """
    if n < 0:
        raise wrong("dd.diff", f"n = {n}", "n >= 0")
    at = axis_of(x, axis)
    parts = [p for p in (prepend, x, append) if p is not None]
    y = apply("concat", *parts, axis=at) if len(parts) > 1 else x
    for _ in builtins.range(n):
        y = apply("subtract", _cut(y, at, 1, 0), _cut(y, at, 0, 1))
    return y


def _cut(x: Tensor, axis: int, first: int, last: int) -> Tensor:
    """Leave out elements at both ends of an axis, which has as many."""
    sizes = shape(x)
    starts = tuple(first if a == axis else 0 for a in builtins.range(len(sizes)))
    stops = tuple(dims.sub(n, last) if a == axis else n for a, n in enumerate(sizes))
    return apply("slice", x, starts=starts, stops=stops, steps=(1,) * len(sizes))


__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff",
    "logsumexp", "max", "mean", "min", "prod", "std", "sum", "var",
]  # fmt: skip
