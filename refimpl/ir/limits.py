"""The limits of the portable target, which every kernel and program keeps."""

from __future__ import annotations

from dataclasses import dataclass

from didyma.refimpl.ir.types import DType


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device can do, as far as kernels and programs may rely on it.

    A block has at most ``threads`` threads and ``shared`` bytes of shared memory.  ``access`` is
    the width of the widest load or store, in bytes, and what a kernel is given starts at a
    multiple of it.  Arenas of at most ``stack`` bytes may be kept off the heap.  ``atomics`` are
    the dtypes that atomic updates take.
    """

    threads: int
    shared: int
    access: int
    stack: int
    atomics: tuple[DType, ...]


PORTABLE = Limits(
    threads=1024,
    shared=48 << 10,
    access=16,
    stack=100 << 10,
    atomics=(DType.I32, DType.I64, DType.U32, DType.U64, DType.F32, DType.F64),
)
