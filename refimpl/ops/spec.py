"""What it takes to be an op: one frozen record, from which every part of Didyma is derived.

A record has no optional half: shape and dtype rule, NumPy meaning, error bar, loop rule, samples
for fuzzing, written rules for special values, and an example that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias

from didyma.refimpl.ir.graph import Attr, Attrs
from didyma.refimpl.ir.loop import AtomicOp, Expr
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.bars import Bar, Contract

Index: TypeAlias = tuple[Expr, ...]
Read: TypeAlias = Callable[[Index], Expr]
AttrMap: TypeAlias = Mapping[str, Attr]
FoldOp: TypeAlias = Literal["add", "mul", "min", "max", "and", "or", "argmin", "argmax"]


class Kind(StrEnum):
    """How an output element depends on the operands: what fusion needs to know."""

    ELEMENTWISE = "elementwise"  # on the element at the same (broadcast) index of each operand
    INJECTIVE = "injective"  # on at most one element of each operand: movement, gather, iota
    RESHAPE = "reshape"  # the same bytes under another shape
    REDUCTION = "reduction"  # on a fold over axes of the operand
    OPAQUE = "opaque"  # matmul, convolution, scatter: one to a kernel; pointwise may follow


@dataclass(frozen=True, slots=True)
class Fold:
    """Combine ``body(k)`` over ``k`` in ``extents`` with ``op``, then apply ``finish``.

    ``body`` yields the accumulator's dtype, which is never f16 or bf16.  Extents may depend on
    the output index (a running sum has extent ``i + 1``).  ``argmin`` and ``argmax`` take one
    extent and yield the i64 position of the first best element; the first NaN is best.  An empty
    fold gives the identity of ``op`` (for min and max the largest and smallest value, for
    floats the infinities); an empty arg-fold gives 0.
    """

    op: FoldOp
    extents: tuple[Expr, ...]
    body: Callable[[Index], Expr]
    finish: Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Scatter:
    """Start from ``base``; then each ``update(u)`` for ``u`` in ``extents`` goes to ``target(u)``.

    ``target`` yields the output index and whether the update counts.  With ``op`` ``set`` the
    last update in row-major order of ``u`` wins; else it is combined with what is there.
    ``colliding`` are the axes of ``u`` along which two updates may meet.
    """

    op: AtomicOp | Literal["set"]
    base: Read
    extents: tuple[Expr, ...]
    target: Callable[[Index], tuple[Index, Expr]]
    update: Read
    colliding: tuple[int, ...]


Rule: TypeAlias = Expr | Fold | Scatter


class Chooser(Protocol):
    """A source of decisions; 0 is always the simplest."""

    def below(self, n: int) -> int:
        """Return a number in [0, n)."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """A use of an op: the types it wants for its operands, and attributes."""

    operands: tuple[TensorType, ...]
    attrs: Attrs = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """Values an operand should mostly have for the op to be worth running; both ends included."""

    lo: float
    hi: float


AttrKind: TypeAlias = Literal[
    "int", "ints", "dim", "dims", "float", "bool", "str", "dtype", "tensor"
]


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """An attribute; every attribute is always present in a node, so there are no defaults."""

    name: str
    kind: AttrKind
    doc: str
    choices: tuple[str, ...] = ()  # of a str or dtype


@dataclass(frozen=True)
class Example:
    """A worked use: ``eval(operands, attrs) == result``."""

    operands: tuple[Array, ...]
    result: Array
    attrs: Attrs = ()


def _anywhere(types: Sequence[TensorType], attrs: AttrMap) -> tuple[Domain | None, ...]:
    del attrs
    return (None,) * len(types)


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """An op, said once.

    ``infer`` raises DidymaError (``arity``, ``dtype-mismatch``, ``shape-mismatch``, ``bad-attr``…)
    for operands or attributes that do not fit.  ``eval`` and ``bar`` see concrete shapes and
    attributes: symbols have been replaced by ints.  ``eval`` yields the result's dtype; f16 and
    bf16 are computed in f32 and rounded once.  ``element`` speaks compute dtypes: reads yield
    ``dtype.compute`` and the rule must yield the result's ``dtype.compute``.  ``sample`` proposes a
    use of the op on an operand of the given type, or None where there is none.  ``view`` is
    ``eval`` for who will not write the result: it may be read-only, in any layout, and share the
    operand's memory.
    """

    name: str
    doc: str
    special: str  # NaN, infinities, signed zero, empty operands, integer overflow
    kind: Kind
    arity: tuple[int, int]
    attrs: tuple[AttrSpec, ...] = ()
    dtypes: tuple[DType, ...]  # the result's, or the first operand's where it differs
    infer: Callable[[Sequence[TensorType], AttrMap], TensorType]
    eval: Callable[[Sequence[Array], AttrMap, TensorType], Array]
    view: Callable[[Sequence[Array], AttrMap, TensorType], Array] | None = None
    bar: Callable[[Sequence[Bar], AttrMap, Sequence[TensorType], TensorType, Contract], Bar]
    element: Callable[[Index, Sequence[Read], Sequence[TensorType], AttrMap, TensorType], Rule]
    sample: Callable[[Chooser, TensorType], Sample | None]
    domains: Callable[[Sequence[TensorType], AttrMap], tuple[Domain | None, ...]] = _anywhere
    corners: tuple[float, ...] = ()  # operand values worth trying besides the dtype's own
    example: Example
