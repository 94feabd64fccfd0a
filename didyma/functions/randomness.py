"""Random numbers, conversions that saturate, and bits, for tensors under tracing."""

from __future__ import annotations

from didyma.composites import distributions, numeric
from didyma.functions.axes import AnyShape, AnySize, composed, dim, sizes
from didyma.functions.public import public, wrong
from didyma.refimpl.ir.types import DType
from didyma.tracer.tensor import Tensor, apply, common, within
from didyma.tracer.types import Element, f32, i32


@public
def saturating_cast(x: Tensor, /, dtype: Element) -> Tensor:
    """Convert to a dtype; a value outside its range becomes the nearest finite number.

    Any dtypes.  Example: ``dd.saturating_cast(x, dd.f8e4m3)``.
    """
    return apply("saturating_cast", x, dtype=dtype.dtype)


@public
def bitcast(x: Tensor, /, dtype: Element) -> Tensor:
    """Return the elements' bits as elements of another dtype of as many bits.

    Example: ``dd.bitcast(x, dd.u32)``.  Errors: ``dtype-mismatch`` for other numbers of bits.
    """
    return apply("bitcast", x, dtype=dtype.dtype)


@public
def tf32(x: Tensor, /) -> Tensor:
    """Round f32 to the 10 bits of mantissa that tensor cores read; of two as near, the larger.

    As PTX has ``cvt.rna.tf32.f32``; NaN stays NaN.  Example: ``dd.tf32(x) @ dd.tf32(w)``.
    Errors: ``bad-call`` for another dtype.
    """
    if (dtype := x.value.type.dtype) is not DType.F32:
        raise wrong("dd.tf32", str(dtype), "f32", "convert by dd.astype(x, dd.f32) before")
    return composed(numeric.tf32, x)


@public
def random_bits(seed: Tensor, /, shape: AnyShape, *, dtype: Element, stream: int = 0) -> Tensor:
    """Random bits (u32 or u64) of a seed, a scalar of u64: see the op ``random_bits``.

    Streams of one seed are independent.  Example: ``dd.random_bits(seed, (3,), dtype=dd.u32)``.
    """
    return apply("random_bits", seed, dtype=dtype.dtype, shape=sizes(shape), stream=stream)


@public
def random_uniform(
    seed: Tensor,
    /,
    shape: AnyShape,
    *,
    dtype: Element = f32,
    low: float = 0.0,
    high: float = 1.0,
    stream: int = 0,
) -> Tensor:
    """Return numbers in [low, high), of a seed that is a scalar of u64.

    Example: ``dd.random_uniform(seed, (n, 3))``.
    """
    return composed(distributions.uniform, seed, sizes(shape), dtype.dtype, low, high, stream)


@public
def random_normal(
    seed: Tensor,
    /,
    shape: AnyShape,
    *,
    dtype: Element = f32,
    mean: float = 0.0,
    scale: float = 1.0,
    stream: int = 0,
) -> Tensor:
    """Return normally distributed numbers, of a seed that is a scalar of u64.

    Example: ``dd.random_normal(seed, (n, 3))``.
    """
    return composed(distributions.normal, seed, sizes(shape), dtype.dtype, mean, scale, stream)


@public
def bernoulli(p: Tensor, seed: Tensor, /, *, stream: int = 0) -> Tensor:
    """Return true with each probability of ``p``, by a seed that is a scalar of u64.

    Example: ``dd.bernoulli(p, seed)``.
    """
    return composed(distributions.bernoulli, p, seed, stream=stream)


@public
def dropout(x: Tensor, /, seed: Tensor, p: float = 0.5, *, stream: int = 0) -> Tensor:
    """Return ``x`` with about ``p`` of its elements 0, the others scaled to keep the mean.

    Floats; the seed, a scalar of u64, is an input, as a program has no state.
    Example: ``dd.dropout(x, seed, p=0.1)``.  Errors: ``bad-call`` unless 0 <= p < 1.
    """
    if not 0 <= p < 1:
        raise wrong("dd.dropout", f"p = {p}", "0 <= p < 1")
    b = common(x, seed)
    kept, _ = distributions.dropout(b, within(b, x), p, within(b, seed), stream)
    return Tensor(b, kept)


@public
def multinomial(
    logits: Tensor, seed: Tensor, /, count: AnySize, *, dtype: Element = i32, stream: int = 0
) -> Tensor:
    """Draw ``count`` classes for each row of logarithms of weights [rows, classes].

    Example: ``dd.multinomial(logits, seed, 5)``.  Errors: ``bad-call``.
    """
    if len(logits.value.type.shape) != 2:
        raise wrong("dd.multinomial", str(logits.value.type), "logarithms [rows, classes]")
    return composed(distributions.multinomial, logits, seed, dim(count), dtype.dtype, stream)


__all__ = [
    "bernoulli", "bitcast", "dropout", "multinomial", "random_bits", "random_normal",
    "random_uniform", "saturating_cast", "tf32",
]  # fmt: skip
