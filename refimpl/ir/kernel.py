"""Kernels: what a program launches, as loops or as text, and how it is launched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Attrs
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.loop import Buffer, Expr, PrimFunc, Stmt
from didyma.refimpl.ir.types import DType


@dataclass(frozen=True, slots=True)
class Images:
    """Images that a tensor map describes, whose pixels a convolution reads.

    There are ``count`` images, ``step`` elements apart, a multiple of 8.  A box has pixels one
    after the other: each is ``strides`` along x beyond the last, up to the last column and
    ``upper``; then comes the next line, from ``lower`` on, and at the end the next image.
    """

    count: Dim
    step: Dim
    lower: tuple[int, int]
    upper: tuple[int, int]
    strides: tuple[int, int]

    @property
    def numbers(self) -> tuple[Dim, ...]:
        """All of them, in order."""
        return (self.count, self.step, *self.lower, *self.upper, *self.strides)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map: it describes an array, for copies of boxes of 64 by ``rows`` by 1 elements.

    The kernel is given it by its ``name``.  The array lies in ``buffer``, whose elements have two
    bytes, from the element ``offset`` on.  Along its first axis neighbours lie together; ``steps``
    are the elements from neighbour to neighbour along the two others, multiples of 8.

    With ``images`` these axes are channels, columns and lines of images, and a box has 64 channels
    of so many pixels, for ``tma_im2col_T``.
    """

    name: str
    buffer: str
    offset: Dim
    extents: tuple[Dim, Dim, Dim]
    steps: tuple[Dim, Dim]
    rows: int
    images: Images | None = None

    @property
    def numbers(self) -> tuple[Dim, ...]:
        """The offset, extents, steps and rows, and those of images."""
        more = () if self.images is None else self.images.numbers
        return (self.offset, *self.extents, *self.steps, self.rows, *more)


@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel's name and how to launch it.

    Every ``cluster`` blocks along x are one cluster.
    Arguments: a pointer for each of ``buffers``, then 128 bytes for each of ``maps``, then an i64
    for each of ``dims``, then the number that each of ``scalars`` is.  ``grid`` and ``block`` are
    expressions over the dims; a grid with a zero extent is not launched.  ``sizes`` are the
    buffers' element counts, for guards and bounds checks.
    """

    name: str
    buffers: tuple[tuple[str, DType], ...]
    sizes: tuple[Expr, ...]
    outputs: tuple[str, ...]
    dims: tuple[str, ...]
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    scalars: tuple[tuple[str, DType], ...] = ()
    cluster: int = 1
    maps: tuple[TensorMap, ...] = ()

    @property
    def described(self) -> tuple[tuple[Dim, ...], ...]:
        """The number of the buffer of each map, and its numbers."""
        at = [name for name, _ in self.buffers]
        return tuple((at.index(m.buffer), *m.numbers) for m in self.maps)


@dataclass(frozen=True, slots=True)
class KernelText:
    """CUDA C in the project's subset, with the statement behind each source line (from 1).

    ``contract`` tells whether a compiler may round a product and what it is added to or multiplied
    with once, as a fused multiply-add does, rather than each operation by itself.
    """

    source: str
    kernels: tuple[Signature, ...]
    origins: tuple[tuple[int, Stmt], ...] = ()
    intrinsics: tuple[Intrinsic, ...] = ()
    contract: bool = True


ChainRule: TypeAlias = Dim  # the longest chain of additions that a term goes through


@dataclass(frozen=True, slots=True)
class TextKernel:
    """A kernel as text, which anyone may write for one Primitive function.

    ``source`` is one function ``extern "C" __global__ void`` in the project's subset of CUDA C.
    Its arguments are a pointer for each of ``reads``, the function's operands in order; for each of
    ``writes``, its results; and for each of ``workspace``, buffers that are uninitialised when the
    kernel starts.  Then comes a ``const __grid_constant__ tensor_map`` for each of ``maps``, whose
    buffers are named as in the text, and an i64 for each symbol whose value the text needs, by the
    symbol's name.  ``grid`` and ``block`` count blocks and threads along x, y and z; the grid may
    depend on symbols.  ``chain`` is the longest chain of additions that a term of a sum goes
    through, of which the judge makes error bars; without, it is that of adding the terms up one by
    one, and the judge accepts no longer one.  ``intrinsics`` are those that the text calls beside
    Didyma's own, as objects or by registered names.  The buffers ``zeroed`` of the workspace hold
    zeros instead.
    """

    source: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    grid: tuple[Dim, Dim, Dim]
    block: tuple[int, int, int]
    workspace: tuple[Buffer, ...] = ()
    chain: ChainRule | None = None
    intrinsics: tuple[str | Intrinsic, ...] = ()
    zeroed: tuple[str, ...] = ()
    maps: tuple[TensorMap, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimedKernel:
    """A kernel as text in a program, with the loop program that it claims to compute.

    The reference runs ``meaning``; engines run the text.  ``dims`` are the symbols that the text is
    given, in the order of its arguments.
    """

    text: TextKernel
    meaning: PrimFunc
    dims: tuple[DimVar, ...] = ()

    @property
    def name(self) -> str:
        """The name of the kernel in its program."""
        return self.meaning.name

    @property
    def params(self) -> tuple[Buffer, ...]:
        """The buffers that a launch gives it: operands, results, workspace."""
        return (*self.meaning.params, *self.text.workspace)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the parameters that it writes."""
        return (*self.meaning.outputs, *(b.name for b in self.text.workspace))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the parameters that it only reads."""
        return self.meaning.inputs

    @property
    def attrs(self) -> Attrs:
        """The attributes of the meaning, with ``text`` for its schedule."""
        return (*self.meaning.attrs, ("schedule", "text"))


Kernel: TypeAlias = PrimFunc | ClaimedKernel


def scratch(kernels: Iterable[Kernel], known: Iterable[str]) -> tuple[Buffer, ...]:
    """Return the buffers that kernels run one after another share, beside those that are known."""
    found = {b.name: b for k in kernels for b in k.params}
    mine = found.keys() - {*known}
    return tuple(b for name, b in found.items() if name in mine)


def loops(k: Kernel) -> PrimFunc:
    """Return the loop program by which the reference runs a kernel."""
    return k.meaning if isinstance(k, ClaimedKernel) else k
