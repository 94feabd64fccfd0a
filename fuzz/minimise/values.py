"""Make the inputs of a case simple: zeros but for the few elements that matter, and those small."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import replace

import numpy as np

from didyma.fuzz.graphs import Case
from didyma.refimpl.ir.types import Array, Tensor

FEW = 16  # elements that are made simple one by one


def shrink_values(case: Case) -> Generator[Case, bool, None]:
    """Yield cases of simpler inputs; go on from those that are sent True.

    All zeros, all ones or a short ramp are tried for each input.  If none will do, elements become
    0 in ever smaller parts: the minimising delta debugging of Zeller and Hildebrandt ("Simplifying
    and Isolating Failure-Inducing Input", 2002).  Those that must stay are rounded, or become 1.
    """
    for p in case.module.entry.params:
        case = yield from _simplified(case, p.name)


def _simplified(case: Case, name: str) -> Generator[Case, bool, Case]:
    """Yield cases of simpler values of one input; return the last that was sent True."""
    names = [p.name for p in case.module.entry.params]
    x = case.inputs()[names.index(name)]
    for simple in _plain(x):
        if simple.tobytes() == x.tobytes():
            return case
        if (yield (simpler := _with_input(case, name, simple))):
            return simpler
    ramp = _like(x, np.arange(x.size) % 5)
    if ramp.tobytes() != x.tobytes() and (yield (simpler := _with_input(case, name, ramp))):
        case, x = simpler, ramp
    size = x.size
    while (size := size // 2) > 0:
        for start in range(0, x.size, size):
            simple = _zeroed(x, start, start + size)
            if simple.tobytes() == x.tobytes():
                continue
            if (yield (simpler := _with_input(case, name, simple))):
                case, x = simpler, simple
    if _nonzero(x).size <= FEW:
        for at in _nonzero(x):
            for simple in _rounded(x, int(at)):
                if simple.tobytes() == x.tobytes():
                    break
                if (yield (simpler := _with_input(case, name, simple))):
                    case, x = simpler, simple
                    break
    return case


def _with_input(case: Case, name: str, x: Array) -> Case:
    """Return a case with the value of one input; a number fills it if all elements are equal."""
    flat = x.reshape(-1)
    same = bool(flat.size) and flat.tobytes() == np.full_like(flat, flat[0]).tobytes()
    given = {**dict(case.given), name: Tensor.of(flat[0] if same else x)}
    return replace(case, given=tuple(given.items()))


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
