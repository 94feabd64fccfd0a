"""Make the inputs of a case simple: zeros but for the few elements that matter, and those small."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import numpy as np

from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.search import Search, fewest
from didyma.refimpl.ir.types import Array, Tensor

FEW = 16  # elements that are made simple one by one
_SPECIAL = 2  # digits that NaN and infinities count as


def shrink_values(case: Case) -> Search[Case]:
    """Yield cases of simpler inputs; go on from those that are sent True.

    For each input zeros are tried first, then one number for all elements.  If none will do,
    as many elements as possible become 0.  Those that must stay become numbers of fewer digits.
    """
    for p in case.module.entry.params:
        case = yield from _simplified(case, p.name)


def _simplified(case: Case, name: str) -> Generator[Case, bool, Case]:
    """Yield cases of simpler values of one input; return the last that was sent True."""
    names = [p.name for p in case.module.entry.params]
    x = case.inputs()[names.index(name)]
    for simple in _uniform(x):
        if cost(simple) < cost(x) and (yield (simpler := _with_input(case, name, simple))):
            case, x = simpler, simple
            break
    if cost(x)[0] > 1:

        def kept(places: Sequence[int]) -> Case:
            return _with_input(case, name, _only(x, places))

        places = yield from fewest(_nonzero(x), kept)
        case, x = kept(places), _only(x, places)
    if len(places := _nonzero(x)) <= FEW:
        for at in places:
            for simple in _rounded(x, at):
                if (yield (simpler := _with_input(case, name, simple))):
                    case, x = simpler, simple
                    break
    return case


def cost(x: Array) -> tuple[int, int]:
    """Return how many numbers a value takes to state, and how many digits they have.

    A number that fills the array is one number, zeros are none.
    """
    places = _nonzero(x)
    if not places:
        return 0, 0
    flat = x.reshape(-1)
    if _filled(x):
        return 1, _digits(flat[0])
    return len(places), sum(_digits(flat[i]) for i in places[:FEW])


def _digits(number: np.generic) -> int:
    """Return how many digits a number has, a sign being one; 0 and 1 have none."""
    value = float(number)
    if not math.isfinite(value):
        return _SPECIAL
    digits, _, exponent = f"{abs(value):e}".partition("e")
    size = 0 if value in (0, 1) else len(digits.replace(".", "").rstrip("0")) + abs(int(exponent))
    return size + (math.copysign(1, value) < 0)


def _filled(x: Array) -> bool:
    flat = x.reshape(-1)
    return bool(flat.size) and flat.tobytes() == np.full_like(flat, flat[0]).tobytes()


def _with_input(case: Case, name: str, x: Array) -> Case:
    """Return a case with the value of one input; a number fills it if all elements are equal."""
    value = Tensor.of(x.reshape(-1)[0] if _filled(x) else x)
    return replace(case, given=tuple({**dict(case.given), name: value}.items()))


def _uniform(x: Array) -> Iterator[Array]:
    """Yield arrays of one number: 0, 1, and some numbers of the array, the special ones first."""
    yield np.zeros_like(x)
    yield np.ones_like(x)
    flat = x.reshape(-1)
    distinct = {flat[i].tobytes(): flat[i] for i in _nonzero(x)[:FEW]}
    for number in sorted(distinct.values(), key=_digits)[: FEW // 2]:
        yield np.full_like(x, number)


def _only(x: Array, places: Sequence[int]) -> Array:
    """Return an array with the elements at some places, and zeros elsewhere."""
    y = np.zeros_like(x)
    y.reshape(-1)[list(places)] = x.reshape(-1)[list(places)]
    return y


def _nonzero(x: Array) -> list[int]:
    """Return the places of elements that are not 0, whose bits are all zero."""
    raw = np.frombuffer(x.tobytes(), np.uint8).reshape(x.size, x.itemsize)
    return [int(i) for i in np.flatnonzero(raw.any(axis=1))]


def _rounded(x: Array, at: int) -> Iterator[Array]:
    """Yield arrays in which one element is a simpler number near it, or a small one."""
    number = x.reshape(-1)[at]
    value = float(number)
    if not math.isfinite(value):
        return
    near = (1.0, -1.0, 2.0, math.trunc(value), *(float(f"{value:.{n}g}") for n in (1, 2, 3)))
    for simple in sorted(near, key=lambda v: _digits(np.float64(v))):
        y = x.copy()
        with np.errstate(all="ignore"):
            y.reshape(-1)[at] = np.asarray(simple).astype(x.dtype)
        if y.reshape(-1)[at] != 0 and _digits(y.reshape(-1)[at]) < _digits(number):
            yield y
