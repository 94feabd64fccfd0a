"""What a recipe is, and the model that ranks points without running them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

from didyma.codegen.guards import Test, guarded, is_count, is_counts, is_named, is_pair, is_truth
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import Target
from didyma.refimpl.verify import loop as laws

Values: TypeAlias = Mapping[str, int]
Space: TypeAlias = Mapping[str, tuple[int, ...]]

THREADS = ("block", "groups", "lanes")  # parameters of which a target may have no room for many


class Fit(StrEnum):
    """How a recipe shares the work of a nest among threads; the ``order`` of a target ranks them.

    A device with many threads wants, in this order: each element read from memory once; threads
    that do little and share nothing; blocks that share a result, where there are too few results to
    keep it busy; all threads busy, neighbours reading neighbours; then threads that share a result,
    across or along what lies together in memory.
    """

    TILED = "tiled"
    SHORT = "short"
    SPLIT = "split"
    FULL = "full"
    ACROSS = "across"
    ALONG = "along"
    ALONE = "alone"
    POOR = "poor"

    def rank(self, target: Target) -> int:
        """Return the place in the order of a target, behind all others where it has none."""
        order = target.order
        return order.index(self) if self in order else len(order)


def _always(work: Work, values: Values) -> bool:
    del work, values
    return True


def fills_warp(work: Work, values: Values) -> bool:
    """Return whether a block of ``groups`` of ``lanes`` threads is not too small for a warp."""
    return values["groups"] * values["lanes"] >= work.facts.target.warp


@dataclass(frozen=True, slots=True)
class Recipe:
    """A class of schedules for one nest.

    ``fit`` is None where the recipe does not apply.  ``default`` gives the values that the model
    thinks best, ``space`` the values that each parameter may take besides, and ``legal`` says
    whether values go together.  ``block`` returns the threads of a block with such values, and the
    bytes of shared memory that it declares.  ``build`` makes the kernel, or several that run one
    after another, which may share buffers beside the function's; it takes names from the work.
    """

    name: str
    fit: Callable[[Work], Fit | None]
    default: Callable[[Work], Values]
    space: Callable[[Work], Space]
    block: Callable[[Work, Values], tuple[int, int]]
    build: Callable[[Work, Values], PrimFunc | tuple[PrimFunc, ...]]
    legal: Callable[[Work, Values], bool] = _always

    def guarded(self) -> Recipe:
        """Return the recipe of somebody else, of which every failure is an error that names it.

        DidymaError ``failed-part`` where one of its functions raises, or returns what it may not.
        """

        def of(
            member: str, want: str, fits: Test, f: Callable[..., Any] | None = None
        ) -> Callable[..., Any]:
            run = f or getattr(self, member)
            return guarded(f"recipe {self.name}, {member}", run, want, fits)

        return replace(
            self,
            fit=of("fit", "a Fit, or None", lambda x: x is None or isinstance(x, Fit)),
            default=of("default", "a number by each name", lambda x: is_named(x, is_count)),
            space=of("space", "some numbers by each name", lambda x: is_named(x, is_counts)),
            block=of("block", "a number of threads, and one of bytes", is_pair),
            build=of("build", "one kernel or several, as PrimFunc", _is_kernels, self._lawful),
            legal=of("legal", "True or False", is_truth),
        )

    def _lawful(self, work: Work, values: Values) -> PrimFunc | tuple[PrimFunc, ...]:
        """Return what ``build`` makes; errors of the laws of loops where a kernel breaks one."""
        made = self.build(work, values)
        if _is_kernels(made):
            for k in made if isinstance(made, tuple) else (made,):
                laws.verify(k, work.facts.target)
        return made

    def kernels(self, work: Work, values: Values) -> tuple[PrimFunc, ...]:
        """Return the kernels that it makes of a work, in the order in which they run."""
        made = self.build(work, values)
        return (made,) if isinstance(made, PrimFunc) else made

    def usual(self, work: Work) -> Values | None:
        """Return the default values, halved as often as the target asks for.

        Halved is, each time, the largest value that makes a block smaller, so that the values still
        go together if any such does.  None if the target has no room for any.
        """
        values = dict(self.default(work))
        while not self.fits(work, values):
            now = self.block(work, values)
            halves = {k: {**values, k: v // 2} for k, v in values.items() if v > 1}
            smaller = [k for k, less in halves.items() if self.block(work, less) < now]
            if not smaller:
                return None
            best = max(smaller, key=lambda k: (self.legal(work, halves[k]), values[k], k))
            values = halves[best]
        return values

    def fits(self, work: Work, values: Values) -> bool:
        """Return whether the target has the threads and the shared memory of a block."""
        threads, shared = self.block(work, values)
        target = work.facts.target
        return threads <= target.threads and shared <= target.room

    def points(self, work: Work) -> Iterator[tuple[float, Point]]:
        """Return all points of the recipe with their distance from the first, the nearest first.

        The distance is the sum, rounded once, of the logarithms to base 2 of the ratios of the
        parameters.
        """
        usual, space = self.usual(work), self.space(work)
        if usual is None:
            return
        names = sorted(usual)
        ranges = [sorted({*space.get(k, ()), usual[k]}) for k in names]
        far = {k: {v: abs(math.log2((1 + v) / (1 + usual[k]))) for v in r}
               for k, r in zip(names, ranges, strict=True)}  # fmt: skip
        found: list[tuple[float, Point]] = []
        for numbers in itertools.product(*ranges):
            pairs = tuple(zip(names, numbers, strict=True))
            values = dict(pairs)
            if values == usual or (self.legal(work, values) and self.fits(work, values)):
                found.append((math.fsum(far[k][v] for k, v in pairs), Point(self.name, pairs)))
        yield from sorted(found, key=lambda pair: (pair[0], pair[1].values))

    def check(self, work: Work, point: Point, where: str) -> None:
        """Raise ``bad-choice`` unless the point is one of this recipe's for the nest.

        DidymaError ``target-lacks`` for one whose blocks the target has no room for.
        """
        if self.fit(work) is None:
            raise DidymaError(
                "bad-choice", where, got=f"{point}, which does not apply to this loop nest",
                want="a recipe that applies",
            )  # fmt: skip
        default, space, values = self.default(work), self.space(work), point.table
        if values.keys() != default.keys():
            want = f"{self.name} with {', '.join(sorted(default)) or 'no parameter'}"
            raise DidymaError("bad-choice", where, got=str(point), want=want)
        usual = self.usual(work) or default
        known = {k: sorted({*space.get(k, ()), usual[k]}) for k in values}
        others = [k for k, v in values.items() if v not in known[k]]
        larger = all(k in THREADS and values[k] > known[k][-1] for k in others)
        if larger and not self.fits(work, values):  # a block of any other values is not known
            raise _too_large(work, *self.block(work, values), f"{where}: {point}")
        for k in others:
            want = f"{k} of {', '.join(map(str, known[k]))}"
            raise DidymaError("bad-choice", where, got=str(point), want=want)
        if values != usual and not self.legal(work, values):
            want = "values that go together, for a block of a warp at least, with room for its work"
            raise DidymaError("bad-choice", where, got=str(point), want=want)


def _is_kernels(made: object) -> bool:
    found: list[object] = list(made) if isinstance(made, tuple) else [made]  # pyright: ignore[reportUnknownArgumentType]  # any tuple
    return bool(found) and all(isinstance(k, PrimFunc) for k in found)


def fits(work: Work, among: Iterable[Recipe]) -> list[tuple[int, Recipe]]:
    """Return those recipes that apply to a nest, with their places in the order of the target."""
    found = ((recipe.fit(work), recipe) for recipe in among)
    return [(fit.rank(work.facts.target), recipe) for fit, recipe in found if fit is not None]


def best(work: Work, among: Iterable[Recipe]) -> tuple[Recipe, Values]:
    """Return the recipe that the model ranks first of those that the target has room for.

    DidymaError ``target-lacks`` where it has room for none.
    """
    suited = sorted(fits(work, among), key=lambda pair: pair[0])
    for _, recipe in suited:
        if (values := recipe.usual(work)) is not None:
            return recipe, values
    names = ", ".join(recipe.name for _, recipe in suited)
    raise DidymaError(
        "target-lacks", f"@{work.facts.func.name}", got=work.facts.target.name,
        want=f"a target with room for blocks of {names}",
    )  # fmt: skip


def _too_large(work: Work, threads: int, shared: int, where: str) -> DidymaError:
    target = work.facts.target
    return DidymaError(
        "target-lacks", where, got=f"blocks of {threads} threads with {shared} bytes of memory",
        want=f"at most {target.threads} threads and {target.room} bytes, as {target.name} has",
    )  # fmt: skip


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
