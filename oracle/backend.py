"""The protocol by which the judge runs an engine, of which it knows nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir.types import Array


class Backend(Protocol):
    """Runs the kernels and the program of one compiled module.

    Results that are floats may be records of their values and payloads (``interp.scalar_ring``).
    A run that fails raises an exception, which the judge turns into a finding.
    """

    name: str
    deterministic: bool  # equal inputs give equal bits; false where float atomics race

    def run_function(
        self, function: str, inputs: Sequence[Array], env: Mapping[str, int], variant: int = 0
    ) -> tuple[Array, ...]:
        """Run a Primitive function by its kernels, with every buffer in memory of its own.

        Where a kernel has variants, the one that ``variant`` numbers runs, modulo their count.
        """
        ...

    def run_program(
        self, inputs: Sequence[Array], use: MemoryUse | None = None, variant: int = 0
    ) -> tuple[Array, ...]:
        """Run the module by its planned program; ``use`` is told what memory that takes.

        Each dispatch runs its variant of a number, modulo their count.
        """
        ...
