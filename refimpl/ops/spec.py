"""The record of an op: verifier, interpreters, lowering, fuzzing and docs are derived from it.

Nothing of it is optional: type rule, NumPy meaning, error bar, loop rule, samples for fuzzing, a
written rule for special values, and an example that runs.  What yields floats has a meaning in the
ring, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from didyma.refimpl.ir.graph import Attrs
from didyma.refimpl.ir.loop import AtomicOp, Expr
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import attributes
from didyma.refimpl.ops.attributes import AttrMap, AttrSpec
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.rules import check

A = TypeVar("A")  # the record of an op's attributes
Index: TypeAlias = tuple[Expr, ...]
Read: TypeAlias = Callable[[Index], Expr]
FoldOp: TypeAlias = Literal["add", "mul", "min", "max", "and", "or", "argmin", "argmax"]


class Kind(StrEnum):
    """How an element of the result depends on the operands; fusion decides by it."""

    ELEMENTWISE = "elementwise"  # on the element at the same (broadcast) index of each operand
    INJECTIVE = "injective"  # on at most one element of each operand: movement, gather, iota
    RESHAPE = "reshape"  # the same bytes under another shape
    REDUCTION = "reduction"  # on a fold over axes of the operand
    OPAQUE = "opaque"  # matmul, convolution, scatter: one per kernel; pointwise may follow


class Work(StrEnum):
    """How much work one element of the result is, without its operands; fusion weighs it."""

    NONE = "none"  # a constant
    PLAIN = "plain"  # about an addition, or a move
    LOOKUP = "lookup"  # a load at an address that was loaded itself
    SLOW = "slow"  # a division, a root or a transcendental function
    ROUNDS = "rounds"  # ten rounds of integer products


@dataclass(frozen=True, slots=True)
class Neutral:
    """A neutral element: as one operand of two it leaves the other unchanged, to the last bit."""

    value: float
    dtypes: tuple[DType, ...]
    operands: tuple[int, ...] = (0, 1)  # which of the two it may be


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """Algebraic laws that hold for all operands, to the last bit, NaN payloads aside."""

    commutative: bool = False  # f(x, y) is f(y, x)
    idempotent: bool = False  # f(f(x)) is f(x); of two operands, f(x, x) is x
    involution: bool = False  # f(f(x)) is x
    neutral: tuple[Neutral, ...] = ()


def unchanged(total: Expr) -> Expr:
    """Return the total of a fold: nothing is left to do."""
    return total


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
    finish: Callable[[Expr], Expr] = unchanged


@dataclass(frozen=True, slots=True)
class Scatter:
    """Start from ``base``; then each ``update(u)`` for ``u`` in ``extents`` goes to ``target(u)``.

    ``target`` yields the output index and whether the update counts.  With ``op`` ``set`` the
    last update in row-major order of ``u`` wins; else it is combined with what is there.
    """

    op: AtomicOp | Literal["set"]
    base: Read
    extents: tuple[Expr, ...]
    target: Callable[[Index], tuple[Index, Expr]]
    update: Read


Rule: TypeAlias = Expr | Fold | Scatter


class Chooser(Protocol):
    """A source of random decisions, of which 0 is always the simplest."""

    def below(self, n: int) -> int:
        """Return a number in [0, n)."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """A proposed use of an op: the types of its operands, and its attributes."""

    operands: tuple[TensorType, ...]
    attrs: Attrs = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """The range, ends included, in which values of an operand are worth trying."""

    lo: float
    hi: float


Domains: TypeAlias = tuple[Domain | None, ...]


@dataclass(frozen=True)
class Example:
    """A worked use: ``eval(operands, attrs) == result``."""

    operands: tuple[Array, ...]
    result: Array
    attrs: Attrs = ()


@dataclass(frozen=True, slots=True)
class Use(Generic[A]):
    """A use of an op: its attributes, and the types of its operands and its result."""

    attrs: A
    types: Sequence[TensorType]
    result: TensorType


Infer: TypeAlias = Callable[[Sequence[TensorType], A], TensorType]
Eval: TypeAlias = Callable[[Sequence[Array], A, TensorType], Array]
BarRule: TypeAlias = Callable[[Sequence[Bar], Use[A], Contract], Bar]
# On bars and payloads of the operands, and the bar of the result.
RingRule: TypeAlias = Callable[[Sequence[Bar], Sequence[Array], Use[A], Bar], Array]
Element: TypeAlias = Callable[[Index, Sequence[Read], Use[A]], Rule]


def anywhere(types: Sequence[TensorType], _attrs: object) -> Domains:
    """Return no domain for each operand: every value is worth trying."""
    return (None,) * len(types)


@dataclass(frozen=True, slots=True)
class Rules(Generic[A]):
    """The facets of an op whose attributes are an ``A``; ``Op`` documents what each must do."""

    record: type[A]
    infer: Infer[A]
    eval: Eval[A]
    bar: BarRule[A]
    element: Element[A]
    view: Eval[A] | None = None
    ring: RingRule[A] | None = None  # of an op whose results are floats and that computes
    domains: Callable[[Sequence[TensorType], A], Domains] = anywhere


@dataclass(frozen=True, slots=True)
class Applied(Generic[A]):
    """An op with its attributes parsed."""

    rules: Rules[A]
    attrs: A

    def infer(self, types: Sequence[TensorType]) -> TensorType:
        """Return the type of the result; errors as of ``Op.infer``."""
        return self.rules.infer(types, self.attrs)

    def eval(self, args: Sequence[Array], result: TensorType) -> Array:
        """Return the result."""
        return self.rules.eval(args, self.attrs, result)

    def view(self, args: Sequence[Array], result: TensorType) -> Array:
        """Return the result, perhaps in the memory of an operand, in any layout or read-only."""
        return (self.rules.view or self.rules.eval)(args, self.attrs, result)

    def bar(
        self,
        bars: Sequence[Bar],
        types: Sequence[TensorType],
        result: TensorType,
        contract: Contract,
    ) -> Bar:
        """Return the bar of the result, not yet rounded to its dtype."""
        return self.rules.bar(bars, Use(self.attrs, types, result), contract)

    def ring(
        self,
        bars: Sequence[Bar],
        payloads: Sequence[Array],
        types: Sequence[TensorType],
        result: TensorType,
        out: Bar,
    ) -> Array:
        """Return the payloads of the result in the ring; ``out`` is its bar.

        An op without a rule of its own moves payloads as it moves elements.
        """
        if self.rules.ring is None:
            return self.view(payloads, result)
        return self.rules.ring(bars, payloads, Use(self.attrs, types, result), out)

    def element(
        self,
        at: Index,
        reads: Sequence[Read],
        types: Sequence[TensorType],
        result: TensorType,
    ) -> Rule:
        """Return how one element of the result is computed."""
        return self.rules.element(at, reads, Use(self.attrs, types, result))

    def domains(self, types: Sequence[TensorType]) -> Domains:
        """Return the domain of each operand, or None where every value is worth trying."""
        return self.rules.domains(types, self.attrs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """Everything that Didyma knows of an op.

    Its ``rules`` are its facets.  ``infer`` raises DidymaError (``shape-mismatch``, ``bad-attr``…)
    for operands that do not fit.  ``eval`` and ``bar`` see concrete shapes and attributes: symbols
    have been replaced by ints.  ``eval`` yields the result's dtype; f16 and bf16 are computed in
    f32 and rounded once.  ``element`` speaks compute dtypes: reads yield ``dtype.compute`` and the
    rule must yield the result's ``dtype.compute``.  ``sample`` proposes a use of the op on an
    operand of the given type, or None where there is none.  ``view`` is ``eval`` for a caller who
    does not write to the result: it may be read-only, in any layout, and share an operand's memory.
    """

    name: str
    doc: str
    special: str  # NaN, infinities, signed zero, empty operands, integer overflow
    kind: Kind
    arity: tuple[int, int] = (1, 1)  # the least and the greatest number of operands
    dtypes: tuple[DType, ...]  # of the first operand; of the result where there is none
    rules: Rules[Any]
    sample: Callable[[Chooser, TensorType], Sample | None]
    laws: Laws = Laws()
    work: Work = Work.PLAIN
    nearby: bool = False  # an element is one load away, at an index made without division
    rereads: bool = False  # its fold reads an operand's element for several of the result's
    pending: bool = False  # its bar takes products whose overflow is left pending
    corners: tuple[float, ...] = ()  # operand values worth trying besides those of every op
    example: Example
    attrs: tuple[AttrSpec, ...] = field(init=False)  # as the rules' record declares them

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", attributes.specs(self.rules.record))

    def apply(self, attrs: AttrMap) -> Applied[Any]:
        """Parse the attributes of a node once for all facets; error ``bad-attr``."""
        parsed = attributes.parse(self.name, self.rules.record, self.attrs, attrs)
        return Applied(self.rules, parsed)

    def infer(self, types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
        """Return the type of the result.

        Errors: ``arity``, ``device-mismatch``, ``dtype-mismatch``, ``shape-mismatch`` and
        ``bad-attr``.
        """
        check(self.name, types, self.arity, self.dtypes)
        return self.apply(attrs).infer(types)
