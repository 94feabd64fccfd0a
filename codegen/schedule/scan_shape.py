"""How the threads of a block may share the lines of a running fold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from didyma.codegen.schedule import lanes
from didyma.codegen.schedule.nest import NestFacts, scan
from didyma.codegen.schedule.running import Running
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient
from didyma.refimpl.ir.loop import Expr, Load, Store


@dataclass(frozen=True, slots=True)
class Shape:
    """How a running fold is shared: ``lanes`` threads take a line, ``groups`` lines a block.

    A thread takes ``turns`` vectors of ``width`` neighbours at once, along the line or, if it is
    ``across`` what lies together in memory, of as many lines.  The buffers ``wide`` are accessed
    by vectors.
    """

    lanes: int
    groups: int
    turns: int
    width: int
    wide: frozenset[str]
    across: bool


def is_across(facts: NestFacts, run: Running) -> bool:
    """Return whether neighbouring lines, and not neighbours in a line, lie together in memory."""
    offsets = [facts.offset(b, at) for b, at in facts.accesses() if b in facts.func.outputs]
    return not all(coefficient(p, run.along.name) in ({}, {(): 1}) for p in offsets)


def width(facts: NestFacts, run: Running) -> tuple[int, frozenset[str]]:
    """Return how many neighbours a thread takes at once, and in which buffers by one access."""
    axis = _vector_axis(facts, run)
    for n in lanes.widths(facts) if axis is not None else ():
        assert axis is not None
        v, size = run.nest.index[axis], run.nest.extents[axis]
        wide, other = set[str](), set[str]()
        for name, at in _accesses(facts, run):
            rest = lanes.from_row(facts, facts.offset(name, at), v, n)
            (other if rest is None else wide).add(name)
        wide -= other
        results = set(facts.func.outputs)
        if (
            lanes.part_of_size(facts, size, n) is not None
            and results <= wide
            and lanes.suit(facts, wide, n)
        ):
            return n, frozenset(wide)
    return 1, frozenset()


def _vector_axis(facts: NestFacts, run: Running) -> int | None:
    """Return the axis along which a thread's elements are neighbours."""
    if not is_across(facts, run):
        return run.axis
    return run.others[-1] if run.others else None


def _accesses(facts: NestFacts, run: Running) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """Yield the loads and stores of parameters that an element makes."""
    for part in (run.kept("", ix.ZERO), run.done(run.start)):
        statements, inside = scan(part)
        for x in (*statements, *inside):
            if isinstance(x, Load | Store) and x.buffer in facts.buffers:
                yield x.buffer, x.index
