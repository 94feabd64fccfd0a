"""Programs: what the generated wrapper does, line by line, as data.

Values are device buffers with a name and a type.  Inputs and constants belong to the caller and
are never written, freed or reused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from refimpl.ir.dims import Dim, DimVar
from refimpl.ir.graph import Attrs
from refimpl.ir.loop import PrimFunc
from refimpl.ir.types import Tensor, TensorType

ALIGNMENT = 256  # bytes; every allocation starts at a multiple of it


@dataclass(frozen=True, slots=True)
class Allocate:
    """``value`` gets fresh bytes of its own."""

    value: str


@dataclass(frozen=True, slots=True)
class Free:
    """``value`` is dead and its bytes go back; it must own them (no view of them may be live)."""

    value: str


@dataclass(frozen=True, slots=True)
class Reuse:
    """``value`` takes over the whole allocation of the dead value ``over``, of the same type."""

    value: str
    over: str


@dataclass(frozen=True, slots=True)
class PlacementAllocate:
    """``value`` takes over the allocation of the dead value ``over`` from byte ``offset`` on.

    The allocation is at least as large; dtype and shape may differ.
    """

    value: str
    over: str
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class View:
    """``value`` is another name and type for all the bytes of ``of``; no bytes move."""

    value: str
    of: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel on values: parameters in order, outputs included; dims are the program's."""

    kernel: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extern:
    """Call a library routine by name: writes ``outputs``, reads ``inputs``."""

    name: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    attrs: Attrs = ()


@dataclass(frozen=True, slots=True)
class Assert:
    """The two sizes are equal, or the call is refused with ``message``."""

    lhs: Dim
    rhs: Dim
    message: str


@dataclass(frozen=True, slots=True)
class Copy:
    """``value`` receives the bytes of ``source``; both are allocated and of one type."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Return:
    """Hand the values to the caller; always the last line."""

    values: tuple[str, ...]


Line: TypeAlias = (
    Allocate | Free | Reuse | PlacementAllocate | View | Launch | Extern | Assert | Copy | Return
)


@dataclass(frozen=True, slots=True)
class Program:
    """Lines over named values.

    ``types`` gives every value's type (inputs and constants too); ``inputs`` are the caller's
    buffers in calling order; ``constants`` the weights; ``kernels`` the scheduled PrimFuncs that
    ``Launch`` names.
    """

    name: str
    dims: tuple[DimVar, ...]
    inputs: tuple[str, ...]
    constants: tuple[tuple[str, Tensor], ...]
    types: tuple[tuple[str, TensorType], ...]
    kernels: tuple[PrimFunc, ...]
    lines: tuple[Line, ...]

    @property
    def type(self) -> dict[str, TensorType]:
        """Type of every value by name."""
        return dict(self.types)

    @property
    def kernel(self) -> dict[str, PrimFunc]:
        """Kernels by name."""
        return {k.name: k for k in self.kernels}

    @property
    def results(self) -> tuple[str, ...]:
        """The values of the ``Return`` line."""
        last = self.lines[-1]
        assert isinstance(last, Return)
        return last.values
