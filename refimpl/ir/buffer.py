"""Buffers of loop programs, and where they live."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from didyma.refimpl.ir.types import DType, Shape


class Scope(StrEnum):
    """Where a buffer lives: device memory, shared memory of a block, registers of one thread.

    A ``cluster`` buffer lies in the shared memory of several blocks: its first index is the rank,
    in the cluster, of the block that has the element.
    """

    GLOBAL = "global"
    CLUSTER = "cluster"
    SHARED = "shared"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A named row-major array; shapes of buffers outside of device memory are ints."""

    name: str
    dtype: DType
    shape: Shape
    scope: Scope = Scope.GLOBAL
