"""The context in which a statement of a loop program is compiled for lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from didyma.oracle.lanes.buffers import Dense, Memory
from didyma.oracle.lanes.code import Code, known
from didyma.oracle.lanes.races import Lanes, Mask
from didyma.oracle.lanes.windows import LaneVar
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.interp.scalar import Arithmetic, Value
from didyma.refimpl.ir.loop import RANK, PrimFunc, Scope, Stmt
from didyma.refimpl.ir.types import Array

Run: TypeAlias = Callable[[Mask], None]  # a compiled statement
KnownMask: TypeAlias = Array | bool | None  # None: all lanes are active, False: known at run time

MANY_LANES = 1 << 13  # from here on a value is worth keeping until a variable changes


@dataclass(frozen=True, slots=True)
class Launch:
    """One run of one function on given sizes.

    ``depth`` is the deepest nesting of lane loops, ``writers`` how many statements write each
    parameter, ``in_memory`` the local buffers that cannot be registers, each with the name of its
    function.  ``clock`` ticks when a variable changes while running.  ``indices`` has the integer
    constants of the dtype of indices.
    """

    arithmetic: Arithmetic
    depth: int
    dims: Mapping[str, int]
    functions: Mapping[str, PrimFunc]
    externals: Mapping[str, Routine]
    writers: Counter[str]
    in_memory: frozenset[tuple[str, str]]
    lanes: Lanes
    clock: list[int] = field(default_factory=lambda: [0])
    indices: dict[int, Code] = field(default_factory=dict[int, Code])


@dataclass(frozen=True, slots=True)
class Frame:
    """What names mean in one function, while one call of it is compiled.

    ``env`` has the values of variables that change while running.
    """

    function: str
    vars: dict[str, Code] = field(default_factory=dict[str, Code])
    lane_vars: dict[str, LaneVar] = field(default_factory=dict[str, LaneVar])
    memory: dict[str, Memory] = field(default_factory=dict[str, Memory])
    env: dict[str, Value] = field(default_factory=dict[str, Value])

    def bind(self, name: str, value: Code) -> bool:
        """Bind a variable; return whether its value must be set in ``env`` while running."""
        self.lane_vars.pop(name, None)
        if value.known:
            many = not value.uniform and value.value.size >= MANY_LANES
            self.vars[name] = known(squeezed(value.value), value.interval) if many else value
            return False
        env = self.env

        def run(mask: Mask) -> Value:
            del mask
            return env[name]

        self.vars[name] = Code(run, value.uniform, False, value.interval)
        return True

    def settle(self, *scopes: Scope) -> None:
        """Check the accesses recorded so far, of all the function's buffers or those of scopes.

        Those of its callees are checked where they end.
        """
        for m in self.memory.values():
            if isinstance(m, Dense) and m.log is not None and (not scopes or m.scope in scopes):
                m.log.settle()


@dataclass(slots=True)  # not frozen, which makes it slower: every statement of every run has one
class Site:
    """A statement's place: what is around it, and its expressions compiled so far.

    ``depth`` and ``blocks`` count the lane loops around it, and those over ``blockIdx`` and the
    blocks of clusters among them; ``axes`` are what they are bound to, if anything; ``sized`` says
    whether all their sizes are known before the run.  ``codes`` has the statement's expressions
    that load nothing, by operation and operands.  ``rounds`` says that rounds of serial loops are
    lanes here, too.
    """

    launch: Launch
    frame: Frame
    stmt: Stmt
    depth: int = 0
    blocks: int = 0
    mask: KnownMask = None
    sized: bool = True
    codes: dict[Hashable, Code] = field(default_factory=dict[Hashable, Code])
    axes: tuple[str, ...] = ()
    rounds: bool = False

    @property
    def clusters(self) -> int:
        """The number of the loops over ``blockIdx`` around it."""
        return self.blocks - (RANK in self.axes)

    def at(self, s: Stmt) -> Site:
        """Return the site of a statement that stands here."""
        f, mask, sized = self.frame, self.mask, self.sized
        axes, rounds = self.axes, self.rounds
        return Site(self.launch, f, s, self.depth, self.blocks, mask, sized, {}, axes, rounds)

    def inside(self, axis: str) -> Site:
        """Return the site of a statement within one more loop of lanes, perhaps a bound one."""
        f, s, depth = self.frame, self.stmt, self.depth + 1
        blocks = self.blocks + (axis.startswith("blockIdx") or axis == RANK)
        axes, mask, codes = (*self.axes, axis), self.mask, self.codes
        return Site(self.launch, f, s, depth, blocks, mask, self.sized, codes, axes, self.rounds)

    def where(self, mask: KnownMask) -> Site:
        """Return the site for other active lanes."""
        f, s = self.frame, self.stmt
        depth, blocks, sized = self.depth, self.blocks, self.sized
        codes, axes, rounds = self.codes, self.axes, self.rounds
        return Site(self.launch, f, s, depth, blocks, mask, sized, codes, axes, rounds)


Body: TypeAlias = Callable[[Site], Run]  # compiles the body of a statement at its site


def both(mask: Mask, cond: Array) -> Array:
    """Lanes that are active and for which ``cond`` holds."""
    return cond if mask is None else mask & cond


def but(mask: Mask, cond: Array) -> Array:
    """Lanes that are active and for which ``cond`` does not hold."""
    return ~cond if mask is None else mask & ~cond


def squeezed(value: Array) -> Array:
    """Drop the axes along which a value is constant, as a column is along a grid of whole rows.

    >>> import numpy as np
    >>> squeezed(np.array([[1, 2], [1, 2]]))
    array([[1, 2]])
    """
    for axis in range(value.ndim):
        first = value[(slice(None),) * axis + (slice(0, 1),)]
        if (np.asarray(value) == np.asarray(first)).all():  # of pairs of values and payloads, too
            value = first
    return value
