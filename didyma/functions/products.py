"""Products of matrices and of tensors along chosen axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from didyma.composites.einsum import einsum as contract
from didyma.functions.axes import axes_in, axis_in, axis_of, promoted, rank, shape
from didyma.functions.public import public, wrong
from didyma.functions.shaping import broadcast_arrays, matrix_transpose, moveaxis
from didyma.refimpl.ir import dims
from didyma.tracer.tensor import Tensor, apply, common, within
from didyma.tracer.tensor import matmul as product

Axes: TypeAlias = int | tuple[Sequence[int], Sequence[int]]


@public
def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Matrix product of the last two axes; a vector is a row on the left, a column on the right.

    Numbers, promoted; the leading axes are broadcast.  Example: ``dd.matmul(x, w)``, ``x @ w``.
    Errors: ``shape-mismatch``, ``dtype-mismatch``.
    """
    if not (rank(x1) and rank(x2)):
        raise wrong("dd.matmul", "a scalar", "vectors or matrices", "dd.multiply takes scalars")
    return product(x1, x2)


@public
def dot(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Sum of products over the last axis of ``x1`` and the last but one of ``x2``, as in NumPy.

    Of vectors the inner product, of matrices their product, with a scalar the product.
    Example: ``dd.dot(v, w)``.  Errors: ``shape-mismatch``, ``dtype-mismatch``.
    """
    if not (rank(x1) and rank(x2)):
        return apply("multiply", *promoted([x1, x2]))
    if rank(x2) <= 2:
        return matmul(x1, x2)
    return tensordot(x1, x2, axes=((-1,), (-2,)))


@public
def tensordot(x1: Tensor, x2: Tensor, /, axes: Axes = 2) -> Tensor:
    """Sum of products over chosen axes of both: the last of one and the first of the other.

    ``axes`` is how many of them, or a pair of lists of them.
    Example: ``dd.tensordot(x, y, axes=((1,), (0,)))``.
    Errors: ``bad-axis``, ``bad-call``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    x1, x2 = promoted([x1, x2])
    if isinstance(axes, int):
        if not 0 <= axes <= min(rank(x1), rank(x2)):
            got = f"axes = {axes} of ranks {rank(x1)} and {rank(x2)}"
            raise wrong("dd.tensordot", got, "as many axes of both")
        left = tuple(range(rank(x1) - axes, rank(x1)))
        right = tuple(range(axes))
    else:
        left, right = axes_in(rank(x1), axes[0], x1), axes_in(rank(x2), axes[1], x2)
    if len(left) != len(right):
        raise wrong("dd.tensordot", f"{len(left)} and {len(right)} axes", "as many axes of both")
    a, b = shape(x1), shape(x2)
    for i, j in zip(left, right, strict=True):
        if not dims.equal(a[i], b[j]):
            got = f"axes of sizes {dims.text(a[i])} and {dims.text(b[j])}"
            raise wrong("dd.tensordot", got, "equal sizes of the axes that are summed")
    rows = tuple(i for i in range(rank(x1)) if i not in left)
    columns = tuple(j for j in range(rank(x2)) if j not in right)
    inner = dims.mul(*(a[i] for i in left))
    p = apply("permute_dims", x1, axes=(*rows, *left))
    q = apply("permute_dims", x2, axes=(*right, *columns))
    p = apply("reshape", p, shape=(dims.mul(*(a[i] for i in rows)), inner))
    q = apply("reshape", q, shape=(inner, dims.mul(*(b[j] for j in columns))))
    result = (*(a[i] for i in rows), *(b[j] for j in columns))
    return apply("reshape", apply("matmul", p, q), shape=result)


@public
def vecdot(x1: Tensor, x2: Tensor, /, axis: int = -1) -> Tensor:
    """Sum of products along an axis; the others are broadcast.

    ``axis`` counts from the end, as in the standard.  Example: ``dd.vecdot(x, y)``.
    Errors: ``bad-axis``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    count = min(rank(x1), rank(x2))
    at = axis_in(count, axis, x1) - count
    x1, x2 = broadcast_arrays(*promoted([x1, x2]))
    rows, columns = moveaxis(x1, at, -1), moveaxis(x2, at, -1)
    rows_shape = shape(rows)
    left = apply("reshape", rows, shape=(*rows_shape[:-1], 1, rows_shape[-1]))
    right = apply("reshape", columns, shape=(*rows_shape[:-1], rows_shape[-1], 1))
    return apply("reshape", apply("matmul", left, right), shape=rows_shape[:-1])


@public
def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Products of every element of one vector with every element of another [m, n].

    Example: ``dd.linalg.outer(x, y)``.  Errors: ``bad-call``, ``dtype-mismatch``.
    """
    if rank(x1) != 1 or rank(x2) != 1:
        raise wrong("dd.linalg.outer", f"ranks {rank(x1)} and {rank(x2)}", "two vectors")
    x1, x2 = promoted([x1, x2])
    column = apply("reshape", x1, shape=(*shape(x1), 1))
    return apply("multiply", column, apply("reshape", x2, shape=(1, *shape(x2))))


@public
def einsum(subscripts: str, /, *operands: Tensor) -> Tensor:
    """Sum of products by labels of axes, contracted from left to right.

    Labels missing on the right of ``->`` are summed; a label twice in one operand is its diagonal;
    ``...`` are axes that are broadcast.  Operands are promoted.
    Example: ``dd.einsum("bik,bjk->bij", a, b)``.
    Errors: ``bad-attr`` for a wrong equation, ``shape-mismatch``, ``dtype-mismatch``.
    """
    if not operands:
        raise wrong("dd.einsum", "no operands", "a tensor for each term of the equation")
    b = common(*operands)
    return Tensor(b, contract(b, subscripts, [within(b, x) for x in promoted(operands)]))


@public
def linear(x: Tensor, /, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ transposed weight + bias``, as in PyTorch: weight [out, in], bias [out].

    ``x`` is [..., in]; operands are promoted.  A weight [in, out] is used by ``x @ w``.
    Example: ``dd.linear(x, w, b)``.  Errors: ``shape-mismatch``, ``dtype-mismatch``.
    """
    if rank(weight) != 2:
        raise wrong("dd.linear", f"a weight of type {weight.value.type}", "a weight [out, in]")
    y = matmul(x, matrix_transpose(weight))
    return y if bias is None else apply("add", *promoted([y, bias]))


@public
def cross(x1: Tensor, x2: Tensor, /, axis: int = -1) -> Tensor:
    """Cross product of vectors of 3 numbers along an axis; the other axes are broadcast.

    Example: ``dd.linalg.cross(x, y)``.
    Errors: ``bad-axis``, ``bad-call``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    x1, x2 = promoted([x1, x2])
    at = axis_in(min(rank(x1), rank(x2)), axis, x1) - min(rank(x1), rank(x2))
    if shape(x1)[at] != 3 or shape(x2)[at] != 3:
        raise wrong("dd.linalg.cross", f"{x1.value.type} and {x2.value.type}", "axes of size 3")
    x1, x2 = broadcast_arrays(x1, x2)

    def turned(x: Tensor, by: int) -> Tensor:
        x_shape, i = shape(x), axis_of(x, at)

        def part(start: int, stop: int) -> Tensor:
            starts = tuple(start if a == i else 0 for a in range(len(x_shape)))
            stops = tuple(stop if a == i else n for a, n in enumerate(x_shape))
            return apply("slice", x, starts=starts, stops=stops, steps=(1,) * len(x_shape))

        return apply("concat", part(by, 3), part(0, by), axis=i)

    plus = apply("multiply", turned(x1, 1), turned(x2, 2))
    return apply("subtract", plus, apply("multiply", turned(x1, 2), turned(x2, 1)))


__all__ = ["dot", "einsum", "linear", "matmul", "tensordot", "vecdot"]
