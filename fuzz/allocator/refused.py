"""Judge what problems of an arena are refused: those of which one thing is wrong, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from random import Random
from typing import Any, TypeAlias

from didyma.codegen.memory.arena import FREE, problem
from didyma.codegen.memory.arena.problem import LIMIT
from didyma.refimpl.errors import DidymaError

MOST = 1 << 30  # of an alignment
COUNT = 6  # buffers, at most

Buffers: TypeAlias = dict[str, Any]  # arguments of ``problem``
Change: TypeAlias = Callable[[Buffers, int, Random], None]  # of the buffer with an index


def judged(r: Random) -> Iterator[str]:
    """Draw a sound problem; yield how it is refused, and what is taken though one thing is wrong.

    Buffers are fixed side by side, so that no two of them overlap.
    """
    sound = _sound(r)
    if (code := _refusal(sound)) is not None:
        yield f"a sound problem is refused, {code}: {sound}"
    for want, change in (*_WRONG.items(), *_EDGES.items()):
        changed = deepcopy(sound)
        change(changed, r.randrange(len(sound["size"])), r)
        code = _refusal(changed)
        if code != (None if want in _EDGES else want.split(",")[0]):
            yield f"{want}: {code or 'nothing'} is raised for {changed}"


def _sound(r: Random) -> Buffers:
    count = r.randint(1, COUNT)
    lower = [r.randrange(4) for _ in range(count)]
    alignment = [r.choice((2, 4, 64)) for _ in range(count)]
    return {
        "lower": lower,
        "upper": [n + r.randint(1, 3) for n in lower],
        "size": [r.randint(1, 64) for _ in range(count)],
        "alignment": alignment,
        "fixed": [r.choice((FREE, 64 * i)) for i in range(count)],
        "names": [f"b{i}" for i in range(count)],
        "capacity": r.choice((None, 64 * count)),
    }


def _refusal(buffers: Buffers) -> str | None:
    """Return the code by which a problem is refused; None if it is not."""
    try:
        problem(**buffers)
    except DidymaError as e:
        return e.code
    return None


def _set(field: str, *values: int) -> Change:
    """Return a change of a buffer's field to one of some values."""

    def change(b: Buffers, i: int, r: Random) -> None:
        b[field][i] = r.choice(values)

    return change


def _dead(b: Buffers, i: int, r: Random) -> None:
    b["upper"][i] = b["lower"][i] - r.randint(1, 2)


def _empty(b: Buffers, i: int, r: Random) -> None:
    del r
    b["upper"][i] = b["lower"][i]


def _off(b: Buffers, i: int, r: Random) -> None:
    b["fixed"][i] = 64 * i + r.choice((1, b["alignment"][i] // 2 or 1))


def _lowest(b: Buffers, i: int, r: Random) -> None:
    del r
    b["fixed"] = [0 if k == i else FREE for k in range(len(b["fixed"]))]


def _twice(b: Buffers, i: int, r: Random) -> None:
    del r
    b["names"].append(b["names"][i])
    for field in ("lower", "upper", "size", "alignment"):
        b[field].append(b[field][i])
    b["fixed"].append(FREE)


def _over(b: Buffers, i: int, r: Random) -> None:
    """Fix another buffer, alive at one step of the first, on its last byte."""
    at = 64 * i
    b["fixed"][i] = at
    b["alignment"].append(1)
    b["fixed"].append(at + b["size"][i] - 1)
    step = r.randrange(b["lower"][i], b["upper"][i])
    b["lower"].append(step)
    b["upper"].append(step + 1)
    b["size"].append(1)
    b["names"].append("over")


_WRONG: Mapping[str, Change] = {
    "bad-life": _dead,
    "bad-size": _set("size", -1, -64),
    "bad-size, large": _set("size", LIMIT + 1),
    "bad-alignment": _set("alignment", 0, -2, 3, 6, 2 * MOST),
    "bad-offset": _set("fixed", -2, -64, LIMIT + 64),
    "bad-offset, off its alignment": _off,
    "bad-capacity": lambda b, i, r: b.update(capacity=-1),
    "duplicate-buffer": _twice,
    "fixed-overlap": _over,
}
_EDGES: Mapping[str, Change] = {
    "no life": _empty,
    "no bytes": _set("size", 0),
    "an alignment of one byte": _set("alignment", 1),
    "an offset of 0": _lowest,
}
