"""Slices and single positions of an axis, whose size may be symbolic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ops.slicing import extent
from didyma.tracer.tensor import Tensor, apply, common
from didyma.tracer.types import Size, is_size, size


def cut(x: Tensor, axis: int, s: slice) -> Tensor:
    """Return the elements of an axis that a slice names; DidymaError ``bad-index``."""
    a = Axis(x, axis)
    step = 1 if s.step is None else a.known(s.step)
    if step == 0:
        raise a.bad("a step of 0", "a step that is not 0")
    start, stop = a.bound(s.start), a.bound(s.stop)
    first, last = (None if b is None else b.value for b in (start, stop))
    known = isinstance(first, (int, NoneType)) and isinstance(last, (int, NoneType))
    if isinstance(a.size, int) and known:
        return a.sliced(*slice(first, last, step).indices(a.size))
    if step > 0:
        low = 0 if start is None else a.forward(start)
        return a.sliced(low, a.size if stop is None else a.forward(stop), step)
    flipped = Axis(apply("flip", x, axes=(axis,)), axis)
    low = 0 if start is None else a.backward(start)
    return flipped.sliced(low, a.size if stop is None else a.backward(stop), -step)


def at(x: Tensor, axis: int, i: Size) -> Tensor:
    """Return the element at a position, as an axis of size 1; DidymaError ``bad-index``."""
    a = Axis(x, axis)
    place = a.place(i)
    if isinstance(a.size, int) and isinstance(place, int):
        return a.sliced(place, place + 1, 1)
    rest = Axis(x if place == 0 else a.sliced(place, a.size, 1), axis)
    return rest.x if rest.size == 1 else rest.counted(0, 1, 1)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a tensor."""

    x: Tensor
    axis: int

    @property
    def size(self) -> Dim:
        """Its size."""
        return self.x.value.type.shape[self.axis]

    def bad(self, got: str, want: str, help: str = "") -> DidymaError:
        """Return the error for an index of this axis."""
        where = f"axis {self.axis} of {self.x!r}"
        return DidymaError("bad-index", where, got=got, want=want, help=help)

    def merged(self, count: int) -> Dim:
        """Return the size of ``count`` axes, of which this is the first, merged into one."""
        return dims.mul(*self.x.value.type.shape[self.axis : self.axis + count])

    def sliced(self, start: Dim, stop: Dim, step: int) -> Tensor:
        """Apply ``slice`` to this axis alone."""
        shape = self.x.value.type.shape
        if (start, stop, step) == (0, self.size, 1):
            return self.x
        if (count := self._constant_count(start, stop, step)) is not None:
            return self.counted(start, step, count)
        starts, stops, steps = (
            tuple(new if i == self.axis else old for i, old in enumerate(whole))
            for new, whole in ((start, (0,) * len(shape)), (stop, shape), (step, (1,) * len(shape)))
        )
        return apply("slice", self.x, starts=starts, stops=stops, steps=steps)

    def _constant_count(self, start: Dim, stop: Dim, step: int) -> int | None:
        """Number of elements of a slice from ``start``, if it is one for all sizes of the axis."""
        if isinstance(self.size, int):
            return None
        _, count = extent(start, stop, step, self.size)
        ranges = common(self.x).ranges()
        if isinstance(count, int) or not set(dims.free(count)) <= ranges.keys():
            return None
        most = dims.bounds(count, ranges)[1]
        return most if self._never_negative(dims.sub(count, most)) else None

    def counted(self, start: Dim, step: int, count: int) -> Tensor:
        """Return ``count`` elements of this axis, all of which exist whatever its size is."""
        b = common(self.x)
        if not isinstance(start, int):
            return Axis(self.sliced(start, self.size, 1), self.axis).counted(0, step, count)
        places = np.arange(start, start + step * count, step)
        return apply("gather", self.x, Tensor(b, b.constant(places)), axis=self.axis)

    def known(self, step: object) -> int:
        """Return a step as an int; DidymaError ``bad-index``."""
        if is_size(step) and isinstance(value := size(step).value, int):
            return value
        raise self.bad(f"a step of {step!r:.60}", "an int")

    def bound(self, b: object) -> Size | None:
        """Return a bound of a slice; DidymaError ``bad-index``."""
        if b is None:
            return None
        if is_size(b):
            return size(b)
        raise self.bad(
            f"a slice to or from {b!r:.60}", "ints or symbolic sizes",
            "positions that only a run knows: x[indices], dd.take or dd.compress",
        )  # fmt: skip

    def forward(self, b: Size) -> Dim:
        """Position of a bound counted from the front; a slice ends at the axis's ends."""
        if self._is_negative(b):
            return self._at_least_zero(dims.add(self.size, b.value), b)
        return b.value

    def backward(self, b: Size) -> Dim:
        """Position of a bound counted from the back, for a slice of the axis reversed."""
        if self._is_negative(b):
            return dims.sub(-1, b.value)
        return self._at_least_zero(dims.sub(dims.sub(self.size, 1), b.value), b)

    def place(self, i: Size) -> Dim:
        """Position of an index that is always within the axis; DidymaError ``bad-index``."""
        value = dims.add(self.size, i.value) if self._is_negative(i) else i.value
        room = dims.sub(dims.sub(self.size, 1), value)
        if self._never_negative(value, i) and self._never_negative(room, i):
            return value
        n, ranges = dims.text(self.size), self._ranges(i)
        within = ", ".join(f"{k} in {ranges[k][0]}..{ranges[k][1]}" for k in dims.free(self.size))
        every = f" for all {within}" if within else ""
        raise self.bad(
            f"index {i}", f"an index that is within size {n}{every}",
            "declare a larger least size, or use dd.take, which clamps" if within else "",
        )  # fmt: skip

    def _is_negative(self, b: Size) -> bool:
        if self._never_negative(b.value, b):
            return False
        if self._never_negative(dims.sub(-1, b.value), b):
            return True
        raise self.bad(
            f"{b}, which may be negative or not", "a position of one sign",
            "dd.dim declares the range of a size",
        )  # fmt: skip

    def _at_least_zero(self, d: Dim, b: Size) -> Dim:
        return d if self._never_negative(d, b) else dims.maximum(d, 0)

    def _ranges(self, b: Size | None) -> Mapping[str, tuple[int, int]]:
        declared = {v.name: (v.lo, v.hi) for v in b.ranges} if b is not None else {}
        return declared | common(self.x).ranges()

    def _never_negative(self, d: Dim, b: Size | None = None) -> bool:
        """Whether a size is at least 0 for all values of its symbols."""
        return dims.at_least(d, 0, self._ranges(b))
