"""Remove launches and copies that are not needed, where that costs no memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from didyma.codegen.memory.liveness import Lives
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.program import Line, Program

MOST = 100  # candidate lines that are tried

Cost: TypeAlias = Callable[[Program], tuple[int, ...]]
Without: TypeAlias = Callable[[Program, Lives, Line], Program | None]


def lives_of(p: Program) -> Lives:
    """Return the lives of a program's own buffers."""
    return Lives(p.lines, {*p.inputs, *(name for name, _ in p.constants)}, p.outputs)


def fewer(bare: Program, work: Sequence[Line], without: Without, cost: Cost) -> Program:
    """Return the program without the candidate lines that can be removed at no higher cost.

    ``without`` removes one line where that is correct.  All candidates are removed at once if that
    is no costlier, else one after another.  The program itself is returned if none can be removed.
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
    """Return whether each cost is at most the corresponding one."""
    return all(x <= y for x, y in zip(a, b, strict=True))


def wide(offset: Dim, access: int) -> bool:
    """Return whether an offset is a multiple of the widest access for all values of its symbols.

    >>> from didyma.refimpl.ir.dims import symbol
    >>> n = symbol("n")
    >>> wide(32, 16), wide(8, 16), wide(64 * n + 16, 16), wide(4 * n, 16), wide(48, 32)
    (True, False, True, False, False)
    """
    return dims.divisible(offset, access)
