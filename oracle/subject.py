"""What the judge is given: every level of a compiled module, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import Kernel
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
    """

    source: Module
    passes: tuple[tuple[str, Module], ...]
    fused: Module
    loops: Mapping[str, PrimFunc]
    kernels: Mapping[str, tuple[Kernel, ...]]
    program: Program
    externs: Mapping[str, Extern] = field(default_factory=dict[str, "Extern"])
