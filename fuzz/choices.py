"""Which points of recipes a function is scheduled by: those that are listed, and no others.

Every value that a user may write down is either one of a recipe's own, or must be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from random import Random

from didyma.codegen.options import Options
from didyma.codegen.schedule.dispatch import points, schedule
from didyma.codegen.schedule.recipes.point import Point, parse_all, show_all
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import show

MOST = 256  # ways to schedule a function, of which one is changed
RECIPES = 6  # lists of recipes by which a function is scheduled
REFUSALS = ("bad-choice", "target-lacks")


def wrong(loops: Mapping[str, PrimFunc], options: Options, r: Random) -> Iterator[str]:
    """Yield how one point near a point of one function is not refused, or refused in vain."""
    name = r.choice(sorted(loops)) if loops else ""
    every = [*islice(points(loops[name], options), MOST + 1)] if name else []
    if not 0 < len(every) <= MOST:
        return
    first, at = every[0], r.randrange(len(every[0]))
    known = {way[at] for way in every}
    point = r.choice(sorted(known, key=str))
    yield from _misread(name, point)
    for changed in _changed(point, r):
        way = (*first[:at], changed, *first[at + 1 :])
        code = _code(schedule, loops[name], options, way)
        if (code in REFUSALS) == (changed in known) or code not in ("", *REFUSALS):
            listed = "listed" if changed in known else "not listed"
            yield f"{name}: {changed} is {listed}, and {code or 'taken'}"


def made(loop: PrimFunc, options: Options, every: Iterable[tuple[Point, ...]]) -> Iterator[str]:
    """Yield the kernels of a function by the last of its ways with each list of recipes."""
    last = {tuple(p.recipe for p in way): way for way in every}
    for way in islice(last.values(), RECIPES):
        yield from map(show, schedule(loop, options, way))


def _changed(p: Point, r: Random) -> Iterator[Point]:
    """Yield points near a point: with another value, without one, with one more, of other names."""
    values = p.table
    yield Point("none", p.values)
    yield Point.of(p.recipe, **values, more=1)
    if values:
        name = r.choice(sorted(values))
        yield Point.of(p.recipe, **{k: v for k, v in values.items() if k != name})
        for v in (0, values[name] + 1, values[name] * 2, values[name] // 2, 3, 1 << 20):
            yield Point.of(p.recipe, **{**values, name: v})


def _misread(name: str, p: Point) -> Iterator[str]:
    """Yield how the text of a point is read as another one, or how no text of one is read."""
    text = show_all({name: (p,), "other": (p, p)})
    if parse_all(text) != {name: (p,), "other": (p, p)}:
        yield f"{text} is read as {parse_all(text)}"
    for bad in (
        f"{name} {p}", f"{name}: {p.recipe}", f": {p}", f"{name}: {p} | {name}: {p}",
        f"{name}: {p.recipe}(a=1, a=1)", f"{name}: {p.recipe}(a)", f"{name}: {p};",
    ):  # fmt: skip
        if _code(parse_all, bad) != "bad-choice":
            yield f"{bad} is read"


def _code(call: Callable[..., object], *args: object) -> str:
    """Return the code by which a call is refused; empty if it is not."""
    try:
        call(*args)
    except DidymaError as e:
        return e.code
    return ""
