"""Shapes, slices, joins and look-ups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.ir.types import DType
from refimpl.onnx.context import Context, NotConstant
from refimpl.onnx.dynamic import (
    end_within,
    entry,
    numbers,
    sizes_or_bound,
)
from refimpl.onnx.values import Item, Known, size, sizes
from refimpl.ops.broadcasting import broadcast
from refimpl.ops.builder import Value
from refimpl.ops.slicing import MANY

Inputs: TypeAlias = Sequence[Item | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Item]]


def _identity(c: Context, x: Inputs) -> Sequence[Item]:
    item = x[0] if x else None
    if item is None:
        raise c.bad("no operand", "one operand")
    return [item]


def _constant(c: Context, x: Inputs) -> Sequence[Item]:
    del x
    if isinstance(value := c.attrs.get("value"), Known):
        return [value]
    for name, dtype in (("value_float", DType.F32), ("value_int", DType.I64)):
        for key in (name, f"{name}s"):
            if key in c.attrs:
                return [Known(np.asarray(c.attrs[key], dtype.numpy), dtype)]
    raise c.bad(f"attributes {sorted(c.attrs)}", "a dense tensor, or numbers")


def _constant_of_shape(c: Context, x: Inputs) -> Sequence[Item]:
    shape = sizes_or_bound(c, c.item(x, 0))
    value = c.attrs.get("value", Known(np.zeros(1, np.float32), DType.F32))
    plain = [d for d in shape if isinstance(d, int)]
    if value.dtype.is_int and len(plain) == len(shape) and np.prod(plain, dtype=object) <= 64:
        return [Known(np.full(plain, value.array.reshape(())), value.dtype)]
    one = c.builder.constant(value.array.reshape(()))
    return [c.emit("broadcast_to", one, shape=shape)]


def _shape(c: Context, x: Inputs) -> Sequence[Item]:
    shape = c.item(x, 0).type.shape
    return [sizes(shape[slice(c.attrs.get("start", 0), c.attrs.get("end"))])]


def _range(c: Context, x: Inputs) -> Sequence[Item]:
    items = [c.item(x, i) for i in range(3)]
    dtype = items[0].type.dtype
    try:
        if not dtype.is_int:
            return [_float_range(c, items, dtype)]
        start, stop, step = (c.sizes(i, least=0)[0] for i in items)
    except NotConstant:
        return numbers(c, x)
    if not isinstance(step, int) or step == 0:
        raise c.bad(f"step {dims.text(step)}", "a step that is a number, not 0")
    count = (
        dims.ceildiv(dims.sub(stop, start), step)
        if step > 0
        else dims.ceildiv(dims.sub(start, stop), -step)
    )
    count = count if c.bounds(count)[0] >= 0 else dims.maximum(count, 0)
    v = c.builder("iota", [], dtype=dtype, shape=(count,), axis=0)
    if step != 1:
        v = c.builder("multiply", [v, c.builder.scalar(step, dtype)])
    if start != 0:
        first = c.value(sizes((start,), dtype))
        v = c.builder("add", [v, c.builder("reshape", [first], shape=())])
    return [v]


def _float_range(c: Context, items: Sequence[Item], dtype: DType) -> Value:
    start, stop, step = (float(c.number(i)) for i in items)
    count = math.ceil((stop - start) / step)
    v = c.iota(max(count, 0), dtype)
    return c.do("add", c.do("multiply", v, step), start)


def _reshape(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    keep_zero = c.flag("allowzero")
    if len(x) < 2:
        wanted: Sequence[Dim] = tuple(c.attrs["shape"])
    elif keep_zero:  # then sizes that only the run tells mean themselves
        wanted = sizes_or_bound(c, c.item(x, 1))
    else:
        wanted = c.sizes(c.item(x, 1), least=1)
    shape: list[Dim] = []
    for i, d in enumerate(wanted):
        copy = d == 0 and not keep_zero
        if copy and i >= v.type.rank:
            raise c.bad(f"0 at axis {i} of a reshape of {v.type}", "an axis of the operand")
        shape.append(v.type.shape[i] if copy else d)
    if -1 in shape:
        at = shape.index(-1)
        rest = dims.mul(*(d for i, d in enumerate(shape) if i != at))
        shape[at] = _quotient(c, v, rest)
    return [c.emit("reshape", v, shape=tuple(shape))]


def _quotient(c: Context, v: Value, rest: Dim) -> Dim:
    """Size that is left for the one axis marked -1."""
    whole = v.type.numel
    if rest == 0:
        return 0
    size = dims.floordiv(whole, rest)
    if not dims.equal(dims.mul(size, rest), whole):
        raise c.bad(
            f"{dims.text(whole)} elements in rows of {dims.text(rest)}", "a product that fits"
        )
    return size


def _expand(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    try:
        wanted = v.type.with_shape(*c.sizes(c.item(x, 1), least=0))
    except NotConstant:
        wanted = v.type.with_shape(*_wanted(c, v, c.operand(x, 1)))
    shape, _ = broadcast("Expand", [v.type, wanted])
    return [v if shape == v.type.shape else c.emit("broadcast_to", v, shape=shape)]


def _wanted(c: Context, v: Value, shape: Value) -> tuple[Dim, ...]:
    """Sizes to expand to that only the run tells; an axis that is not 1 keeps its own."""
    rank = shape.type.numel
    if not isinstance(rank, int):
        raise c.unknown(f"a shape of {dims.text(rank)} sizes")
    own = (1,) * (rank - v.type.rank) + v.type.shape
    found: list[Dim] = []
    for k in range(rank):
        d = own[k - rank + len(own)]
        found.append(c.bound(entry(c, shape, k), "size") if d == 1 else d)
    return (*own[: len(own) - rank], *found) if len(own) > rank else tuple(found)


def _transpose(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    perm = tuple(c.attrs.get("perm", reversed(range(v.type.rank))))
    return [c.emit("permute_dims", v, axes=perm)]


def _unsqueeze(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    given = c.ints(c.item(x, 1)) if len(x) > 1 else tuple(c.attrs["axes"])
    rank = v.type.rank + len(given)
    new = {c.axis(a, rank) for a in given}
    old = iter(v.type.shape)
    return [c.emit("reshape", v, shape=tuple(1 if i in new else next(old) for i in range(rank)))]


def _single(c: Context, v: Value, axis: int) -> Value:
    """Take the one element of an axis; where its size is open, for sizes for which it is one."""
    d = v.type.shape[axis]
    low, high = c.bounds(d)
    if d == 1:
        return v
    if not low <= 1 <= high:
        raise c.bad(f"axis {axis} of {v.type}", "an axis of size 1")
    if c.builder.parent is not None:  # in a branch that may not be taken: asserted where it is
        one = c.builder.bind(c.reshape(c.value(size(d))), 1, "one", 1)
        first = c.value(sizes((dims.sub(one, 1),)))
    else:
        c.require(d, 1)
        first = c.constant(np.zeros(1, np.int64))
    return c.emit("gather", v, first, axis=axis)


def _squeeze(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    axes = c.axes(x, 1, v.type.rank)
    if axes is None:
        axes = tuple(i for i, d in enumerate(v.type.shape) if d == 1)
    for a in axes:
        v = _single(c, v, a)
    return [
        c.emit("reshape", v, shape=tuple(d for i, d in enumerate(v.type.shape) if i not in axes))
    ]


def _flatten(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    axis = c.integer("axis", 1)
    axis = axis + v.type.rank if axis < 0 else axis
    two = dims.mul(*v.type.shape[:axis]), dims.mul(*v.type.shape[axis:])
    return [c.emit("reshape", v, shape=two)]


def join(c: Context, parts: Sequence[Value], axis: int) -> Value:
    """Concatenate any number of values."""
    held: list[Value] = list(parts)
    while len(held) > 1:
        groups: list[list[Value]] = [held[i : i + MANY] for i in range(0, len(held), MANY)]
        held = [c.emit("concat", *g, axis=axis) if len(g) > 1 else g[0] for g in groups]
    return held[0]


def _concat(c: Context, x: Inputs) -> Sequence[Item]:
    args = [c.operand(x, i) for i in range(len(x))]
    return [join(c, args, c.axis(int(c.attrs["axis"]), args[0].type.rank))]


def _cut(c: Context, v: Value, axis: int, start: Dim, stop: Dim) -> Value:
    rank = v.type.rank
    starts = tuple(start if i == axis else 0 for i in range(rank))
    stops = tuple(stop if i == axis else d for i, d in enumerate(v.type.shape))
    return c.builder("slice", [v], starts=starts, stops=stops, steps=(1,) * rank)


def _split(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    axis = c.axis(c.integer("axis", 0), v.type.rank)
    if len(x) > 1 and x[1] is not None:
        parts: Sequence[Dim] = c.sizes(x[1])
    elif "split" in c.attrs:
        parts = tuple(c.attrs["split"])
    else:
        n = c.integer("num_outputs", len(c.outputs))
        size = v.type.shape[axis]
        each = dims.ceildiv(size, n)
        parts = [each] * (n - 1) + [dims.sub(size, dims.mul(each, n - 1))]
    at: Dim = 0
    found: list[Item] = []
    for size in parts:
        found.append(_cut(c, v, axis, at, dims.add(at, size)))
        at = dims.add(at, size)
    return found


def _slice(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    if len(x) > 1:
        try:
            starts, stops = c.sizes(c.item(x, 1)), c.sizes(c.item(x, 2))
        except NotConstant as unknown:
            try:
                return [_cut_at(c, v, x)]
            except NotConstant:
                raise unknown from None
        third = x[3] if len(x) > 3 else None
        fourth = x[4] if len(x) > 4 else None
        axes = c.ints(third) if third is not None else tuple(range(len(starts)))
        steps = c.ints(fourth) if fourth is not None else (1,) * len(starts)
    else:
        starts, stops = tuple(c.attrs["starts"]), tuple(c.attrs["ends"])
        axes, steps = tuple(c.attrs.get("axes", range(len(starts)))), (1,) * len(starts)
    first: list[Dim] = [0] * v.type.rank
    last: list[Dim] = list(v.type.shape)
    by = [1] * v.type.rank
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        a = c.axis(axis, v.type.rank)
        first[a], last[a] = _bounds(c, v.type.shape[a], start, stop, step)
        by[a] = step
    return [c.emit("slice", v, starts=tuple(first), stops=tuple(last), steps=tuple(by))]


def _cut_at(c: Context, v: Value, x: Inputs) -> Value:
    """Return a slice whose ends only the run tells; steps and axes must be known."""
    many = c.operand(x, 1).type.numel
    if not isinstance(many, int):
        raise c.unknown(f"{dims.text(many)} ends of a slice")
    axes = tuple(range(many)) if c.maybe(x, 3) is None else c.ints(c.item(x, 3))
    steps = (1,) * many if c.maybe(x, 4) is None else c.ints(c.item(x, 4))
    first: list[Dim] = [0] * v.type.rank
    last: list[Dim] = list(v.type.shape)
    for k, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        if step < 1:
            raise c.unknown("the ends of a slice backwards")
        a = c.axis(axis, v.type.rank)
        n = v.type.shape[a]
        ends = (end_within(c, entry(c, c.operand(x, i), k), n, 0) for i in (1, 2))
        first[a], last[a] = (c.bound_within(e, n, "end") for e in ends)
    by = [1] * v.type.rank
    for axis, step in zip(axes, steps, strict=True):
        by[c.axis(axis, v.type.rank)] = step
    return c.emit("slice", v, starts=tuple(first), stops=tuple(last), steps=tuple(by))


def _bounds(c: Context, size: Dim, start: Dim, stop: Dim, step: int) -> tuple[Dim, Dim]:
    """Clamp a slice's ends into an axis, as Python does."""
    if step == 0:
        raise c.bad("step 0", "a step that is not 0")
    if isinstance(size, int) and isinstance(start, int) and isinstance(stop, int):
        low_end = step < 0 and stop < -size
        r = range(size)[slice(start, None if low_end else stop, step)]
        return (r.start, r.stop) if len(r) else (0, 0)
    return _end(c, size, start, step, 0), _end(c, size, stop, step, 0 if step > 0 else -1)


