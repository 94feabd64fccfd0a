"""Inputs whose strides are declared: their checks, and their memory as one row of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .dtypes import Array
from .refused import Refused


class Laid(tuple[int, ...]):
    """The shape of an input that has strides and an offset, both in elements."""

    strides: tuple[int, ...]
    offset: int

    def __new__(cls, shape: Sequence[int], strides: Sequence[int], offset: int) -> Laid:
        """Return the shape, which knows the rest."""
        made = super().__new__(cls, shape)
        made.strides, made.offset = tuple(strides), offset
        return made

    @property
    def span(self) -> int:
        """The elements from the beginning of the memory to the last one."""
        rows = zip(self, self.strides, strict=True)
        return 1 + self.offset + sum(max(0, (n - 1) * s) for n, s in rows) if self.numel else 0

    @property
    def numel(self) -> int:
        """The number of elements."""
        return int(np.prod(self))

    def array(self, values: Array) -> Array:
        """Return an array that lies so, with the elements of another."""
        if not self.numel:
            return values
        row = np.zeros(self.span, values.dtype)
        view = _shown(row, self, self.strides, self.offset)
        view[...] = values
        return view


def strides(name: str, array: Any) -> tuple[int | None, ...]:
    """Return the strides of an input in elements; None for an axis that moves nowhere.

    That is one of at most one position.  Error ``input-strides`` for a stride between elements.
    """
    found = list[int | None]()
    empty = 0 in array.shape
    for axis, (n, nbytes) in enumerate(zip(array.shape, array.strides, strict=True)):
        count, rest = divmod(nbytes, array.itemsize)
        still = empty or n <= 1
        if rest and not still:
            raise Refused(
                "input-strides", f"{name}, axis {axis}", got=f"a stride of {nbytes} bytes",
                want=f"a multiple of the {array.itemsize} bytes of an element",
            )  # fmt: skip
        found.append(None if still else count)
    return tuple(found)


def pitch(least: int, *lines: tuple[int | None, int, int]) -> int:
    """Return the ``s`` of ``slope * s + offset = got`` of the first line that has one.

    Each line is what was got, slope and offset; ``s`` is an integer.  Where no line has one, it is
    the ``least``: either no axis moves, so that any would do, or ``stride`` refuses what was got.
    """
    for got, slope, offset in lines:
        if got is not None and slope != 0 and (got - offset) % slope == 0:
            return (got - offset) // slope
    return least


def stride(name: str, axis: int, got: int | None, want: int, text: str) -> None:
    """Raise ``input-strides`` where an input's stride is not what its declaration says."""
    if got is not None and got != want:
        meaning = text if text == str(want) else f"{text} = {want}"
        raise Refused(
            "input-strides", f"{name}, axis {axis}", got=f"stride {got}",
            want=f"{meaning} elements",
        )  # fmt: skip


def row(array: Any, span: int, offset: int) -> Any:
    """Return the memory in which an input lies, from ``offset`` elements before its first on.

    It is no copy, unless that memory is not all of the array that the input is a view of.
    """
    if not isinstance(array, np.ndarray):
        return array.row(span, offset)
    return _row(cast("Array", array), span, offset)


def _row(array: Array, span: int, offset: int) -> Array:
    if 0 in array.shape:
        return np.zeros(span, array.dtype)
    size, start = array.itemsize, _address(array) - offset * array.itemsize
    holder = array
    while isinstance(base := cast("object", holder.base), np.ndarray):
        holder = cast("Array", base)
    low, high = _bounds(holder)
    if low <= start and start + span * size <= high:
        return _Memory(array, start, span).words().view(array.dtype)
    steps = [s // size for s in array.strides]
    made = np.zeros(span, array.dtype)
    _shown(made, array.shape, steps, offset)[...] = array
    return made


def _bounds(array: Array) -> tuple[int, int]:
    """Return where the memory of an array begins and ends."""
    ways = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    at = _address(array)
    return at + sum(min(0, w) for w in ways), at + sum(max(0, w) for w in ways) + array.itemsize


def lent(row: Array) -> tuple[Array, int] | None:
    """Return the array in whose memory a row is, and the elements before its first.

    None where it is a copy, or no row.
    """
    memory: Any = getattr(row.base, "base", None)
    return (memory.array, memory.before) if isinstance(memory, _Memory) else None


class _Memory:
    """Words of memory that an array keeps alive, ``before`` ahead of it, as NumPy takes them."""

    def __init__(self, array: Array, start: int, span: int) -> None:
        self.array, self.before = array, (_address(array) - start) // array.itemsize
        self.__array_interface__ = {
            "shape": (span,), "typestr": f"<u{array.itemsize}", "version": 3,
            "data": (start, not array.flags.writeable),
        }  # fmt: skip

    def words(self) -> Array:
        """Return the words as an array."""
        return np.asarray(self)


def _address(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def _shown(row: Array, shape: Sequence[int], strides: Sequence[int], offset: int) -> Array:
    words = row.view(f"u{row.itemsize}")  # NumPy shows no f8 by strides
    steps = [s * row.itemsize for s in strides]
    return np.ndarray(tuple(shape), words.dtype, words, offset * row.itemsize, steps).view(
        row.dtype
    )
