"""Functions on tensors, named after the Python Array API standard, or ONNX where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.slicing import joined
from didyma.tensor import Operand, Tensor, apply, binary, common, scalar, together
from didyma.types import AnySize, Element, size

Axis: TypeAlias = int | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Unary:
    """An elementwise function of one tensor."""

    op: str

    def __call__(self, x: Tensor, /) -> Tensor:
        """Apply it."""
        return apply(self.op, x)


@dataclass(frozen=True, slots=True)
class Binary:
    """An elementwise function of two tensors, or a tensor and a number."""

    op: str

    def __call__(self, a: Operand, b: Operand, /) -> Tensor:
        """Apply it, operands promoted and broadcast."""
        return binary(self.op, a, b)


@dataclass(frozen=True, slots=True)
class Reduction:
    """A fold over axes; all of them without ``axis``."""

    op: str

    def __call__(self, x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Apply it."""
        return apply(self.op, x, axes=_axes(x, axis), keepdims=keepdims)


@dataclass(frozen=True, slots=True)
class ArgReduction:
    """Position of the best element along an axis."""

    op: str

    def __call__(self, x: Tensor, /, *, axis: int, keepdims: bool = False) -> Tensor:
        """Apply it."""
        return apply(self.op, x, axis=axis_of(x, axis), keepdims=keepdims)


abs_, negative, sign, square = Unary("abs"), Unary("negative"), Unary("sign"), Unary("square")
reciprocal, sqrt, rsqrt = Unary("reciprocal"), Unary("sqrt"), Unary("rsqrt")
exp, exp2, expm1 = Unary("exp"), Unary("exp2"), Unary("expm1")
log, log2, log10, log1p = Unary("log"), Unary("log2"), Unary("log10"), Unary("log1p")
sin, cos, tan = Unary("sin"), Unary("cos"), Unary("tan")
asin, acos, atan = Unary("asin"), Unary("acos"), Unary("atan")
sinh, cosh, tanh = Unary("sinh"), Unary("cosh"), Unary("tanh")
asinh, acosh, atanh = Unary("asinh"), Unary("acosh"), Unary("atanh")
erf, floor, ceil, trunc, round_ = (Unary(n) for n in ("erf", "floor", "ceil", "trunc", "round"))
isnan, isinf, isfinite, signbit = (Unary(n) for n in ("isnan", "isinf", "isfinite", "signbit"))
logical_not, bitwise_invert = Unary("logical_not"), Unary("bitwise_invert")

add, subtract, multiply = Binary("add"), Binary("subtract"), Binary("multiply")
divide, floor_divide, trunc_divide = (Binary(f"{n}divide") for n in ("", "floor_", "trunc_"))
remainder, fmod = Binary("remainder"), Binary("fmod")
pow_, atan2, copysign = Binary("pow"), Binary("atan2"), Binary("copysign")
maximum, minimum = Binary("maximum"), Binary("minimum")
equal, not_equal = Binary("equal"), Binary("not_equal")
less, less_equal = Binary("less"), Binary("less_equal")
greater, greater_equal = Binary("greater"), Binary("greater_equal")
logical_and, logical_or, logical_xor = (Binary(f"logical_{n}") for n in ("and", "or", "xor"))
bitwise_and, bitwise_or, bitwise_xor = (Binary(f"bitwise_{n}") for n in ("and", "or", "xor"))
bitwise_left_shift = Binary("bitwise_left_shift")
bitwise_right_shift = Binary("bitwise_right_shift")

sum_, prod, min_, max_ = (Reduction(n) for n in ("sum", "prod", "min", "max"))
mean, any_, all_ = Reduction("mean"), Reduction("any"), Reduction("all")
argmin, argmax = ArgReduction("argmin"), ArgReduction("argmax")


def axis_of(x: Tensor, axis: int) -> int:
    """Return the axis counted from the front; DidymaError ``bad-axis`` if there is none."""
    rank = len(x.shape)
    if not -rank <= axis < rank:
        raise DidymaError("bad-axis", repr(x), got=f"axis {axis}", want=f"{-rank} <= axis < {rank}")
    return axis % rank


def _axes(x: Tensor, axis: Axis) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(len(x.shape)))
    given = (axis,) if isinstance(axis, int) else axis
    return tuple(sorted(axis_of(x, a) for a in given))


def _shape(shape: Sequence[AnySize] | AnySize) -> tuple[dims.Dim, ...]:
    many = shape if isinstance(shape, Sequence) else (shape,)
    return tuple(size(s).value for s in many)


def astype(x: Tensor, dtype: Element, /) -> Tensor:
    """Convert; floats to ints truncate and saturate, NaN becomes 0."""
    return x.astype(dtype.dtype)


