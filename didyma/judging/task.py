"""A task: a kernel, its specification, and how each argument follows from the specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.maps import Box
from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging.contracts import Declared
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import DType


@dataclass(frozen=True, slots=True)
class Operand:
    """An input of the specification, by its name: a pointer to it, or its number."""

    name: str


@dataclass(frozen=True, slots=True)
class Result:
    """A pointer to an output, by its name.

    Before the launch it is unwritten, or ``zeroed``, or has the values of the input ``over``.
    """

    name: str
    zeroed: bool = False
    over: str = ""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number: an expression of sizes."""

    expression: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Scratch:
    """A pointer to memory of the kernel's own, whose sizes are expressions."""

    dtype: DType
    shape: tuple[str, ...]
    zeroed: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A pointer to memory that the launches of a task share, by its name."""

    name: str


Role: TypeAlias = Operand | Result | Scalar | Scratch | Kept


@dataclass(frozen=True, slots=True)
class Geometry:
    """Blocks, threads and bytes of dynamic shared memory, as expressions of sizes.

    ``guessed`` says that nobody gave the bytes, but the kernel takes some.
    """

    grid: tuple[str, ...] = ("1",)
    block: tuple[str, ...] = ("32",)
    shared: str = "0"
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Draw:
    """What the judge may draw: chosen sizes, conditions on sizes, and ranges of inputs' values.

    There are so many ``rounds``, as far as they end within ``seconds`` of processor time.
    """

    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    where: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    rounds: int = 16
    seed: int = 1
    most: int = 1 << 16  # elements of a round
    seconds: float = 7.0


@dataclass(frozen=True, slots=True)
class Step:
    """A launch of a kernel.

    ``roles`` has an entry for each parameter, which has the name of ``names``; ``numbers`` are
    those that are no pointers.  ``label`` is the kernel's name in its text, ``name`` the one that
    the user gave.  ``maps`` are the parameters that are tensor maps of their arrays.
    """

    kernel: Kernel
    names: tuple[str, ...]
    roles: tuple[Role, ...]
    numbers: frozenset[str]
    geometry: Geometry
    label: str = ""
    name: str = ""
    maps: Mapping[str, Box] = field(default_factory=dict[str, Box])


@dataclass(frozen=True, slots=True)
class Task:
    """All that a judgement depends on.

    ``steps`` are launches of kernels of one text, one after the other; ``memory`` is what they
    share beside inputs and outputs.  ``flags`` are those with which the text was compiled, in
    ``compiling`` seconds of processor time.
    """

    source: Source
    spec: Module
    steps: tuple[Step, ...]
    contract: Declared
    draw: Draw
    timeout: float = 10.0  # seconds of one launch, after which it counts as hung
    flags: tuple[str, ...] = ()
    memory: Mapping[str, Scratch] = field(default_factory=dict[str, Scratch])
    compiling: float = 0.0

    @property
    def label(self) -> str:
        """The names of the kernels in their text."""
        return ", ".join(s.label for s in self.steps)
