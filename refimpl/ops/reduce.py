"""Reductions over axes: sums, products, extremes, means, ``any`` and ``all``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Binary, Cast, Expr
from didyma.refimpl.ir.types import FLOATS, NUMBERS, Array, DType, TensorType
from didyma.refimpl.ops import payloads
from didyma.refimpl.ops.attributes import attributes, boolean, integers
from didyma.refimpl.ops.bar_sums import sum_bar
from didyma.refimpl.ops.bars import Bar, Contract, as_error
from didyma.refimpl.ops.choose import flag, subset
from didyma.refimpl.ops.examples import Item, example
from didyma.refimpl.ops.folds import Axes, divided, extreme, extreme_bar, prod_bar
from didyma.refimpl.ops.rules import check_axes
from didyma.refimpl.ops.spec import (
    Chooser,
    Fold,
    FoldOp,
    Index,
    Kind,
    Op,
    Read,
    Rules,
    Sample,
    Use,
    unchanged,
)

BOOL = (DType.BOOL,)
FoldValues: TypeAlias = Callable[[Array, Axes, bool], Array]
FoldPayloads: TypeAlias = Callable[[Array, Bar, Axes, bool], Array]
FoldBars: TypeAlias = Callable[[Bar, Axes, bool, DType, Contract], Bar]


@attributes
class Reduction:
    """Axes to fold over, and whether the result has them."""

    axes: Axes = integers("increasing axes to fold over; none folds each element alone")
    keepdims: bool = boolean("keep the folded axes, with size 1")


def reduced(t: TensorType, axes: tuple[int, ...], keepdims: bool) -> TensorType:
    """Return the type of a reduction over axes."""
    if keepdims:
        return t.with_shape(*(1 if a in axes else d for a, d in enumerate(t.shape)))
    return t.with_shape(*(d for a, d in enumerate(t.shape) if a not in axes))


def source(at: Index, k: Index, axes: tuple[int, ...], rank: int, keepdims: bool) -> Index:
    """Return the operand index of step ``k`` of the fold that yields element ``at``."""
    folded, kept = iter(k), iter(at if not keepdims else ())
    return tuple(
        next(folded) if a in axes else (at[a] if keepdims else next(kept)) for a in range(rank)
    )


def _infer(name: str, types: Sequence[TensorType], a: Reduction) -> TensorType:
    check_axes(name, a.axes, types[0].rank)
    return reduced(types[0], a.axes, a.keepdims)


def _element(op: FoldOp, mean: bool, at: Index, reads: Sequence[Read], use: Use[Reduction]) -> Fold:
    (t,), axes, keepdims = use.types, use.attrs.axes, use.attrs.keepdims
    extents = tuple(ex.of_dim(t.shape[a]) for a in axes)

    def body(k: Index) -> Expr:
        return reads[0](source(at, k, axes, t.rank, keepdims))

    def divide(total: Expr) -> Expr:
        count = ex.of_dim(dims.mul(*(t.shape[a] for a in axes)))
        return Binary("div", total, Cast(count, use.result.dtype.compute))

    return Fold(op, extents, body, divide if mean else unchanged)


def _eval(fold: FoldValues, args: Sequence[Array], a: Reduction, result: TensorType) -> Array:
    (x,) = args
    with np.errstate(all="ignore"):
        out = fold(x.astype(DType.of(x).compute.numpy, copy=False), a.axes, a.keepdims)
        return np.array(out).astype(result.dtype.numpy)


def _by(ufunc: np.ufunc, x: Array, axes: Axes, keepdims: bool) -> Array:
    """Return the fold by a ufunc, in the operand's dtype."""
    return np.asarray(ufunc.reduce(x, axis=axes, keepdims=keepdims, dtype=x.dtype))


_sum, _any, _all = (partial(_by, f) for f in (np.add, np.logical_or, np.logical_and))


def _mean(x: Array, axes: Axes, keepdims: bool) -> Array:
    count = np.array(int(np.prod([x.shape[a] for a in axes]))).astype(x.dtype)
    return np.asarray(_sum(x, axes, keepdims) / count)


def _bar(fold: FoldBars, args: Sequence[Bar], use: Use[Reduction], contract: Contract) -> Bar:
    return fold(args[0], use.attrs.axes, use.attrs.keepdims, use.result.dtype, contract)


def _mean_bar(b: Bar, axes: Axes, keepdims: bool, dtype: DType, k: Contract) -> Bar:
    count = np.asarray(math.prod(b.c.shape[a] for a in axes))
    whole = divided(sum_bar(b, axes, keepdims, dtype, k), count, dtype)
    if not k.reordered:
        return whole
    parts = sum_bar(divided(b, count, dtype), axes, keepdims, dtype, k)
    same = (whole.c == parts.c) | (np.isnan(whole.c) & np.isnan(parts.c))
    apart = np.where(same, 0.0, np.abs(whole.c - parts.c)) + parts.e
    return Bar(whole.c, as_error(np.maximum(whole.e, apart)))


