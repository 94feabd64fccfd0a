"""Methods of tensors: each calls the public function of its name.

Axes are given by position or as ``axis=``; without one a method works on all elements, as in NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from didyma.refimpl.errors import DidymaError
from didyma.tracer.calling import checked
from didyma.tracer.names import function
from didyma.tracer.traced import Traced
from didyma.tracer.types import AnyDType, AnySize, Size, dtype_of, is_size, items, plain

if TYPE_CHECKING:
    from didyma.tracer.tensor import Operand, Tensor

Axis: TypeAlias = int | Sequence[int] | None


def _call(name: str, *args: object, **kwargs: object) -> Tensor:
    f = function(name)
    assert f is not None, name
    result: Tensor = f(*args, **kwargs)
    return result


def _unary(name: str) -> Callable[[Methods], Tensor]:
    """Return a method that calls a public function of one tensor."""

    def method(self: Methods) -> Tensor:
        return _call(name, self)

    method.__name__, method.__doc__ = name, f"``dd.{name}(x)``."
    return checked(method)


def _axes(x: Methods, axis: Axis) -> tuple[int, ...]:
    """Return the axes of a reduction, all for None; DidymaError ``bad-axis`` for a wrong one."""
    if axis is None:
        return tuple(range(x.ndim))
    many = items(axis)
    return tuple(_axis(x, a) for a in ((axis,) if many is None else many))


def _axis(x: Methods, axis: object) -> int:
    if is_size(axis) and not isinstance(axis, Size):
        return operator.index(axis)
    raise DidymaError(
        "bad-axis", repr(x), got=f"axis {axis!r:.60}", want="an int, a tuple of ints or None",
        help="the larger of two tensors is dd.maximum(x, y), the smaller dd.minimum(x, y)",
    )  # fmt: skip


def _axis_or_none(x: Methods, axis: object) -> int | None:
    return None if axis is None else _axis(x, axis)


def _axis_from_front(x: Methods, axis: object, rank: int) -> int:
    """Return an axis counted from the front; DidymaError ``bad-axis`` if there is none."""
    at = _axis(x, axis)
    if not -rank <= at < rank:
        want = f"{-rank} <= axis < {rank}"
        raise DidymaError("bad-axis", repr(x), got=f"axis {at}", want=want)
    return at % rank


def _cast(x: Methods, dtype: AnyDType | None) -> Methods:
    return x if dtype is None else x.astype(dtype)


def _along(x: Methods, axis: int | None) -> tuple[Methods, int]:
    """Return a tensor and an axis of it: for None the flattened tensor and axis 0, as in NumPy."""
    return (x.flatten(), 0) if axis is None else (x, _axis(x, axis))


def _unpacked(args: tuple[object, ...]) -> tuple[object, ...]:
    """Return arguments that were passed one by one, or as one tuple or list."""
    only = items(args[0]) if len(args) == 1 else None
    return args if only is None else only


class Count(int):
    """A number of elements, which refuses PyTorch's ``x.size(0)``."""

    if not TYPE_CHECKING:  # so that checkers report the call
        __call__ = Size.__call__


