"""How Resize and Upsample resize each axis: its new size, and the coordinates of its elements.

A scale is a quotient of sizes, and the coordinate of an element is a quotient that is linear in
its index.  So symbolic sizes are computed with as exactly as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Inputs
from didyma.onnx.rules.data_dependent import bind_sizes
from didyma.onnx.values import Constant, Operand, size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType

MODES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
MOST = 1 << 60  # of terms of coordinates, so that i64 holds twice the sum of two


class Coordinates(NamedTuple):
    """Element ``i`` of the result lies at ``(start + i * step) / over`` in the operand."""

    start: Dim
    step: Dim
    over: Dim


@dataclass(frozen=True, slots=True)
class AxisResize:
    """How one axis is resized: from ``n`` elements to ``out``, by the factor ``up / down``."""

    index: int
    n: Dim
    out: Dim
    up: Dim
    down: Dim
    roi: tuple[Fraction, Fraction]

    @property
    def idle(self) -> bool:
        """Whether every element keeps its index."""
        return self.out == self.n and self.up == self.down

    @property
    def integer_factor(self) -> int:
        """The factor if it is an integer, or else 0."""
        up, down = self.up, self.down
        return up // down if isinstance(up, int) and isinstance(down, int) and not up % down else 0

    def coordinates(self, mode: str) -> Coordinates:
        """Return the coordinates of the result, by a ``coordinate_transformation_mode``."""
        n, out, up, down = self.n, self.out, self.up, self.down
        many = dims.minimum(dims.sub(out, 1), 1)  # 0 for a result of one element, 1 for more
        # ``out`` is the exact size ``wide / part``, rounded down
        wide, part = (out, 1) if self.down == n else (dims.mul(n, up), down)
        rest = dims.maximum(dims.sub(wide, part), 1)  # not 0 for one element
        match mode:
            case "asymmetric":
                return Coordinates(0, down, up)
            case "tf_half_pixel_for_nn":
                return Coordinates(down, dims.mul(2, down), dims.mul(2, up))
            case "align_corners":
                return Coordinates(0, dims.mul(dims.sub(n, 1), part), rest)
            case "tf_crop_and_resize":
                return self._cropped(many, part, rest)
            case _:
                start = dims.sub(down, up)
        if mode == "pytorch_half_pixel":
            start = dims.mul(start, many)
        if mode == "half_pixel_symmetric":
            start = dims.add(start, dims.sub(dims.mul(n, up), dims.mul(out, down)))
        return Coordinates(start, dims.mul(2, down), dims.mul(2, up))

    def _cropped(self, many: Dim, part: Dim, rest: Dim) -> Coordinates:
        unit = math.lcm(*(r.denominator for r in self.roi))
        first, last = (int(r * unit) for r in self.roi)
        end = dims.sub(self.n, 1)
        middle = dims.mul(first + last, dims.sub(1, many))
        start = dims.mul(end, rest, dims.add(dims.mul(2 * first, many), middle))
        step = dims.mul(2 * (last - first), end, part)
        return Coordinates(start, step, dims.mul(2 * unit, rest))

    def check(self, c: Context, p: Coordinates) -> None:
        """Raise ``D-too-large`` if i64 may not hold the terms of the coordinates."""
        last = dims.mul(p.step, dims.maximum(self.out, 1))
        for d in (p.start, last, p.over, dims.mul(self.n, self.up), dims.mul(self.out, self.down)):
            largest = max(map(abs, c.bounds(d)))
            if largest >= MOST:
                raise c.error(
                    f"coordinates computed with numbers of up to {dims.count_text(largest)}",
                    f"less than {dims.count_text(MOST)}",
                    "fix the size, or declare a narrower range",
                    "D-too-large",
                )


def quotient(c: Context, top: Dim, below: Dim) -> Dim:
    """Return a quotient of sizes, rounded down; bound to a symbol if the divisor is symbolic.

    The memory planner takes only sizes that are divided by numbers.
    """
    d = dims.floordiv(top, below)
    if isinstance(d, int) or isinstance(below, int):
        return d
    count = c.reshape(c.value(size(d)))
    bound = c.builder.bind(count, d, "u_quotient", max(c.bounds(d)[0], 0))
    c.bound_sizes.add(c.builder, count, bound)
    return bound


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of the least denominator between two positive numbers."""
    floor = math.floor(low)
    if floor == low or floor < math.floor(high):
        return Fraction(math.ceil(low))
    return floor + 1 / _simplest(1 / (high - floor), 1 / (low - floor))


