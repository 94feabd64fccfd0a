"""Launches and copies that need not be, taken away where that costs no memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from didyma.codegen.memory.liveness import Lives
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.limits import PORTABLE
from didyma.refimpl.ir.program import Line, Program

MOST = 100  # lines that are looked at one after another

Cost: TypeAlias = Callable[[Program], tuple[int, ...]]
Without: TypeAlias = Callable[[Program, Lives, Line], Program | None]


def lives_of(p: Program) -> Lives:
    """Return the lives of a program's own buffers."""
    return Lives(p.lines, {*p.inputs, *(name for name, _ in p.constants)}, p.outputs)


def fewer(bare: Program, work: Sequence[Line], without: Without, cost: Cost) -> Program:
    """Return the program without the lines that need not be, where no cost is higher.

    All of them at once if that is so; else one after another.  The program itself if there are
    none.
    """
    every, lives = bare, lives_of(bare)
    gone: list[Line] = []
    for line in work[:MOST]:
        less = without(every, lives, line)
        if less is not None:
            every, lives = less, lives_of(less)
            gone.append(line)
    if not gone:
        return bare
    least = cost(bare)
    if no_higher(cost(every), least):
        return every
    p, lives = bare, lives_of(bare)
    for line in gone:
        less = without(p, lives, line)
        if less is not None and no_higher(found := cost(less), least):
            p, least, lives = less, found, lives_of(less)
    return p


def no_higher(a: Sequence[int], b: Sequence[int]) -> bool:
    """Tell whether no cost is above its like."""
    return all(x <= y for x, y in zip(a, b, strict=True))


def wide(offset: Dim) -> bool:
    """Return whether a kernel may be given a buffer at an offset, whatever its symbols are.

    >>> from didyma.refimpl.ir.dims import symbol
    >>> n = symbol("n")
    >>> wide(32), wide(8), wide(64 * n + 16), wide(4 * n)
    (True, False, True, False)
    """
    return dims.divisible(offset, PORTABLE.access)