class Methods(Traced):
    """The methods and attributes that users of NumPy and PyTorch know."""

    __slots__ = ()

    @property
    def size(self) -> AnySize:
        """Number of elements."""
        count = plain(self.value.type.numel, self.builder.declared())
        return Count(count) if isinstance(count, int) else count

    @property
    def T(self) -> Tensor:  # noqa: N802  # the standard's name
        """The tensor with its axes in reverse order."""
        return _call("permute_dims", self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Tensor:  # noqa: N802  # the standard's name
        """The tensor with its last two axes exchanged; DidymaError ``bad-axis`` below rank 2."""
        return self.swapaxes(-1, -2)

    abs, exp, exp2, expm1 = _unary("abs"), _unary("exp"), _unary("exp2"), _unary("expm1")
    log, log1p, log2, log10 = _unary("log"), _unary("log1p"), _unary("log2"), _unary("log10")
    sqrt, rsqrt, square = _unary("sqrt"), _unary("rsqrt"), _unary("square")
    sin, cos, tan = _unary("sin"), _unary("cos"), _unary("tan")
    sinh, cosh, tanh = _unary("sinh"), _unary("cosh"), _unary("tanh")
    floor, ceil, trunc, round = (_unary(n) for n in ("floor", "ceil", "trunc", "round"))
    isnan, isinf, isfinite = _unary("isnan"), _unary("isinf"), _unary("isfinite")
    sign, reciprocal, erf = _unary("sign"), _unary("reciprocal"), _unary("erf")
    relu, sigmoid, logical_not = _unary("relu"), _unary("sigmoid"), _unary("logical_not")

    @checked
    def sum(
        self, axis: Axis = None, *, dtype: AnyDType | None = None, keepdims: bool = False
    ) -> Tensor:
        """Add up elements along axes, after a conversion to ``dtype`` if it is given."""
        return _call("sum", _cast(self, dtype), axis=_axes(self, axis), keepdims=keepdims)

    @checked
    def prod(
        self, axis: Axis = None, *, dtype: AnyDType | None = None, keepdims: bool = False
    ) -> Tensor:
        """Multiply elements along axes, after a conversion to ``dtype`` if it is given."""
        return _call("prod", _cast(self, dtype), axis=_axes(self, axis), keepdims=keepdims)

    @checked
    def mean(
        self, axis: Axis = None, *, dtype: AnyDType | None = None, keepdims: bool = False
    ) -> Tensor:
        """Mean along axes, after a conversion to ``dtype`` if it is given."""
        return _call("mean", _cast(self, dtype), axis=_axes(self, axis), keepdims=keepdims)

    @checked
    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Largest element along axes."""
        return _call("max", self, axis=_axes(self, axis), keepdims=keepdims)

    @checked
    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Smallest element along axes."""
        return _call("min", self, axis=_axes(self, axis), keepdims=keepdims)

    @checked
    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Whether an element along axes is true."""
        return _call("any", self, axis=_axes(self, axis), keepdims=keepdims)

    @checked
    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Whether all elements along axes are true."""
        return _call("all", self, axis=_axes(self, axis), keepdims=keepdims)

    @checked
    def var(self, axis: Axis = None, *, correction: int = 0, keepdims: bool = False) -> Tensor:
        """Mean squared distance from the mean, along axes."""
        axes = _axes(self, axis)
        return _call("var", self, axis=axes, correction=correction, keepdims=keepdims)

    @checked
    def std(self, axis: Axis = None, *, correction: int = 0, keepdims: bool = False) -> Tensor:
        """Square root of the variance along axes."""
        axes = _axes(self, axis)
        return _call("std", self, axis=axes, correction=correction, keepdims=keepdims)

    @checked
    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Index of the largest element along an axis, or among all elements."""
        return _call("argmax", self, axis=_axis_or_none(self, axis), keepdims=keepdims)

    @checked
    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Index of the smallest element along an axis, or among all elements."""
        return _call("argmin", self, axis=_axis_or_none(self, axis), keepdims=keepdims)

    @checked
    def argsort(self, axis: int = -1, *, descending: bool = False) -> Tensor:
        """Indices that sort the elements along an axis."""
        return _call("argsort", self, axis=_axis(self, axis), descending=descending)

    @checked
    def cumsum(self, axis: int | None = None) -> Tensor:
        """Running sums along an axis, or of all elements in row-major order."""
        x, at = _along(self, axis)
        return _call("cumulative_sum", x, axis=at)

    @checked
    def take(self, indices: Operand, axis: int | None = None) -> Tensor:
        """Elements at positions along an axis, or of all elements in row-major order."""
        from didyma.tracer.tensor import constant

        x, at = _along(self, axis)
        return _call("take", x, constant(self.builder.current, indices), axis=at)

    @checked
    def softmax(self, axis: int = -1) -> Tensor:
        """``dd.softmax(x, axis=axis)``."""
        return _call("softmax", self, axis=_axis(self, axis))

    @checked
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Limit to [min, max]; a bound that is None does not limit."""
        return _call("clip", self, min, max)

    @checked
    def reshape(self, *shape: AnySize | Sequence[AnySize]) -> Tensor:
        """Give the elements another shape, as sizes or as one tuple; one size may be -1."""
        return _call("reshape", self, _unpacked(shape))

    @checked
    def view(self, *shape: AnySize | Sequence[AnySize]) -> Tensor:
        """``x.reshape(*shape)``; the same bits in another dtype are ``dd.bitcast(x, dtype)``."""
        return self.reshape(*shape)

    @checked
    def flatten(self) -> Tensor:
        """Lay all elements along one axis."""
        return _call("reshape", self, (self.size,))

    ravel = flatten

    @checked
    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        """Permute axes as NumPy does; without arguments, reverse their order.

        DidymaError ``bad-axis`` for two axes that PyTorch would exchange and NumPy would not.
        """
        order = _unpacked(axes) if axes else tuple(reversed(range(self.ndim)))
        torch = isinstance(axes[0] if axes else None, int) and len(order) == 2
        if torch and (self.ndim != 2 or [_axis(self, a) % 2 for a in order] == [0, 1]):
            raise DidymaError(
                "bad-axis", f"{self!r}.transpose{order}", got="two axes to exchange, as in PyTorch",
                want="all axes in their new order, as in NumPy",
                help=f"x.swapaxes{order} exchanges two axes",
            )  # fmt: skip
        return self.permute(order)

    @checked
    def permute(self, *axes: int | Sequence[int] | object) -> Tensor:
        """Reorder axes; DidymaError ``bad-axis`` unless each is named once."""
        order = tuple(_axis(self, a) for a in _unpacked(axes))
        if sorted(a % max(self.ndim, 1) for a in order) != list(range(self.ndim)):
            raise DidymaError(
                "bad-axis", f"{self!r}.permute{order}", got=f"{len(order)} axes",
                want=f"each of {self.ndim} axes once",
            )  # fmt: skip
        return _call("permute_dims", self, order)

    permute_dims = permute

    @checked
    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Exchange two axes; DidymaError ``bad-axis`` if there is no such axis."""
        a, b = _axis_from_front(self, axis1, self.ndim), _axis_from_front(self, axis2, self.ndim)
        order = list(range(self.ndim))
        order[a], order[b] = b, a
        return self.permute(order)

    @checked
    def squeeze(self, axis: Axis = None) -> Tensor:
        """Drop axes of size 1: those given, or all."""
        ones = tuple(i for i, d in enumerate(self.value.type.shape) if d == 1)
        return _call("squeeze", self, ones if axis is None else _axes(self, axis))

    @checked
    def expand_dims(self, axis: int) -> Tensor:
        """Insert an axis of size 1; DidymaError ``bad-axis`` beyond the rank."""
        return _call("expand_dims", self, axis=_axis_from_front(self, axis, self.ndim + 1))

    unsqueeze = expand_dims

    @checked
    def broadcast_to(self, *shape: AnySize | Sequence[AnySize]) -> Tensor:
        """Repeat along axes of size 1 and new leading axes."""
        return _call("broadcast_to", self, _unpacked(shape))

    @checked
    def astype(self, dtype: AnyDType, *, copy: bool = True) -> Tensor:
        """Convert by the rules of ``cast``; ``copy`` makes no difference, as tensors are values.

        DidymaError ``unknown-dtype``.
        """
        from didyma.tracer.tensor import Tensor, apply

        del copy
        x, to = Tensor(self.builder, self.value), dtype_of(dtype)
        return x if to is self.dtype else apply("cast", x, dtype=to)

    @checked
    def to(self, target: AnyDType) -> Tensor:
        """``x.astype(target)`` for a dtype, and ``dd.to(x, target)`` for a device (``host:1``)."""
        if isinstance(target, str) and (":" in target or not target):
            return _call("to", self, target)
        return self.astype(target)

    @checked
    def dot(self, other: Operand) -> Tensor:
        """``x @ other``."""
        from didyma.tracer.tensor import matmul

        return matmul(self, other)

    matmul = dot

    @checked
    def pow(self, exponent: Operand) -> Tensor:
        """``x ** exponent``."""
        from didyma.tracer.tensor import binary

        return binary("pow", self, exponent)
