"""Loop programs: scalar expressions, loops and stores over named buffers.

Two stages of one language.  A ``PrimFunc`` fresh from lowering has serial and parallel loops; a
*kernel* is a PrimFunc whose outermost loops are bound to grid and thread axes.  Either may hold
functions of its own and call them on its buffers; ``expand`` writes them out.

Arithmetic is defined on f32, f64, the integers and bool.  f16, bf16 and the f8 dtypes are storage:
they may be loaded, stored, selected and cast, never computed with (law L-storage).  Tensors of
packed dtypes are buffers of u8 (law L-packed).  Integers wrap.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from didyma.refimpl.ir.buffer import Buffer as Buffer
from didyma.refimpl.ir.buffer import Scope as Scope
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import Attr, Attrs
from didyma.refimpl.ir.scalar import ATOMIC_OPS as ATOMIC_OPS
from didyma.refimpl.ir.scalar import BINARY_OPS as BINARY_OPS
from didyma.refimpl.ir.scalar import BITCASTS as BITCASTS
from didyma.refimpl.ir.scalar import CHAIN_OPS as CHAIN_OPS
from didyma.refimpl.ir.scalar import COMPARE_OPS as COMPARE_OPS
from didyma.refimpl.ir.scalar import FREE as FREE
from didyma.refimpl.ir.scalar import INDEX as INDEX
from didyma.refimpl.ir.scalar import INTRINSICS as INTRINSICS
from didyma.refimpl.ir.scalar import UNARY_OPS as UNARY_OPS
from didyma.refimpl.ir.scalar import AtomicOp as AtomicOp
from didyma.refimpl.ir.scalar import Binary as Binary
from didyma.refimpl.ir.scalar import BinaryOp as BinaryOp
from didyma.refimpl.ir.scalar import Broadcast as Broadcast
from didyma.refimpl.ir.scalar import Cast as Cast
from didyma.refimpl.ir.scalar import ChainOp as ChainOp
from didyma.refimpl.ir.scalar import Compare as Compare
from didyma.refimpl.ir.scalar import CompareOp as CompareOp
from didyma.refimpl.ir.scalar import Const as Const
from didyma.refimpl.ir.scalar import Expr as Expr
from didyma.refimpl.ir.scalar import Intrinsic as Intrinsic
from didyma.refimpl.ir.scalar import LetExpr as LetExpr
from didyma.refimpl.ir.scalar import Load as Load
from didyma.refimpl.ir.scalar import Ramp as Ramp
from didyma.refimpl.ir.scalar import Select as Select
from didyma.refimpl.ir.scalar import Unary as Unary
from didyma.refimpl.ir.scalar import UnaryOp as UnaryOp
from didyma.refimpl.ir.scalar import Var as Var
from didyma.refimpl.ir.types import DType


class LoopKind(StrEnum):
    """How the iterations of a loop relate."""

    SERIAL = "serial"
    PARALLEL = "parallel"  # any order, at once: no iteration sees another's stores
    VECTORIZED = "vectorized"  # parallel, with a small constant extent: wide loads and stores
    UNROLLED = "unrolled"  # serial, with a constant extent
    BOUND = "bound"  # parallel over a grid or thread axis


AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
RANK = "clusterRank"  # the axis of the blocks of a cluster, which run at once; AXES lacks it


@dataclass(frozen=True, slots=True)
class Block:
    """Statements, one after another."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    """The loop ``for var in range(extent)``.

    ``axis`` is one of ``AXES``, or ``RANK``, if it is bound, else empty.
    """

    var: Var
    extent: Expr
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL
    axis: str = ""


@dataclass(frozen=True, slots=True)
class While:
    """A loop that runs ``body`` again and again as long as ``cond`` holds before it."""

    cond: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class If:
    """A branch: ``then`` where ``cond`` holds, else ``other``, or nothing."""

    cond: Expr
    then: Stmt
    other: Stmt | None = None


@dataclass(frozen=True, slots=True)
class Accumulator:
    """What a fold keeps from one term to the next: a variable, and the value it starts from."""

    var: Var
    start: Expr


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop variable that runs from 0 up to an extent."""

    var: Var
    extent: Expr


