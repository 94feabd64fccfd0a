"""What the judge is given: every level of a compiled module, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.lines import settled
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import Array

Arrays: TypeAlias = Sequence[Array]
Env: TypeAlias = Mapping[str, int]
Extern: TypeAlias = Callable[[Sequence[Array], Env], Sequence[Array]]


@dataclass(frozen=True, slots=True)
class Subject:
    """A compiled module at every level; ``externs`` implement external functions by name.

    ``loops`` and ``kernels`` are keyed by the names of the Primitive functions of ``fused``.
    ``variants`` has, by the name of a kernel, all that may run in its place, the kernel first.
    """

    source: Module
    passes: tuple[tuple[str, Module], ...]
    fused: Module
    loops: Mapping[str, PrimFunc]
    kernels: Mapping[str, tuple[Kernel, ...]]
    program: Program
    externs: Mapping[str, Extern] = field(default_factory=dict[str, "Extern"])
    variants: Mapping[str, tuple[Kernel, ...]] = field(
        default_factory=dict[str, "tuple[Kernel, ...]"]
    )

    @property
    def shown(self) -> frozenset[str]:
        """The functions of which the program has no kernel: what it returns shows their results."""
        there = {k.name for k in self.program.kernels}
        rows = self.kernels.items()
        return frozenset(f for f, ks in rows if there.isdisjoint(k.name for k in ks))

    def variant(self, number: int) -> Subject:
        """Return the subject in which each dispatch launches its variant of a number.

        The number is taken modulo the count of variants.
        """
        if not self.variants:
            return self
        kernels = {
            name: tuple(self._chosen(k, number) for k in ks) for name, ks in self.kernels.items()
        }
        return replace(self, kernels=kernels, program=settled(self.program, number), variants={})

    def _chosen(self, k: Kernel, number: int) -> Kernel:
        each = self.variants.get(k.name, (k,))
        return each[number % len(each)]
