"""Axes and shapes as users give them, resolved; ops on tensors by what the reference calls them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sympy

from didyma.composites.builder import Value
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import Shape
from didyma.tracer.tensor import Scalar, Tensor, common, promote, within
from didyma.tracer.types import Size

AnySize: TypeAlias = int | Size | sympy.Expr
Axis: TypeAlias = int | Sequence[int] | None
Operand: TypeAlias = Tensor | Scalar  # evaluated where calls are checked, so no text
AnyShape: TypeAlias = AnySize | Sequence[AnySize]


def shape(x: Tensor) -> Shape:
    """Return the sizes of a tensor as the reference has them."""
    return x.value.type.shape


def rank(x: Tensor) -> int:
    """Return the number of axes."""
    return x.value.type.rank


def axis_in(count: int, axis: int, where: object) -> int:
    """Return one of ``count`` axes, counted from the front; DidymaError ``bad-axis``."""
    if not -count <= axis < count:
        want = f"{-count} <= axis < {count}" if count else "no axis: there are none"
        raise DidymaError("bad-axis", repr(where), got=f"axis {axis}", want=want)
    return axis % count


def axis_of(x: Tensor, axis: int) -> int:
    """Return the axis counted from the front; DidymaError ``bad-axis`` if there is none."""
    return axis_in(rank(x), axis, x)


def axes_in(count: int, axes: Axis, where: object) -> tuple[int, ...]:
    """Return axes counted from the front, in the order given; all of them for None.

    DidymaError ``bad-axis`` for an axis that does not exist, or is given twice.
    """
    if axes is None:
        return tuple(range(count))
    several = (axes,) if isinstance(axes, int) else axes
    resolved = tuple(axis_in(count, a, where) for a in several)
    if len(set(resolved)) != len(resolved):
        raise DidymaError(
            "bad-axis", repr(where), got=f"axes {tuple(several)}", want="each axis once"
        )
    return resolved


def axes_of(x: Tensor, axes: Axis) -> tuple[int, ...]:
    """Return axes counted from the front, increasing; all of them for None."""
    return tuple(sorted(axes_in(rank(x), axes, x)))


def dim(size: AnySize) -> Dim:
    """Return a size as the reference has it."""
    if isinstance(size, Size):
        return size.value
    return size if isinstance(size, sympy.Expr) else operator.index(size)


def sizes(shape: AnyShape) -> Shape:
    """Return the sizes of a shape, which may be one size alone."""
    return tuple(dim(s) for s in shape) if isinstance(shape, Sequence) else (dim(shape),)


def composed(body: Callable[..., Value], *args: Any, **options: Any) -> Tensor:
    """Apply a function of the reference that is made of ops; tensors are given as values."""
    b = common(*(a for a in args if isinstance(a, Tensor)))
    values = [within(b, a) if isinstance(a, Tensor) else a for a in args]
    return Tensor(b, body(b, *values, **options))


def promoted(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Bring tensors to one dtype by the standard's rules; DidymaError ``dtype-mismatch``."""
    if not tensors:
        return []
    dtype = tensors[0].value.type.dtype
    for t in tensors[1:]:
        dtype = promote(dtype, t.value.type.dtype)
    return [t.astype(dtype) for t in tensors]


def joint(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that shapes are broadcast to; DidymaError ``shape-mismatch`` if none."""
    count = max((len(s) for s in shapes), default=0)
    result: list[Dim] = [1] * count
    for shape in shapes:
        for i, n in enumerate(shape, count - len(shape)):
            if result[i] == 1:
                result[i] = n
            elif n != 1 and not dims.equal(n, result[i]):
                raise DidymaError(
                    "shape-mismatch", "broadcasting", want="sizes that are equal or 1",
                    got=f"sizes {dims.text(result[i])} and {dims.text(n)} of one axis",
                )  # fmt: skip
    return tuple(result)