def where(cond: Tensor, a: Operand, b: Operand, /) -> Tensor:
    """``a`` where ``cond``, else ``b``."""
    x, y = together(a, b)
    return apply("where", cond, x, y)


def clip(x: Tensor, /, min: Operand, max: Operand) -> Tensor:
    """Limit to [min, max]."""
    low = min if isinstance(min, Tensor) else scalar(x, min)
    high = max if isinstance(max, Tensor) else scalar(x, max)
    return apply("clip", x, low, high)


def reshape(x: Tensor, /, shape: Sequence[AnySize]) -> Tensor:
    """Give the same elements another shape; one size may be -1."""
    sizes = list(_shape(shape))
    if -1 in sizes:
        at = sizes.index(-1)
        rest = dims.mul(*(s for i, s in enumerate(sizes) if i != at))
        sizes[at] = dims.floordiv(dims.mul(*x.shape), rest)
    return apply("reshape", x, shape=tuple(sizes))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Reorder axes."""
    return apply("permute_dims", x, axes=tuple(axis_of(x, a) for a in axes))


def broadcast_to(x: Tensor, /, shape: Sequence[AnySize]) -> Tensor:
    """Repeat along axes of size 1 and new leading axes."""
    return apply("broadcast_to", x, shape=_shape(shape))


def expand_dims(x: Tensor, /, *, axis: int) -> Tensor:
    """Insert an axis of size 1."""
    rank = len(x.shape) + 1
    at = axis % rank
    return apply("reshape", x, shape=(*x.shape[:at], 1, *x.shape[at:]))


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Drop axes of size 1."""
    gone = _axes(x, axis)
    if any(x.shape[a] != 1 for a in gone):
        raise DidymaError("bad-axis", repr(x), got=f"axes {gone}", want="axes of size 1")
    return apply("reshape", x, shape=tuple(d for i, d in enumerate(x.shape) if i not in gone))


def concat(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Join along an axis."""
    at = axis_of(arrays[0], axis)
    return joined(arrays, lambda group: apply("concat", *group, axis=at))


def flip(x: Tensor, /, *, axis: Axis = None) -> Tensor:
    """Reverse along axes."""
    return apply("flip", x, axes=_axes(x, axis))


def slice_(
    x: Tensor, /, starts: Sequence[AnySize], stops: Sequence[AnySize], steps: Sequence[int]
) -> Tensor:
    """Every ``step``-th element from ``start`` up to ``stop``, on each axis."""
    return apply("slice", x, starts=_shape(starts), stops=_shape(stops), steps=tuple(steps))


def pad(
    x: Tensor,
    /,
    low: Sequence[AnySize],
    high: Sequence[AnySize],
    *,
    mode: str = "constant",
    value: Operand = 0,
) -> Tensor:
    """Surround with a border."""
    fill = value if isinstance(value, Tensor) else scalar(x, value)
    return apply("pad", x, fill, low=_shape(low), high=_shape(high), mode=mode)


def take(x: Tensor, indices: Tensor, /, *, axis: int = 0) -> Tensor:
    """Elements at positions along an axis; a negative one counts from the end."""
    return apply("gather", x, indices, axis=axis_of(x, axis))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements at positions along an axis, position by position."""
    return apply("gather_elements", x, indices, axis=axis_of(x, axis))


def scatter(
    x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Put updates at positions along an axis, replacing or combining."""
    axis = axis_of(x, axis)
    return apply("scatter", x, indices, updates, axis=axis, reduction=reduction)


def cumulative_sum(
    x: Tensor, /, *, axis: int = -1, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Running sum along an axis."""
    at = axis_of(x, axis)
    return apply("cumulative_sum", x, axis=at, exclusive=exclusive, reverse=reverse)


def conv(
    x: Tensor,
    w: Tensor,
    /,
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    low: Sequence[int] | None = None,
    high: Sequence[int] | None = None,
    groups: int = 1,
) -> Tensor:
    """Convolution of (batch, channels, ...) with (out, channels / groups, ...)."""
    rank = len(x.shape) - 2
    return apply(
        "conv", x, w, strides=tuple(strides or (1,) * rank),
        dilations=tuple(dilations or (1,) * rank), low=tuple(low or (0,) * rank),
        high=tuple(high or (0,) * rank), groups=groups,
    )  # fmt: skip


def asarray(like: Tensor, array: Array, /) -> Tensor:
    """Return a NumPy array as a constant of the graph that ``like`` belongs to."""
    b = common(like)
    return Tensor(b, b.constant(np.asarray(array)))


def arange(like: Tensor, n: AnySize, /, *, dtype: Element) -> Tensor:
    """0, 1, ... n - 1 in the graph that ``like`` belongs to."""
    b = common(like)
    return Tensor(b, b("iota", [], dtype=dtype.dtype, shape=(size(n).value,), axis=0))
