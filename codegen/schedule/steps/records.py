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


class Memory(StrEnum):
    """Where a stage keeps what it copies."""

    REGISTERS = "registers"
    SHARED = "shared"
    CLUSTER = "cluster"


class Across(StrEnum):
    """By what threads combine their partial results."""

    SHUFFLE = "shuffle"
    SHARED = "shared"
    CLUSTER = "cluster"
    GRID = "grid"


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


@dataclass(frozen=True, slots=True)
class Stage:
    """Keep the part of a buffer that one iteration of a loop touches in nearer memory.

    The new buffer is called ``a_stage`` unless ``into`` names it; the loops that fill it are called
    ``a_stage_0``, ``a_stage_1`` and so on, and those that write it back ``a_stage_out_0`` and on.
    """

    buffer: str
    loop: str
    memory: Memory = Memory.REGISTERS
    into: str = ""

    def __post_init__(self) -> None:
        if not self.into:
            object.__setattr__(self, "into", f"{self.buffer}_stage")


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """Compute a buffer made inside where a loop needs it: in each of its iterations, that part."""

    buffer: str
    loop: str


@dataclass(frozen=True, slots=True)
class Rfactor:
    """Fold the iterations of one loop into partial results of their own, which are folded last.

    The buffer of partial results is called ``acc_part`` unless ``into`` names it, and the loops
    that fill and fold it ``acc_part_start`` and ``acc_part_fold``.
    """

    buffer: str
    loop: str
    into: str = ""

    def __post_init__(self) -> None:
        if not self.into:
            object.__setattr__(self, "into", f"{self.buffer}_part")

    @property
    def reassociates(self) -> bool:
        """True: partial results are folded in another order."""
        return True


@dataclass(frozen=True, slots=True)
class ReduceAcross:
    """Give the iterations of a loop of a fold to the threads of a block, which combine in a tree.

    By grid, they are given to blocks, and a second kernel combines their results in their
    order.  The buffer of partial results is called ``acc_tile`` unless ``into`` names it; the loop
    of the second kernel is called ``acc_tile_fold``.
    """

    buffer: str
    loop: str
    by: Across = Across.SHARED
    into: str = ""

    def __post_init__(self) -> None:
        if not self.into:
            object.__setattr__(self, "into", f"{self.buffer}_tile")

    @property
    def reassociates(self) -> bool:
        """True: partial results are combined in another order."""
        return True


@dataclass(frozen=True, slots=True)
class Swizzle:
    """Permute the elements within each row of a buffer made inside: column xor row mod ``factor``.

    Threads that walk down a column then touch different banks of shared memory.
    """

    buffer: str
    factor: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Fill a staged buffer ``depth - 1`` iterations of a loop ahead of its use."""

    loop: str
    buffer: str
    depth: int = 2


@dataclass(frozen=True, slots=True)
class Tensorize:
    """Replace a loop by a call of the function that does the same, as an intrinsic would."""

    loop: str
    function: str


@dataclass(frozen=True, slots=True)
class Vectors:
    """Store a vector in place of a loop of small constant extent over one store."""

    loop: str


@dataclass(frozen=True, slots=True)
class Blockize:
    """Make a block of a loop with all that is in it; its variables end in ``_at``."""

    loop: str


Step: TypeAlias = (
    Split | Fuse | Join | Reorder | Tile | Unroll | Vectorize | Parallel | Bind | Inline | Stage
    | ComputeAt | Rfactor | ReduceAcross | Swizzle | Pipeline | Tensorize
    | Vectors | Blockize
)  # fmt: skip
Schedule: TypeAlias = tuple[Step, ...]


def reassociates(step: Step) -> bool:
    """Return whether a step declares that sums and products of floats may change their order."""
    return bool(getattr(step, "reassociates", False))
