"""Elements taken from places, put into places, sorted and searched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from didyma.composites import ordering
from didyma.functions import control
from didyma.functions.axes import (
    AnySize,
    Operand,
    axis_of,
    composed,
    dim,
    joint,
    promoted,
    rank,
    shape,
)
from didyma.functions.public import constant, public, wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType
from didyma.tracer.tensor import Tensor, apply, common, together, within


@public
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Places (i64) of the elements that are not 0 (NaN is not), axis by axis.

    Their number is known at run time only.  Example: ``rows, columns = dd.nonzero(x)``.
    Errors: ``bad-call`` for a scalar.
    """
    if not rank(x):
        raise wrong("dd.nonzero", str(x.value.type), "a tensor with axes", "dd.flatten makes one")
    return control.nonzero(x)


def _tensor(x: Tensor | Sequence[int]) -> Tensor:
    return x if isinstance(x, Tensor) else constant(np.array(x))


@public
def compress(x: Tensor, condition: Tensor | Sequence[bool], /, axis: int | None = None) -> Tensor:
    """Slices along an axis where a vector is true; of the flattened ``x`` if None.

    Their number is known at run time only.  Example: ``dd.compress(x, x[:, 0] > 0, axis=0)``.
    Errors: ``bad-axis``, ``rank-mismatch``.
    """
    condition = _tensor(condition)
    if rank(condition) != 1:
        got = f"a condition of type {condition.value.type}"
        raise DidymaError("rank-mismatch", "dd.compress", got=got, want="rank 1",
                          help="x[mask] takes a mask of several axes")  # fmt: skip
    return control.compress(x, condition, axis=None if axis is None else axis_of(x, axis))


class UniqueAll(NamedTuple):
    """Distinct elements, first place of each, place of every one among them, counts."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct elements, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct elements, and the place of every element among them."""

    values: Tensor
    inverse_indices: Tensor


@public
def unique_all(x: Tensor, /, *, sorted: bool = True) -> UniqueAll:
    """Distinct elements, first place of each, place of every one among them, counts.

    Elements of any shape, flattened; NaNs are distinct and come last.  The number of results is
    known at run time only.  Example: ``dd.unique_all(x).counts``.
    """
    return UniqueAll(*control.unique_all(x, sorted=sorted))


@public
def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Distinct elements, sorted, and how often each occurs.

    Example: ``dd.unique_counts(x)``.
    """
    u = control.unique_all(x)
    return UniqueCounts(u[0], u[3])


@public
def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Distinct elements, sorted, and the place of every element of ``x`` among them.

    Example: ``dd.unique_inverse(x)``.
    """
    u = control.unique_all(x)
    return UniqueInverse(u[0], u[2])


@public
def unique_values(x: Tensor, /) -> Tensor:
    """Distinct elements, sorted; NaNs are distinct and come last.

    Example: ``dd.unique_values(x)``.
    """
    return control.unique_values(x)


@public
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    /,
    *,
    most: int,
    overlap: float,
    least: float | None = None,
    centred: bool = False,
) -> Tensor:
    """Rows (batch, class, box) of the boxes that are kept, best first in each class: i64[u, 3].

    Of boxes [batch, n, 4] and scores [batch, classes, n], at most ``most`` a class, of which no two
    overlap by more than ``overlap``; see ``didyma.composites.selection``.
    Example: ``dd.non_max_suppression(boxes, scores, most=10, overlap=0.5)``.
    Errors: ``bad-call``.
    """
    if rank(boxes) != 3 or rank(scores) != 3 or shape(boxes)[-1] != 4:
        got = f"{boxes.value.type} and {scores.value.type}"
        want = "boxes [batch, n, 4] and scores [batch, classes, n]"
        raise wrong("dd.non_max_suppression", got, want)
    return control.non_max_suppression(
        boxes, scores, most=most, overlap=overlap, least=least, centred=centred
    )


def _indices(indices: Tensor, name: str) -> None:
    if not indices.value.type.dtype.is_int:
        raise wrong(f"dd.{name}", f"indices of type {indices.value.type}", "integers",
                    "a mask is used by dd.where or dd.compress")  # fmt: skip


@public
def take(x: Tensor, /, indices: Tensor | Sequence[int], axis: int | None = None) -> Tensor:
    """Elements at places along an axis, which only a vector may leave out.

    ``indices`` are integers of any shape, which takes the axis's place; a negative one counts from
    the end, one out of range is the nearest.
    Example: ``dd.take(x, i, axis=0)``.  Errors: ``bad-axis``, ``bad-call``.
    """
    indices = _tensor(indices)
    _indices(indices, "take")
    if axis is None and rank(x) != 1:
        raise wrong("dd.take", f"{x.value.type} without an axis", "an axis, but for vectors")
    return apply("gather", x, indices, axis=axis_of(x, 0 if axis is None else axis))


@public
def take_along_axis(x: Tensor, /, indices: Tensor, axis: int = -1) -> Tensor:
    """Elements at places along an axis, place by place; the other axes are broadcast.

    ``indices`` are integers of the rank of ``x``.  PyTorch calls it ``gather``.
    Example: ``dd.take_along_axis(x, dd.argsort(x), axis=-1)``.
    Errors: ``bad-axis``, ``bad-call``, ``shape-mismatch``.
    """
    _indices(indices, "take_along_axis")
    if rank(x) != rank(indices):
        got = f"{x.value.type} and {indices.value.type}"
        raise wrong("dd.take_along_axis", got, "indices of the same rank")
    at = axis_of(x, axis)
    m, n = shape(x)[at], shape(indices)[at]
    one, two = (tuple(1 if a == at else d for a, d in enumerate(shape(t))) for t in (x, indices))
    broadcast = joint([one, two])

    def wide(t: Tensor, count: Dim) -> Tensor:
        wider_shape = tuple(count if a == at else d for a, d in enumerate(broadcast))
        return apply("broadcast_to", t, shape=wider_shape)

    return apply("gather_elements", wide(x, m), wide(indices, n), axis=at)


