"""Functions that join, part, repeat and surround tensors."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from didyma.functions.axes import (
    AnyShape,
    AnySize,
    Axis,
    Operand,
    axis_in,
    axis_of,
    dim,
    promoted,
    rank,
    shape,
    sizes,
)
from didyma.functions.creation import arange, numbers
from didyma.functions.public import public, wrong
from didyma.functions.shaping import expand_dims, flatten, reshape, squeeze
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.slicing import joined
from didyma.tracer.tensor import Tensor, apply, scalar

Width: TypeAlias = AnySize | Sequence[AnySize] | Sequence[Sequence[AnySize]]


def _some(arrays: Sequence[Tensor], name: str) -> list[Tensor]:
    if not arrays:
        raise wrong(f"dd.{name}", "no tensors", "one tensor or more")
    return promoted(arrays)


@public
def concat(arrays: Sequence[Tensor], /, axis: int | None = 0) -> Tensor:
    """Join tensors along an axis; for None they are flattened first.  Dtypes are promoted.

    Example: ``dd.concat([x, y], axis=-1)``.  Errors: ``bad-axis``, ``shape-mismatch``.
    """
    parts = _some(arrays, "concat")
    if axis is None:
        parts, axis = [flatten(p) for p in parts], 0
    at = axis_of(parts[0], axis)
    return joined(parts, lambda group: apply("concat", *group, axis=at))


@public
def stack(arrays: Sequence[Tensor], /, axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis.  Dtypes are promoted.

    Example: ``dd.stack([x, y])``.  Errors: ``bad-axis``, ``shape-mismatch``.
    """
    parts = _some(arrays, "stack")
    for p in parts[1:]:
        if shape(p) != shape(parts[0]):
            got = f"{parts[0].value.type} and {p.value.type}"
            raise DidymaError("shape-mismatch", "stack", got=got, want="tensors of one shape")
    at = axis_in(rank(parts[0]) + 1, axis, parts[0])
    return concat([expand_dims(p, at) for p in parts], at)


def _part(x: Tensor, axis: int, start: Dim, stop: Dim) -> Tensor:
    x_shape = shape(x)
    starts = tuple(start if a == axis else 0 for a in builtins.range(len(x_shape)))
    stops = tuple(stop if a == axis else n for a, n in enumerate(x_shape))
    return apply("slice", x, starts=starts, stops=stops, steps=(1,) * len(x_shape))


def _static(x: Tensor, axis: int, name: str) -> int:
    n = shape(x)[axis]
    if not isinstance(n, int):
        raise wrong(f"dd.{name}", f"axis {axis} of symbolic size {dims.text(n)}", "a known size")
    return n


