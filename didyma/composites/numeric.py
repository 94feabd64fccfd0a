"""Elementwise functions made of ops: ``hypot``, ``logaddexp``, ``nextafter`` and ``tf32``.

Like those of ``composite`` they do not promote dtypes; operands are broadcast.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from didyma.composites.composite import Emit, like, scalar
from didyma.refimpl.ir.fragments import HALF, KEPT
from didyma.refimpl.ir.types import DType, Tensor

V = TypeVar("V")


def hypot(b: Emit[V], x: V, y: V) -> V:
    """``sqrt(x**2 + y**2)``; the larger is taken out of the root, infinities win over NaN."""
    a, c = b("abs", (x,)), b("abs", (y,))
    large, small = b("maximum", (a, c)), b("minimum", (a, c))
    none = b("equal", (large, like(b, 0, large)))
    ratio = b("divide", (small, b("where", (none, like(b, 1, large), large))))
    root = b("sqrt", (b("add", (b("square", (ratio,)), like(b, 1, ratio))),))
    endless = b("logical_or", (b("isinf", (x,)), b("isinf", (y,))))
    return b("where", (endless, like(b, np.inf, large), b("multiply", (large, root))))


def logaddexp(b: Emit[V], x: V, y: V) -> V:
    """``log(exp(x) + exp(y))``; the larger is taken out, and equal infinities stay."""
    large = b("maximum", (x, y))
    apart = b("abs", (b("subtract", (x, y)),))
    more = b("log1p", (b("exp", (b("negative", (apart,)),)),))
    same = b("logical_and", (b("equal", (x, y)), b("isinf", (large,))))
    return b("where", (same, large, b("add", (large, more))))


def nextafter(b: Emit[V], x: V, y: V) -> V:
    """Neighbour of ``x`` towards ``y``: one step of its bits; NaN if either is, ``y`` if equal."""
    dtype = b.type_of(x).dtype
    ints = DType(f"i{dtype.bits}")
    # Bits of floats of one sign are ordered as the floats are, those of negatives downwards.
    bits = b("bitcast", (x,), dtype=ints)
    grows = b("equal", (b("less", (x, y)), b("greater", (x, like(b, 0, x)))))
    step = b("where", (grows, scalar(b, 1, ints), scalar(b, -1, ints)))
    moved = b("bitcast", (b("add", (bits, step)),), dtype=dtype)
    least = np.array(1, ints.numpy).view(dtype.numpy)
    tiny = b("constant", (), value=Tensor.of(least))
    from_zero = b("where", (b("less", (x, y)), tiny, b("negative", (tiny,))))
    moved = b("where", (b("equal", (x, like(b, 0, x))), from_zero, moved))
    moved = b("where", (b("equal", (x, y)), y, moved))
    unordered = b("logical_or", (b("isnan", (x,)), b("isnan", (y,))))
    return b("where", (unordered, b("add", (x, y)), moved))


def tf32(b: Emit[V], x: V) -> V:
    """``x``, of f32, rounded to 10 bits of mantissa: of two as near the larger in size."""
    half, kept = (Tensor.of(np.array(bits, np.uint32)) for bits in (HALF, KEPT))
    bits = b("add", (b("bitcast", (x,), dtype=DType.U32), b("constant", (), value=half)))
    cut = b("bitwise_and", (bits, b("constant", (), value=kept)))
    return b("where", (b("isnan", (x,)), like(b, np.nan, x), b("bitcast", (cut,), dtype=DType.F32)))
