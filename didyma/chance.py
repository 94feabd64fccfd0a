"""Random numbers, conversions that saturate, and bits, for tensors under tracing."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.refimpl.ir import dims
from didyma.refimpl.ops import chance
from didyma.tensor import Tensor, apply, common, within
from didyma.types import AnySize, Element, f32, i32, size


def _shape(shape: Sequence[AnySize]) -> tuple[dims.Dim, ...]:
    return tuple(size(s).value for s in shape)


def saturating_cast(x: Tensor, dtype: Element, /) -> Tensor:
    """Convert; what is beyond the ends of the range becomes the nearest finite number."""
    return apply("saturating_cast", x, dtype=dtype.dtype)


def bitcast(x: Tensor, dtype: Element, /) -> Tensor:
    """Return the elements' bits as elements of another dtype of as many bits."""
    return apply("bitcast", x, dtype=dtype.dtype)


def random_bits(
    seed: Tensor, /, shape: Sequence[AnySize], *, dtype: Element, stream: int = 0
) -> Tensor:
    """Random bits (u32 or u64) of a seed, a scalar of u64: see the op ``random_bits``."""
    return apply("random_bits", seed, dtype=dtype.dtype, shape=_shape(shape), stream=stream)


def random_uniform(
    seed: Tensor,
    /,
    shape: Sequence[AnySize],
    *,
    dtype: Element = f32,
    low: float = 0.0,
    high: float = 1.0,
    stream: int = 0,
) -> Tensor:
    """Return numbers in [low, high)."""
    b, sizes = common(seed), _shape(shape)
    return Tensor(b, chance.uniform(b, within(b, seed), sizes, dtype.dtype, low, high, stream))


def random_normal(
    seed: Tensor,
    /,
    shape: Sequence[AnySize],
    *,
    dtype: Element = f32,
    mean: float = 0.0,
    scale: float = 1.0,
    stream: int = 0,
) -> Tensor:
    """Return normally distributed numbers."""
    b, sizes = common(seed), _shape(shape)
    return Tensor(b, chance.normal(b, within(b, seed), sizes, dtype.dtype, mean, scale, stream))


def bernoulli(p: Tensor, seed: Tensor, /, *, stream: int = 0) -> Tensor:
    """Return true with each probability."""
    b = common(p, seed)
    return Tensor(b, chance.bernoulli(b, within(b, p), within(b, seed), stream=stream))


def dropout(x: Tensor, seed: Tensor, /, *, ratio: float = 0.5, stream: int = 0) -> Tensor:
    """Return ``x`` with about ``ratio`` of its elements 0, the others scaled to keep the mean."""
    b = common(x, seed)
    kept, _ = chance.dropout(b, within(b, x), ratio, within(b, seed), stream)
    return Tensor(b, kept)


def multinomial(
    logits: Tensor, seed: Tensor, /, count: AnySize, *, dtype: Element = i32, stream: int = 0
) -> Tensor:
    """Draw ``count`` classes for each row of logarithms of weights [rows, classes]."""
    b = common(logits, seed)
    x, y = within(b, logits), within(b, seed)
    return Tensor(b, chance.multinomial(b, x, y, size(count).value, dtype.dtype, stream))