@dataclass(frozen=True, slots=True)
class Combiner:
    """The next values of a fold's accumulators, from their last ones and ``operands``."""

    operands: tuple[Var, ...]
    results: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """The statement ``body``, in which the accumulators have the results of a fold.

    ``step`` runs at each point of the axes, the last axis fastest, and yields one term, which
    ``combine`` adds to the accumulators.  Starts and extents are evaluated before the first term.
    The step does not see the accumulators, and the body sees no axis.

    ``merge``, if there is one, combines the accumulators of two parts of the terms; it gives the
    same whatever the parts are and in whatever order they come, but for rounding.  A step and a
    merge are what Futhark calls a redomap (Henriksen, Larsen and Elsman, 2016).
    """

    accs: tuple[Accumulator, ...]
    axes: tuple[Axis, ...]
    combine: Combiner
    step: Stmt
    body: Stmt
    merge: Combiner | None = None

    @property
    def op(self) -> BinaryOp | None:
        """The operation of a fold that keeps one value and does ``value op term`` to it."""
        match self.accs, self.combine:
            case (Accumulator(acc, _),), Combiner((term,), (Binary(op, a, b),)):
                return op if (a, b) == (acc, term) else None
            case _:
                return None

    @property
    def merger(self) -> Combiner | None:
        """How the accumulators of two parts become one, or None if that is not known."""
        return self.combine if self.merge is None and self.op in FREE else self.merge


@dataclass(frozen=True, slots=True)
class Yield:
    """The end of a fold's step: ``values`` are the operands of its combiner."""

    values: tuple[Expr, ...]


class IterKind(StrEnum):
    """What the iterations along a variable of a block are to one another."""

    SPATIAL = "spatial"  # each writes elements of its own
    REDUCE = "reduce"  # all of them update the same elements


@dataclass(frozen=True, slots=True)
class IterVar:
    """A variable of a block: it runs from 0 up to an extent, and is bound to a value here."""

    var: Var
    extent: Expr
    kind: IterKind
    value: Expr


@dataclass(frozen=True, slots=True)
class Region:
    """Elements of a buffer: on each axis from a start, as many as an extent says."""

    buffer: str
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class BlockRealize:
    """One iteration of a block, if ``where`` holds: ``body`` at the values of the block's ``vars``.

    The body loads from ``reads`` and ``writes`` alone, stores to ``writes`` alone, and sees no
    variable from outside but dims and scalars: what a block does can be told from its head.
    ``init`` runs before it where every ``reduce`` variable is 0.  This is TensorIR's block (Feng
    et al., 2023).
    """

    vars: tuple[IterVar, ...]
    where: Expr
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    init: Stmt | None
    body: Stmt


@dataclass(frozen=True, slots=True)
class Let:
    """The statement ``body``, in which ``var`` is bound to ``value`` once."""

    var: Var
    value: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class Store:
    """The store ``buffer[index] = value``; the value has the buffer's dtype.

    With a ``Ramp`` for an index it stores a vector: every lane of the value is computed, by the
    operations on that lane of their operands, before any is stored.
    """

    buffer: str
    index: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Atomic:
    """The update ``buffer[index] = op(buffer[index], value)``, indivisibly, in no given order."""

    op: AtomicOp
    buffer: str
    index: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Allocate:
    """The statement ``body``, in which ``buffer`` exists; its elements are unset until stored."""

    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, slots=True)
