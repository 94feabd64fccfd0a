"""Named functions made of ops: one definition each for the tracer, importers and fuzzing.

A composite speaks to an ``Emit``: something that applies ops to values of its own kind, be it a
tracer, an importer or the plain ``Builder``.  Composites do not promote dtypes, and
negative axes count from the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import DType, Tensor, TensorType

V = TypeVar("V")


class Emit(Protocol[V]):
    """Applies ops to values."""

    def __call__(self, op: str, args: Sequence[V], /, **attrs: Attr) -> V:
        """Apply an op; DidymaError where it does not fit."""
        ...

    def type_of(self, value: V, /) -> TensorType:
        """Return the type of a value."""
        ...


def scalar(b: Emit[V], value: float, dtype: DType) -> V:
    """Return a constant without axes."""
    return b("constant", (), value=Tensor.of(np.array(value).astype(dtype.numpy)))


def like(b: Emit[V], value: float, x: V) -> V:
    """Return a constant of a value's dtype."""
    return scalar(b, value, b.type_of(x).dtype)


def _axes(b: Emit[V], x: V, axes: int | Sequence[int]) -> tuple[int, ...]:
    rank = b.type_of(x).rank
    many = (axes,) if isinstance(axes, int) else axes
    return tuple(sorted(a % rank for a in many))


def relu(b: Emit[V], x: V) -> V:
    """``max(x, 0)``; NaN stays."""
    return b("maximum", (x, like(b, 0, x)))


def leaky_relu(b: Emit[V], x: V, alpha: float = 0.01) -> V:
    """``x`` where it is not negative, else ``alpha * x``."""
    scaled = b("multiply", (x, like(b, alpha, x)))
    return b("where", (b("greater_equal", (x, like(b, 0, x))), x, scaled))


def prelu(b: Emit[V], x: V, slope: V) -> V:
    """``x`` where it is not negative, else ``slope * x``; the slope is broadcast."""
    scaled = b("multiply", (x, slope))
    return b("where", (b("greater_equal", (x, like(b, 0, x))), x, scaled))


