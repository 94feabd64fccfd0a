"""Schedule steps as frozen records: what a schedule is made of.

The names are those of the field: Halide, TVM's TIR schedules, PyTorch's NNC, Exo.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Tail(StrEnum):
    """How a split treats an extent that its factor may not divide."""

    GUARDED = "guarded"  # the body runs under a condition
    DIVISIBLE = "divisible"  # refused unless the factor certainly divides
    PEELED = "peeled"  # the rest of the iterations follows in a loop of its own


@dataclass(frozen=True, slots=True)
class Split:
    """Replace a loop by two: ``factor`` iterations in the inner one.

    The loops are called ``i_outer`` and ``i_inner`` unless ``into`` names them.  A peeled rest is a
    loop ``i_tail``, and whatever its copy of the body declares has ``_tail`` after its name (and a
    number where that name is taken).
    """

    loop: str
    factor: int
    tail: Tail = Tail.GUARDED
    into: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.into:
            object.__setattr__(self, "into", (f"{self.loop}_outer", f"{self.loop}_inner"))


@dataclass(frozen=True, slots=True)
class Fuse:
    """Replace two loops, one directly inside the other, by one over all pairs of iterations."""

    loops: tuple[str, ...]
    into: str = ""

    def __post_init__(self) -> None:
        if not self.into:
            object.__setattr__(self, "into", "_".join(self.loops))


@dataclass(frozen=True, slots=True)
class Join:
    """Replace two loops of equal extent, one directly after the other, by one with both bodies.

    It has the name of the first.  (NNC calls this ``fuseLoops``, Exo ``fuse``.)
    """

    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reorder:
    """Nest loops that stand in one another in the given order, outermost first.

    With ``reassociates``, sums and products of floats may be computed in another order.
    """

    loops: tuple[str, ...]
    reassociates: bool = False


@dataclass(frozen=True, slots=True)
class Tile:
    """Split two nested loops by factors, and nest the two outer parts around the two inner ones."""

    loops: tuple[str, ...]
    factors: tuple[int, ...]
    into: tuple[str, ...] = ()
    reassociates: bool = False

    def __post_init__(self) -> None:
        if not self.into:
            names = tuple(f"{n}_{part}" for part in ("outer", "inner") for n in self.loops)
            object.__setattr__(self, "into", names)


@dataclass(frozen=True, slots=True)
class Unroll:
    """Write out the iterations of a loop of constant extent."""

    loop: str


@dataclass(frozen=True, slots=True)
class Vectorize:
    """Run the iterations of a loop of small constant extent as the lanes of wide operations."""

    loop: str


@dataclass(frozen=True, slots=True)
class Parallel:
    """Let the iterations of a loop run in any order, at once."""

    loop: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Let each iteration of a loop be a block of the grid, or a thread of a block."""

    loop: str
    axis: str


@dataclass(frozen=True, slots=True)
class Inline:
    """Write a value at its uses: that of a ``let``, or of the elements of a buffer made inside."""

    name: str


Step: TypeAlias = (
    Split | Fuse | Join | Reorder | Tile | Unroll | Vectorize | Parallel | Bind | Inline
)  # fmt: skip
Schedule: TypeAlias = tuple[Step, ...]


def reassociates(step: Step) -> bool:
    """Return whether a step declares that sums and products of floats may change their order."""
    return bool(getattr(step, "reassociates", False))