def simplest_fraction(x: Any) -> Fraction:
    """Return the simplest fraction that a float is the nearest float to.

    Models write the scale 7/10 as a float; taken literally, sizes would fall short of integers.

    >>> simplest_fraction(np.float32(0.7))
    Fraction(7, 10)
    """
    if x == 0:
        return Fraction(0)
    exact = abs(Fraction(float(x)))
    near = Fraction(float(np.spacing(np.abs(x)))) / 2
    fraction = _simplest(exact - near, exact + near)
    return fraction if x > 0 else -fraction


def _fractions(c: Context, item: Operand | None) -> list[Fraction]:
    """Return the elements of a constant operand as fractions; none if it is omitted."""
    if item is None:
        return []
    a = c.array(item).reshape(-1)
    if a.dtype.kind != "f" or not np.isfinite(a).all():
        raise c.broken(f"{a.dtype}{a.tolist()}", "finite floats")
    return [simplest_fraction(x) for x in a]


def axis_resizes(c: Context, v: Value, x: Inputs) -> list[AxisResize]:
    """Return how each axis that the node names is resized."""
    rank = v.type.rank
    axes = tuple(c.axis(a, rank) for a in c.attrs.get("axes", range(rank)))
    roi, scales, sizes = c.optional_input(x, 1), c.optional_input(x, 2), c.optional_input(x, 3)
    if c.opset < 11:
        roi, scales, sizes = None, c.optional_input(x, 1), None
    if scales is None and "scales" in c.attrs:
        scales = Constant(np.array(c.attrs["scales"], np.float32), DType.F32)
    corners = _fractions(c, roi)
    if len(corners) != 2 * len(axes):
        corners = [Fraction(0)] * len(axes) + [Fraction(1)] * len(axes)
    factors = _fractions(c, scales)
    counts: tuple[Dim, ...] = ()
    if not factors:
        if sizes is None:
            raise c.broken("neither scales nor sizes", "one of them")
        counts = bind_sizes(c, sizes)
    if len(factors or counts) != len(axes):
        raise c.broken(f"{len(factors or counts)} sizes for {len(axes)} axes", "one for each axis")
    resizes: list[AxisResize] = []
    for i, a in enumerate(axes):
        n, ends = v.type.shape[a], (corners[i], corners[i + len(axes)])
        if factors:
            up, down = factors[i].numerator, factors[i].denominator
            if up <= 0:
                raise c.broken(f"the scale {up / down}", "a positive number")
            resizes.append(AxisResize(a, n, dims.floordiv(dims.mul(n, up), down), up, down, ends))
        else:
            resizes.append(AxisResize(a, n, counts[i], counts[i], n, ends))
        if n == 0 or c.bounds(resizes[-1].out)[1] < 0:
            got = f"{dims.text(n)} elements resized to {dims.text(resizes[-1].out)}"
            raise c.broken(got, "sizes of at least 1")
    policy = c.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    if factors or policy == "stretch":
        return resizes
    return _keep_aspect_ratio(c, resizes, policy == "not_larger")


def _keep_aspect_ratio(
    c: Context, resizes: Sequence[AxisResize], smallest: bool
) -> list[AxisResize]:
    """Resize all axes by the smallest factor of any, or by the largest."""

    def best(a: tuple[Dim, Dim], b: tuple[Dim, Dim]) -> tuple[Dim, Dim]:
        less = dims.sub(dims.mul(a[0], b[1]), dims.mul(b[0], a[1]))
        gain = less if smallest else dims.sub(0, less)
        other = dims.minimum(dims.maximum(gain, 0), 1)  # 1 to take the second
        up, down = (dims.add(p, dims.mul(dims.sub(q, p), other)) for p, q in zip(a, b, strict=True))
        return up, down

    up, down = reduce(best, [(s.up, s.down) for s in resizes])
    if any(c.bounds(s.n)[0] < 1 for s in resizes):
        small = ", ".join(dims.text(s.n) for s in resizes)
        raise c.error(f"the aspect ratio of sizes {small} kept", "sizes of at least 1")
    outs = (
        quotient(c, dims.add(dims.mul(2, s.n, up), down), dims.mul(2, down)) for s in resizes
    )  # rounded half up
    return [replace(s, out=out, up=up, down=down) for s, out in zip(resizes, outs, strict=True)]
