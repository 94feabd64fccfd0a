"""What there is to plan in a program: its buffers, their lives, and which cannot share an arena."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from didyma.codegen.memory.arena.problem import Problem, lower_bound, problem
from didyma.codegen.memory.liveness import Lives, Range
from didyma.codegen.memory.peak import handed, peak
from didyma.codegen.memory.planners import LiveBuffer
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.lines import binds, operands, walk
from didyma.refimpl.ir.program import ALIGNMENT, Call, Carry, Extern, Program

NO_SIZES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlannedValues:
    """The buffers of a program that has no memory yet, and their lives.

    ``buffers`` are those whose sizes are known when the program starts.  ``alone`` are the others,
    and those that ``Carry`` hands on; of these, ``made`` get their bytes from another line, and
    ``gone`` lose them to another line, so that they are not allocated, or not freed, by name.
    """

    bare: Program
    lives: Lives
    buffers: tuple[LiveBuffer, ...]
    alone: tuple[str, ...]
    made: frozenset[str]
    gone: frozenset[str]


def values_of(bare: Program) -> PlannedValues:
    """Return the buffers and lives of a program that has no memory yet."""
    types = bare.type
    borrowed = frozenset((*bare.inputs, *(name for name, _ in bare.constants)))
    lives = Lives(bare.lines, borrowed, bare.outputs)
    made, gone = _handed_on(bare, lives.root)
    alone = {*made, *gone, *_late_sizes(bare, lives.of)}
    return PlannedValues(
        bare,
        lives,
        tuple(LiveBuffer(v, types[v], life.live) for v, life in lives.of.items() if v not in alone),
        tuple(v for v in lives.of if v in alone),
        made,
        gone,
    )


def _late_sizes(bare: Program, values: Collection[str]) -> set[str]:
    """Return the values whose sizes depend on symbols that lines bind."""
    late = {s for line in walk(bare.lines) for s in binds(line)}
    if not late:
        return set()
    types = bare.type
    return {v for v in values if not late.isdisjoint(dims.free(types[v].shape))}


def _handed_on(bare: Program, root: Mapping[str, str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the values that get their bytes from a routine or carry, and those that lose them."""
    made: set[str] = set()
    gone: set[str] = set()
    seen: set[str] = set()
    for line in walk(bare.lines):
        match line:
            case Extern(allocates=allocates):
                made.update(root.get(v, v) for v in allocates)
            case Carry(pairs):
                gone.update(root.get(new, new) for _, new in pairs)
                made.update(value for value, _ in pairs if value not in seen)
            case _:
                pass
        seen.update(operands(line))
    return frozenset(made), frozenset(gone)


def bound(values: PlannedValues, whole: bool, env: Mapping[str, int] = NO_SIZES) -> int:
    """Return the fewest bytes that a plan takes for the buffers whose sizes are known.

    Those are numbers, or symbols that ``env`` has.  Each device has an arena for the whole run,
    except where ``whole`` buffers are allocated and freed one by one, each right after its last
    use, for which it waits for other streams.  What called functions take comes on top.
    """
    groups: dict[str, list[LiveBuffer]] = {}
    for b in values.buffers:
        if whole:
            live = Range(b.live.start, values.lives.last_step(b.name))
            groups.setdefault("", []).append(replace(b, live=live))
        else:
            groups.setdefault(b.type.device, []).append(b)
    least = sum(lower_bound(static_problem(g, env=env)) for g in groups.values())
    return called_peak(values.bare, env) + least


def called_peak(p: Program, env: Mapping[str, int]) -> int:
    """Return the most bytes that any function takes which the program calls."""
    called = {x.callee for x in walk(p.lines) if isinstance(x, Call)}
    functions = (f for name, f in p.function.items() if name in called) if called else ()
    return max((peak(f, handed(f, env)) for f in functions), default=0)


def static_problem(
    buffers: Sequence[LiveBuffer], capacity: int | None = None, env: Mapping[str, int] = NO_SIZES
) -> Problem:
    """Return the problem of buffers whose sizes are integers, or are so by ``env``."""
    size = {d: dims.evaluate(d, env) for d in {b.type.nbytes for b in buffers}}
    return problem(
        [b.live.start for b in buffers],
        [b.live.end + 1 for b in buffers],
        [size[b.type.nbytes] for b in buffers],
        names=[b.name for b in buffers],
        alignment=ALIGNMENT,
        capacity=capacity,
    )
