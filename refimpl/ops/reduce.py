"""Folds over whole axes: sums, products, extremes, means, quantifiers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Binary, Cast, Expr
from didyma.refimpl.ir.types import FLOATS, NUMBERS, Array, DType, TensorType
from didyma.refimpl.ops.bar_sums import sum_bar
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.choose import flag, subset
from didyma.refimpl.ops.folds import Axes, divided, extreme, extreme_bar, prod_bar
from didyma.refimpl.ops.movement import BarRule
from didyma.refimpl.ops.rules import check, get_axes, get_bool
from didyma.refimpl.ops.spec import (
    AttrMap,
    AttrSpec,
    Chooser,
    Example,
    Fold,
    FoldOp,
    Index,
    Kind,
    Op,
    Read,
    Sample,
)

BOOL = (DType.BOOL,)
AXES = (
    AttrSpec("axes", "ints", "increasing axes to fold over; none folds each element alone"),
    AttrSpec("keepdims", "bool", "keep the folded axes, with size 1"),
)


def _frame(attrs: AttrMap, rank: int) -> tuple[tuple[int, ...], bool]:
    return get_axes("reduction", attrs, "axes", rank), get_bool("reduction", attrs, "keepdims")


def reduced(t: TensorType, axes: tuple[int, ...], keepdims: bool) -> TensorType:
    """Type with axes folded away."""
    if keepdims:
        return t.with_shape(*(1 if a in axes else d for a, d in enumerate(t.shape)))
    return t.with_shape(*(d for a, d in enumerate(t.shape) if a not in axes))


def source(at: Index, k: Index, axes: tuple[int, ...], rank: int, keepdims: bool) -> Index:
    """Operand index of step ``k`` of the fold that gives element ``at``."""
    folded, kept = iter(k), iter(at if not keepdims else ())
    return tuple(
        next(folded) if a in axes else (at[a] if keepdims else next(kept)) for a in range(rank)
    )


def _infer(
    name: str, dtypes: Sequence[DType]
) -> Callable[[Sequence[TensorType], AttrMap], TensorType]:
    def infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
        t = check(name, types, 1, dtypes=dtypes)
        axes = get_axes(name, attrs, "axes", t.rank)
        return reduced(t, axes, get_bool(name, attrs, "keepdims"))

    return infer


def _element(
    op: FoldOp, mean: bool = False
) -> Callable[[Index, Sequence[Read], Sequence[TensorType], AttrMap, TensorType], Fold]:
    def element(
        at: Index,
        reads: Sequence[Read],
        types: Sequence[TensorType],
        attrs: AttrMap,
        result: TensorType,
    ) -> Fold:
        t = types[0]
        axes, keepdims = _frame(attrs, t.rank)
        extents = tuple(ex.of_dim(t.shape[a]) for a in axes)

        def body(k: Index) -> Expr:
            return reads[0](source(at, k, axes, t.rank, keepdims))

        def finish(total: Expr) -> Expr:
            if not mean:
                return total
            count = Cast(ex.of_dim(dims.mul(*(t.shape[a] for a in axes))), result.dtype.compute)
            return Binary("div", total, count)

        return Fold(op, extents, body, finish)

    return element


def _eval(
    fold: Callable[[Array, Axes, bool], Array],
) -> Callable[[Sequence[Array], AttrMap, TensorType], Array]:
    def run(args: Sequence[Array], attrs: AttrMap, result: TensorType) -> Array:
        (x,) = args
        axes, keepdims = _frame(attrs, x.ndim)
        with np.errstate(all="ignore"):
            out = fold(x.astype(DType.of(x).compute.numpy, copy=False), axes, keepdims)
            return np.array(out).astype(result.dtype.numpy)

    return run


def _sum(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype))


def _prod(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.prod(x, axis=axes, keepdims=keepdims, dtype=x.dtype))


def _min(x: Array, axes: Axes, keepdims: bool) -> Array:
    return extreme(x, axes, keepdims, False)


def _max(x: Array, axes: Axes, keepdims: bool) -> Array:
    return extreme(x, axes, keepdims, True)


def _mean(x: Array, axes: Axes, keepdims: bool) -> Array:
    count = np.array(int(np.prod([x.shape[a] for a in axes]))).astype(x.dtype)
    return np.asarray(_sum(x, axes, keepdims) / count)


def _any(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.any(x, axis=axes, keepdims=keepdims))


def _all(x: Array, axes: Axes, keepdims: bool) -> Array:
    return np.asarray(np.all(x, axis=axes, keepdims=keepdims))


def _bar(fold: Callable[[Bar, Axes, bool, DType, Contract], Bar]) -> BarRule:
    def run(
        args: Sequence[Bar],
        attrs: AttrMap,
        types: Sequence[TensorType],
        result: TensorType,
        contract: Contract,
    ) -> Bar:
        axes, keepdims = _frame(attrs, types[0].rank)
        return fold(args[0], axes, keepdims, result.dtype, contract)

    return run


def _sum_bar(b: Bar, axes: Axes, keepdims: bool, dtype: DType, k: Contract) -> Bar:
    return sum_bar(b, axes, dtype, k, keepdims=keepdims)


def _prod_bar(b: Bar, axes: Axes, keepdims: bool, dtype: DType, k: Contract) -> Bar:
    del k
    return prod_bar(b, axes, keepdims, dtype)


def _min_bar(b: Bar, axes: Axes, keepdims: bool, dtype: DType, k: Contract) -> Bar:
    del k
    return extreme_bar(b, axes, keepdims, False, dtype)


def _max_bar(b: Bar, axes: Axes, keepdims: bool, dtype: DType, k: Contract) -> Bar:
    del k
    return extreme_bar(b, axes, keepdims, True, dtype)


def _mean_bar(b: Bar, axes: Axes, keepdims: bool, dtype: DType, k: Contract) -> Bar:
    count = math.prod(b.c.shape[a] for a in axes)
    return divided(sum_bar(b, axes, dtype, k, keepdims=keepdims), np.asarray(count), dtype)


def _quantifier(decisive: bool) -> Callable[[Bar, Axes, bool, DType, Contract], Bar]:
    """``any`` and ``all``: one certain decisive element settles the result."""

    def run(b: Bar, axes: Axes, keepdims: bool, dtype: DType, k: Contract) -> Bar:
        del dtype, k
        c = (_any if decisive else _all)(b.c, axes, keepdims)
        settled = _any((b.c == decisive) & (b.e == 0), axes, keepdims)
        unsure = _any(b.e > 0, axes, keepdims)
        c = np.where(settled, decisive, c)
        return Bar(c, np.where(unsure & ~settled, np.inf, 0.0))

    return run


def _sample(dtypes: Sequence[DType]) -> Callable[[Chooser, TensorType], Sample | None]:
    def sample(ch: Chooser, t: TensorType) -> Sample | None:
        if t.dtype not in dtypes:
            return None
        axes = subset(ch, t.rank)
        return Sample((t,), freeze({"axes": axes, "keepdims": flag(ch)}))

    return sample


def _reduction(
    name: str,
    doc: str,
    special: str,
    dtypes: tuple[DType, ...],
    fold: Callable[[Array, Axes, bool], Array],
    bar: Callable[[Bar, Axes, bool, DType, Contract], Bar],
    op: FoldOp,
    example: tuple[Array, Array],
) -> Op:
    return Op(
        name=name,
        doc=doc,
        special=special,
        kind=Kind.REDUCTION,
        arity=(1, 1),
        attrs=AXES,
        dtypes=dtypes,
        infer=_infer(name, dtypes),
        eval=_eval(fold),
        bar=_bar(bar),
        element=_element(op, mean=name == "mean"),
        sample=_sample(dtypes),
        example=Example((example[0],), example[1], freeze({"axes": (1,), "keepdims": False})),
    )


_X = np.array([[1, 5, 2], [4, 0, 3]], np.float32)
_B = np.array([[True, False], [False, False], [True, True]])
_SUM = "NaN and infinities as in IEEE addition, in no set order; a zero's sign is not set. "

ALL: tuple[Op, ...] = (
    _reduction(
        "sum",
        "Sum over axes. The order of additions is free.",
        _SUM + "Empty: 0. Integers wrap in the operand's dtype. bool is cast first.",
        NUMBERS, _sum, _sum_bar, "add",
        (_X, np.array([8, 7], np.float32)),
    ),
    _reduction(
        "prod",
        "Product over axes. The order of multiplications is free.",
        "NaN, infinities and zeros as in IEEE multiplication, in no set order. Empty: 1. "
        "Integers wrap in the operand's dtype.",
        NUMBERS, _prod, _prod_bar, "mul",
        (_X, np.array([10, 0], np.float32)),
    ),
    _reduction(
        "min",
        "Smallest element over axes.",
        "NaN if any element is NaN; -0 is below +0. Empty: +infinity, or the largest integer.",
        NUMBERS, _min, _min_bar, "min",
        (_X, np.array([1, 0], np.float32)),
    ),
    _reduction(
        "max",
        "Largest element over axes.",
        "NaN if any element is NaN; -0 is below +0. Empty: -infinity, or the smallest integer.",
        NUMBERS, _max, _max_bar, "max",
        (_X, np.array([5, 4], np.float32)),
    ),
    _reduction(
        "mean",
        "Sum over axes divided by the number of elements; floats only.",
        _SUM + "A sum that overflows overflows the mean. Empty: NaN.",
        FLOATS, _mean, _mean_bar, "add",
        (_X, np.array([8 / 3, 7 / 3], np.float32)),
    ),
    _reduction(
        "any",
        "True if an element over the axes is.",
        "Takes bool; cast numbers first (NaN is true). Empty: false.",
        BOOL, _any, _quantifier(decisive=True), "or",
        (_B, np.array([True, False, True])),
    ),
    _reduction(
        "all",
        "True if all elements over the axes are.",
        "Takes bool; cast numbers first (NaN is true). Empty: true.",
        BOOL, _all, _quantifier(decisive=False), "and",
        (_B, np.array([False, False, True])),
    ),
)  # fmt: skip
