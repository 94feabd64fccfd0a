"""Which buffers fit where others were, whatever values the symbols of their sizes have."""

from __future__ import annotations

from dataclasses import dataclass, field

from didyma.refimpl.ir.dims import Dim, Ranges
from didyma.refimpl.ir.dims.prover import Prover
from didyma.refimpl.ir.types import TensorType


@dataclass
class FitProver:
    """Proves which buffers fit where others were, under declared ranges; remembers its proofs."""

    ranges: Ranges
    _known: dict[tuple[Dim, Dim], bool] = field(default_factory=dict[tuple[Dim, Dim], bool])
    _prover: Prover = field(init=False)

    def __post_init__(self) -> None:
        self._prover = Prover(self.ranges)

    def fits(self, wanted: TensorType, held: TensorType) -> bool:
        """Return whether a buffer of type ``wanted`` fits where one of type ``held`` was."""
        if wanted == held:
            return True
        a, b = held.nbytes, wanted.nbytes
        if isinstance(a, int) and isinstance(b, int):
            return a >= b
        key = (a, b)
        if key not in self._known:
            self._known[key] = self._prover.at_least(a, b)
        return self._known[key]
