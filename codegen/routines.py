"""Routines of libraries that take over whole Primitive functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from didyma.codegen import plugins
from didyma.codegen.decisions import Heard
from didyma.codegen.guards import guarded, is_truth
from didyma.codegen.options import Options
from didyma.codegen.schedule.recipes.point import Point, parse_all
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import COMPILER, PRIMITIVE, RESHAPE_ONLY, Function, Module, attrs


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine that computes Primitive functions outside of Didyma.

    ``suits`` says which.  Such a function becomes an external one, whose body says what the routine
    must compute, and by which it is judged.  ``call`` takes the arrays of the operands and returns
    that of the result, or a sequence of several; equal operands must give equal bits.
    """

    name: str
    suits: Callable[[Function], bool]
    call: Callable[..., Any]


def registered() -> Iterator[Routine]:
    """Yield the routines that are registered; one that cannot be loaded is left out."""
    for name in plugins.names(plugins.ROUTINES):
        with suppress(DidymaError):
            yield plugins.part(plugins.ROUTINES, name, Routine)


def suits(r: Routine, f: Function) -> bool:
    """Return whether a routine suits a function; DidymaError ``failed-part`` if it does not say."""
    return guarded(f"routine {r.name}, suits", r.suits, "True or False", is_truth)(f)


def hand_over(m: Module, options: Options, heard: Heard) -> Module:
    """Mark each Primitive function that a routine of the options suits as that routine's.

    A function for which the options have a choice is handed over only if this names the routine.
    """
    del heard
    found = [plugins.part(plugins.ROUTINES, name, Routine) for name in options.graph.routines]
    choices = parse_all(options.kernels.choices)

    def marked(f: Function) -> Function:
        if PRIMITIVE not in f.attr or f.attr.keys() & {COMPILER, RESHAPE_ONLY}:
            return f
        mine = found
        if f.name in choices:
            mine = [r for r in found if choices[f.name] == (Point.of(r.name),)]
        routine = next((r for r in mine if suits(r, f)), None)
        if routine is None:
            return f
        kept = {k: v for k, v in f.attr.items() if k != PRIMITIVE}
        return replace(f, attrs=attrs({**kept, COMPILER: routine.name}))

    return replace(m, functions=(*map(marked, m.functions[:-1]), m.entry))