class BufferRealize:
    """The statement ``body``, in which a part of ``buffer`` exists; its elements are unset.

    On each axis they are so many as ``extents`` says, from ``starts`` on; indices count from 0 of
    the whole buffer all the same.
    """

    buffer: Buffer
    starts: tuple[Expr, ...]
    extents: tuple[int, ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class Compute:
    """The statement ``body``, which may produce elements of ``buffer``, defined by ``step``.

    ``step`` stores the element at ``vars``, whatever they are, from inputs and other producers:
    it is an equation for the buffer, and runs where the buffer is produced.
    """

    buffer: Buffer
    vars: tuple[Var, ...]
    step: Stmt
    body: Stmt


@dataclass(frozen=True, slots=True)
class ProducerRealize:
    """The statement ``body``, before which the ``producer`` is computed on a part of it, as in
    ``BufferRealize``; it is loaded from there.
    """

    producer: str
    starts: tuple[Expr, ...]
    extents: tuple[int, ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class PlacementAllocate:
    """The statement ``body``, in which ``buffer`` has the bytes of ``over``, which is dead."""

    buffer: Buffer
    over: str
    body: Stmt


@dataclass(frozen=True, slots=True)
class Free:
    """The end of a buffer, which is dead from here on; what a library routine made is released."""

    buffer: str


@dataclass(frozen=True, slots=True)
class ExternalCall:
    """The call of a library routine that reads ``inputs`` and writes ``outputs``."""

    name: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    attrs: Attrs = ()


@dataclass(frozen=True, slots=True)
class ExternalAllocate:
    """The statement ``body``, in which ``buffers`` exist: a library routine makes and fills them.

    It reads ``inputs``.  The buffers are in device memory; a ``Free`` releases each of them.
    """

    name: str
    buffers: tuple[Buffer, ...]
    inputs: tuple[str, ...]
    attrs: Attrs
    body: Stmt


@dataclass(frozen=True, slots=True)
class Call:
    """The call of the function ``callee``, whose parameters are whole buffers by reference.

    ``dims`` are the values of its symbolic dims, in order; each lies in its declared range.
    ``scalars`` are the values of its scalar parameters.
    """

    callee: str
    args: tuple[str, ...]
    dims: tuple[Expr, ...] = ()
    scalars: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Return:
    """The end of a function, which gives its caller a number."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier: every thread of the block arrives before any goes on.

    If ``scope`` is that of the memory of a cluster, it is every thread of the cluster.
    """

    scope: Scope = Scope.SHARED


@dataclass(frozen=True, slots=True)
class Exchange:
    """The statement ``body``, in which ``var`` is what another thread gives as ``value``.

    It is the thread whose number in the block differs in the bits of ``mask``.  Every thread of the
    block gives its value before any goes on; accesses to memory are not ordered by it.
    """

    var: Var
    value: Expr
    mask: int
    body: Stmt


@dataclass(frozen=True, slots=True)
class Chain:
    """The statement ``body``, in which ``var`` is the result of the blocks before this one.

    It is ``start`` in the first block along ``blockIdx.x``, and ``op`` of what the block before it
    has and gives in each other: always folded from the first on, whichever block runs when.  The
    first thread of a block gives ``value``.  A block waits for those before it, so blocks have the
    numbers in which they begin.

    ``states`` and ``totals`` are parameters that the function writes, and nothing else touches.
    ``states`` begins as zeros: it counts the blocks that have begun, and has 2 for each that knows
    its result.  ``totals`` has two elements per block: what it gives, and the result of all up to
    it.
    """

    var: Var
    op: ChainOp
    start: Expr
    value: Expr
    states: str
    totals: str
    body: Stmt


@dataclass(frozen=True, slots=True)
class Assert:
    """An assertion: ``cond`` holds, or the program stops with ``message``."""

    cond: Expr
    message: str


@dataclass(frozen=True, slots=True)
class Evaluate:
    """The evaluation of an expression whose value nothing takes: what it loads is checked."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint that an element of a buffer in device memory will be loaded; it must be in bounds."""

    buffer: str
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class AttrStmt:
    """The statement ``body``, of which later levels know a fact that leaves its meaning alone.

    ``key`` is one of ``STMT_ATTRS``: ``remark`` a comment, ``unroll`` a count for a serial loop.
    In a body with ``copies`` "begin" a thread stores what it loads from device memory into shared
    memory: that may come while it goes on, until it comes to a body with ``copies`` "end".
    ``cache`` "pass" says that what a body touches in device memory is not soon touched again.
    ``flush`` names a function of f32, ``exp`` or ``exp2``, of numbers up to 0, whose results a body
    adds to a sum that is 1 at least: so that 0 in place of the least normal number or less is lost.
    In a body with ``waits`` "stores" some threads of each block of a cluster, one for each block,
    store to that block, and a barrier of the cluster follows: it need wait for these stores alone.
    """

    key: str
    value: Attr
    body: Stmt


Stmt: TypeAlias = (
    Block | For | While | If | Fold | Yield | BlockRealize | Let | Store | Atomic | Allocate
    | BufferRealize | Compute | ProducerRealize
    | PlacementAllocate | Free | ExternalCall | Call | Barrier | Assert | Evaluate | Prefetch
    | AttrStmt | Exchange | Chain | ExternalAllocate | Return
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PrimFunc:
    """A function over buffers: ``params`` are its inputs, then its outputs, then come ``dims``.

    Symbolic dims are scalars of dtype ``INDEX`` that are free variables of the body.  ``attrs``:
    ``source`` (names of the graph values computed), ``schedule`` (what bound it), and whatever
    a later level wants to know.  With ``noalias=false`` parameters may be one buffer, though some
    are written; without, none that is written is another, which callers must see to.
    ``returns`` is the dtype of the number that it gives its caller, if it does.
    ``functions`` are those that calls name, callees before callers: they know no name of this
    function but what they are given.  ``scalars`` are parameters that are numbers, passed by value:
    variables of the body.
    """

    name: str
    params: tuple[Buffer, ...]
    outputs: tuple[str, ...]
    body: Stmt
    dims: tuple[DimVar, ...] = ()
    attrs: Attrs = ()
    functions: tuple[PrimFunc, ...] = ()
    scalars: tuple[Var, ...] = ()
    returns: DType | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the body finds declared: of buffers, dims and scalars."""
        buffers, dims = [b.name for b in self.params], [d.name for d in self.dims]
        return (*buffers, *dims, *(v.name for v in self.scalars))

    @property
    def noalias(self) -> bool:
        """Whether what is written has bytes of its own: so without attribute ``noalias=false``."""
        return dict(self.attrs).get("noalias") is not False

    @property
    def function(self) -> dict[str, PrimFunc]:
        """The functions by name."""
        return {g.name: g for g in self.functions}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the parameters that are only read."""
        return tuple(b.name for b in self.params if b.name not in self.outputs)
