"""Functions that give elements another shape or another order of axes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from didyma.functions.axes import (
    AnyShape,
    AnySize,
    Axis,
    axes_in,
    axes_of,
    axis_of,
    joint,
    rank,
    shape,
    sizes,
)
from didyma.functions.public import public, wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.tracer.tensor import Tensor, apply
from didyma.tracer.types import Element


@public
def astype(x: Tensor, /, dtype: Element, *, copy: bool = True) -> Tensor:
    """Convert elements; floats become integers by truncation, saturated, NaN 0.

    ``copy`` has no meaning, as tensors are never written.  Example: ``dd.astype(x, dd.f16)``.
    """
    del copy
    return x.astype(dtype.dtype)


@public
def reshape(x: Tensor, /, shape: AnyShape, *, copy: bool | None = None) -> Tensor:
    """Give the same elements, in row-major order, another shape; one size may be -1.

    ``copy`` has no meaning.  Example: ``dd.reshape(x, (n, -1))``.  Errors: ``shape-mismatch``.
    """
    del copy
    new = list(sizes(shape))
    x_type = x.value.type
    if -1 in new:
        at = new.index(-1)
        rest = dims.mul(*(s for i, s in enumerate(new) if i != at))
        if rest == 0 or new.count(-1) > 1:
            raise DidymaError(
                "shape-mismatch", f"reshape({x_type})", got=f"the shape {tuple(new)}",
                want="one -1 at most, and no other size 0 beside it",
            )  # fmt: skip
        new[at] = dims.floordiv(x_type.numel, rest)
    return apply("reshape", x, shape=tuple(new))


@public
def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """Reorder axes: axis *i* of the result is axis ``axes[i]`` of ``x``.

    Example: ``dd.permute_dims(x, (0, 2, 1))``.  Errors: ``bad-axis``.
    """
    order = axes_in(rank(x), tuple(axes), x)
    if len(order) != rank(x):
        raise DidymaError("bad-axis", repr(x), got=f"axes {order}", want=f"all {rank(x)} axes")
    return apply("permute_dims", x, axes=order)


@public
def matrix_transpose(x: Tensor, /) -> Tensor:
    """Exchange the last two axes.  Example: ``dd.matrix_transpose(x)``.  Errors: ``bad-axis``."""
    return swapaxes(x, -2, -1)


@public
def transpose(x: Tensor, /, axes: Sequence[int] | None = None) -> Tensor:
    """Reorder axes, or reverse their order, as NumPy has it.

    Example: ``dd.transpose(x, (1, 0, 2))``; two axes are exchanged by ``dd.swapaxes``.
    Errors: ``bad-axis``.
    """
    return permute_dims(x, tuple(reversed(builtins.range(rank(x)))) if axes is None else axes)


@public
def swapaxes(x: Tensor, /, axis1: int, axis2: int) -> Tensor:
    """Exchange two axes.  Example: ``dd.swapaxes(x, 1, 2)``.  Errors: ``bad-axis``."""
    order = list(builtins.range(rank(x)))
    i, j = axis_of(x, axis1), axis_of(x, axis2)
    order[i], order[j] = j, i
    return apply("permute_dims", x, axes=tuple(order))


@public
def moveaxis(x: Tensor, /, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Move axes to other places; the others keep their order.

    Example: ``dd.moveaxis(x, 0, -1)``.  Errors: ``bad-axis``, ``bad-call``.
    """
    take, put = axes_in(rank(x), source, x), axes_in(rank(x), destination, x)
    if len(take) != len(put):
        raise wrong("dd.moveaxis", f"{len(take)} axes to {len(put)} places", "as many of both")
    order = [a for a in builtins.range(rank(x)) if a not in take]
    for place, axis in sorted(zip(put, take, strict=True)):
        order.insert(place, axis)
    return apply("permute_dims", x, axes=tuple(order))


