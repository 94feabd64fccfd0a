"""Constants, moves, reductions, gather and scatter in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didyma.onnx.export.dialect import How
from didyma.onnx.export.pointwise import where
from didyma.onnx.export.writer import Rule, Use, Val, Writer
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType, Tensor

FIRST = -(1 << 62)  # the end of a backward slice that includes the first element


def reshaped(w: Writer, v: Val, shape: Sequence[Dim], wish: str = "") -> Val:
    """Return a value in a shape, in which 0 is a size."""
    return w.op("Reshape", v, w.vector(shape), how=How.MOVES, wish=wish, allowzero=1)


def expanded(w: Writer, v: Val, shape: Sequence[Dim], wish: str = "") -> Val:
    """Return a value broadcast to a shape."""
    return w.op("Expand", v, w.vector(shape), how=How.MOVES, wish=wish)


def sliced(
    w: Writer, v: Val, axes: Sequence[int], starts: Sequence[Dim], stops: Sequence[Dim],
    steps: Sequence[int], wish: str = "",
) -> Val:  # fmt: skip
    """Return a part of a value."""
    parts = [w.vector(starts), w.vector(stops), w.ints(*axes), w.ints(*steps)]
    return w.op("Slice", v, *parts, how=How.MOVES, wish=wish)


def _constant(u: Use) -> Val:
    value = u.attr["value"]
    assert isinstance(value, Tensor)
    return u.w.constant(value, u.wish or "c")


def counted(w: Writer, n: Dim, rank: int, axis: int) -> Val:
    """Return 0, 1, …, n - 1 as i64 along one axis; the other axes have size 1."""
    shape = tuple(n if i == axis else 1 for i in range(rank))
    if isinstance(n, int):
        return w.constant(np.arange(n).reshape([d for d in shape if isinstance(d, int)]))
    none = w.ints()
    stop = w.op("Reshape", w.size(n), none)
    zero, one = (w.scalar(k, DType.I64) for k in (0, 1))
    return reshaped(w, w.op("Range", zero, stop, one), shape)


def _iota(u: Use) -> Val:
    w, axis, shape = u.w, int(u.attr["axis"]), u.out.shape
    count = counted(w, shape[axis], len(shape), axis)
    count = w.cast(w.cast(count, u.out.dtype.compute), u.out.dtype)
    return expanded(w, count, shape, u.wish)


def _reshape(u: Use) -> Val:
    return reshaped(u.w, u.args[0], u.out.shape, u.wish)


def _permute(u: Use) -> Val:
    if not u.attr["axes"]:
        return u.op("Identity", u.args[0], how=How.MOVES)
    return u.op("Transpose", u.args[0], how=How.MOVES, perm=u.attr["axes"])


def _broadcast(u: Use) -> Val:
    return expanded(u.w, u.args[0], u.out.shape, u.wish)


def _flip(u: Use) -> Val:
    axes = tuple(u.attr["axes"])
    many = len(axes)
    if not many:
        return u.op("Identity", u.args[0], how=How.MOVES)
    return sliced(u.w, u.args[0], axes, (-1,) * many, (FIRST,) * many, (-1,) * many, u.wish)


def _slice(u: Use) -> Val:
    parts = zip(u.attr["starts"], u.attr["stops"], u.attr["steps"], strict=True)
    axes: list[int] = []
    bounds: list[tuple[Dim, Dim, int]] = []
    for axis, (start, stop, step) in enumerate(parts):
        if (start, step) == (0, 1) and stop == u.types[0].shape[axis]:
            continue
        axes.append(axis)
        if start == -1:  # backwards from before the first element: nothing
            bounds.append((0, 0, 1))
        elif stop == -1:
            bounds.append((start, FIRST, step))
        else:
            bounds.append((start, stop, step))
    if not axes:
        return u.op("Identity", u.args[0], how=How.MOVES)
    starts, stops, steps = zip(*bounds, strict=True)
    return sliced(u.w, u.args[0], axes, starts, stops, steps, u.wish)


def _concat(u: Use) -> Val:
    return u.op("Concat", *u.args, how=How.MOVES, axis=u.attr["axis"])


def _pad(u: Use) -> Val:
    mode, sizes = u.attr["mode"], u.types[0].shape
    low, high = u.attr["low"], u.attr["high"]
    if mode != "constant" and 0 in sizes:
        return expanded(u.w, u.args[1], u.out.shape, u.wish)
    v = u.args[0]
    if not sizes:  # implementations refuse to pad a scalar
        return u.op("Identity", v, how=How.MOVES)
    if mode == "reflect":
        v, low, high = _reflected(u)
    border = u.w.vector((*low, *high))
    fill = u.args[1] if mode == "constant" else None
    return u.op("Pad", v, border, fill, how=How.MOVES, mode=mode)


def _reflected(u: Use) -> tuple[Val, tuple[Dim, ...], tuple[Dim, ...]]:
    """Gather pads longer than an axis, which Pad refuses; return the value and the other pads."""
    v, low, high = u.args[0], list(u.attr["low"]), list(u.attr["high"])
    for axis, n in enumerate(u.types[0].shape):
        a, b = low[axis], high[axis]
        if isinstance(n, int) and isinstance(a, int) and isinstance(b, int) and max(a, b) >= n:
            indices = np.pad(np.arange(n), (a, b), "reflect")
            v = u.op("Gather", v, u.w.constant(indices), how=How.MOVES, axis=axis)
            low[axis] = high[axis] = 0
    return v, tuple(low), tuple(high)


# Folds ------------------------------------------------------------------------------------------


def _fold(onnx_op: str, how: How = How.VALUE) -> Rule:
    def run(u: Use) -> Val:
        axes = tuple(u.attr["axes"])
        if not axes:
            return u.op("Identity", u.args[0], how=How.MOVES)
        keep = int(bool(u.attr["keepdims"]))
        return u.op(onnx_op, u.args[0], u.w.ints(*axes), how=how, keepdims=keep)

    return run


def _extreme(onnx_op: str) -> Rule:
    """Return the rule of a maximum or minimum, which of nothing is the limit of the dtype."""
    fold = _fold(onnx_op)

    def run(u: Use) -> Val:
        t = u.types[0]
        full = all(isinstance(d, int) and d > 0 for d in t.shape)
        if full or not u.attr["axes"] or t.dtype.nbytes > 2 or t.dtype.is_float:
            return fold(u)
        info = np.iinfo(t.dtype.numpy)
        wide = u.w.cast(u.args[0], DType.I32)
        extreme = fold(Use(u.w, u.name, (wide,), u.types, u.out, u.attr, ""))
        low, high = u.w.scalar(info.min, DType.I32), u.w.scalar(info.max, DType.I32)
        return u.w.cast(u.w.op("Max", u.w.op("Min", extreme, high), low), t.dtype)

    return run


def _quantifier(onnx_op: str) -> Rule:
    fold = _fold(onnx_op)

    def run(u: Use) -> Val:
        wide = u.w.cast(u.args[0], DType.I32)
        inner = Use(u.w, u.name, (wide,), u.types, u.out, u.attr, "")
        # the maximum of nothing is the least integer, and the minimum the largest
        return u.op("Greater", fold(inner), u.w.scalar(0, DType.I32), to=DType.BOOL)

    return run


def _arg(onnx_op: str) -> Rule:
    def run(u: Use) -> Val:
        keep = int(bool(u.attr["keepdims"]))
        return u.op(onnx_op, u.args[0], to=DType.I64, axis=u.attr["axis"], keepdims=keep)

    return run


def _cumulative_sum(u: Use) -> Val:
    at = u.w.scalar(int(u.attr["axis"]), DType.I64)
    flags = {k: int(bool(u.attr[k])) for k in ("exclusive", "reverse")}
    return u.op("CumSum", u.args[0], at, how=How.WRAPS, **flags)


def _cumulative_prod(u: Use) -> Val:
    """Express a cumulative product, over a triangle of the operand repeated along a new axis."""
    w, x, t = u.w, u.args[0], u.types[0]
    axis, n = int(u.attr["axis"]), t.shape[int(u.attr["axis"])]
    rank = t.rank + 1  # the factors lie along the new axis, axis + 1
    factors = reshaped(w, x, (*t.shape[:axis], 1, *t.shape[axis:]))
    mine, theirs = counted(w, n, rank, axis), counted(w, n, rank, axis + 1)
    op = "Less" if u.attr["exclusive"] else "LessOrEqual"
    pair = (mine, theirs) if u.attr["reverse"] else (theirs, mine)
    counts = w.op(op, *pair, to=DType.BOOL)
    kept = where(w, counts, factors, w.scalar(1, x.dtype))
    return u.op("ReduceProd", kept, w.ints(axis + 1), how=How.WRAPS, keepdims=0)


# Look-ups ---------------------------------------------------------------------------------------


def _in_range(u: Use, at: Val, n: Dim) -> bool:
    given = u.w.constant_value(at)
    return given is not None and isinstance(n, int) and bool(((given >= -n) & (given < n)).all())


def _counted_from_front(w: Writer, at: Val, n: Dim) -> Val:
    at = w.cast(at, DType.I64)
    below = w.op("Less", at, w.scalar(0, DType.I64), to=DType.BOOL)
    return where(w, below, w.op("Add", at, w.op("Reshape", w.size(n), w.ints())), at)


def _gather(onnx_op: str) -> Rule:
    """Return the rule of a gather, whose indices are clamped if they may be out of range."""

    def run(u: Use) -> Val:
        w, (v, at), axis = u.w, u.args, int(u.attr["axis"])
        n = u.types[0].shape[axis]
        if n == 0:  # an empty axis gives zeros
            return expanded(w, w.scalar(0, v.dtype), u.out.shape, u.wish)
        if not _in_range(u, at, n):
            last = w.op("Reshape", w.size(dims.sub(n, 1)), w.ints())
            at = _counted_from_front(w, at, n)
            at = w.op("Max", w.op("Min", at, last), w.scalar(0, DType.I64))
        return u.op(onnx_op, v, at, how=How.MOVES, axis=axis)

    return run


def _scatter(u: Use) -> Val:
    """Express a scatter; updates out of range go to an extra element, which is cut off."""
    w, (v, at, new), axis = u.w, u.args, int(u.attr["axis"])
    how = How.WRAPS if u.attr["reduction"] in ("add", "mul") else How.VALUE
    if u.attr["reduction"] == "none":
        how = How.MOVES
    t = u.types[0]
    n = t.shape[axis]
    rest: dict[str, Any] = {"axis": axis, "reduction": u.attr["reduction"]}
    if _in_range(u, at, n):
        return u.op("ScatterElements", v, at, new, how=how, **rest)
    spare = tuple(int(i == axis) for i in range(t.rank))
    room = w.op("Pad", v, w.ints(*(0,) * t.rank, *spare), None, how=How.MOVES)
    at = _counted_from_front(w, at, n)
    end = w.op("Reshape", w.size(n), w.ints())
    low = w.op("Less", at, w.scalar(0, DType.I64), to=DType.BOOL)
    at = where(w, low, end, w.op("Min", at, end))
    done = w.op("ScatterElements", room, at, new, how=how, **rest)
    return sliced(w, done, (axis,), (0,), (n,), (1,), u.wish)


def _to(u: Use) -> Val:
    return u.args[0]  # on the program's own device, as all of a model is


RULES: dict[str, Rule] = {
    "constant": _constant,
    "iota": _iota,
    "reshape": _reshape,
    "permute_dims": _permute,
    "broadcast_to": _broadcast,
    "flip": _flip,
    "slice": _slice,
    "concat": _concat,
    "pad": _pad,
    "sum": _fold("ReduceSum", How.WRAPS),
    "prod": _fold("ReduceProd", How.WRAPS),
    "max": _extreme("ReduceMax"),
    "min": _extreme("ReduceMin"),
    "mean": _fold("ReduceMean"),
    "any": _quantifier("ReduceMax"),
    "all": _quantifier("ReduceMin"),
    "argmax": _arg("ArgMax"),
    "argmin": _arg("ArgMin"),
    "cumulative_sum": _cumulative_sum,
    "cumulative_prod": _cumulative_prod,
    "gather": _gather("Gather"),
    "gather_elements": _gather("GatherElements"),
    "scatter": _scatter,
    "to": _to,
}
