"""Matrix products, convolutions and pooling in ONNX; of integers, one tap after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from didyma.onnx.export.dialect import How
from didyma.onnx.export.shapes import expanded, reshaped, sliced
from didyma.onnx.export.writer import Rule, Use, Val
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType


def _matmul(u: Use) -> Val:
    return u.op("MatMul", *u.args, how=How.WRAPS)


def _pads(u: Use) -> list[Dim]:
    return [*u.attr["low"], *u.attr["high"]]


def _bare(u: Use) -> dict[str, Any]:
    return {"strides": u.attr["strides"], "dilations": u.attr["dilations"]}


def _attrs(u: Use) -> dict[str, Any]:
    return {**_bare(u), "pads": _pads(u)}


def _plain(u: Use) -> bool:
    """Return whether pads are numbers, as ONNX requires."""
    return all(isinstance(p, int) for p in _pads(u))


def _taps(u: Use, fill: int | float, window: Sequence[int]) -> Iterator[Val]:
    """Yield, for each position in a window, the operand's elements that all windows have there."""
    steps = tuple(zip(window, u.attr["dilations"], u.attr["strides"], strict=True))
    axes = tuple(range(2, 2 + len(window)))
    # with more padding at the end, so that no slice ends beyond an axis, even if no window fits
    v = _bordered(u, fill, [(k - 1) * d + s for k, d, s in steps])
    for position in product(*(range(k) for k in window)):
        starts = [p * d for p, (_, d, _) in zip(position, steps, strict=True)]
        stops = [
            dims.add(start, dims.mul(n, s))
            for start, n, (_, _, s) in zip(starts, u.out.shape[2:], steps, strict=True)
        ]
        yield sliced(u.w, v, axes, starts, stops, tuple(s for _, _, s in steps))


def _bordered(u: Use, fill: float | int, more: Sequence[int] = ()) -> Val:
    """Return the padded operand, with ``more`` padding at the end of each axis."""
    low, high = u.attr["low"], u.attr["high"]
    ends = [dims.add(a, b) for a, b in zip(high, more or (0,) * len(high), strict=True)]
    if all(p == 0 for p in (*low, *ends)):
        return u.args[0]
    border = u.w.vector((0, 0, *low, 0, 0, *ends))
    return u.w.op("Pad", u.args[0], border, u.w.scalar(fill, u.args[0].dtype), how=How.MOVES)


def _conv(u: Use) -> Val:
    groups, kernel = int(u.attr["groups"]), _numbers(u, u.types[1].shape[2:])
    if u.out.dtype.is_float:
        more: dict[str, Any] = {"group": groups, "kernel_shape": kernel}
        if _plain(u):
            return u.op("Conv", *u.args, **_attrs(u), **more)
        return u.op("Conv", _bordered(u, 0), u.args[1], **_bare(u), **more)
    w, spatial = u.w, u.out.shape[2:]
    batch, channels = u.types[0].shape[:2]
    outputs, part = u.types[1].shape[:2]
    outs = dims.mul(*spatial)
    per = dims.floordiv(outputs, groups)
    weights = reshaped(w, u.args[1], (groups, per, part, dims.mul(*kernel)))
    total: Val | None = None
    for k, tap in enumerate(_taps(u, 0, kernel)):
        own = sliced(w, weights, (3,), (k,), (k + 1,), (1,))
        own = reshaped(w, own, (1, groups, per, part))
        rows = reshaped(w, tap, (batch, groups, dims.floordiv(channels, groups), outs))
        term = w.op("MatMul", own, rows, how=How.WRAPS)
        total = term if total is None else w.op("Add", total, term, how=How.WRAPS)
    assert total is not None
    return reshaped(w, total, u.out.shape, u.wish)


def _numbers(u: Use, sizes: Sequence[Dim]) -> tuple[int, ...]:
    numbers = tuple(d for d in sizes if isinstance(d, int))
    if len(numbers) != len(sizes):
        raise u.w.inexpressible("windows of a symbolic size", "numbers")
    return numbers


def _narrow(u: Use) -> bool:
    """Return whether every window contains an element of the operand, as ONNX requires."""
    if not _plain(u):
        return False
    reach = [(k - 1) * d + 1 for k, d in zip(u.attr["window"], u.attr["dilations"], strict=True)]
    pads = zip(reach, u.attr["low"], u.attr["high"], strict=True)
    return all(low < r and high < r for r, low, high in pads) and all(
        low < k and high < k
        for k, low, high in zip(u.attr["window"], u.attr["low"], u.attr["high"], strict=True)
    )


def _max_pool(u: Use) -> Val:
    x = u.args[0]
    if (x.dtype.is_float or x.dtype in (DType.I8, DType.U8)) and _narrow(u):
        return u.op("MaxPool", x, **_attrs(u), kernel_shape=u.attr["window"])
    if x.dtype.is_float:
        least: float | int = float("-inf")
    else:
        least = int(np.iinfo(x.dtype.numpy).min)
    taps = list(_taps(u, least, u.attr["window"]))
    return u.op("Max", *taps) if len(taps) > 1 else taps[0]


def _avg_pool(u: Use) -> Val:
    """Express an average pool; pads that ONNX would refuse are added to the operand first."""
    counted = int(bool(u.attr["count_include_pad"]))
    more: dict[str, Any] = {"kernel_shape": u.attr["window"], "count_include_pad": counted}
    if _narrow(u):
        return u.op("AveragePool", u.args[0], **_attrs(u), **more)
    w, x = u.w, u.w.cast(u.args[0], u.out.dtype.compute)
    wide = Use(w, u.name, (x,), u.types, u.out, u.attr, u.wish)
    mean = w.op("AveragePool", _bordered(wide, 0), **_bare(u), **more)
    if not counted:
        ones = expanded(w, w.scalar(1, x.dtype), u.types[0].shape)
        inside = Use(w, u.name, (ones,), u.types, u.out, u.attr, u.wish)
        mean = w.op("Div", mean, w.op("AveragePool", _bordered(inside, 0), **_bare(u), **more))
    return w.cast(mean, u.out.dtype)


RULES: dict[str, Rule] = {
    "matmul": _matmul,
    "conv": _conv,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
}