@public
def expand_dims(x: Tensor, /, axis: int | Sequence[int] = 0) -> Tensor:
    """Insert axes of size 1 where the result shall have them.

    Example: ``dd.expand_dims(x, 1)``.  Errors: ``bad-axis``.
    """
    count = rank(x) + (1 if isinstance(axis, int) else len(axis))
    new = axes_in(count, axis, x)
    rest = iter(shape(x))
    return apply("reshape", x, shape=tuple(1 if a in new else next(rest) for a in
                                           builtins.range(count)))  # fmt: skip


@public
def squeeze(x: Tensor, /, axis: Axis = None) -> Tensor:
    """Drop axes of size 1: those given, or all of them.

    Example: ``dd.squeeze(x, axis=0)``.  Errors: ``bad-axis`` for an axis of another size.
    """
    x_shape = shape(x)
    gone = tuple(a for a, n in enumerate(x_shape) if n == 1) if axis is None else axes_of(x, axis)
    if builtins.any(x_shape[a] != 1 for a in gone):
        raise DidymaError("bad-axis", repr(x), got=f"axes {gone}", want="axes of size 1")
    return apply("reshape", x, shape=tuple(d for i, d in enumerate(x_shape) if i not in gone))


@public
def flatten(x: Tensor, /, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Join neighbouring axes, or all, to one; a scalar becomes a vector.

    Example: ``dd.flatten(x, 1)`` keeps the first axis.  Errors: ``bad-axis``.
    """
    if not rank(x):
        return apply("reshape", x, shape=(1,))
    first, last = axis_of(x, start_axis), axis_of(x, end_axis)
    if last < first:
        raise DidymaError("bad-axis", repr(x), got=f"axes {first} to {last}", want="first <= last")
    x_shape = shape(x)
    return apply(
        "reshape",
        x,
        shape=(*x_shape[:first], dims.mul(*x_shape[first : last + 1]), *x_shape[last + 1 :]),
    )


@public
def broadcast_to(x: Tensor, /, shape: AnyShape) -> Tensor:
    """Repeat along axes of size 1 and new leading axes.

    Example: ``dd.broadcast_to(x, (n, 3))``.  Errors: ``shape-mismatch``.
    """
    return apply("broadcast_to", x, shape=sizes(shape))


@public
def broadcast_shapes(*shapes: Sequence[AnySize]) -> tuple[AnySize, ...]:
    """Return the shape that shapes are broadcast to together.

    Example: ``dd.broadcast_shapes((n, 1), (3,))``.  Errors: ``shape-mismatch``.
    """
    return joint([sizes(s) for s in shapes])


@public
def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Broadcast tensors to one shape.

    Example: ``x, y = dd.broadcast_arrays(x, y)``.  Errors: ``shape-mismatch``.
    """
    common_shape = joint([shape(a) for a in arrays])
    return tuple(apply("broadcast_to", a, shape=common_shape) for a in arrays)


@public
def flip(x: Tensor, /, axis: Axis = None) -> Tensor:
    """Reverse the order of elements along an axis, several, or all.

    Example: ``dd.flip(x, axis=-1)``.  Errors: ``bad-axis``.
    """
    return apply("flip", x, axes=axes_of(x, axis))


@public
def slice(
    x: Tensor,
    /,
    starts: Sequence[AnySize],
    stops: Sequence[AnySize],
    steps: Sequence[int] | None = None,
) -> Tensor:
    """Every ``step``-th element from ``start`` up to ``stop``, on each axis.

    One of each for every axis; places are counted from the front.  ``x[1:n, ::2]`` says the same.
    Example: ``dd.slice(x, (0, 1), (n, 3))``.  Errors: ``bad-attr``.
    """
    by = (1,) * rank(x) if steps is None else tuple(steps)
    return apply("slice", x, starts=sizes(starts), stops=sizes(stops), steps=by)


__all__ = [
    "astype", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims", "flatten",
    "flip", "matrix_transpose", "moveaxis", "permute_dims", "reshape", "slice", "squeeze",
    "swapaxes", "transpose",
]  # fmt: skip
