"""Ops that slice, concatenate and pad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.dims import Dim, linear_form, never_negative
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import ALL as EVERY
from didyma.refimpl.ir.types import Array, DType, Shape, TensorType
from didyma.refimpl.ops.attributes import Ints, attributes, choice, integer, integers, sizes
from didyma.refimpl.ops.choose import flag, pick, size
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.movement import MOVED, moving
from didyma.refimpl.ops.rules import (
    at_least_zero,
    at_most,
    attr_error,
    check_axis,
    check_lengths,
    check_same_dtype,
    concrete,
    shape_error,
)
from didyma.refimpl.ops.spec import Chooser, Index, Kind, Op, Read, Sample, Use

Mode: TypeAlias = Literal["constant", "edge", "reflect"]
MODES: tuple[Mode, ...] = get_args(Mode)
MANY = 64  # operands of a concat; longer ones are concats of concats

T = TypeVar("T")


def joined(parts: Sequence[T], join: Callable[[Sequence[T]], T]) -> T:
    """Apply ``join`` to one or more parts, to at most ``MANY`` at a time.

    >>> joined([str(i % 10) for i in range(70)], "".join)
    '0123456789012345678901234567890123456789012345678901234567890123456789'
    """
    if len(parts) <= MANY:
        return join(parts) if len(parts) > 1 else parts[0]
    groups = [parts[i : i + MANY] for i in range(0, len(parts), MANY)]
    return joined([joined(g, join) for g in groups], join)


def extent(start: Dim, stop: Dim, step: int, n: Dim) -> tuple[Dim, Dim]:
    """Return the first position and the number of positions of a slice of an axis of size n.

    >>> extent(1, 9, 3, 8), extent(6, -1, -2, 8), extent(0, 5, 1, dims.symbol("n"))
    ((1, 3), (6, 4), (0, Min(5, n)))
    """
    if step > 0:
        count = dims.ceildiv(dims.sub(at_most(stop, n), start), step)
    else:
        start = at_most(start, dims.sub(n, 1))
        count = dims.ceildiv(dims.sub(start, stop), -step)
    return start, at_least_zero(count)


@attributes
class Slice:
    """Bounds and step of each axis."""

    starts: Shape = sizes("first position on each axis", least=-1)
    stops: Shape = sizes("bound of each axis, itself left out", least=-1)
    steps: Ints = integers("distance on each axis, not 0")

    def of(self, shape: Shape) -> list[tuple[Dim, Dim, int]]:
        """Return the first position, size and step of each axis of an operand."""
        axes = zip(self.starts, self.stops, self.steps, shape, strict=True)
        return [(*extent(start, stop, step, n), step) for start, stop, step, n in axes]


def _slice_infer(types: Sequence[TensorType], a: Slice) -> TensorType:
    (t,) = types
    check_lengths("slice", t.rank, starts=a.starts, stops=a.stops, steps=a.steps)
    _check_bounds(a)
    return t.with_shape(*(count for _, count, _ in a.of(t.shape)))


def _check_bounds(a: Slice) -> None:
    for start, stop, step in zip(a.starts, a.stops, a.steps, strict=True):
        if step == 0 or (step > 0 and -1 in (start, stop)):
            raise attr_error(
                "slice",
                "starts, stops, steps",
                (start, stop, step),
                "step != 0, bounds >= 0 (>= -1 where the step is negative)",
                "resolve bounds counted from the end: here -1 is the place before the first",
            )


def _slice(args: Sequence[Array], a: Slice, _result: TensorType) -> Array:
    _check_bounds(a)  # symbols between the ends of their ranges
    keys: list[slice] = []
    for start, stop, step in zip(a.starts, a.stops, a.steps, strict=True):
        assert isinstance(start, int)
        assert isinstance(stop, int)
        if start == -1:
            keys.append(slice(0, 0))
        else:
            keys.append(slice(start, None if stop == -1 else stop, step))
    return args[0][tuple(keys)]


def _slice_element(at: Index, reads: Sequence[Read], use: Use[Slice]) -> Expr:
    parts = use.attrs.of(use.types[0].shape)
    return reads[0](
        tuple(
            ex.add(ex.of_dim(start), ex.mul(i, ex.index(step)))
            for i, (start, _, step) in zip(at, parts, strict=True)
        )
    )


def _slice_axis(ch: Chooser, n: Dim) -> tuple[Dim, Dim, int]:
    step = pick(ch, (1, 2, -1, 3, -2, -3, 5))
    if isinstance(n, int):
        empty = n == 0 or ch.below(24) == 23
        low = ch.below(n + 1 if empty else (n + 1) // 2)
        high = low if empty else n - ch.below((n - low + 1) // 2)
        if ch.below(32) == 31:
            high += 3  # beyond the end: clamped
        return (low, high, step) if step > 0 else (high - 1, low - 1, step)
    low = ch.below(3)
    cut = ch.below(3)
    if step > 0:
        return low, pick(ch, (n, dims.sub(n, cut), 5)), step
    return dims.sub(n, 1 + cut), low - 1, step


def _slice_sample(ch: Chooser, t: TensorType) -> Sample | None:
    whole: list[tuple[Dim, Dim, int]] = []
    for d in t.shape:
        part = _slice_axis(ch, d) if ch.below(3) else (0, d, 1)
        if not all(isinstance(b, int) or never_negative(b) for b in part[:2]):
            part = (0, d, part[2]) if part[2] > 0 else (d, -1, part[2])
        whole.append(part)
    starts, stops, steps = zip(*whole, strict=True) if whole else ((), (), ())
    named: dict[str, Attr] = {"starts": starts, "stops": stops, "steps": steps}
    return Sample((t,), freeze(named))


@attributes
class Concat:
    """The axis that grows."""

    axis: int = integer("axis to join along")


def _concat_infer(types: Sequence[TensorType], attrs: Concat) -> TensorType:
    check_same_dtype("concat", types)
    t, axis = types[0], attrs.axis
    check_axis("concat", axis, t.rank)
    for other in types[1:]:
        if other.rank != t.rank or any(
            a != axis and not dims.equal(m, n)
            for a, (m, n) in enumerate(zip(t.shape, other.shape, strict=False))
        ):
            raise shape_error("concat", types, f"{other} after {t}", f"equal sizes off axis {axis}")
    joined = linear_form(dims.add(*(o.shape[axis] for o in types)))
    return t.with_shape(*t.shape[:axis], joined, *t.shape[axis + 1 :])


def _concat(args: Sequence[Array], a: Concat, _result: TensorType) -> Array:
    return np.concatenate(args, a.axis)


def _concat_element(at: Index, reads: Sequence[Read], use: Use[Concat]) -> Expr:
    axis, types = use.attrs.axis, use.types
    ends: list[Dim] = [0]
    for t in types:
        ends.append(dims.add(ends[-1], t.shape[axis]))

    def part(k: int) -> Expr:
        i = ex.sub(at[axis], ex.of_dim(ends[k]))
        return reads[k]((*at[:axis], i, *at[axis + 1 :]))

    live = [k for k, t in enumerate(types) if t.shape[axis] != 0] or [0]
    value = part(live[-1])
    for k in reversed(live[:-1]):
        value = ex.select(ex.compare("lt", at[axis], ex.of_dim(ends[k + 1])), part(k), value)
    return value


def _concat_sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.rank == 0:
        return None
    axis = ch.below(t.rank)
    types = [t]
    for _ in range(pick(ch, (1, 2, 0, 3))):
        if flag(ch):
            types.append(t)
        else:
            types.append(t.with_shape(*t.shape[:axis], size(ch, 5), *t.shape[axis + 1 :]))
    first = ch.below(len(types))
    types[0], types[first] = types[first], types[0]
    return Sample(tuple(types), freeze({"axis": axis}))


@attributes
class Pad:
    """How wide the border is on each axis, and what it holds."""

    low: Shape = sizes("places before the first, on each axis")
    high: Shape = sizes("places after the last, on each axis")
    mode: Mode = choice("what the border holds", MODES)


def _pad_infer(types: Sequence[TensorType], a: Pad) -> TensorType:
    t, fill = types
    check_same_dtype("pad", types)
    if fill.rank != 0:
        raise shape_error("pad", types, f"a fill of rank {fill.rank}", "a scalar fill")
    check_lengths("pad", t.rank, low=a.low, high=a.high)
    return t.with_shape(*(dims.add(*three) for three in zip(a.low, t.shape, a.high, strict=True)))


def _border(low: int, n: int, high: int, mode: Mode) -> Array:
    """Return the operand position of each position of a padded axis of n > 0 elements."""
    place = np.arange(-low, n + high)
    if mode == "reflect" and n > 1:
        folded = place % (2 * (n - 1))
        place = np.where(folded < n, folded, 2 * (n - 1) - folded)
    return np.clip(place, 0, n - 1)


def _pad(args: Sequence[Array], a: Pad, result: TensorType) -> Array:
    operand, fill = args
    low, high = concrete(a.low), concrete(a.high)
    if a.mode == "constant":
        out = np.empty(concrete(result.shape), operand.dtype)
        out[...] = fill
        out[tuple(slice(a, a + n) for a, n in zip(low, operand.shape, strict=True))] = operand
        return out
    for axis, n in enumerate(operand.shape):
        if low[axis] == 0 and high[axis] == 0:
            continue
        if n == 0:
            border = low[axis] + high[axis]
            shape = [*operand.shape[:axis], border, *operand.shape[axis + 1 :]]
            operand = np.broadcast_to(fill, shape)
        else:
            operand = np.take(operand, _border(low[axis], n, high[axis], a.mode), axis)
    return operand


def _pad_place(i: Expr, low: Dim, n: Dim, high: Dim, mode: Mode) -> tuple[Expr, list[Expr]]:
    """Return the operand position of position ``i`` and the conditions under which it has one."""
    size_, place = ex.of_dim(n), ex.sub(i, ex.of_dim(low))
    last = ex.of_dim(dims.sub(n, 1))
    if low == 0 and high == 0:
        return i, []
    if mode == "constant":
        conditions = [] if low == 0 else [ex.compare("ge", place, ex.ZERO)]
        return place, conditions if high == 0 else [*conditions, ex.compare("lt", place, size_)]
    some = [ex.compare("gt", size_, ex.ZERO)]
    if mode == "edge":
        return ex.maximum(ex.minimum(place, last), ex.ZERO), some
    period = ex.mul(ex.index(2), last)
    folded = ex.mod(place, period)  # x mod 0 = 0: an axis of one element repeats it
    return ex.minimum(folded, ex.sub(period, folded)), some


def _pad_element(at: Index, reads: Sequence[Read], use: Use[Pad]) -> Expr:
    t, pad = use.types[0], use.attrs
    source: list[Expr] = []
    conditions: list[Expr] = []
    for i, a, n, b in zip(at, pad.low, t.shape, pad.high, strict=True):
        place, where = _pad_place(i, a, n, b, pad.mode)
        source.append(place)
        conditions += where
    return ex.select(ex.all_of(conditions), reads[0](tuple(source)), reads[1](()))


def _pad_sample(ch: Chooser, t: TensorType) -> Sample | None:
    low = tuple(pick(ch, (1, 0, 0, 2, 3)) for _ in t.shape)
    high = tuple(pick(ch, (0, 1, 0, 2, 4)) for _ in t.shape)
    mode = pick(ch, MODES)
    fill = t.with_shape()
    return Sample((t, fill), freeze({"low": low, "high": high, "mode": mode}))


SLICE = Op(
    name="slice",
    doc=(
        "Every ``steps[a]``-th element of each axis a from ``starts[a]`` on, before ``stops[a]``: "
        "element k is the operand's at ``start + k * step``. As Python's slice, once bounds "
        "counted from the end are resolved: starts and stops are sizes >= 0, and with a negative "
        "step -1 is the place before the first element. Bounds beyond the ends are clamped: the "
        "size is max(0, ceildiv(min(stop, n) - start, step)), and with a negative step "
        "max(0, ceildiv(min(start, n - 1) - stop, -step)), from min(start, n - 1) on."
    ),
    special=MOVED,
    kind=Kind.INJECTIVE,
    dtypes=EVERY,
    rules=moving(Slice, _slice_infer, _slice, _slice_element),
    sample=_slice_sample,
    nearby=True,
    example=example(
        [[0, 1, 2, 3, 4, 5]], [4, 2, 0], DType.I32, starts=(4,), stops=(-1,), steps=(-2,)
    ),
)

CONCAT = Op(
    name="concat",
    doc="The operands one after another along ``axis``; other sizes are equal.",
    special=MOVED,
    kind=Kind.INJECTIVE,
    arity=(1, MANY),
    dtypes=EVERY,
    rules=moving(Concat, _concat_infer, _concat, _concat_element),
    sample=_concat_sample,
    example=example([[1, 2], [3]], [1, 2, 3], DType.I32, axis=0),
)

PAD = Op(
    name="pad",
    doc=(
        "A border of ``low`` and ``high`` places on each axis: of the fill (operand 1, a scalar), "
        "of the outermost element (``edge``), or of the mirror image without its edge, repeated "
        "as often as needed (``reflect``)."
    ),
    special=MOVED + " ``edge`` and ``reflect`` of an empty tensor give the fill.",
    kind=Kind.INJECTIVE,
    arity=(2, 2),
    dtypes=EVERY,
    rules=moving(Pad, _pad_infer, _pad, _pad_element),
    sample=_pad_sample,
    example=example(
        [[1, 2, 3], 0], [3, 2, 1, 2, 3, 2], DType.I32, low=(2,), high=(1,), mode="reflect"
    ),
)

ALL: tuple[Op, ...] = (SLICE, CONCAT, PAD)
