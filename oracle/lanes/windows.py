"""Accesses that are slices: an index that is affine in one lane variable per axis.

They need no offsets to be computed and no gather, and their bounds are two comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from didyma.oracle.lanes.code import Code
from didyma.oracle.lanes.races import Mask
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir.loop import INDEX, Binary, Const, Expr, Var
from didyma.refimpl.ir.types import Array

Uniform: TypeAlias = Callable[[Expr], Code | None]


@dataclass(frozen=True, slots=True)
class LaneVar:
    """A loop variable that is 0, 1, … along an axis of the lanes."""

    axis: int
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """``scale * lane + rest`` on one axis of a buffer; scale 0 where it is uniform."""

    lane: LaneVar | None
    scale: int
    offset: int
    rest: Code | None  # what else is added, if it is not known beforehand


def part(e: Expr, lanes: Mapping[str, LaneVar], uniform: Uniform) -> Part | None:
    """Split an index, or return None if it is not affine in at most one lane variable."""
    match e:
        case Const(value):
            return Part(None, 0, int(value), None)
        case Var(name) if name in lanes:
            return Part(lanes[name], 1, 0, None)
        case Binary("add" | "sub" | "mul" as op, a, b) if _mentions(e, lanes):
            x, y = part(a, lanes, uniform), part(b, lanes, uniform)
            return None if x is None or y is None else _combine(op, x, y)
        case _:
            code = uniform(e)
            if code is None or not code.uniform:
                return None
            return Part(None, 0, int(code.value), None) if code.known else Part(None, 0, 0, code)


def _mentions(e: Expr, lanes: Mapping[str, LaneVar]) -> bool:
    match e:
        case Var(name):
            return name in lanes
        case Binary(_, a, b):
            return _mentions(a, lanes) or _mentions(b, lanes)
        case _:
            return False


def _combine(op: str, x: Part, y: Part) -> Part | None:
    if op == "mul":
        if y.lane is not None or y.rest is not None:
            x, y = y, x
        if y.lane is not None or y.rest is not None or x.rest is not None:
            return None
        return Part(x.lane, x.scale * y.offset, x.offset * y.offset, None)
    if x.lane is not None and y.lane is not None:
        return None
    sign = 1 if op == "add" else -1
    if (x.rest is not None and y.rest is not None) or (sign < 0 and y.rest is not None):
        return None
    lane, scale = (x.lane, x.scale) if y.lane is None else (y.lane, sign * y.scale)
    return Part(lane, scale, x.offset + sign * y.offset, x.rest or y.rest)


class Window:
    """A slice of a buffer whose axes are the axes of the lanes."""

    __slots__ = ("_expand", "_moving", "_order", "_template", "axes", "shape")

    def __init__(self, parts: Sequence[Part], shape: tuple[int, ...], depth: int) -> None:
        self.shape = shape
        lanes = [p.lane.axis for p in parts if p.lane is not None]
        self.axes = frozenset(lanes)
        self._template = [0 if p.rest is not None else _place(p, p.offset) for p in parts]
        self._moving = [(i, p) for i, p in enumerate(parts) if p.rest is not None]
        ranked = sorted(range(len(lanes)), key=lanes.__getitem__)
        self._order = None if ranked == list(range(len(lanes))) else ranked
        full = tuple(slice(None) if a in self.axes else None for a in range(depth))
        self._expand = full if lanes and None in full else None

    def view(self, grid: Array, mask: Mask) -> Value | None:
        """Return the elements, over lanes; None if some index is out of bounds."""
        index = self._index(mask)
        if index is None:
            return None
        seen = grid[tuple(index)]
        if self._order is not None:
            seen = seen.transpose(self._order)
        return seen if self._expand is None else seen[self._expand]

    def target(self, grid: Array, mask: Mask) -> Array | None:
        """Return the elements as ``view`` does, as an array to be written to."""
        if self.axes:
            return self.view(grid, mask)
        index = self._index(mask)
        return None if index is None else grid[(*index, ...)]

    def _index(self, mask: Mask) -> list[slice | int] | None:
        index = self._template
        if self._moving:
            index = list(index)
            for i, p in self._moving:
                assert p.rest is not None
                at = int(p.rest.run(mask)) + p.offset
                if not inside(p, at, self.shape[i]):
                    return None
                index[i] = _place(p, at)
        return index

    @property
    def still(self) -> bool:
        """True if lanes keep to their own coordinates whatever the surrounding loops do."""
        return all(p.lane is None for _, p in self._moving)


def _place(p: Part, at: int) -> slice | int:
    if p.lane is None:
        return at
    end = at + (p.lane.size - 1) * p.scale
    if p.scale > 0:
        return slice(at, end + 1, p.scale)
    return slice(at, end - 1 if end else None, p.scale)


def inside(p: Part, at: int, size: int) -> bool:
    """Return whether a part that starts at ``at`` stays within an axis."""
    end = at if p.lane is None else at + (p.lane.size - 1) * p.scale
    return 0 <= at < size and 0 <= end < size


def window(
    index: Sequence[Expr],
    shape: tuple[int, ...],
    depth: int,
    lanes: Mapping[str, LaneVar],
    uniform: Uniform,
) -> Window | None:
    """Return the slice an index describes, or None if it is none or is not within bounds."""
    parts: list[Part] = []
    axes: set[int] = set()
    for e, size in zip(index, shape, strict=True):
        p = part(e, lanes, uniform) if e.dtype == INDEX else None
        if p is None or (p.lane is not None and (p.lane.axis in axes or p.scale == 0)):
            return None
        if p.rest is None and not inside(p, p.offset, size):
            return None
        if p.lane is not None:
            axes.add(p.lane.axis)
        parts.append(p)
    return Window(parts, shape, depth)
