"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.loop import Binary, Expr
from didyma.refimpl.ir.types import NUMBERS, Array, DType, Shape, TensorType
from didyma.refimpl.ops import blas, ring
from didyma.refimpl.ops.attributes import Nothing
from didyma.refimpl.ops.bar_sums import dot_bar
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.choose import flag, pick, size
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.factors import FORMATS
from didyma.refimpl.ops.pieces import elementwise, places
from didyma.refimpl.ops.rules import check_same_dtype, shape_error
from didyma.refimpl.ops.spec import Chooser, Fold, Index, Kind, Op, Read, Rules, Sample, Use


def _infer(types: Sequence[TensorType], _: Nothing) -> TensorType:
    a, b = types
    check_same_dtype("matmul", types)
    if a.rank < 2 or b.rank < 2:
        raise shape_error(
            "matmul", types, f"ranks {a.rank} and {b.rank}", "ranks of at least 2", "reshape first"
        )
    if not dims.equal(a.shape[-1], b.shape[-2]):
        raise shape_error(
            "matmul",
            types,
            f"{dims.text(a.shape[-1])} columns and {dims.text(b.shape[-2])} rows",
            "as many columns on the left as rows on the right",
        )
    batch = _broadcast(types)
    return a.with_shape(*batch, a.shape[-2], b.shape[-1])


def _broadcast(types: Sequence[TensorType]) -> Shape:
    a, b = (t.shape[:-2] for t in types)
    rank = max(len(a), len(b))
    a, b = ((*[1] * (rank - len(s)), *s) for s in (a, b))
    batch: list[Dim] = []
    for m, n in zip(a, b, strict=True):
        if m != 1 and n != 1 and not dims.equal(m, n):
            raise shape_error(
                "matmul",
                types,
                f"batch sizes {dims.text(m)} and {dims.text(n)}",
                "batch sizes that are equal or 1",
            )
        batch.append(n if m == 1 else m)
    return tuple(batch)


WIDE = 1 << 22  # elements of the right operand that are converted to f64 at a time


def product(a: Array, b: Array) -> Array:
    """Return the matrix product in the operands' dtype, by BLAS only if all elements are finite.

    A BLAS may skip zeros, and with them the NaN that zero times infinity is.
    """
    return multiplier(a, b)(a, b)


def multiplier(a: Array, b: Array) -> Callable[[Array, Array], Array]:
    """Return the function that multiplies matrices made of elements of a, of b, and zeros."""
    if a.dtype.kind != "f" or a.dtype.itemsize > 8:
        return _exactly
    return _by_blas if _finite(a) and _finite(b) else _in_full


def _exactly(a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(a, b))


def _in_full(a: Array, b: Array) -> Array:
    """Return the matrix product as the sum of every single product.

    Where an operand repeats an element along the sum, einsum adds up the other operand's elements
    and multiplies once: zeros beside ones times infinity are then infinite, and partial sums that
    need not overflow do.
    """
    return np.asarray(np.einsum("...mk,...kn->...mn", _apart(a, -1), _apart(b, -2)))


def _apart(x: Array, axis: int) -> Array:
    """Return an array that has an element of its own at each place along an axis."""
    if x.strides[axis] or x.shape[axis] < 2:
        return x
    strides = list(x.strides)
    strides[axis] = 1  # all other axes along which it is broadcast stay so
    once = tuple(slice(None) if stride else slice(0, 1) for stride in strides)
    return np.broadcast_to(x[once].copy(), x.shape)