@public
def unstack(x: Tensor, /, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis of known size, without that axis.

    Example: ``q, k, v = dd.unstack(x, axis=2)``.  Errors: ``bad-axis``, ``bad-call``.
    """
    at = axis_of(x, axis)
    count = _static(x, at, "unstack")
    return tuple(squeeze(_part(x, at, i, i + 1), at) for i in builtins.range(count))


@public
def split(
    x: Tensor, /, indices_or_sections: int | Sequence[AnySize], axis: int = 0
) -> tuple[Tensor, ...]:
    """Cut along an axis, as NumPy does: into a number of equal parts, or before given indices.

    Example: ``dd.split(x, 3)`` gives three parts, ``dd.split(x, [2, 5])`` the parts up to 2, up
    to 5 and the rest.  PyTorch's ``split`` takes the sizes of the parts instead.
    Errors: ``bad-axis``; ``bad-call`` where there are no equal parts.
    """
    at = axis_of(x, axis)
    n = shape(x)[at]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1 or not dims.equal(dims.mul(dims.floordiv(n, count), count), n):
            raise wrong(
                "dd.split", f"{count} parts of size {dims.text(n)}", "equal parts",
                "dd.split(x, [places]) cuts before given places",
            )  # fmt: skip
        each = dims.floordiv(n, count)
        ends: list[Dim] = [dims.mul(each, i) for i in builtins.range(count + 1)]
        return tuple(_part(x, at, a, b) for a, b in pairwise(ends))
    places = [_counted(dim(i), n) for i in indices_or_sections]
    return tuple(_part(x, at, a, b) for a, b in pairwise([0, *places, n]))


def _counted(place: Dim, n: Dim) -> Dim:
    """Return a place counted from the front."""
    return dims.add(n, place) if isinstance(place, int) and place < 0 else place


@public
def pad(
    x: Tensor,
    /,
    pad_width: Width,
    mode: Literal["constant", "edge", "reflect"] = "constant",
    *,
    constant_values: Operand = 0,
) -> Tensor:
    """Surround with a border, as NumPy does.

    ``pad_width`` is one number for all sides, a pair (before, after) for all axes, or a pair for
    each axis.  Example: ``dd.pad(x, ((0, 0), (1, 2)))``.  Errors: ``bad-call``, ``bad-attr``.
    """
    pairs = _widths(pad_width, rank(x))
    low, high = (tuple(p[i] for p in pairs) for i in (0, 1))
    fill = constant_values
    value = fill.astype(x.value.type.dtype) if isinstance(fill, Tensor) else scalar(x, fill)
    return apply("pad", x, value, low=low, high=high, mode=mode)


def _widths(width: Width, count: int) -> list[tuple[Dim, Dim]]:
    if not isinstance(width, Sequence):
        return [(dim(width), dim(width))] * count
    rows = [sizes(w) for w in width if isinstance(w, Sequence)]
    flat = [dim(w) for w in width if not isinstance(w, Sequence)]
    if flat and not rows:
        rows = [tuple(flat)]
    rows = [r * 2 if len(r) == 1 else r for r in rows]
    rows = rows * count if len(rows) == 1 else rows
    if (flat and len(width) > 2) or len(rows) != count or builtins.any(len(r) != 2 for r in rows):
        raise wrong(
            "dd.pad", f"pad_width = {width} for rank {count}",
            "an int, a pair, or a pair for each axis", "dd.pad(x, ((1, 1), (0, 2)))",
        )  # fmt: skip
    return [(r[0], r[1]) for r in rows]


@public
def tile(x: Tensor, /, repetitions: AnyShape) -> Tensor:
    """Repeat the whole tensor along each axis; fewer numbers than axes count from the last.

    Example: ``dd.tile(x, (2, 1))``.  Errors: ``bad-attr`` for a negative number.
    """
    times = sizes(repetitions)
    x_shape = shape(x)
    count = builtins.max(len(x_shape), len(times))
    x_shape = (*(1,) * (count - len(x_shape)), *x_shape)
    times = (*(1,) * (count - len(times)), *times)
    apart = apply("reshape", x, shape=tuple(d for n in x_shape for d in (1, n)))
    wide = apply("broadcast_to", apart, shape=tuple(
        d for t, n in zip(times, x_shape, strict=True) for d in (t, n)))  # fmt: skip
    return apply("reshape", wide, shape=tuple(
        dims.mul(t, n) for t, n in zip(times, x_shape, strict=True)))  # fmt: skip


def constant_value(x: Tensor) -> Array | None:
    """Return the value of a tensor of constants alone; None where it depends on inputs."""
    if not x.builder.loose or dims.free(shape(x)):
        return None
    return interpreter.run(x.builder.module("constant", [x.value]), [])[0]


@public
def repeat(x: Tensor, /, repeats: int | Sequence[int] | Tensor, axis: int | None = None) -> Tensor:
    """Repeat each element along an axis, or of the flattened tensor, a number of times.

    The numbers must be known now, as they make the result's size.
    Example: ``dd.repeat(x, 2, axis=0)``.  Errors: ``bad-axis``, ``bad-call``.
    """
    if axis is None:
        x, axis = flatten(x), 0
    at = axis_of(x, axis)
    x_shape = shape(x)
    if isinstance(repeats, int):
        if repeats < 0:
            raise wrong("dd.repeat", f"repeats = {repeats}", "repeats >= 0")
        apart = apply("reshape", x, shape=(*x_shape[: at + 1], 1, *x_shape[at + 1 :]))
        wide = apply("broadcast_to", apart, shape=(*x_shape[: at + 1], repeats, *x_shape[at + 1 :]))
        n = dims.mul(x_shape[at], repeats)
        return apply("reshape", wide, shape=(*x_shape[:at], n, *x_shape[at + 1 :]))
    counts = constant_value(repeats) if isinstance(repeats, Tensor) else np.array(repeats, np.int64)
    if counts is None:
        raise wrong("dd.repeat", "numbers that depend on inputs", "numbers known now")
    n = _static(x, at, "repeat")
    if counts.dtype.kind not in "iu" or counts.shape not in ((n,), (1,), ()) or (counts < 0).any():
        raise wrong("dd.repeat", f"repeats = {counts.tolist()}", f"{n} numbers >= 0, or one")
    index = np.repeat(np.arange(n), counts if counts.shape == (n,) else int(counts.item()))
    return apply("gather", x, numbers(index), axis=at)


@public
def roll(x: Tensor, /, shift: int | Sequence[int], axis: Axis = None) -> Tensor:
    """Shift elements along axes; those shifted past the end come in at the front.

    Without an axis, elements of the flattened tensor are shifted.
    Example: ``dd.roll(x, 1, axis=0)``.
    Errors: ``bad-axis``, ``bad-call``.
    """
    if axis is None:
        return reshape(roll(flatten(x), shift, axis=0), shape(x))
    axes = tuple(axis_of(x, a) for a in ((axis,) if isinstance(axis, int) else axis))
    shifts = (shift,) if isinstance(shift, int) else tuple(shift)
    if len(axes) == 1:
        axes = axes * len(shifts)
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise wrong("dd.roll", f"{len(shifts)} shifts of {len(axes)} axes", "a shift for each axis")
    return reduce(lambda y, pair: _rolled(y, *pair), zip(shifts, axes, strict=True), x)


def _rolled(x: Tensor, shift: int, axis: int) -> Tensor:
    n = shape(x)[axis]
    if isinstance(n, int):
        at = -shift % n if n else 0
        return x if not at else apply("concat", _part(x, axis, at, n), _part(x, axis, 0, at),
                                      axis=axis)  # fmt: skip
    places = arange(n)
    count = apply("sum", apply("broadcast_to", numbers(1), shape=(n,)), axes=(0,), keepdims=False)
    index = apply("remainder", apply("subtract", places, numbers(shift)), count)
    return apply("gather", x, index, axis=axis)


__all__ = ["concat", "pad", "repeat", "roll", "split", "stack", "tile", "unstack"]