@public
def scatter(
    x: Tensor,
    /,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    *,
    reduction: Literal["none", "add", "mul", "min", "max"] = "none",
) -> Tensor:
    """Put updates at places along an axis of ``x``, replacing or combining.

    ``indices`` and ``updates`` have one shape; an update out of range is dropped.
    Example: ``dd.scatter(x, i, y, axis=1, reduction="add")``.
    Errors: ``bad-axis``, ``bad-call``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    _indices(indices, "scatter")
    at = axis_of(x, axis)
    return apply("scatter", x, indices, updates, axis=at, reduction=reduction)


@public
def argsort(
    x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """Places (i64) of the elements along an axis in order.

    Equals keep their order, NaNs are greatest.
    Example: ``dd.argsort(x, descending=True)``.  Errors: ``bad-axis``.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.f32[4])
    ... def f(x: dd.Tensor) -> dd.Tensor:
    ...     return dd.argsort(x, descending=True)
    >>> dd.compile(f)(np.float32([1, 3, np.nan, 3]))
    array([2, 1, 3, 0])
    """
    del stable  # it always is
    return composed(ordering.argsort, x, axis_of(x, axis), descending)


@public
def sort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the elements along an axis in order, NaNs as greatest.

    Example: ``dd.sort(x, axis=0)``.  Errors: ``bad-axis``.
    """
    del stable  # it always is
    return composed(ordering.sort, x, axis_of(x, axis), descending)


@public
def top_k(
    x: Tensor, /, k: AnySize, axis: int = -1, *, largest: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` greatest or least elements along an axis, best first, and their places.

    Example: ``values, places = dd.top_k(x, 5)``.  Errors: ``bad-axis``, ``bad-call``.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.f32[2, 3])
    ... def f(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    ...     return dd.top_k(x, 2)
    >>> best, places = dd.compile(f)(np.float32([[1, 5, 3], [4, 0, 2]]))
    >>> best.tolist(), places.tolist()
    ([[5.0, 3.0], [4.0, 2.0]], [[1, 2], [0, 2]])
    """
    at, count = axis_of(x, axis), dim(k)
    n = shape(x)[at]
    if isinstance(count, int) and (count < 0 or (isinstance(n, int) and count > n)):
        raise wrong("dd.top_k", f"k = {count} of {dims.text(n)}", "0 <= k <= the axis's size")
    b = common(x)
    best, places = ordering.top_k(b, within(b, x), count, at, largest)
    return Tensor(b, best), Tensor(b, places)


def _before(x: Tensor, y: Tensor, or_equal: bool) -> Tensor:
    """Whether ``x`` comes before ``y`` in the order of sorting, in which NaN is greatest."""
    if not x.value.type.dtype.is_float:
        return apply("less_equal" if or_equal else "less", x, y)
    if or_equal:
        return apply("logical_not", _before(y, x, False))
    first = apply("logical_and", apply("isnan", y), apply("logical_not", apply("isnan", x)))
    return apply("logical_or", apply("less", x, y), first)


@public
def searchsorted(
    x1: Tensor,
    x2: Operand,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:
    """Places (i64) in a sorted vector before which elements keep it sorted, of the shape of ``x2``.

    ``left`` gives the first such place, ``right`` the last.  All pairs are compared.
    Example: ``dd.searchsorted(edges, x)``.  Errors: ``bad-call``, ``dtype-mismatch``.
    """
    if rank(x1) != 1:
        raise wrong("dd.searchsorted", str(x1.value.type), "a sorted vector")
    x1 = x1 if sorter is None else take(x1, sorter)
    x1, sought = together(x1, x2)
    column = apply("reshape", sought, shape=(*shape(sought), 1))
    passed = _before(x1, column, side == "right").astype(DType.I64)
    return apply("sum", passed, axes=(rank(column) - 1,), keepdims=False)


@public
def isin(x1: Tensor, x2: Tensor, /, *, invert: bool = False) -> Tensor:
    """Whether each element of ``x1`` equals one of ``x2``; all pairs are compared.

    Example: ``dd.isin(x, dd.asarray([1, 2]))``.  Errors: ``dtype-mismatch``.
    """
    x1, x2 = promoted([x1, x2])
    flat = apply("reshape", x2, shape=(dims.mul(*shape(x2)),))
    same = apply("equal", apply("reshape", x1, shape=(*shape(x1), 1)), flat)
    contained = apply("any", same, axes=(rank(x1),), keepdims=False)
    return apply("logical_not", contained) if invert else contained


@public
def embedding(indices: Tensor, /, weight: Tensor) -> Tensor:
    """Rows of ``weight`` [count, features] at integer places of any shape.

    Example: ``dd.embedding(tokens, table)``.  Errors: ``bad-call``.
    """
    _indices(indices, "embedding")
    if rank(weight) < 1:
        raise wrong("dd.embedding", str(weight.value.type), "a table of rows")
    return apply("gather", weight, indices, axis=0)


__all__ = [
    "argsort", "compress", "embedding", "isin", "non_max_suppression", "nonzero", "scatter",
    "searchsorted", "sort", "take", "take_along_axis", "top_k", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip
