"""A choice: one complete way to compute a Primitive function, as data and as text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from didyma.codegen.emit import cuda
from didyma.codegen.options import Options
from didyma.codegen.runtime.engine import KernelText
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.point import Point, parse, show
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.verify import loop as loop_laws


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """Points of recipes, one for each loop nest of a function.

    >>> str(Choice.parse("row( lanes=32, groups=8)"))
    'row(groups=8, lanes=32)'
    """

    points: tuple[Point, ...]

    def __str__(self) -> str:
        return show(self.points)

    @staticmethod
    def parse(text: str, where: str = "choice") -> Choice:
        """Read the text of a choice; DidymaError ``bad-choice`` for another text."""
        return Choice(parse(text, where))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A choice with the kernels that it gives, in launch order, and their text."""

    choice: Choice
    kernels: tuple[PrimFunc, ...]
    text: KernelText

    @property
    def digest(self) -> str:
        """A hash of the kernels' text: equal candidates run equal kernels."""
        return digest(self.text.source)


def digest(text: str) -> str:
    """Return a short hash of a text, for keys.

    >>> digest("a") == digest("a") != digest("b")
    True
    """
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def first(loop: PrimFunc, options: Options) -> Choice:
    """Return the choice that the model ranks first: what a compile takes by itself."""
    return Choice(dispatch.first(loop, options))


def ranked(loop: PrimFunc, options: Options) -> Iterator[Choice]:
    """Return all choices, so that the first ones are different in kind.

    The model's best of each recipe comes first, then the second best of each, and so on: the model
    ranks points of one recipe more surely than recipes on a device that it was not made for.
    """
    turns: dict[tuple[str, ...], list[Choice]] = {}
    for points in dispatch.points(loop, options):
        turns.setdefault(tuple(p.recipe for p in points), []).append(Choice(points))
    for turn in range(max(map(len, turns.values()))):
        yield from (row[turn] for row in turns.values() if turn < len(row))


def build(loop: PrimFunc, options: Options, choice: Choice) -> Candidate:
    """Make the kernels of a choice.

    DidymaError ``bad-choice`` for one that is not of this function, and as the laws of loop
    programs where a kernel needs more than the target has.
    """
    kernels = dispatch.schedule(replace(loop, name="f"), options, choice.points)
    for k in kernels:
        loop_laws.verify(k)
    return Candidate(choice, kernels, cuda.emit(kernels))


def distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the first of all candidates with equal text.

    A default may stand for what a parameter says besides, so that two points are one kernel.
    """
    found: dict[str, Candidate] = {}
    for c in candidates:
        found.setdefault(c.text.source, c)
    return list(found.values())
