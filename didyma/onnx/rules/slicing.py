"""Split, Slice, Pad and Tile."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs, NotConstant
from didyma.onnx.rules.data_dependent import clamped_end, element
from didyma.onnx.rules.padding import folded_if_constant, size_scalar
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim


def cut(c: Context, v: Value, axis: int, start: Dim, stop: Dim) -> Value:
    """Return a part of an axis, under a name of its own."""
    rank = v.type.rank
    starts = tuple(start if i == axis else 0 for i in range(rank))
    stops = tuple(stop if i == axis else d for i, d in enumerate(v.type.shape))
    return c.builder("slice", [v], starts=starts, stops=stops, steps=(1,) * rank)


def _split(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    axis = c.axis(c.integer("axis", 0), v.type.rank)
    if len(x) > 1 and x[1] is not None:
        parts: Sequence[Dim] = c.sizes(x[1])
    elif "split" in c.attrs:
        parts = tuple(c.attrs["split"])
    else:
        n = c.integer("num_outputs", len(c.outputs))
        if n != len(c.outputs):
            raise c.broken(f"num_outputs {n}", f"{len(c.outputs)}, as many as there are outputs")
        size = v.type.shape[axis]
        each = dims.ceildiv(size, n)
        parts = [each] * (n - 1) + [dims.sub(size, dims.mul(each, n - 1))]
    if len(parts) != len(c.outputs):
        raise c.broken(f"{len(parts)} parts", f"{len(c.outputs)}, as many as there are outputs")
    if any(isinstance(p, int) and p < 0 for p in parts):
        raise c.broken(
            f"parts of {', '.join(map(dims.text, parts))}", "sizes that are not negative"
        )
    at: Dim = 0
    results: list[Operand] = []
    for size in parts:
        results.append(cut(c, v, axis, at, dims.add(at, size)))
        at = dims.add(at, size)
    return results


def _slice(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    if len(x) > 1:
        try:
            starts, stops = c.sizes(c.input(x, 1)), c.sizes(c.input(x, 2))
        except NotConstant as unknown:
            try:
                return [_dynamic_slice(c, v, x)]
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


def _dynamic_slice(c: Context, v: Value, x: Inputs) -> Value:
    """Return a slice with data-dependent ends; its axes and steps must be constant."""
    many = c.operand(x, 1).type.numel
    if not isinstance(many, int):
        raise c.not_constant(f"{dims.text(many)} ends of a slice")
    axes = tuple(range(many)) if c.optional_input(x, 3) is None else c.ints(c.input(x, 3))
    steps = (1,) * many if c.optional_input(x, 4) is None else c.ints(c.input(x, 4))
    first: list[Dim] = [0] * v.type.rank
    last: list[Dim] = list(v.type.shape)
    for k, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        if step < 1:
            raise c.not_constant("the ends of a slice backwards")
        a = c.axis(axis, v.type.rank)
        n = v.type.shape[a]
        ends = (clamped_end(c, element(c, c.operand(x, i), k), n, 0) for i in (1, 2))
        first[a], last[a] = (c.bind_within(e, n, "end") for e in ends)
    by = [1] * v.type.rank
    for axis, step in zip(axes, steps, strict=True):
        by[c.axis(axis, v.type.rank)] = step
    return c.emit("slice", v, starts=tuple(first), stops=tuple(last), steps=tuple(by))


def _bounds(c: Context, size: Dim, start: Dim, stop: Dim, step: int) -> tuple[Dim, Dim]:
    """Return the ends of a slice clamped to an axis, as Python does."""
    if step == 0:
        raise c.error("step 0", "a step that is not 0")
    if isinstance(size, int) and isinstance(start, int) and isinstance(stop, int):
        low_end = step < 0 and stop < -size
        r = range(size)[slice(start, None if low_end else stop, step)]
        return (r.start, r.stop) if len(r) else (0, 0)
    return _end(c, size, start, step, 0), _end(c, size, stop, step, 0 if step > 0 else -1)


def _end(c: Context, size: Dim, at: Dim, step: int, floor: int) -> Dim:
    if not isinstance(at, int):
        return at if c.bounds(at)[0] >= 0 else dims.maximum(at, 0)  # at sizes that nobody means
    least, most = c.bounds(size)
    if at >= most:
        return size if step > 0 else dims.sub(size, 1)
    if at >= 0:
        return at  # the op takes what lies within the axis
    if at <= -most:
        return floor
    from_end = dims.add(size, at)
    return from_end if -at <= least else dims.maximum(from_end, floor)


def _pad(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    mode = c.choice("mode", "constant", "edge", "reflect", "wrap")
    given = c.sizes(c.input(x, 1)) if len(x) > 1 else tuple(c.attrs["pads"])
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
    """Pad in the mode ``wrap``: look each axis up at positions modulo its size."""
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        n = v.type.shape[axis]
        if before == 0 and after == 0:
            continue
        count, first = c.iota(dims.add(before, n, after)), size_scalar(c, before)
        at = c.emit("remainder", c.emit("subtract", count, first), size_scalar(c, n))
        v = c.emit("gather", v, folded_if_constant(c, at), axis=axis)
    return v


def _trimmed(
    c: Context, v: Value, x: Inputs, low: Sequence[Dim], high: Sequence[Dim], mode: str
) -> Value:
    """Cut what negative pads say, then pad the rest."""
    cut = [(-p if isinstance(p, int) and p < 0 else 0) for p in (*low, *high)]
    before, after = cut[: len(low)], cut[len(low) :]
    stops = tuple(dims.sub(d, p) for d, p in zip(v.type.shape, after, strict=True))
    v = c.emit("slice", v, starts=tuple(before), stops=stops, steps=(1,) * v.type.rank)
    rest = [p if c_ == 0 else 0 for p, c_ in zip((*low, *high), cut, strict=True)]
    fill = c.optional(x, 2) or c.scalar(c.real("value"), v)
    pads = {"low": tuple(rest[: len(low)]), "high": tuple(rest[len(low) :])}
    return c.emit("pad", v, c.reshape(fill), mode=mode, **pads)


def _tile(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    repeats = c.sizes(c.input(x, 1))
    wide = tuple(d for r, n in zip(repeats, v.type.shape, strict=True) for d in (r, n))
    apart = c.builder("reshape", [v], shape=tuple(d for n in v.type.shape for d in (1, n)))
    spread = c.builder("broadcast_to", [apart], shape=wide)
    shape = tuple(dims.mul(r, n) for r, n in zip(repeats, v.type.shape, strict=True))
    return [c.emit("reshape", spread, shape=shape)]


HANDLERS: dict[str, Handler] = {
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Tile": _tile,
}