def _mean_ring(p: Array, _b: Bar, axes: Axes, keepdims: bool) -> Array:
    return payloads.mean(p, axes, keepdims, np.asarray(math.prod(p.shape[a] for a in axes)))


def _ring(
    fold: FoldPayloads,
    bars: Sequence[Bar],
    operands: Sequence[Array],
    use: Use[Reduction],
    _out: Bar,
) -> Array:
    return fold(operands[0], bars[0], use.attrs.axes, use.attrs.keepdims)


def _quantifier(
    decisive: bool, b: Bar, axes: Axes, keepdims: bool, _dtype: DType, _k: Contract
) -> Bar:
    """Return the bar of ``any`` (decisive: true) or ``all`` (decisive: false).

    One element that is surely decisive decides the result, whatever the others are.
    """
    c = (_any if decisive else _all)(b.c, axes, keepdims)
    settled = _any((b.c == decisive) & (b.e == 0), axes, keepdims)
    unsure = _any(b.e > 0, axes, keepdims)
    c = np.where(settled, decisive, c)
    return Bar(c, np.where(unsure & ~settled, np.inf, 0.0))


def _sample(dtypes: Sequence[DType], ch: Chooser, t: TensorType) -> Sample | None:
    if t.dtype not in dtypes:
        return None
    axes = subset(ch, t.rank)
    return Sample((t,), freeze({"axes": axes, "keepdims": flag(ch)}))


def _reduction(
    name: str,
    doc: str,
    special: str,
    dtypes: tuple[DType, ...],
    fold: FoldValues,
    bar: FoldBars,
    op: FoldOp,
    operand: Item,
    result: Item,
    ring: FoldPayloads | None = None,
) -> Op:
    dtype = DType.F32 if DType.F32 in dtypes else DType.BOOL
    return Op(
        name=name,
        doc=doc,
        special=special,
        kind=Kind.REDUCTION,
        dtypes=dtypes,
        rules=Rules(
            Reduction,
            partial(_infer, name),
            partial(_eval, fold),
            partial(_bar, bar),
            partial(_element, op, name == "mean"),
            ring=partial(_ring, ring) if ring else None,
        ),
        sample=partial(_sample, dtypes),
        pending=name in ("sum", "mean"),
        example=example([operand], result, dtype, axes=(1,), keepdims=False),
    )


_X = [[1, 5, 2], [4, 0, 3]]
_B = [[True, False], [False, False], [True, True]]
_SUM = "NaN and infinities as in IEEE addition, in no set order; a zero's sign is not set. "

ALL: tuple[Op, ...] = (
    _reduction(
        "sum",
        "Sum over axes. The order of additions is free.",
        _SUM + "Empty: 0. Integers wrap in the operand's dtype. bool is cast first.",
        NUMBERS, _sum, sum_bar, "add",
        _X, [8, 7], payloads.total,
    ),
    _reduction(
        "prod",
        "Product over axes. The order of multiplications is free.",
        "NaN, infinities and zeros as in IEEE multiplication, in no set order. Empty: 1. "
        "Integers wrap in the operand's dtype.",
        NUMBERS, partial(_by, np.multiply), prod_bar, "mul",
        _X, [10, 0], payloads.product,
    ),
    _reduction(
        "min",
        "Smallest element over axes.",
        "NaN if any element is NaN; -0 is below +0. Empty: +infinity, or the largest integer.",
        NUMBERS, partial(extreme, False), partial(extreme_bar, False), "min",
        _X, [1, 0], partial(payloads.extreme_of, False),
    ),
    _reduction(
        "max",
        "Largest element over axes.",
        "NaN if any element is NaN; -0 is below +0. Empty: -infinity, or the smallest integer.",
        NUMBERS, partial(extreme, True), partial(extreme_bar, True), "max",
        _X, [5, 4], partial(payloads.extreme_of, True),
    ),
    _reduction(
        "mean",
        "Sum over axes divided by the number of elements; floats only.",
        _SUM + "A sum that overflows overflows the mean. Empty: NaN.",
        FLOATS, _mean, _mean_bar, "add",
        _X, [8 / 3, 7 / 3], _mean_ring,
    ),
    _reduction(
        "any",
        "True if an element over the axes is.",
        "Takes bool; cast numbers first (NaN is true). Empty: false.",
        BOOL, _any, partial(_quantifier, True), "or",
        _B, [True, False, True],
    ),
    _reduction(
        "all",
        "True if all elements over the axes are.",
        "Takes bool; cast numbers first (NaN is true). Empty: true.",
        BOOL, _all, partial(_quantifier, False), "and",
        _B, [False, False, True],
    ),
)  # fmt: skip