def _by_blas(a: Array, b: Array) -> Array:
    """Return the matrix product; equal rows and columns give equal results.

    A BLAS adds those at the edge of a matrix in another order, so f32 is added in f64, some columns
    at a time: what is left of the order is rounded away.
    """
    if a.dtype != np.float32:
        return blas.matmul(dense(a), dense(b))
    wide = dense(a.astype(np.float64))
    many = max(1, WIDE * b.shape[-1] // max(1, b.size))
    with np.errstate(over="ignore"):
        parts = [
            blas.matmul(wide, dense(b[..., k : k + many].astype(np.float64))).astype(a.dtype)
            for k in range(0, max(1, b.shape[-1]), many)
        ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _finite(x: Array) -> bool:
    """Return whether all elements are finite; a finite sum proves it without a temporary."""
    once = tuple(0 if stride == 0 else slice(None) for stride in x.strides)
    x = x[once] if x.size else x  # what is broadcast counts once
    return bool(np.isfinite(x.sum()) or np.isfinite(x).all())


def dense(x: Array) -> Array:
    """Return an array in a layout that BLAS takes, since NumPy's own loop is slow."""
    (rows, columns), (down, across), one = x.shape[-2:], x.strides[-2:], x.itemsize
    apart = (across == one and down >= columns * one) or (down == one and across >= rows * one)
    return x if apart else x.copy(order="C")


def _eval(args: Sequence[Array], _: Nothing, result: TensorType) -> Array:
    a, b = (x.astype(result.dtype.compute.numpy, copy=False) for x in args)
    with np.errstate(all="ignore"):
        return product(a, b).astype(result.dtype.numpy)


def _bar(args: Sequence[Bar], use: Use[Nothing], contract: Contract) -> Bar:
    a, b = args
    return products_bar(a, b, product, use.result.dtype, a.c.shape[-1], contract)


def products_bar(
    a: Bar,
    b: Bar,
    multiply: Callable[[Array, Array], Array],
    dtype: DType,
    terms: int,
    contract: Contract,
) -> Bar:
    """Return the bar of sums of ``terms`` products of elements of a and b, as of ``multiply``."""
    c = multiply(a.c, b.c)
    if contract.factors and dtype is DType.F32:
        a, b = (FORMATS[contract.factors].rounded(x) for x in (a, b))
    if not dtype.is_float:
        if not (a.e.any() or b.e.any()):
            return Bar(c, np.zeros(c.shape))
        unsure = multiply((a.e > 0).astype(np.float64), np.ones(b.c.shape))
        unsure = unsure + multiply(np.ones(a.c.shape), (b.e > 0).astype(np.float64))
        return Bar(c, np.where(unsure > 0, np.inf, 0.0))
    (near_a,), (near_b,) = (elementwise(_sizes, x.c) for x in (a, b))
    if a.e.any() or b.e.any():
        far_a, far_b = near_a + a.e, near_b + b.e
        # zero times an undecided element is NaN, and an error of NaN is undecided
        e = multiply(a.e, near_b) if a.e.any() else np.zeros(c.shape)
        if b.e.any() or not np.isfinite(far_a).all():
            e = e + multiply(far_a, b.e)
        if not (np.isfinite(a.c).all() and np.isfinite(b.c).all()):
            wild = multiply(_infinite(a), _signless(b)) + multiply(_signless(a), _infinite(b))
            e = np.where(wild > 0, np.inf, e)
        (far_a,), (far_b,) = (elementwise(_sizes, x) for x in (far_a, far_b))
    else:
        far_a, far_b, e = near_a, near_b, np.zeros(c.shape)
    whole = np.broadcast_to(np.asarray(_whole(a.c) and _whole(b.c)), c.shape)
    return dot_bar(c, e, multiply(far_a, far_b), terms, dtype, contract, whole)


def _sizes(x: Array) -> tuple[Array]:
    """Return the sizes of numbers in f64, 0 of those that are not finite."""
    return (np.where(np.isfinite(x), np.abs(x), 0).astype(np.float64),)


def _whole(x: Array) -> bool:
    """Return whether all elements are whole numbers; the first pieces tell of most that are not."""
    return all(bool((np.rint(x[at]) == x[at]).all()) for at in places(x.shape))


def _infinite(b: Bar) -> Array:
    return np.where(np.isinf(b.c), 1.0, 0.0)


def _signless(b: Bar) -> Array:
    """Return 1 for elements that may be 0 or have either sign, else 0.

    Such an element times an infinity may be NaN or either infinity.
    """
    return np.where((b.e > 0) & (b.e >= np.abs(b.c)), 1.0, 0.0)


def _ring(_bars: Sequence[Bar], payloads: Sequence[Array], _use: Use[Nothing], _out: Bar) -> Array:
    return np.asarray(ring.matmul(*payloads))


def _element(at: Index, reads: Sequence[Read], use: Use[Nothing]) -> Fold:
    a, b = use.types

    def batch(t: TensorType) -> Index:
        own = at[use.result.rank - t.rank : -2]
        return tuple(ex.ZERO if d == 1 else i for i, d in zip(own, t.shape[:-2], strict=True))

    def body(k: Index) -> Expr:
        left = reads[0]((*batch(a), at[-2], *k))
        return Binary("mul", left, reads[1]((*batch(b), *k, at[-1])))

    return Fold("add", (ex.of_dim(a.shape[-1]),), body)


def _sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.rank < 2 or t.dtype not in NUMBERS:
        return None
    batch = list(t.shape[:-2])
    batch = batch[len(batch) - pick(ch, range(len(batch), -1, -1)) :] if batch else batch
    batch = [1 if flag(ch) and flag(ch) else d for d in batch]
    while len(batch) < 3 and ch.below(6) == 5:
        batch.insert(0, pick(ch, (2, 1, 3)) if len(batch) >= t.rank - 2 else 1)
    left = flag(ch)
    if left:
        return Sample((t.with_shape(*batch, size(ch), t.shape[-2]), t))
    return Sample((t, t.with_shape(*batch, t.shape[-1], size(ch))))


MATMUL = Op(
    name="matmul",
    doc=(
        "Matrix product of the last two axes; the axes before are broadcast by NumPy's rule. "
        "The order of additions is free, a product and an addition may round once."
    ),
    special=(
        "NaN and infinities as in IEEE arithmetic (zero times infinity is NaN), in no set order; "
        "a zero's sign is not set. Empty sums are 0. Integers wrap. bool is cast first."
    ),
    kind=Kind.OPAQUE,
    arity=(2, 2),
    dtypes=NUMBERS,
    rules=Rules(Nothing, infer=_infer, eval=_eval, bar=_bar, element=_element, ring=_ring),
    sample=_sample,
    rereads=True,
    example=example([[[1, 2], [3, 4]], [[5], [6]]], [[17], [39]]),
)

ALL: tuple[Op, ...] = (MATMUL,)
