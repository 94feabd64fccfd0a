"""Random numbers, conversions that saturate, and bits, for tensors under tracing."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.tensor import Tensor
from didyma.types import AnySize, Element, f32, size
from refimpl.ir import dims
from refimpl.ops import chance


def _shape(shape: Sequence[AnySize]) -> tuple[dims.Dim, ...]:
    return tuple(size(s).value for s in shape)


def saturating_cast(x: Tensor, dtype: Element, /) -> Tensor:
    """Convert; what is beyond the ends of the range becomes the nearest finite number."""
    return Tensor(x.builder, x.builder("saturating_cast", [x.value], dtype=dtype.dtype))


def bitcast(x: Tensor, dtype: Element, /) -> Tensor:
    """Return the elements' bits as elements of another dtype of as many bits."""
    return Tensor(x.builder, x.builder("bitcast", [x.value], dtype=dtype.dtype))


def random_bits(
    seed: Tensor, /, shape: Sequence[AnySize], *, dtype: Element, stream: int = 0
) -> Tensor:
    """Random bits (u32 or u64) of a seed, a scalar of u64: see the op ``random_bits``."""
    b = seed.builder
    made = b("random_bits", [seed.value], dtype=dtype.dtype, shape=_shape(shape), stream=stream)
    return Tensor(b, made)


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
    b, sizes = seed.builder, _shape(shape)
    return Tensor(b, chance.uniform(b, seed.value, sizes, dtype.dtype, low, high, stream))


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
    b, sizes = seed.builder, _shape(shape)
    return Tensor(b, chance.normal(b, seed.value, sizes, dtype.dtype, mean, scale, stream))


def bernoulli(p: Tensor, seed: Tensor, /, *, stream: int = 0) -> Tensor:
    """Return true with each probability."""
    return Tensor(p.builder, chance.bernoulli(p.builder, p.value, seed.value, stream=stream))


def dropout(x: Tensor, seed: Tensor, /, *, ratio: float = 0.5, stream: int = 0) -> Tensor:
    """Return ``x`` with about ``ratio`` of its elements 0, the others scaled to keep the mean."""
    kept, _ = chance.dropout(x.builder, x.value, ratio, seed.value, stream)
    return Tensor(x.builder, kept)
