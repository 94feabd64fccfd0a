"""What the judge asks of an engine under judgement; it never learns what is behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from didyma.refimpl.ir.types import Array


class Backend(Protocol):
    """Runs the kernels and the program of one compiled module.

    A run that goes wrong raises; the judge turns the exception into a finding.
    """

    name: str
    deterministic: bool  # equal inputs give equal bits; false where float atomics race

    def run_function(
        self, function: str, inputs: Sequence[Array], env: Mapping[str, int]
    ) -> tuple[Array, ...]:
        """Results of a Primitive function by its kernels, each buffer in memory of its own."""
        ...

    def run_program(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Results of the whole module by the planned program."""
        ...
