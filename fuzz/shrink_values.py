"""Make the inputs of a case simple: zeros but for the few elements that matter, and those small."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from didyma.fuzz.graphs import Case
from didyma.refimpl.ir.types import Array, Tensor

FEW = 16  # elements that are made simple one by one


def shrink_values(case: Case, still: Callable[[Case], bool], end: float) -> Case:
    """Return the case of simplest inputs found that ``still`` shows it; ``end`` is monotonic time.

    All zeros, all ones or a short ramp are tried for each input.  If none will do, elements become
    0 in ever smaller parts: the minimising delta debugging of Zeller and Hildebrandt ("Simplifying
    and Isolating Failure-Inducing Input", 2002).  Those that must stay are rounded, or become 1.
    """
    for p in case.module.entry.params:
        case = _Input(case, p.name, still, end).simplest()
    return case


class _Input:
    """One input of a case, in the making."""

    def __init__(self, case: Case, name: str, still: Callable[[Case], bool], end: float) -> None:
        self.case = case
        self.name = name
        self.still = still
        self.end = end
        names = [p.name for p in case.module.entry.params]
        self.value = case.inputs()[names.index(name)]

    def simplest(self) -> Case:
        """Return the case with the simplest value of this input that was found."""
        if any(self.takes(x) for x in _plain(self.value)):
            return self.case
        self.takes(_like(self.value, np.arange(self.value.size) % 5))
        size = self.value.size
        while (size := size // 2) > 0:
            for start in range(0, self.value.size, size):
                self.takes(_zeroed(self.value, start, start + size))
        if _nonzero(self.value).size <= FEW:
            for at in _nonzero(self.value):
                any(self.takes(x) for x in _rounded(self.value, int(at)))
        return self.case

    def takes(self, x: Array) -> bool:
        """Keep a value if it is another one and still shows the disagreement."""
        if x.tobytes() == self.value.tobytes() or time.monotonic() > self.end:
            return False
        flat = x.reshape(-1)
        same = bool(flat.size) and flat.tobytes() == np.full_like(flat, flat[0]).tobytes()
        given = {**dict(self.case.given), self.name: Tensor.of(flat[0] if same else x)}
        case = replace(self.case, given=tuple(given.items()))
        if not self.still(case):
            return False
        self.case, self.value = case, x
        return True


def _plain(x: Array) -> Iterator[Array]:
    yield np.zeros_like(x)
    yield np.ones_like(x)


def _like(x: Array, numbers: Array) -> Array:
    """Return numbers in the dtype and shape of an array."""
    return np.asarray(numbers.astype(x.dtype).reshape(x.shape), order="C")


def _zeroed(x: Array, start: int, end: int) -> Array:
    y = x.copy()
    y.reshape(-1)[start:end] = np.zeros((), x.dtype)
    return y


def _nonzero(x: Array) -> Array:
    """Return the places of elements that are not 0, whose bits are all zero."""
    raw = np.frombuffer(x.tobytes(), np.uint8).reshape(x.size, x.itemsize)
    return np.flatnonzero(raw.any(axis=1))


def _rounded(x: Array, at: int) -> Iterator[Array]:
    """Yield arrays in which one element is 1, or without its fraction."""
    number = float(x.reshape(-1)[at])
    for simple in (1.0, float(math.trunc(number))) if math.isfinite(number) else ():
        y = x.copy()
        y.reshape(-1)[at] = np.asarray(simple).astype(x.dtype)
        yield y
