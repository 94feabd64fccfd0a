"""One graph scheduled in many ways: it is compiled up to its loops once.

Cases of one graph follow one another, so what the last one was lowered to is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Lowered, Scheduled, compile, scheduled
from didyma.codegen.schedule.dispatch import points
from didyma.codegen.schedule.recipes.point import Point, show_all
from didyma.fuzz.chooser import Chooser
from didyma.fuzz.graphs import Case
from didyma.refimpl.ir.graph import Module

CHOICES = "kernels.choices"  # the option that says how functions are scheduled
MOST_POINTS = 512  # of a function, among which one is drawn
NEAR = 8  # sizes above the least, or above the one drawn

Ways: TypeAlias = Sequence[Sequence[tuple[Point, ...]]]  # by the recipes that they use
Wanted: TypeAlias = Callable[[Point], bool]  # of a loop nest's recipe and numbers
Heard: TypeAlias = tuple[tuple[str, str], ...]


@lru_cache(maxsize=1)
def known(m: Module, options: Options) -> tuple[Lowered, Heard]:
    """Compile a module up to its loops; return them, and the decisions of passes with their values.

    Errors: those of ``compile``.
    """
    heard = list[tuple[str, str]]()

    def hear(decision: str, value: str) -> None:
        heard.append((decision, value))

    made = compile(m, options, until="lower", heard=hear)
    assert isinstance(made, Lowered)
    return made, tuple(heard)


@lru_cache(maxsize=1)
def _every(m: Module, options: Options, wanted: Wanted | None) -> Mapping[str, Ways]:
    """Return how each function of a module may be scheduled, but those that have no way.

    Only in ways that have a point that is ``wanted``, or in any if no function has such a way.
    """
    loops = known(m, options)[0].loops
    found = {name: _ways(points(loop, options), wanted) for name, loop in loops.items()}
    found = {name: some for name, some in found.items() if some}
    return found if found or wanted is None else _every(m, options, None)


def _ways(every: Iterator[tuple[Point, ...]], wanted: Wanted | None) -> Ways:
    found = dict[tuple[str, ...], list[tuple[Point, ...]]]()
    for w in every if wanted else islice(every, MOST_POINTS):
        if wanted is None or any(map(wanted, w)):
            found.setdefault(tuple(p.recipe for p in w), []).append(w)
    return [*found.values()]


def pointed(case: Case, options: Options, c: Chooser, wanted: Wanted | None = None) -> Case:
    """Return a case whose functions are scheduled in one of the ways that their recipes allow.

    A rare recipe is as likely as one with many ways.
    """
    try:
        ways = _every(case.module, plain(case, options), wanted)
    except Exception:
        return case  # judged as it is, it shows what is wrong
    text = (CHOICES, show_all({name: c.pick(c.pick(some)) for name, some in ways.items()}))
    return replace(case, changes=(*case.changes, text)) if ways else case


def plain(case: Case, options: Options) -> Options:
    """Return the options of a case, but for how functions are scheduled."""
    return case.options(options).changed({CHOICES: ""})


def compiled(case: Case, options: Options) -> tuple[Scheduled, Heard]:
    """Return the kernels of a case that is ``pointed``, and the decisions of its passes.

    Errors: those of ``compile``.
    """
    made, heard = known(case.module, plain(case, options))
    return scheduled(made, case.options(options)), heard


def resized(case: Case, c: Chooser) -> Case:
    """Return a case with other sizes: the least, those next to them, and those about the drawn."""
    ranges = {v.name: (v.lo, v.hi) for v in case.module.dims}

    def size(name: str, drawn: int) -> int:
        lo, hi = ranges[name]
        return min(hi, c.pick((drawn, lo, lo + 1, lo + c.below(NEAR), drawn + c.below(NEAR))))

    return replace(case, env=tuple((name, size(name, value)) for name, value in case.env))
