"""Programs: what the generated wrapper does, line by line, as data.

Values are device buffers with a name and a type.  Inputs and constants belong to the caller and
are never written, freed or reused; inputs may be returned.  Functions of a program stand above it
and one another; they write their results to buffers that the caller has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Attrs
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.types import Tensor, TensorType

ALIGNMENT = 256  # bytes; every allocation starts at a multiple of it


@dataclass(frozen=True, slots=True)
class Allocate:
    """Give ``value`` an allocation of its own."""

    value: str


@dataclass(frozen=True, slots=True)
class Free:
    """Take back the bytes of ``value``, which must own them; no view of them may be used later."""

    value: str


@dataclass(frozen=True, slots=True)
class Reuse:
    """Give ``value`` the allocation of ``over``, a value of the same type that is dead then."""

    value: str
    over: str


@dataclass(frozen=True, slots=True)
class PlacementAllocate:
    """Give ``value`` the allocation of ``over``, which is dead then, from byte ``offset`` on.

    The value ends within the allocation; dtype and shape may differ.
    """

    value: str
    over: str
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class Arena:
    """Make one allocation of ``nbytes`` that ``Place`` hands out, to the end of its block.

    ``stack`` asks for a small total to be kept off the heap, where an engine can.
    """

    name: str
    nbytes: Dim
    device: str = ""
    stack: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Give ``value`` the bytes of an arena from ``offset`` on, until it is freed."""

    value: str
    arena: str
    offset: Dim


@dataclass(frozen=True, slots=True)
class View:
    """Make ``value`` another name and type for the bytes of ``of`` from ``offset`` on.

    No bytes move; what is written through a view is seen through the other names.
    """

    value: str
    of: str
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class Strided:
    """Make ``value``, which is only returned, show elements of ``of`` where strides say.

    Its element at an index lies at ``offset`` and the sum of index times stride, for each axis,
    among the elements of ``of`` as they lie in memory.  A stride may be 0 or negative.
    """

    value: str
    of: str
    strides: tuple[Dim, ...]
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel on values, one for each parameter; its dims are the program's.

    ``inplace`` pairs outputs with inputs that die here: the output has had no bytes before and
    takes over the input's allocation, element on element.  Work on one ``stream`` is in order.
    """

    kernel: str
    args: tuple[str, ...]
    stream: int = 0
    inplace: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Run one of several kernels that compute the same; which one is chosen at run time.

    ``variants`` are kernels, each with values for its parameters, of which a variant may take fewer
    than another.  Each writes all of ``outputs`` and nothing else.  ``stream`` and ``inplace`` are
    as of ``Launch``, and the same for every variant.
    """

    outputs: tuple[str, ...]
    variants: tuple[tuple[str, tuple[str, ...]], ...]
    stream: int = 0
    inplace: tuple[tuple[str, str], ...] = ()

    @property
    def args(self) -> tuple[str, ...]:
        """The values that any variant takes, each once."""
        return tuple(dict.fromkeys(a for _, args in self.variants for a in args))

    @property
    def launches(self) -> tuple[Launch, ...]:
        """What each variant runs."""
        return tuple(Launch(k, args, self.stream, self.inplace) for k, args in self.variants)

    def launch(self, number: int) -> Launch:
        """Return what a variant runs, by its number, which is taken modulo their count."""
        return self.launches[number % len(self.variants)]


@dataclass(frozen=True, slots=True)
class Wait:
    """Let later work of ``stream`` start after all earlier work of the stream ``on``."""

    stream: int
    on: int


@dataclass(frozen=True, slots=True)
class Extern:
    """Call a library routine by name; it reads ``inputs`` and writes ``outputs``.

    The routine allocates those of its outputs that ``allocates`` names; the program frees them.
    """

    name: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    attrs: Attrs = ()
    allocates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """Run a function of the program, which reads ``inputs`` and writes all of ``outputs``.

    Symbols that the function does not bind have the values they have here; those that it binds are
    its own.
    """

    callee: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assert:
    """Refuse the call with ``message`` unless two sizes are equal."""

    lhs: Dim
    rhs: Dim
    message: str


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the bytes of ``source`` to ``value``; both are allocated and of one type."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the symbol ``dim`` to the value of the i64 scalar ``value``.

    A value outside the symbol's declared range is refused.
    """

    dim: str
    value: str


@dataclass(frozen=True, slots=True)
class Carry:
    """Hand values on under other names, and give symbols new values, all at once.

    For each pair ``(value, new)``: what ``value`` had is freed, it takes over the allocation that
    ``new`` owns, and ``new`` is gone.  Each pair of ``dims`` gives a symbol its new value, an
    expression over the old ones.  Types are read with the symbols' new values.
    """

    values: tuple[tuple[str, str], ...]
    dims: tuple[tuple[str, Dim], ...]


@dataclass(frozen=True, slots=True)
class If:
    """Run ``then`` where the bool scalar ``cond`` is true, else ``other``.

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
    """Hand the values to the caller; always the last line.

    Values may share bytes with one another and with inputs, which the caller then sees.
    """

    values: tuple[str, ...]


Line: TypeAlias = (
    Allocate | Free | Reuse | PlacementAllocate | Arena | Place | View | Strided | Launch
    | Dispatch | Wait | Extern | Call | Assert | Copy | Bind | Carry | If | While | Repeat | Return
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """A program: lines over named values, and what they refer to.

    ``types`` gives every value's type (inputs and constants too); ``inputs`` are the caller's
    buffers in calling order; ``constants`` the weights; ``kernels`` what ``Launch`` and
    ``Dispatch`` name.  ``functions`` are what ``Call`` names, callees before callers: programs that
    write the caller's ``outputs`` and return nothing, without constants, kernels or functions of
    their own.
    """

    name: str
    dims: tuple[DimVar, ...]
    inputs: tuple[str, ...]
    constants: tuple[tuple[str, Tensor], ...]
    types: tuple[tuple[str, TensorType], ...]
    kernels: tuple[Kernel, ...]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...] = ()
    functions: tuple[Program, ...] = ()

    @property
    def type(self) -> dict[str, TensorType]:
        """The type of every value by name."""
        return dict(self.types)

    @property
    def kernel(self) -> dict[str, Kernel]:
        """The kernels by name."""
        return {k.name: k for k in self.kernels}

    @property
    def function(self) -> dict[str, Program]:
        """The functions by name, each with the kernels and functions that it may use."""
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
