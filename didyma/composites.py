"""Functions made of ops, for tensors under tracing; defined by ``didyma.refimpl.ops.composite``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from didyma.refimpl.ops import composite
from didyma.refimpl.ops.builder import Builder, Value
from didyma.tensor import Tensor, common, within
from didyma.types import Element

Axes: TypeAlias = int | Sequence[int]


def _wrap(x: Tensor, f: Callable[[Builder, Value], Value]) -> Tensor:
    b = common(x)
    return Tensor(b, f(b, within(b, x)))


def _joined(
    f: Callable[[Builder, Value, Value | None, Value | None], Value],
    x: Tensor,
    y: Tensor | None,
    z: Tensor | None,
) -> Tensor:
    """Apply a composite in the innermost function that an operand belongs to."""
    b = common(*(t for t in (x, y, z) if t is not None))
    rest = [None if t is None else within(b, t) for t in (y, z)]
    return Tensor(b, f(b, within(b, x), *rest))


@dataclass(frozen=True, slots=True)
class Activation:
    """An elementwise function made of ops."""

    body: Callable[[Builder, Value], Value]

    def __call__(self, x: Tensor, /) -> Tensor:
        """Apply it."""
        return _wrap(x, self.body)


relu = Activation(composite.relu)
selu = Activation(composite.selu)
sigmoid = Activation(composite.sigmoid)
silu = Activation(composite.silu)
hard_swish = Activation(composite.hard_swish)
softplus = Activation(composite.softplus)
softsign = Activation(composite.softsign)
mish = Activation(composite.mish)


def leaky_relu(x: Tensor, /, *, alpha: float = 0.01) -> Tensor:
    """``x`` where it is not negative, else ``alpha * x``."""
    return _wrap(x, lambda b, v: composite.leaky_relu(b, v, alpha))


def elu(x: Tensor, /, *, alpha: float = 1.0) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``."""
    return _wrap(x, lambda b, v: composite.elu(b, v, alpha))


def gelu(x: Tensor, /, *, approximate: bool = False) -> Tensor:
    """``x`` times the normal distribution function of ``x``, by erf or by tanh."""
    return _wrap(x, lambda b, v: composite.gelu(b, v, approximate))


def softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """Exponentials along an axis, divided by their sum."""
    return _wrap(x, lambda b, v: composite.softmax(b, v, axis))


def log_softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """Logarithm of the softmax."""
    return _wrap(x, lambda b, v: composite.log_softmax(b, v, axis))


def logsumexp(x: Tensor, /, *, axis: Axes = -1, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return _wrap(x, lambda b, v: composite.logsumexp(b, v, axes, keepdims))


def var(x: Tensor, /, *, axis: Axes = -1, correction: int = 0, keepdims: bool = False) -> Tensor:
    """Mean square distance from the mean."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return _wrap(x, lambda b, v: composite.variance(b, v, axes, keepdims, correction))


def std(x: Tensor, /, *, axis: Axes = -1, correction: int = 0, keepdims: bool = False) -> Tensor:
    """Square root of the variance."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return _wrap(x, lambda b, v: composite.std(b, v, axes, keepdims, correction))


def layer_norm(
    x: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    /,
    *,
    axis: Axes = -1,
    eps: float = 1e-5,
) -> Tensor:
    """Subtract the mean, divide by the standard deviation, scale and shift."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return _joined(lambda b, v, s, t: composite.layer_norm(b, v, axes, s, t, eps), x, scale, bias)


def rms_norm(
    x: Tensor, scale: Tensor | None = None, /, *, axis: Axes = -1, eps: float = 1e-6
) -> Tensor:
    """Divide by the root of the mean square, and scale."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return _joined(lambda b, v, s, _: composite.rms_norm(b, v, axes, s, eps), x, scale, None)


def one_hot(x: Tensor, depth: int, /, *, dtype: Element, axis: int = -1) -> Tensor:
    """1 at the index along a new axis, else 0."""
    return _wrap(x, lambda b, v: composite.one_hot(b, v, depth, dtype.dtype, axis))


def attention(q: Tensor, k: Tensor, v: Tensor, /, *, scale: float | None = None) -> Tensor:
    """``softmax(q @ transposed k * scale) @ v`` over the last two axes."""
    b = common(q, k, v)
    return Tensor(b, composite.attention(b, within(b, q), within(b, k), within(b, v), scale))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Last two axes on and below a diagonal; else 0."""
    return _wrap(x, lambda b, v: composite.triangle(b, v, k))


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Last two axes on and above a diagonal; else 0."""
    return _wrap(x, lambda b, v: composite.triangle(b, v, k, upper=True))
