"""Programs: what the generated wrapper does, line by line, as data.

Values are device buffers with a name and a type.  Inputs and constants belong to the caller and
are never written, freed or reused.  Functions of a program stand above it and one another; they
write their results to buffers that the caller has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Attrs
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Tensor, TensorType

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
class Arena:
    """One allocation of ``nbytes`` that ``Place`` hands out; it lives to the end of its block.

    ``stack`` asks for a small total to be kept off the heap, where an engine can.
    """

    name: str
    nbytes: Dim
    device: str = ""
    stack: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """``value`` gets the bytes of an arena from ``offset`` on, until it is freed."""

    value: str
    arena: str
    offset: Dim


@dataclass(frozen=True, slots=True)
class View:
    """``value`` is another name and type for the bytes of ``of`` from ``offset`` on.

    No bytes move; what is written through a view is seen through the other names.
    """

    value: str
    of: str
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel on values: parameters in order, outputs included; dims are the program's.

    ``inplace`` pairs outputs with inputs that die here: the output has had no bytes before and
    takes over the input's allocation, element on element.  Work on one ``stream`` is in order.
    """

    kernel: str
    args: tuple[str, ...]
    stream: int = 0
    inplace: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Later work of ``stream`` starts after all earlier work of the stream ``on``."""

    stream: int
    on: int


@dataclass(frozen=True, slots=True)
class Extern:
    """Call a library routine by name: writes ``outputs``, reads ``inputs``.

    The routine allocates those of its outputs that ``allocates`` names; the program frees them.
    """

    name: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    attrs: Attrs = ()
    allocates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """Run a function of the program: it reads ``inputs`` and writes all of ``outputs``.

    Symbols that the function does not bind have the values they have here; those that it binds are
    its own.
    """

    callee: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]


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
class Bind:
    """The symbol ``dim`` has the value of the i64 scalar ``value`` from here on.

    A value outside the symbol's declared range is refused.
    """

    dim: str
    value: str


@dataclass(frozen=True, slots=True)
class Carry:
    """Values that change their size, handed on, and symbols with them; all at once.

    For each pair ``(value, new)``: what ``value`` had is freed, it takes over the allocation that
    ``new`` owns, and ``new`` is gone.  Each pair of ``dims`` gives a symbol its new value, an
    expression over the old ones.  Types are read with the symbols' new values.
    """

    values: tuple[tuple[str, str], ...]
    dims: tuple[tuple[str, Dim], ...]


@dataclass(frozen=True, slots=True)
class If:
    """``then`` where the bool scalar ``cond`` is true, else ``other``.

    Both leave the same values alive.
    """

    cond: str
    then: tuple[Line, ...]
    other: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Run ``test``; where the bool scalar ``cond`` is true then, run ``body`` and begin again."""

    test: tuple[Line, ...]
    cond: str
    body: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Run ``body`` with the symbol ``index`` at 0, 1, ... below ``extent``."""

    index: str
    extent: Dim
    body: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Return:
    """Hand the values to the caller; always the last line."""

    values: tuple[str, ...]


Line: TypeAlias = (
    Allocate | Free | Reuse | PlacementAllocate | Arena | Place | View | Launch | Wait | Extern
    | Call | Assert | Copy | Bind | Carry | If | While | Repeat | Return
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """Lines over named values.

    ``types`` gives every value's type (inputs and constants too); ``inputs`` are the caller's
    buffers in calling order; ``constants`` the weights; ``kernels`` the scheduled PrimFuncs that
    ``Launch`` names.  ``functions`` are what ``Call`` names, callees before callers: programs that
    write the caller's ``outputs`` and return nothing, without constants, kernels or functions of
    their own.
    """

    name: str
    dims: tuple[DimVar, ...]
    inputs: tuple[str, ...]
    constants: tuple[tuple[str, Tensor], ...]
    types: tuple[tuple[str, TensorType], ...]
    kernels: tuple[PrimFunc, ...]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...] = ()
    functions: tuple[Program, ...] = ()

    @property
    def type(self) -> dict[str, TensorType]:
        """Type of every value by name."""
        return dict(self.types)

    @property
    def kernel(self) -> dict[str, PrimFunc]:
        """Kernels by name."""
        return {k.name: k for k in self.kernels}

    @property
    def function(self) -> dict[str, Program]:
        """Functions by name, each with what it may use."""
        return {
            f.name: replace(f, kernels=self.kernels, functions=self.functions[:i])
            for i, f in enumerate(self.functions)
        }

    @property
    def results(self) -> tuple[str, ...]:
        """The values of the ``Return`` line."""
        last = self.lines[-1]
        assert isinstance(last, Return)
        return last.values
