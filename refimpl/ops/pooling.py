"""Pooling: extremes and means over sliding windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Binary, Cast, Const, Expr
from didyma.refimpl.ir.types import FLOATS, NUMBERS, Array, TensorType
from didyma.refimpl.ops import payloads
from didyma.refimpl.ops.attributes import attributes, boolean
from didyma.refimpl.ops.bar_sums import sum_bar
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.choose import flag
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.folds import divided, extreme_bar, has_negative_zero, lowest
from didyma.refimpl.ops.ring import UNKNOWN
from didyma.refimpl.ops.spec import Chooser, Fold, Index, Kind, Op, Read, Rules, Sample, Use
from didyma.refimpl.ops.windows import (
    SlidingWindow,
    bordered,
    choose_windows,
    slid,
    sliding_attrs,
    window_elements,
)


def _places(x: Array, f: SlidingWindow, fill: float) -> tuple[Array, tuple[int]]:
    """Return the windows of a padded operand and the axis of the positions in a window."""
    return window_elements(bordered(x, f, fill), f), (x.ndim,)


def _bars(x: Bar, f: SlidingWindow, fill: float) -> tuple[Bar, tuple[int]]:
    """Return the same of an operand with its errors; padding is exact."""
    c, axes = _places(x.c, f, fill)
    return Bar(c, _places(x.e, f, 0)[0]), axes


def _infer(name: str, types: Sequence[TensorType], f: SlidingWindow) -> TensorType:
    (t,) = types
    return t.with_shape(*t.shape[:2], *f.slide(name, types))


def _fold_body(
    at: Index, read: Read, t: TensorType, f: SlidingWindow, fill: Expr
) -> tuple[tuple[Expr, ...], Read]:
    def body(k: Index) -> Expr:
        places = tuple(f.position(a, o, p) for a, (o, p) in enumerate(zip(at[2:], k, strict=True)))
        inside = ex.all_of(f.guards(places, t.shape[2:]))
        return ex.select(inside, read((*at[:2], *places)), fill)

    return tuple(ex.index(w) for w in f.window), body


def _max_eval(args: Sequence[Array], f: SlidingWindow, result: TensorType) -> Array:
    x = args[0].astype(result.dtype.compute.numpy, copy=False)
    x = bordered(x, f, lowest(x.dtype))
    with np.errstate(all="ignore"):
        out = slid(x, f, np.maximum)
        if has_negative_zero(x):
            positive = slid((x == 0) & ~np.signbit(x), f, np.logical_or)
            out = np.where(out == 0, np.where(positive, 0.0, -0.0).astype(x.dtype), out)
        return out.astype(result.dtype.numpy, copy=False)


def _max_bar(args: Sequence[Bar], use: Use[SlidingWindow], contract: Contract) -> Bar:
    b, axes = _bars(args[0], use.attrs, lowest(args[0].c.dtype))
    return extreme_bar(True, b, axes, False, use.result.dtype, contract)


def _max_ring(
    bars: Sequence[Bar], operands: Sequence[Array], use: Use[SlidingWindow], _out: Bar
) -> Array:
    b, axes = _bars(bars[0], use.attrs, lowest(bars[0].c.dtype))
    p, _ = _places(operands[0], use.attrs, int(UNKNOWN))
    return payloads.extreme_of(True, p, b, axes, keepdims=False)


def _max_element(at: Index, reads: Sequence[Read], use: Use[SlidingWindow]) -> Fold:
    compute = use.result.dtype.compute
    fill = Const(lowest(compute.numpy), compute)
    extents, body = _fold_body(at, reads[0], use.types[0], use.attrs, fill)
    return Fold("max", extents, body)


def _max_sample(ch: Chooser, t: TensorType) -> Sample | None:
    if not 3 <= t.rank <= 5 or t.dtype not in NUMBERS:
        return None
    f = choose_windows(ch, t.shape[2:])
    return Sample((t,), freeze({"window": f.window, **sliding_attrs(f)}))


@attributes
class Average(SlidingWindow):
    """A sliding window, and whether padding counts in the divisor."""

    count_include_pad: bool = boolean("count padding among the places")


def _counts(f: Average, shape: tuple[int, ...], out: tuple[int, ...]) -> Array:
    """Return the divisor of each window."""
    if f.count_include_pad:
        return np.asarray(float(math.prod(f.window)))
    count = np.ones(())
    for axis, (n, windows_, (low, _)) in enumerate(
        zip(shape[2:], out[2:], f.borders(), strict=True)
    ):
        first = np.arange(windows_)[:, None] * f.strides[axis] - low
        place = first + np.arange(f.window[axis]) * f.dilations[axis]
        count = count[..., None] * ((place >= 0) & (place < n)).sum(1)
    return np.broadcast_to(count, out)


def _avg_eval(args: Sequence[Array], f: Average, result: TensorType) -> Array:
    x = args[0].astype(result.dtype.compute.numpy, copy=False)
    with np.errstate(all="ignore"):
        total = slid(bordered(x, f, 0), f, np.add)
        count = _counts(f, x.shape, total.shape).astype(x.dtype)
        return np.asarray(total / count).astype(result.dtype.numpy)


def _avg_bar(args: Sequence[Bar], use: Use[Average], contract: Contract) -> Bar:
    (x,), f, dtype = args, use.attrs, use.result.dtype
    b, axes = _bars(x, f, 0)
    total = sum_bar(b, axes, False, dtype, contract)
    return divided(total, _counts(f, x.c.shape, total.c.shape), dtype)


def _avg_ring(
    _bars: Sequence[Bar], operands: Sequence[Array], use: Use[Average], out: Bar
) -> Array:
    f, p = use.attrs, operands[0]
    places, axes = _places(p, f, 0)
    return payloads.mean(places, axes, False, _counts(f, p.shape, out.c.shape))


def _avg_element(at: Index, reads: Sequence[Read], use: Use[Average]) -> Fold:
    (t,), f, compute = use.types, use.attrs, use.result.dtype.compute
    extents, body = _fold_body(at, reads[0], t, f, Const(0.0, compute))

    def finish(total: Expr) -> Expr:
        count = ex.mul(*extents)
        if not f.count_include_pad:
            inside = (f.inside(a, o, t.shape[2 + a]) for a, o in enumerate(at[2:]))
            count = ex.mul(*inside)
        return Binary("div", total, Cast(count, compute))

    return Fold("add", extents, body, finish)


def _avg_sample(ch: Chooser, t: TensorType) -> Sample | None:
    if not 3 <= t.rank <= 5 or t.dtype not in FLOATS:
        return None
    f = choose_windows(ch, t.shape[2:])
    include = flag(ch)
    return Sample(
        (t,), freeze({"window": f.window, **sliding_attrs(f), "count_include_pad": include})
    )


_FIT = " A window that does not fit anywhere gives an empty axis."

MAX_POOL = Op(
    name="max_pool",
    doc=(
        "Largest element in each window over the spatial axes of [batch, channels, spatial…]."
        + _FIT
    ),
    special=(
        "NaN if any element in the window is NaN; -0 is below +0. Padding never wins: a window of "
        "padding alone gives -infinity, or the smallest integer."
    ),
    kind=Kind.OPAQUE,
    dtypes=NUMBERS,
    rules=Rules(
        SlidingWindow,
        infer=partial(_infer, "max_pool"),
        eval=_max_eval,
        bar=_max_bar,
        element=_max_element,
        ring=_max_ring,
    ),
    sample=_max_sample,
    rereads=True,
    example=example(
        [[[[1, 5, 2, 4]]]], [[[1, 5, 4]]],
        window=(2,), strides=(2,), dilations=(1,), low=(1,), high=(1,),
    ),
)  # fmt: skip

AVG_POOL = Op(
    name="avg_pool",
    doc=(
        "Sum of each window over the spatial axes of [batch, channels, spatial…], divided by its "
        "number of places; without ``count_include_pad`` by those that are no padding." + _FIT
    ),
    special=(
        "NaN and infinities as in IEEE addition, in no set order; a zero's sign is not set. "
        "Padding adds 0. A window of padding alone gives 0, or NaN if padding is not counted."
    ),
    kind=Kind.OPAQUE,
    dtypes=FLOATS,
    rules=Rules(
        Average,
        infer=partial(_infer, "avg_pool"),
        eval=_avg_eval,
        bar=_avg_bar,
        element=_avg_element,
        ring=_avg_ring,
    ),
    sample=_avg_sample,
    rereads=True,
    example=example(
        [[[[1, 5, 2, 4]]]], [[[1, 3.5, 4]]], count_include_pad=False,
        window=(2,), strides=(2,), dilations=(1,), low=(1,), high=(1,),
    ),
)  # fmt: skip

ALL: tuple[Op, ...] = (MAX_POOL, AVG_POOL)
