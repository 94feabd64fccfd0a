"""Which results of a program share their bytes with inputs, or with one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.program import Program, Strided


@dataclass(frozen=True, slots=True)
class Alias:
    """A result that shows the bytes of the input or of the earlier value ``of``.

    ``number`` counts results from 0.  Its element at an index lies at ``offset`` and the sum of
    index times stride among the elements of ``of``; ``strides`` are None where it is all of it.
    """

    number: int
    result: str
    of: str
    is_input: bool
    strides: tuple[Dim, ...] | None = None
    offset: Dim = 0

    def __str__(self) -> str:
        """Say it in words.

        >>> from didyma.refimpl.ir.aliases import Alias
        >>> str(Alias(0, "y", "x", True, (1, 4)))
        'y is a view of input x, with strides (1, 4)'
        """
        kind = "input " if self.is_input else ""
        if self.strides is None:
            return f"{self.result} is {kind}{self.of} itself"
        by = ", ".join(map(dims.text, self.strides))
        at = "" if self.offset == 0 else f" from element {dims.text(self.offset)}"
        return f"{self.result} is a view of {kind}{self.of}, with strides ({by}){at}"


def strided(p: Program) -> dict[str, Strided]:
    """Return the values of a program that show others by strides, with their lines."""
    return {x.value: x for x in p.lines if isinstance(x, Strided)}


def aliases(p: Program) -> tuple[Alias, ...]:
    """Return the results of a program that share bytes with inputs or earlier values, in order."""
    return tuple(_aliases(p))


def _aliases(p: Program) -> Iterator[Alias]:
    shown, seen = strided(p), set[str]()
    owners = Counter(shown[v].of if v in shown else v for v in p.results)
    for i, v in enumerate(p.results):
        s = shown.get(v)
        if s is not None and (s.of in p.inputs or owners[s.of] > 1):
            yield Alias(i, v, s.of, s.of in p.inputs, s.strides, s.offset)
        elif s is None and (v in p.inputs or v in seen):
            yield Alias(i, v, v, v in p.inputs)
        seen.add(v)
