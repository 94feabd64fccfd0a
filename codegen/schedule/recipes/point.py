"""Points: a recipe by its name with values of its parameters, as text and as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from didyma.refimpl.errors import DidymaError

_POINT = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*\(([^()]*)\)\s*")
_VALUE = re.compile(r"\s*([a-z_]+)\s*=\s*([0-9]{1,9})\s*")
GRAMMAR = "RECIPE(NAME=NUMBER, …), for several loop nests with ; between them"


@dataclass(frozen=True, slots=True)
class Point:
    """A recipe by its name, and a value for each of its parameters, sorted by their names.

    >>> str(Point.of("row", lanes=32, groups=8))
    'row(groups=8, lanes=32)'
    """

    recipe: str
    values: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(recipe: str, /, **values: int) -> Point:
        """Return a point with its values sorted."""
        return Point(recipe, tuple(sorted(values.items())))

    @property
    def table(self) -> Mapping[str, int]:
        """The values by the names of the parameters."""
        return dict(self.values)

    def __str__(self) -> str:
        return f"{self.recipe}({', '.join(f'{k}={v}' for k, v in self.values)})"


def show(points: Iterable[Point]) -> str:
    """Return the text of the points of a function's loop nests, in order."""
    return "; ".join(map(str, points))


def parse(text: str, where: str = "choice") -> tuple[Point, ...]:
    """Read the text that ``show`` writes; DidymaError ``bad-choice`` for another.

    >>> parse("pointwise(block=64, wide=0); scatter(block=256)")[1]
    Point(recipe='scatter', values=(('block', 256),))
    """
    return tuple(_point(part, text, where) for part in text.split(";"))


def _point(part: str, text: str, where: str) -> Point:
    found = _POINT.fullmatch(part)
    if found is None:
        raise DidymaError("bad-choice", where, got=text, want=GRAMMAR)
    values: dict[str, int] = {}
    for item in filter(str.strip, found[2].split(",")):
        pair = _VALUE.fullmatch(item)
        if pair is None or pair[1] in values:
            raise DidymaError("bad-choice", where, got=item.strip(), want="NAME=NUMBER, each once")
        values[pair[1]] = int(pair[2])
    return Point.of(found[1], **values)


def show_all(choices: Mapping[str, Iterable[Point]]) -> str:
    """Return the text of the points of several functions, which the options of a compile take.

    >>> show_all({"f": parse("scatter(block=64)"), "g": parse("row()")})
    'f: scatter(block=64) | g: row()'
    """
    return " | ".join(f"{name}: {show(points)}" for name, points in choices.items())


def parse_all(text: str) -> dict[str, tuple[Point, ...]]:
    """Read the text that ``show_all`` writes; DidymaError ``bad-choice`` for another.

    >>> parse_all("f: row()")
    {'f': (Point(recipe='row', values=()),)}
    """
    found: dict[str, tuple[Point, ...]] = {}
    for part in filter(str.strip, text.split("|")):
        name, colon, points = part.partition(":")
        if not colon or not name.strip() or name.strip() in found:
            raise DidymaError("bad-choice", "choices", got=part.strip(), want="NAME: CHOICE, once")
        found[name.strip()] = parse(points, name.strip())
    return found
