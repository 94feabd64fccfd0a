"""A choice: one complete way to compute a Primitive function, as data and as text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from didyma.codegen import codegens
from didyma.codegen.claims import claim, launched
from didyma.codegen.codegens import Asked
from didyma.codegen.emit import cuda
from didyma.codegen.options import Options
from didyma.codegen.routines import Routine, registered, suits
from didyma.codegen.runtime.engine import KernelText
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.point import Point, parse, show
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.verify import kernel as kernel_laws

AHEAD = 8  # choices of Didyma's templates that come before those of others


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
    """A choice with the kernels that it gives, in launch order, and their text; or a routine."""

    choice: Choice
    kernels: tuple[Kernel, ...]
    text: KernelText
    routine: tuple[Routine, Function] | None = None

    @property
    def digest(self) -> str:
        """A hash of the kernels' text and launches: equal candidates run equal kernels."""
        if self.routine is not None:
            return digest(f"routine {self.routine[0].name}")
        texts = [k.text for k in self.kernels if isinstance(k, ClaimedKernel)]
        rows = [f"{t.grid} {t.block}" for t in texts]  # generated texts tell theirs
        return digest("\n".join((self.text.source, *rows)))


def digest(text: str) -> str:
    """Return a short hash of a text, for keys.

    >>> digest("a") == digest("a") != digest("b")
    True
    """
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def first(loop: PrimFunc, options: Options, function: Function | None = None) -> Choice:
    """Return what a compile takes by itself: the model's first, or what codegens of options make.

    These are asked only if the ``function`` in the graph is given.
    """
    asked = None if function is None else Asked(function, loop, options.device)
    point = None if asked is None else codegens.first(asked, options)
    return Choice(dispatch.first(loop, options) if point is None else (point,))


def ranked(loop: PrimFunc, options: Options, function: Function | None = None) -> Iterator[Choice]:
    """Return all choices, so that the first ones are different in kind.

    The model's best of each recipe comes first, then the second best of each, and so on: the model
    ranks points of one recipe more surely than recipes on a device that it was not made for.  With
    the ``function`` in the graph, templates and codegens take turns with recipes: before them those
    that a compile takes by itself, and after them the others.  Where a compile takes a template of
    Didyma's, which was made for the device, the points of all of these are ranked together: the
    best ``AHEAD`` come before all else, and recipes after all else.
    """
    turns: dict[tuple[str, ...], list[Choice]] = {}
    for points in _points(loop, options, function):
        turns.setdefault(tuple(p.recipe for p in points), []).append(Choice(points))
    kind, best = next(iter(turns.items()))
    if function is not None and kind[0] in codegens.own():
        asked = Asked(function, loop, options.device)
        mine = {kind: turns.pop(kind) for kind in [*turns] if kind[0] in codegens.own()}
        known = sorted(chain(*mine.values()), key=lambda c: (c != best[0], _cost(c, asked)))
        yield from known[:AHEAD]
        recipes = {kind: turns.pop(kind) for kind in [*turns] if {*kind} <= {*dispatch.names()}}
        yield from _in_turn({**turns, kind: known[AHEAD:]})
        turns = recipes
    yield from _in_turn(turns)


def _cost(choice: Choice, asked: Asked) -> float:
    """Return what the model of one of Didyma's templates says: cycles, of those for a device."""
    (point,) = choice.points
    return codegens.own()[point.recipe].cost(asked, point.table)


def _in_turn(kinds: Mapping[tuple[str, ...], Sequence[Choice]]) -> Iterator[Choice]:
    """Yield the first of each kind, then the second of each, and so on."""
    rows = zip_longest(*kinds.values())
    yield from (choice for row in rows for choice in row if choice is not None)


def _points(
    loop: PrimFunc, options: Options, function: Function | None
) -> Iterator[tuple[Point, ...]]:
    """Yield all points of each recipe, template and codegen; which of these come first matters."""
    asked = None if function is None else Asked(function, loop, options.device)
    taken = () if asked is None else tuple(codegens.taken(asked, options))
    if asked is not None:
        yield from ((p,) for c in taken for p in codegens.points(c, asked))
    yield from dispatch.points(loop, options)
    if asked is not None:
        yield from ((Point.of(r.name),) for r in _suited(asked, loop))
        names = {c.name for c in taken}
        rest = (c for c in codegens.others(options) if c.name not in names)
        yield from ((p,) for c in rest for p in codegens.points(c, asked))


def _suited(asked: Asked, loop: PrimFunc) -> Iterator[Routine]:
    """Yield the routines for a function; none takes arrays of elements smaller than a byte."""
    types = (p.type for p in asked.function.params)
    if not any(t.dtype.is_packed for t in (*types, *asked.function.result_types())):
        yield from (r for r in registered() if suits(r, asked.function))


def build(
    loop: PrimFunc,
    options: Options,
    choice: Choice,
    function: Function | None = None,
) -> Candidate:
    """Make the kernels of a choice; that of a template, codegen or routine needs the ``function``.

    Errors: ``bad-choice`` for one that is not of this function, those of ``claims.claim``, and as
    the laws of loop programs where a kernel needs more than the target has.
    """
    loop, text = replace(loop, name="f"), None
    if function is not None and len(choice.points) == 1:
        text = codegens.at(choice.points[0], Asked(function, loop, options.device), options)
        routine = None if text is not None else _routine(choice, function)
        if routine is not None:
            return Candidate(choice, (), KernelText("", ()), (routine, function))
    kernels: tuple[Kernel, ...]
    if text is not None:
        kernels = launched(claim(text, loop, str(choice), options.device), options)
    else:
        kernels = dispatch.schedule(loop, options, choice.points)
    for k in kernels:
        kernel_laws.verify(k, options.device)
    return Candidate(choice, kernels, cuda.emit(kernels, contract=options.kernels.contract))


def _routine(choice: Choice, function: Function) -> Routine | None:
    """Return the registered routine that a choice names, where it suits the function."""
    (point,) = choice.points
    if point.values or point.recipe in dispatch.names():
        return None
    return next((r for r in registered() if r.name == point.recipe and suits(r, function)), None)


def distinct(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the first of all candidates with equal text.

    A default may stand for what a parameter says besides, so that two points are one kernel.
    """
    seen: set[str] = set()
    for c in candidates:
        if c.digest not in seen:
            seen.add(c.digest)
            yield c