def _end(c: Context, size: Dim, at: Dim, step: int, floor: int) -> Dim:
    if not isinstance(at, int):
        return at
    least, most = c.bounds(size)
    if at >= most:
        return size if step > 0 else dims.sub(size, 1)
    if at >= 0:
        return at  # the op takes what lies within the axis
    if at <= -most:
        return floor
    from_end = dims.add(size, at)
    return from_end if -at <= least else dims.maximum(from_end, floor)


def _gather(c: Context, x: Inputs) -> Sequence[Item]:
    v, at = c.operand(x, 0), c.operand(x, 1)
    axis = c.axis(c.integer("axis", 0), v.type.rank)
    return [c.emit("gather", v, at, axis=axis)]


def _gather_elements(c: Context, x: Inputs) -> Sequence[Item]:
    v, at = c.operand(x, 0), c.operand(x, 1)
    axis = c.axis(c.integer("axis", 0), v.type.rank)
    return [c.emit("gather_elements", v, at, axis=axis)]


def _scatter_elements(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    axis = c.axis(c.integer("axis", 0), v.type.rank)
    how = c.attrs.get("reduction", "none")
    args = v, c.operand(x, 1), c.operand(x, 2)
    return [c.emit("scatter", *args, axis=axis, reduction=how)]


def _pad(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    mode = c.choice("mode", "constant", "edge", "reflect", "wrap")
    given = c.sizes(c.item(x, 1)) if len(x) > 1 else tuple(c.attrs["pads"])
    rank = v.type.rank
    axes = list(range(rank))
    if len(x) > 3 and x[3] is not None:
        axes = [c.axis(a, rank) for a in c.ints(x[3])]
    low, high = [0] * rank, [0] * rank
    lows: list[Dim] = list(low)
    highs: list[Dim] = list(high)
    for i, a in enumerate(axes):
        lows[a], highs[a] = given[i], given[i + len(given) // 2]
    if mode == "wrap":
        return [_wrapped(c, v, lows, highs)]
    if any(isinstance(p, int) and p < 0 for p in (*lows, *highs)):
        return [_trimmed(c, v, x, lows, highs, mode)]
    fill = c.optional(x, 2) or c.builder.scalar(c.attrs.get("value", 0.0), v.type.dtype)
    if fill.type.rank:
        fill = c.builder("reshape", [fill], shape=())
    return [c.emit("pad", v, fill, low=tuple(lows), high=tuple(highs), mode=mode)]


def _wrapped(c: Context, v: Value, low: Sequence[Dim], high: Sequence[Dim]) -> Value:
    """Go on at an axis's other end: each axis looked up by place modulo its size."""
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        n = v.type.shape[axis]
        if before == 0 and after == 0:
            continue
        if not (isinstance(n, int) and isinstance(before, int) and isinstance(after, int)):
            raise c.bad(f"{v.type} wrapped", "sizes known at import")
        at = np.arange(-before, n + after) % n
        v = c.emit("gather", v, c.constant(at), axis=axis)
    return v


def _trimmed(
    c: Context, v: Value, x: Inputs, low: Sequence[Dim], high: Sequence[Dim], mode: str
) -> Value:
    """Negative pads cut: first that, then what is left to pad."""
    cut = [(-p if isinstance(p, int) and p < 0 else 0) for p in (*low, *high)]
    before, after = cut[: len(low)], cut[len(low) :]
    stops = tuple(dims.sub(d, p) for d, p in zip(v.type.shape, after, strict=True))
    v = c.emit("slice", v, starts=tuple(before), stops=stops, steps=(1,) * v.type.rank)
    rest = [p if c_ == 0 else 0 for p, c_ in zip((*low, *high), cut, strict=True)]
    fill = c.optional(x, 2) or c.scalar(c.real("value"), v)
    pads = {"low": tuple(rest[: len(low)]), "high": tuple(rest[len(low) :])}
    return c.emit("pad", v, c.reshape(fill), mode=mode, **pads)


def _tile(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    repeats = c.sizes(c.item(x, 1))
    wide = tuple(d for r, n in zip(repeats, v.type.shape, strict=True) for d in (r, n))
    apart = c.builder("reshape", [v], shape=tuple(d for n in v.type.shape for d in (1, n)))
    spread = c.builder("broadcast_to", [apart], shape=wide)
    shape = tuple(dims.mul(r, n) for r, n in zip(repeats, v.type.shape, strict=True))
    return [c.emit("reshape", spread, shape=shape)]


HANDLERS: dict[str, Handler] = {
    "Identity": _identity,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Range": _range,
    "Reshape": _reshape,
    "Expand": _expand,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Flatten": _flatten,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "Pad": _pad,
    "Tile": _tile,
}
