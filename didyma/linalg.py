"""Linear algebra: what the standard's ``linalg`` extension has in closed form.

Decompositions and whatever rests on them are refused by name: see docs/array-api.md.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from didyma.composites import einsum
from didyma.functions.axes import axes_in, axes_of, rank, shape
from didyma.functions.products import cross, matmul, outer, tensordot, vecdot
from didyma.functions.public import public, wrong
from didyma.functions.reductions import max as largest
from didyma.functions.reductions import min as smallest
from didyma.functions.reductions import sum as total
from didyma.functions.shaping import matrix_transpose
from didyma.functions.suggestions import refuser
from didyma.refimpl.ir import dims
from didyma.tracer.tensor import Tensor, apply, common, scalar, within
from didyma.tracer.types import Element


@public
def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Diagonals of matrices [..., m, n], ``offset`` places above the main one.

    The sizes of both axes must be known.  Example: ``dd.linalg.diagonal(x)``.
    Errors: ``bad-call``.
    """
    if rank(x) < 2:
        raise wrong("dd.linalg.diagonal", str(x.value.type), "a matrix, or several")
    m, n = shape(x)[-2:]
    if not isinstance(m, int) or not isinstance(n, int):
        raise wrong("dd.linalg.diagonal", str(x.value.type), "matrices of a known size")
    top, left = builtins.max(-offset, 0), builtins.max(offset, 0)
    count = builtins.max(builtins.min(m - top, n - left), 0)
    lead = shape(x)[:-2]
    zeros, steps = (0,) * len(lead), (1,) * rank(x)
    if not count:
        return apply("reshape", apply("slice", x, starts=(*zeros, 0, 0), stops=(*lead, 0, 0),
                                      steps=steps), shape=(*lead, 0))  # fmt: skip
    square = apply("slice", x, starts=(*zeros, top, left),
                   stops=(*lead, top + count, left + count), steps=steps)  # fmt: skip
    # Row after row, a place of the diagonal comes every count + 1 places.
    flat = apply("reshape", square, shape=(*lead, count * count))
    last = (1,) * len(lead)
    return apply("slice", flat, starts=(*zeros, 0), stops=(*lead, count * count),
                 steps=(*last, count + 1))  # fmt: skip


@public
def trace(x: Tensor, /, *, offset: int = 0, dtype: Element | None = None) -> Tensor:
    """Sums of the diagonals of matrices [..., m, n]; dtypes are those of ``dd.sum``.

    Example: ``dd.linalg.trace(x)``.  Errors: ``bad-call``.
    """
    if rank(x) >= 2 and not offset and any(not isinstance(n, int) for n in shape(x)[-2:]):
        b = common(x)
        kept = Tensor(b, einsum.diagonal(b, within(b, x), rank(x) - 2, rank(x) - 1))
        return total(kept, axis=-1, dtype=dtype)
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def _magnitudes(x: Tensor, name: str) -> Tensor:
    if not x.value.type.dtype.is_float:
        raise wrong(f"dd.linalg.{name}", str(x.value.type), "a float tensor", "call astype first")
    return apply("abs", x)


def _norm(size: Tensor, axes: tuple[int, ...], ord: float, keepdims: bool) -> Tensor:
    """Norm of a vector's magnitudes; the largest is not taken out of the powers."""
    if ord == math.inf:
        return largest(size, axes, keepdims=keepdims)
    if ord == -math.inf:
        return smallest(size, axes, keepdims=keepdims)
    if ord == 0:
        there = apply("not_equal", size, scalar(size, 0)).astype(size.value.type.dtype)
        return total(there, axes, keepdims=keepdims)
    if ord == 1:
        return total(size, axes, keepdims=keepdims)
    if ord == 2:
        return apply("sqrt", total(apply("square", size), axes, keepdims=keepdims))
    powers = total(apply("pow", size, scalar(size, ord)), axes, keepdims=keepdims)
    return apply("pow", powers, scalar(size, 1 / ord))


@public
def vector_norm(
    x: Tensor,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Tensor:
    """Norms of vectors along an axis, several, or all: the ``ord``-th root of the sum of powers.

    Floats.  ``inf`` and ``-inf`` give the largest and least magnitude, 0 how many are not 0.
    Example: ``dd.linalg.vector_norm(x, axis=-1)``.  Errors: ``bad-axis``, ``bad-call``.
    """
    return _norm(_magnitudes(x, "vector_norm"), axes_of(x, axis), ord, keepdims)


@public
def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Tensor:
    """Norms of matrices [..., m, n]: ``fro``, or the largest (least) column or row sum.

    ``ord`` is ``"fro"``, 1, -1 (columns), inf or -inf (rows).  Those by singular values, 2, -2 and
    ``"nuc"``, cannot be expressed.  Example: ``dd.linalg.matrix_norm(x, ord=1)``.
    Errors: ``bad-call``.
    """
    if rank(x) < 2:
        raise wrong("dd.linalg.matrix_norm", str(x.value.type), "a matrix, or several")
    if ord in (2, -2, "nuc") or (isinstance(ord, float | int) and abs(ord) not in (1, math.inf)):
        raise wrong("dd.linalg.matrix_norm", f"ord = {ord}", "'fro', 1, -1, inf or -inf",
                    "norms of singular values have no closed form")  # fmt: skip
    size = _magnitudes(x, "matrix_norm")
    rows, columns = axes_in(rank(x), (-2, -1), x)
    if ord is None or isinstance(ord, str):
        return _norm(size, (rows, columns), 2, keepdims)
    summed, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = total(size, summed, keepdims=True)
    ends = (largest if ord > 0 else smallest)(sums, other, keepdims=True)
    return ends if keepdims else apply("reshape", ends, shape=shape(x)[:-2])


@public
def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Products of square matrices with themselves; the identity for ``n`` = 0.

    Example: ``dd.linalg.matrix_power(x, 3)``.
    Errors: ``bad-call`` for a negative power, which wants an inverse.
    """
    if rank(x) < 2 or not dims.equal(shape(x)[-1], shape(x)[-2]):
        raise wrong("dd.linalg.matrix_power", str(x.value.type), "square matrices")
    if n < 0:
        raise wrong("dd.linalg.matrix_power", f"n = {n}", "n >= 0", "there are no inverses")
    if n == 0:
        own, b = shape(x), common(x)
        row = Tensor(b, b("iota", [], dtype=x.value.type.dtype, shape=(own[-2], 1), axis=0))
        column = Tensor(b, b("iota", [], dtype=x.value.type.dtype, shape=(1, own[-1]), axis=1))
        hit = apply("equal", row, column).astype(x.value.type.dtype)
        return apply("broadcast_to", hit, shape=own)
    half = matrix_power(x, n // 2) if n > 1 else x
    even = matmul(half, half) if n > 1 else x
    return matmul(even, x) if n % 2 and n > 1 else even


__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "outer",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = refuser("dd.linalg", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
