"""What a recipe is, and the model that ranks points without running them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import PrimFunc

Values: TypeAlias = Mapping[str, int]
Space: TypeAlias = Mapping[str, tuple[int, ...]]


class Fit(IntEnum):
    """How well a recipe suits a nest by the model, the best first.

    A device with many threads wants, in this order: each element read from memory once; threads
    that do little and share nothing; all threads busy, neighbours reading neighbours; then threads
    that share a result, across or along what lies together in memory.
    """

    TILED = 0
    SHORT = 1
    FULL = 2
    ACROSS = 3
    ALONG = 4
    ALONE = 5
    POOR = 6


def _always(work: Work, values: Values) -> bool:
    del work, values
    return True


@dataclass(frozen=True, slots=True)
class Recipe:
    """A class of schedules for one nest.

    ``fit`` is None where the recipe does not apply.  ``default`` gives the values that the model
    thinks best, ``space`` the values that each parameter may take besides, and ``legal`` says
    whether values go together.  ``build`` makes the kernel; it takes names from the work.
    """

    name: str
    fit: Callable[[Work], Fit | None]
    default: Callable[[Work], Values]
    space: Callable[[Work], Space]
    build: Callable[[Work, Values], PrimFunc]
    legal: Callable[[Work, Values], bool] = _always

    def first(self, work: Work) -> Point:
        """Return the point that the model ranks first of this recipe's."""
        return Point.of(self.name, **self.default(work))

    def points(self, work: Work) -> Iterator[tuple[float, Point]]:
        """Return all points of the recipe with their distance from the first, the nearest first.

        The distance is the sum of the logarithms, to base 2, of the ratios of the parameters.
        """
        usual, space = self.default(work), self.space(work)
        ranges = [sorted({*space[k], usual[k]}) for k in sorted(usual)]
        found: list[tuple[float, Point]] = []
        for numbers in itertools.product(*ranges):
            values = dict(zip(sorted(usual), numbers, strict=True))
            if values == usual or self.legal(work, values):
                far = sum(abs(math.log2((1 + v) / (1 + usual[k]))) for k, v in values.items())
                found.append((far, Point.of(self.name, **values)))
        yield from sorted(found, key=lambda pair: (pair[0], pair[1].values))

    def check(self, work: Work, point: Point, where: str) -> None:
        """Raise ``bad-choice`` unless the point is one of this recipe's for the nest."""
        if self.fit(work) is None:
            raise DidymaError(
                "bad-choice", where, got=f"{point}, which does not apply to this loop nest",
                want="a recipe that applies",
            )  # fmt: skip
        usual, space, values = self.default(work), self.space(work), point.table
        if values.keys() != usual.keys():
            want = f"{self.name} with {', '.join(sorted(usual)) or 'no parameter'}"
            raise DidymaError("bad-choice", where, got=str(point), want=want)
        for k, v in values.items():
            known = sorted({*space[k], usual[k]})
            if v not in known:
                want = f"{k} of {', '.join(map(str, known))}"
                raise DidymaError("bad-choice", where, got=str(point), want=want)
        if values != usual and not self.legal(work, values):
            want = "values that fit in a block of the target"
            raise DidymaError("bad-choice", where, got=str(point), want=want)


def powers(low: int, high: int) -> tuple[int, ...]:
    """Return the powers of two from ``low`` to ``high``, both powers of two.

    >>> powers(2, 16)
    (2, 4, 8, 16)
    """
    return tuple(1 << n for n in range(low.bit_length() - 1, high.bit_length()))


def at_least(n: int) -> int:
    """Return the least power of two that is at least ``n``, and at least 1.

    >>> at_least(0), at_least(5), at_least(8)
    (1, 8, 8)
    """
    return 1 << max(0, n - 1).bit_length()
