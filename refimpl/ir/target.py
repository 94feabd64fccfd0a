"""Targets: what a device can do, as far as kernels and programs may rely on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import ge, le
from types import MappingProxyType

from didyma.refimpl.ir.types import DType


@dataclass(frozen=True, slots=True)
class Target:
    """What a device can do, which the laws of the language, schedules and texts rely on.

    ``architecture`` is the name that compilers of kernel text know it by; empty if any will do.  A
    block has at most ``threads`` threads, in warps of ``warp``, with ``shared`` bytes of shared
    memory that a kernel declares and ``dynamic`` bytes that a launch asks for; a thread has
    ``registers`` of 32 bits.  ``block`` are the most threads along x, y and z, and
    ``grid`` the most blocks.  ``access`` is the width of the widest load or store, in bytes, and
    what a kernel is given starts at a multiple of it.  Arenas of at most ``stack`` bytes may be
    kept off the heap.  ``atomics`` are the dtypes that atomic updates take.  ``cluster`` blocks
    may share memory, and ``processors`` multiprocessors run blocks at once; 0 if nothing is known.
    ``waits`` says that a block may wait for blocks that began before it, which go on meanwhile.
    ``families`` are the intrinsics beyond scalar ones: ``cp_async``, ``mma``, ``wgmma``, ``tma``,
    ``mbarrier``.

    ``order`` is the model by which schedules are ranked: the ways in which threads may do the work
    of a loop nest, the best first; any that is not named comes last.  ``tiled`` reads each element
    from memory once.  ``short``, ``full`` and ``alone`` give each result to one thread: it does
    little, there are enough of them to fill a device, or neither.  ``split`` shares a result among
    blocks, ``across`` and ``along`` among threads, across or along what lies together in memory;
    ``poor`` is against it.
    """

    name: str
    architecture: str
    threads: int
    warp: int
    shared: int
    dynamic: int
    registers: int
    access: int
    stack: int
    atomics: tuple[DType, ...]
    cluster: int
    processors: int
    families: tuple[str, ...]
    waits: bool = False
    block: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)
    order: tuple[str, ...] = (
        "tiled", "short", "split", "full", "across", "along", "alone", "poor",
    )  # fmt: skip

    @property
    def room(self) -> int:
        """The bytes of shared memory that a kernel may declare: a launch asks for large ones."""
        return max(self.shared, self.dynamic)

    @property
    def in_turn(self) -> bool:
        """Whether the threads of a block run in turn: then one thread alone is as fast as many."""
        return [way for way in self.order if way in ("alone", "across")][:1] == ["alone"]

    def covers(self, other: Target) -> bool:
        """Return whether what relies on another target runs on this one.

        >>> SM_90A.covers(PORTABLE), PORTABLE.covers(SM_90A)
        (True, False)
        """
        return (
            other.architecture in ("", self.architecture)
            and other.warp == self.warp
            and self.access % other.access == 0
            and all(getattr(self, name) >= getattr(other, name) for name in _AT_LEAST)
            and all(map(ge, (*self.block, *self.grid), (*other.block, *other.grid)))
            and {*other.atomics} <= {*self.atomics}
            and {*other.families} <= {*self.families}
        )

    def most(self, axis: str) -> int:
        """Return how many threads or blocks there may be along an axis.

        >>> PORTABLE.most("threadIdx.z"), PORTABLE.most("blockIdx.y")
        (64, 65535)
        """
        return (self.block if axis.startswith("thread") else self.grid)["xyz".index(axis[-1])]

    def has_room(self, threads: Sequence[int]) -> bool:
        """Return whether a block may have so many threads along x, y and z.

        >>> PORTABLE.has_room((16, 1, 64)), PORTABLE.has_room((1, 1, 65))
        (True, False)
        """
        return (
            min(threads) >= 1
            and math.prod(threads) <= self.threads
            and all(map(le, threads, self.block))
        )


_AT_LEAST = ("threads", "shared", "dynamic", "registers", "stack", "cluster", "waits")

PORTABLE = Target(
    name="portable",
    architecture="",
    threads=1024,
    warp=32,
    shared=48 << 10,
    dynamic=48 << 10,
    registers=255,
    access=16,
    stack=100 << 10,
    atomics=(DType.I32, DType.I64, DType.U32, DType.U64, DType.F32, DType.F64),
    cluster=1,
    processors=0,
    families=(),
)

# A core that runs the threads of a block in turn, which change at each barrier.
CPU = replace(
    PORTABLE,
    name="cpu",
    order=("short", "full", "alone", "across", "tiled", "along", "poor"),
)

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", the A100 and the
# H100 SXM.
SM_80 = replace(
    PORTABLE,
    name="sm_80",
    architecture="sm_80",
    dynamic=163 << 10,
    processors=108,
    families=("cp_async", "mma"),
)

SM_90A = replace(
    PORTABLE,
    name="sm_90a",
    architecture="sm_90a",
    dynamic=227 << 10,
    cluster=8,
    processors=132,
    families=("cp_async", "mma", "wgmma", "tma", "mbarrier"),
    waits=True,
)

TARGETS: Mapping[str, Target] = MappingProxyType(
    {t.name: t for t in (PORTABLE, CPU, SM_80, SM_90A)}
)


def of_architecture(name: str) -> tuple[Target, ...]:
    """Return the targets that a GPU of an architecture has, the one that suits it best first.

    >>> [t.name for t in of_architecture("sm_90a")], [t.name for t in of_architecture("sm_80")]
    (['sm_90a', 'portable'], ['sm_80', 'portable'])
    """
    return (*(t for t in TARGETS.values() if t.architecture == name), PORTABLE)
