"""Transposed convolution (the gradient of a convolution), made of pad, flip and conv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from didyma.composites.composite import Emit, like
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, never_negative
from didyma.refimpl.ops.rules import at_least_zero

V = TypeVar("V")


def conv_transpose(
    b: Emit[V],
    x: V,
    weight: V,
    strides: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[int],
    high: Sequence[int],
    extra: Sequence[int],
    groups: int,
) -> V:
    """Convolve ``x`` [batch, channels, ...], with zeros between its elements, with flipped weights.

    Weights are [channels, out / groups, ...], of static sizes.  ``low`` and ``high`` are cut off
    the result's ends, ``extra`` is put behind its last place.  The zeros behind the last place of
    ``x`` count towards that.
    """
    inputs, each, *kernel = (d for d in b.type_of(weight).shape if isinstance(d, int))
    rank = len(kernel)
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    for i in range(rank):
        x = _stuffed(b, x, i + 2, strides[i])
    before = [r - p for r, p in zip(reach, low, strict=True)]
    after = [r - p + e - s + 1 for r, p, e, s in zip(reach, high, extra, strides, strict=True)]
    x = fit(b, x, (0, 0, *before), (0, 0, *after))
    turned = b("flip", (weight,), axes=tuple(range(2, rank + 2)))
    split = b("reshape", (turned,), shape=(groups, inputs // groups, each, *kernel))
    swapped = b("permute_dims", (split,), axes=(0, 2, 1, *range(3, rank + 3)))
    weights = b("reshape", (swapped,), shape=(groups * each, inputs // groups, *kernel))
    ones, zeros = (1,) * rank, (0,) * rank
    return b(
        "conv", (x, weights), strides=ones, dilations=tuple(dilations), low=zeros, high=zeros,
        groups=groups,
    )  # fmt: skip


def _stuffed(b: Emit[V], v: V, axis: int, stride: int) -> V:
    """Put ``stride - 1`` zeros behind each element of an axis."""
    if stride == 1:
        return v
    shape = b.type_of(v).shape
    apart = b("reshape", (v,), shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    rank = len(shape) + 1
    high = tuple(stride - 1 if i == axis + 1 else 0 for i in range(rank))
    wide = b("pad", (apart, like(b, 0, v)), low=(0,) * rank, high=high, mode="constant")
    long = dims.mul(shape[axis], stride)
    return b("reshape", (wide,), shape=(*shape[:axis], long, *shape[axis + 1 :]))


def fit(b: Emit[V], v: V, low: Sequence[Dim], high: Sequence[Dim]) -> V:
    """Pad axes with zeros, or crop them where a number is negative."""
    before, after = (tuple(_positive(p) for p in more) for more in (low, high))
    if any(p != 0 for p in (*before, *after)):
        v = b("pad", (v, like(b, 0, v)), low=before, high=after, mode="constant")
    first, last = (tuple(_positive(dims.sub(0, p)) for p in more) for more in (low, high))
    if any(p != 0 for p in (*first, *last)):
        shape = b.type_of(v).shape
        stops = tuple(at_least_zero(dims.sub(d, p)) for d, p in zip(shape, last, strict=True))
        v = b("slice", (v,), starts=first, stops=stops, steps=(1,) * len(shape))
    return v


def _positive(d: Dim) -> Dim:
    """Return ``max(d, 0)``."""
    return 0 if never_negative(dims.sub(0, d)) else at_least_zero(d)