def elu(b: Emit[V], x: V, alpha: float = 1.0) -> V:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``."""
    bent = b("multiply", (b("expm1", (x,)), like(b, alpha, x)))
    return b("where", (b("greater", (x, like(b, 0, x))), x, bent))


def selu(b: Emit[V], x: V) -> V:
    """Scaled elu with the constants of Klambauer et al., 2017."""
    bent = elu(b, x, 1.6732632423543772)
    return b("multiply", (bent, like(b, 1.0507009873554805, x)))


def sigmoid(b: Emit[V], x: V) -> V:
    """``1 / (1 + exp(-x))``."""
    grown = b("add", (b("exp", (b("negative", (x,)),)), like(b, 1, x)))
    return b("reciprocal", (grown,))


def silu(b: Emit[V], x: V) -> V:
    """``x * sigmoid(x)``."""
    return b("multiply", (x, sigmoid(b, x)))


def hard_sigmoid(b: Emit[V], x: V, alpha: float = 1 / 6, beta: float = 0.5) -> V:
    """``clip(alpha * x + beta, 0, 1)``."""
    line = b("add", (b("multiply", (x, like(b, alpha, x))), like(b, beta, x)))
    return b("clip", (line, like(b, 0, x), like(b, 1, x)))


def hard_swish(b: Emit[V], x: V) -> V:
    """``x * clip(x / 6 + 1 / 2, 0, 1)``."""
    return b("multiply", (x, hard_sigmoid(b, x)))


def softplus(b: Emit[V], x: V) -> V:
    """``log(1 + exp(x))``, written so that nothing overflows."""
    small = b("exp", (b("negative", (b("abs", (x,)),)),))
    return b("add", (relu(b, x), b("log1p", (small,))))


def softsign(b: Emit[V], x: V) -> V:
    """``x / (1 + |x|)``."""
    return b("divide", (x, b("add", (b("abs", (x,)), like(b, 1, x)))))


def mish(b: Emit[V], x: V) -> V:
    """``x * tanh(softplus(x))``."""
    return b("multiply", (x, b("tanh", (softplus(b, x),))))


def gelu(b: Emit[V], x: V, approximate: bool = False) -> V:
    """``x * (1 + erf(x / sqrt 2)) / 2``, or its approximation by tanh."""
    if approximate:
        cube = b("multiply", (b("square", (x,)), x))
        inner = b("add", (x, b("multiply", (cube, like(b, 0.044715, x)))))
        bent = b("tanh", (b("multiply", (inner, like(b, math.sqrt(2 / math.pi), x))),))
    else:
        bent = b("erf", (b("multiply", (x, like(b, math.sqrt(0.5), x))),))
    half = b("multiply", (x, like(b, 0.5, x)))
    return b("multiply", (half, b("add", (bent, like(b, 1, x)))))


def _exponentials(b: Emit[V], x: V, axis: int) -> tuple[V, V, V]:
    axes = _axes(b, x, axis)
    shifted = b("subtract", (x, b("max", (x,), axes=axes, keepdims=True)))
    powers = b("exp", (shifted,))
    return shifted, powers, b("sum", (powers,), axes=axes, keepdims=True)


def softmax(b: Emit[V], x: V, axis: int = -1) -> V:
    """``exp(x - max x)`` divided by its sum along an axis."""
    _, powers, total = _exponentials(b, x, axis)
    return b("divide", (powers, total))


def log_softmax(b: Emit[V], x: V, axis: int = -1) -> V:
    """Logarithm of softmax, without forming it."""
    shifted, _, total = _exponentials(b, x, axis)
    return b("subtract", (shifted, b("log", (total,))))


def logsumexp(b: Emit[V], x: V, axes: Sequence[int], keepdims: bool = False) -> V:
    """Logarithm of the sum of exponentials; the largest is taken out first.

    Where that is infinite, it is the result: its distances from itself are NaN.
    """
    at = _axes(b, x, axes)
    top = b("max", (x,), axes=at, keepdims=True)
    powers = b("exp", (b("subtract", (x, top)),))
    total = b("add", (b("log", (b("sum", (powers,), axes=at, keepdims=True),)), top))
    result = b("where", (b("isinf", (top,)), top, total))
    return result if keepdims else _squeeze(b, result, at)


def _squeeze(b: Emit[V], x: V, axes: Sequence[int]) -> V:
    shape = b.type_of(x).shape
    return b("reshape", (x,), shape=tuple(d for a, d in enumerate(shape) if a not in axes))


def _centred(b: Emit[V], x: V, axes: tuple[int, ...]) -> V:
    return b("subtract", (x, b("mean", (x,), axes=axes, keepdims=True)))


def variance(
    b: Emit[V], x: V, axes: Sequence[int], keepdims: bool = False, correction: float = 0
) -> V:
    """Sum of squared distances from the mean over ``max(n - correction, 0)``."""
    at = _axes(b, x, axes)
    squares = b("square", (_centred(b, x, at),))
    if correction == 0:
        return b("mean", (squares,), axes=at, keepdims=keepdims)
    total = b("sum", (squares,), axes=at, keepdims=keepdims)
    t = b.type_of(x)
    return b("divide", (total, _count(b, dims.mul(*(t.shape[a] for a in at)), correction, t)))


def _count(b: Emit[V], n: Dim, less: float, t: TensorType) -> V:
    """Return ``max(n - less, 0)`` as a scalar; a symbolic ``n`` is counted at run time."""
    if isinstance(n, int):
        return scalar(b, max(n - less, 0), t.dtype)
    places = b("iota", (), dtype=DType.I64, shape=(n,), axis=0)
    counted = b("greater_equal", (places, scalar(b, less, DType.I64)))
    return b("sum", (b("cast", (counted,), dtype=t.dtype),), axes=(0,), keepdims=False)


def std(b: Emit[V], x: V, axes: Sequence[int], keepdims: bool = False, correction: float = 0) -> V:
    """Square root of the variance."""
    return b("sqrt", (variance(b, x, axes, keepdims, correction),))


def _affine(b: Emit[V], x: V, scale: V | None, bias: V | None) -> V:
    x = x if scale is None else b("multiply", (x, scale))
    return x if bias is None else b("add", (x, bias))


def layer_norm(
    b: Emit[V],
    x: V,
    axes: Sequence[int] = (-1,),
    scale: V | None = None,
    bias: V | None = None,
    eps: float = 1e-5,
) -> V:
    """``(x - mean) / sqrt(variance + eps) * scale + bias``; scale and bias are broadcast."""
    at = _axes(b, x, axes)
    centred = _centred(b, x, at)
    spread = b("mean", (b("square", (centred,)),), axes=at, keepdims=True)
    root = b("rsqrt", (b("add", (spread, like(b, eps, x))),))
    return _affine(b, b("multiply", (centred, root)), scale, bias)


def rms_norm(
    b: Emit[V], x: V, axes: Sequence[int] = (-1,), scale: V | None = None, eps: float = 1e-6
) -> V:
    """``x / sqrt(mean of squares + eps) * scale``."""
    at = _axes(b, x, axes)
    power = b("mean", (b("square", (x,)),), axes=at, keepdims=True)
    root = b("rsqrt", (b("add", (power, like(b, eps, x))),))
    return _affine(b, b("multiply", (x, root)), scale, None)


def channelwise(b: Emit[V], v: V, rank: int) -> V:
    """Vector along axis 1 of a tensor of some rank, ready to be broadcast."""
    return b("reshape", (v,), shape=(*b.type_of(v).shape, *[1] * (rank - 2)))


def batch_norm(
    b: Emit[V], x: V, scale: V | None, bias: V | None, mean: V, var: V, eps: float = 1e-5
) -> V:
    """``(x - mean) / sqrt(var + eps) * scale + bias`` with given vectors along axis 1."""
    rank = b.type_of(x).rank
    root = b("rsqrt", (b("add", (var, like(b, eps, var))),))
    slope = root if scale is None else b("multiply", (scale, root))
    centred = b("subtract", (x, channelwise(b, mean, rank)))
    scaled = b("multiply", (centred, channelwise(b, slope, rank)))
    return scaled if bias is None else b("add", (scaled, channelwise(b, bias, rank)))


def instance_norm(b: Emit[V], x: V, scale: V | None, bias: V | None, eps: float = 1e-5) -> V:
    """layer_norm over the spatial axes, with scale and bias along axis 1."""
    rank = b.type_of(x).rank
    slope, shift = (None if v is None else channelwise(b, v, rank) for v in (scale, bias))
    return layer_norm(b, x, range(2, rank), slope, shift, eps)


def global_avg_pool(b: Emit[V], x: V) -> V:
    """Mean over the spatial axes, which stay with size 1."""
    return b("mean", (x,), axes=tuple(range(2, b.type_of(x).rank)), keepdims=True)


def global_max_pool(b: Emit[V], x: V) -> V:
    """Largest element over the spatial axes, which stay with size 1."""
    return b("max", (x,), axes=tuple(range(2, b.type_of(x).rank)), keepdims=True)


def linear(b: Emit[V], x: V, weight: V, bias: V | None = None) -> V:
    """``x @ weight + bias`` along the last axis of ``x``, of any rank from 1."""
    t = b.type_of(x)
    columns = b.type_of(weight).shape[-1]
    rows = x if t.rank >= 2 else b("reshape", (x,), shape=(1, *t.shape))
    out = b("matmul", (rows, weight))
    if t.rank < 2:
        out = b("reshape", (out,), shape=(columns,))
    return _affine(b, out, None, bias)


def scores(b: Emit[V], q: V, k: V, scale: float | None) -> V:
    """``q @ transposed k * scale`` over the last two axes; without a scale, by ``1/sqrt(depth)``.

    The depth is the size of the last axis of ``k``, and may be symbolic; 0 counts as 1.
    """
    t = b.type_of(k)
    axes = (*range(t.rank - 2), t.rank - 1, t.rank - 2)
    products = b("matmul", (q, b("permute_dims", (k,), axes=axes)))
    depth = t.shape[-1]
    if scale is None:
        if not isinstance(depth, int):
            counted = b("maximum", (_count(b, depth, 0, t), like(b, 1, k)))
            return b("divide", (products, b("sqrt", (counted,))))
        scale = 1 / math.sqrt(max(depth, 1))
    return b("multiply", (products, like(b, scale, q)))


def attention(b: Emit[V], q: V, k: V, v: V, scale: float | None = None) -> V:
    """``softmax(scores) @ v`` over the last two axes."""
    return b("matmul", (softmax(b, scores(b, q, k, scale), -1), v))


def group_norm(
    b: Emit[V], x: V, groups: int, scale: V | None, bias: V | None, eps: float = 1e-5
) -> V:
    """layer_norm of each group of channels, with scale and bias along axis 1."""
    shape = b.type_of(x).shape
    each = dims.floordiv(shape[1], groups)
    split = b("reshape", (x,), shape=(shape[0], groups, each, *shape[2:]))
    normal = layer_norm(b, split, range(2, len(shape) + 1), None, None, eps)
    y = b("reshape", (normal,), shape=shape)
    slope, shift = (None if v is None else channelwise(b, v, len(shape)) for v in (scale, bias))
    return _affine(b, y, slope, shift)


def one_hot(
    b: Emit[V],
    indices: V,
    depth: int,
    dtype: DType,
    axis: int = -1,
    on: float = 1,
    off: float = 0,
) -> V:
    """``on`` at the index along a new axis, else ``off``; negative indices count from the end.

    An index out of range has no place.
    """
    t = b.type_of(indices)
    at = axis % (t.rank + 1)
    wrapped = b("add", (indices, like(b, depth, indices)))
    negative = b("less", (indices, like(b, 0, indices)))
    index = b("where", (negative, wrapped, indices))
    column = b("reshape", (index,), shape=(*t.shape[:at], 1, *t.shape[at:]))
    line = (*[1] * at, depth, *[1] * (t.rank - at))
    hit = b("equal", (column, b("iota", (), dtype=t.dtype, shape=line, axis=at)))
    return b("where", (hit, scalar(b, on, dtype), scalar(b, off, dtype)))


def triangle(b: Emit[V], x: V, offset: int = 0, upper: bool = False) -> V:
    """Last two axes on and below (or on and above) the diagonal shifted by ``offset``; else 0."""
    t = b.type_of(x)
    rows, columns = t.shape[-2:]
    row = b("iota", (), dtype=DType.I64, shape=(rows, 1), axis=0)
    column = b("iota", (), dtype=DType.I64, shape=(1, columns), axis=1)
    diagonal = b("add", (row, scalar(b, offset, DType.I64)))
    keep = b("greater_equal" if upper else "less_equal", (column, diagonal))
    return b("where", (keep, x, like(b, 0, x)))
