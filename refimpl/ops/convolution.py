"""Convolution over any number of spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Binary, Const, Expr
from didyma.refimpl.ir.types import NUMBERS, Array, Shape, TensorType
from didyma.refimpl.ops import ring
from didyma.refimpl.ops.attributes import Ints, attributes, integer
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.choose import flag, pick
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.linear import dense, multiplier, products_bar
from didyma.refimpl.ops.rules import attr_error, check_same_dtype, shape_error
from didyma.refimpl.ops.spec import Chooser, Fold, Index, Kind, Op, Read, Rules, Sample, Use
from didyma.refimpl.ops.windows import (
    Sliding,
    SlidingWindow,
    bordered,
    choose_windows,
    counts,
    gathered,
    sliding_attrs,
    stripes,
)

# Bytes of windows gathered at a time: they stay in the processor's cache until multiplied, and
# the next ones reuse their memory.
GATHERED = 1 << 22
Product: TypeAlias = Callable[[Array, Array], Array]


@attributes
class Convolution(Sliding):
    """How weights slide over the operand; the window is given by their shape."""

    groups: int = integer("groups of channels that do not mix")

    def windows(self, window: Ints) -> SlidingWindow:
        """Return the windows of weights with these spatial sizes."""
        return SlidingWindow(self.strides, self.dilations, self.low, self.high, window)


def _kernel(types: Sequence[TensorType]) -> tuple[int, ...]:
    """Return the static spatial sizes of the weights, which are the window; else raise."""
    sizes = [d for d in types[1].shape[2:] if isinstance(d, int) and d >= 1]
    if types[1].rank != types[0].rank or len(sizes) != types[0].rank - 2:
        raise shape_error(
            "conv",
            types,
            f"weights {types[1]}",
            f"weights of rank {types[0].rank} with static spatial sizes of at least 1",
        )
    return tuple(sizes)


def _infer(types: Sequence[TensorType], a: Convolution) -> TensorType:
    x, w = types
    check_same_dtype("conv", types)
    places = a.windows(_kernel(types)).slide("conv", types)
    outputs, groups = w.shape[0], a.groups
    if groups < 1 or (groups > 1 and not (isinstance(outputs, int) and outputs % groups == 0)):
        raise attr_error("conv", "groups", groups, "a divisor of the number of output channels")
    if not dims.equal(dims.mul(w.shape[1], groups), x.shape[1]):
        raise shape_error(
            "conv",
            types,
            f"{dims.text(x.shape[1])} channels, {groups} groups",
            f"{groups} * {dims.text(w.shape[1])} channels",
            "weights have the shape [outputs, channels / groups, spatial sizes…]",
        )
    return x.with_shape(x.shape[0], outputs, *places)


def _correlate(
    x: Array, w: Array, f: SlidingWindow, groups: int, multiply: Product | None = None
) -> Array:
    """Return the convolution of a padded operand with weights, as matrix products."""
    batch, channels = x.shape[:2]
    size = counts(x, f)
    outputs, row = w.shape[0] // groups, math.prod(size[1:])
    terms = channels // groups * math.prod(f.window)
    rows = dense(w.reshape(groups, outputs, terms))
    multiply = multiply or multiplier(w, x)
    out = np.empty((batch, groups, outputs, math.prod(size)), x.dtype)
    for places, part in stripes(x, f, GATHERED):
        start, stop = places.start * row, places.stop * row
        columns = gathered(part, f).reshape(batch, groups, terms, stop - start)
        out[..., start:stop] = multiply(rows, columns)
    return out.reshape(batch, w.shape[0], *size)


def _eval(args: Sequence[Array], a: Convolution, result: TensorType) -> Array:
    x, w = (x.astype(result.dtype.compute.numpy, copy=False) for x in args)
    f = a.windows(w.shape[2:])
    with np.errstate(all="ignore"):
        out = _correlate(bordered(x, f, 0), w, f, a.groups)
        return out.astype(result.dtype.numpy)


def _bar(args: Sequence[Bar], use: Use[Convolution], contract: Contract) -> Bar:
    x, w = args
    f = use.attrs.windows(w.c.shape[2:])

    def multiply(a: Array, b: Array) -> Array:
        return _correlate(a, b, f, use.attrs.groups)

    padded = Bar(bordered(x.c, f, 0), bordered(x.e, f, 0))
    terms = math.prod(w.c.shape[1:])
    return products_bar(padded, w, multiply, use.result.dtype, terms, contract)


def _ring(
    _bars: Sequence[Bar], payloads: Sequence[Array], use: Use[Convolution], _out: Bar
) -> Array:
    x, w = payloads
    f = use.attrs.windows(w.shape[2:])

    def multiply(a: Array, b: Array, modulus: int) -> Array:
        product = partial(ring.remainders, modulus=modulus)
        return _correlate(a, b, f, use.attrs.groups, product)

    return np.asarray(ring.sums_of_products(bordered(x, f, 0), w, multiply))


def _element(at: Index, reads: Sequence[Read], use: Use[Convolution]) -> Fold:
    (x, w), groups = use.types, use.attrs.groups
    f, compute = use.attrs.windows(_kernel(use.types)), use.result.dtype.compute
    zero = Const(compute.numpy.type(0).item(), compute)
    group = ex.floordiv(at[1], ex.of_dim(dims.floordiv(w.shape[0], groups)))
    base = ex.ZERO if groups == 1 else ex.mul(group, ex.of_dim(w.shape[1]))

    def body(k: Index) -> Expr:
        places = tuple(
            f.position(a, o, p) for a, (o, p) in enumerate(zip(at[2:], k[1:], strict=True))
        )
        value = reads[0]((at[0], ex.add(base, k[0]), *places))
        padded = ex.select(ex.all_of(f.guards(places, x.shape[2:])), value, zero)
        return Binary("mul", padded, reads[1]((at[1], *k)))

    return Fold("add", tuple(ex.of_dim(d) for d in w.shape[1:]), body)


def _sample(ch: Chooser, t: TensorType) -> Sample | None:
    if not 3 <= t.rank <= 5 or t.dtype not in NUMBERS:
        return None
    spatial = t.shape[2:]
    static = [d for d in spatial if isinstance(d, int) and 1 <= d <= 5]
    if len(static) == len(spatial) and flag(ch):
        return _sample_weights(ch, t, tuple(static))
    f = choose_windows(ch, spatial)
    channels = t.shape[1]
    groups = _groups(ch, channels)
    outputs = groups * pick(ch, (1, 2, 3))
    w = t.with_shape(outputs, dims.floordiv(channels, groups), *f.window)
    return Sample((t, w), freeze({**sliding_attrs(f), "groups": groups}))


def _groups(ch: Chooser, channels: Dim) -> int:
    if not isinstance(channels, int):
        return 1
    return pick(ch, [g for g in (1, 2, 3, channels) if g and channels % g == 0] or [1])


def _sample_weights(ch: Chooser, t: TensorType, window: tuple[int, ...]) -> Sample:
    outputs, inputs = t.shape[:2]
    groups = _groups(ch, outputs)
    spatial: Shape = tuple(w + pick(ch, (1, 0, 2, 4)) for w in window)
    f = choose_windows(ch, spatial, window)
    batch: Dim = pick(ch, (1, 2, 3, 0))
    x = t.with_shape(batch, dims.mul(inputs, groups), *spatial)
    return Sample((x, t), freeze({**sliding_attrs(f), "groups": groups}))


CONV = Op(
    name="conv",
    doc=(
        "Convolution as in ONNX: operand [batch, channels, spatial sizes…], weights [outputs, "
        "channels / groups, window sizes…]; the window is not turned round. The operand is padded "
        "with zeros. A window that does not fit anywhere gives an empty axis. The order of "
        "additions is free, a product and an addition may round once."
    ),
    special=(
        "NaN and infinities as in IEEE arithmetic (also a padding zero times an infinite weight "
        "is NaN), in no set order; a zero's sign is not set. Empty sums are 0. Integers wrap."
    ),
    kind=Kind.OPAQUE,
    arity=(2, 2),
    dtypes=NUMBERS,
    rules=Rules(Convolution, infer=_infer, eval=_eval, bar=_bar, element=_element, ring=_ring),
    sample=_sample,
    rereads=True,
    example=example(
        [[[[1, 2, 3, 4]]], [[[1, 10]]]], [[[21, 43]]],
        strides=(2,), dilations=(1,), low=(0,), high=(0,), groups=1,
    ),
)  # fmt: skip

ALL: tuple[Op, ...] = (CONV,)
