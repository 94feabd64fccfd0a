"""Complex numbers: a last axis of two reals, the real part first, as in ONNX.

Functions over the primitives, like those of ``composite``.  Infinities and NaN are whatever the
real operations make of them: the recoveries of C99's Annex G are not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from didyma.composites.composite import Emit, like
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.rules import shape_error

V = TypeVar("V")
NORMAL: Mapping[DType, float] = {  # smallest normal numbers
    DType.F64: 2.0**-1022, DType.F32: 2.0**-126, DType.BF16: 2.0**-126, DType.F16: 2.0**-14,
}  # fmt: skip


def parts(b: Emit[V], z: V) -> tuple[V, V]:
    """Real and imaginary part; DidymaError ``shape-mismatch`` without a last axis of 2."""
    t = b.type_of(z)
    if not t.rank or t.shape[-1] != 2:
        raise shape_error("complex", [t], str(t), "complex numbers: a last axis of size 2")
    return _part(b, z, 0), _part(b, z, 1)


def _part(b: Emit[V], z: V, k: int) -> V:
    shape = b.type_of(z).shape[:-1]
    lead = len(shape)
    cut = b("slice", (z,), starts=(*[0] * lead, k), stops=(*shape, k + 1), steps=(1,) * (lead + 1))
    return b("reshape", (cut,), shape=shape)


def pair(b: Emit[V], re: V, im: V) -> V:
    """Complex numbers of real and imaginary parts of one type."""
    shape = b.type_of(re).shape
    columns = [b("reshape", (x,), shape=(*shape, 1)) for x in (re, im)]
    return b("concat", columns, axis=len(shape))


def real(b: Emit[V], z: V) -> V:
    """Real part."""
    return parts(b, z)[0]


def imag(b: Emit[V], z: V) -> V:
    """Imaginary part."""
    return parts(b, z)[1]


def conjugate(b: Emit[V], z: V) -> V:
    """The real part, and the imaginary part negated."""
    re, im = parts(b, z)
    return pair(b, re, b("negative", (im,)))


def multiply(b: Emit[V], x: V, y: V) -> V:
    """Product by its definition, of four real products."""
    (a, c), (p, q) = parts(b, x), parts(b, y)
    re = b("subtract", (b("multiply", (a, p)), b("multiply", (c, q))))
    return pair(b, re, b("add", (b("multiply", (a, q)), b("multiply", (c, p)))))


def divide(b: Emit[V], x: V, y: V) -> V:
    """Quotient that overflows only where a part of it or of ``2 x`` does.

    The divisor is scaled by its larger part (R. L. Smith, Algorithm 116, Comm. ACM 5, 1962), here
    without his branch; by 0 or infinity it gives NaN.
    """
    (a, c), (p, q) = parts(b, x), parts(b, y)
    scale = b("maximum", (b("abs", (p,)), b("abs", (q,))))
    p, q = b("divide", (p, scale)), b("divide", (q, scale))
    size = b("add", (b("square", (p,)), b("square", (q,))))
    re = b("add", (b("multiply", (a, p)), b("multiply", (c, q))))
    im = b("subtract", (b("multiply", (c, p)), b("multiply", (a, q))))
    return pair(b, *(b("divide", (b("divide", (z, size)), scale)) for z in (re, im)))


def absolute(b: Emit[V], z: V) -> V:
    """Distance from 0, which overflows only where it must: ``m sqrt(1 + (least / m)**2)``.

    ``m`` is the larger part; below the smallest normal number it is divided by that.
    """
    re, im = (b("abs", (p,)) for p in parts(b, z))
    most, least = b("maximum", (re, im)), b("minimum", (re, im))
    tiny = like(b, NORMAL.get(b.type_of(z).dtype, 1.0), z)
    ratio = b("divide", (least, b("maximum", (most, tiny))))
    root = b("sqrt", (b("add", (b("square", (ratio,)), like(b, 1, z))),))
    return b("where", (b("isinf", (most,)), most, b("multiply", (most, root))))


def angle(b: Emit[V], z: V) -> V:
    """Angle from the positive real axis, from -pi to pi."""
    re, im = parts(b, z)
    return b("atan2", (im, re))


def exp(b: Emit[V], z: V) -> V:
    """``exp(re) (cos(im) + i sin(im))``."""
    re, im = parts(b, z)
    size = b("exp", (re,))
    return pair(b, *(b("multiply", (size, b(turn, (im,)))) for turn in ("cos", "sin")))


def matmul(b: Emit[V], x: V, y: V) -> V:
    """Matrix product over the last two axes before the pairs, of four real ones."""
    (a, c), (p, q) = parts(b, x), parts(b, y)
    re = b("subtract", (b("matmul", (a, p)), b("matmul", (c, q))))
    return pair(b, re, b("add", (b("matmul", (a, q)), b("matmul", (c, p)))))
