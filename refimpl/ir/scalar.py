"""Scalar expressions of loop programs; ``loop`` has the rules of their arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from didyma.refimpl.ir.intrinsic import INTRINSICS as INTRINSICS
from didyma.refimpl.ir.intrinsic import Intrinsic as Record
from didyma.refimpl.ir.types import UNSIGNED, DType

INDEX = DType.I64  # dtype of indices, extents and symbolic dims

BinaryOp: TypeAlias = Literal[
    "add", "sub", "mul",
    "div",        # floats only, IEEE
    "floordiv",   # rounds down; ints: x // 0 = 0
    "truncdiv",   # ints only, rounds to zero; x / 0 = 0; MIN / -1 = MIN
    "floormod",   # sign of the divisor; ints: x mod 0 = 0
    "truncmod",   # sign of the dividend (C); ints: x mod 0 = 0
    "min", "max",  # NaN if either is NaN; -0 < +0
    "pow", "atan2",
    "and", "or", "xor",  # bool: logical; ints: bitwise
    "shl", "shr",  # ints; shr keeps the sign; a count outside [0, bits) shifts everything out
]  # fmt: skip
CompareOp: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]
UnaryOp: TypeAlias = Literal["neg", "not", "abs"]  # not: bool: logical; ints: bitwise
AtomicOp: TypeAlias = Literal["add", "mul", "min", "max"]
ChainOp: TypeAlias = Literal["add", "mul"]

BINARY_OPS: tuple[BinaryOp, ...] = get_args(BinaryOp)
COMPARE_OPS: tuple[CompareOp, ...] = get_args(CompareOp)
UNARY_OPS: tuple[UnaryOp, ...] = get_args(UnaryOp)
ATOMIC_OPS: tuple[AtomicOp, ...] = get_args(AtomicOp)
CHAIN_OPS: tuple[ChainOp, ...] = get_args(ChainOp)
# Operations whose terms may come in any order, but for rounding.
FREE: tuple[BinaryOp, ...] = ("add", "mul", "min", "max", "and", "or")

# Intrinsics that give bits another meaning: a float's as the unsigned integer of its width, and
# back.  Storage floats may stand here too.
BITCASTS: dict[str, DType] = {
    f"as_{d}": d for d in DType if d in UNSIGNED or (d.is_float and not d.is_packed)
}


@dataclass(frozen=True, slots=True)
class Const:
    """A literal of a dtype; a float value may be nan, inf or -0.0.

    Equal literals are the same number: 0.0 is not -0.0, and nan is nan.
    """

    value: int | float | bool
    dtype: DType

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const):
            return NotImplemented
        a, b = self.value, other.value
        if self.dtype is not other.dtype or (a != b and (a == a or b == b)):
            return False
        return (a != 0 and a == a) or math.copysign(1, a) == math.copysign(1, b)

    def __hash__(self) -> int:
        return hash((self.value if self.value == self.value else "nan", self.dtype))


@dataclass(frozen=True, slots=True)
class Var:
    """A scalar variable: that of a loop or a let, or a symbolic dim."""

    name: str
    dtype: DType = INDEX


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion by the rules of op ``cast``: floats to ints truncate and saturate, NaN is 0."""

    arg: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Binary:
    """The operation ``lhs op rhs``; both sides have the result's dtype."""

    op: BinaryOp
    lhs: Expr
    rhs: Expr

    @property
    def dtype(self) -> DType:
        """The dtype of the operands, which is the result's."""
        return self.lhs.dtype


@dataclass(frozen=True, slots=True)
class Compare:
    """The comparison ``lhs op rhs``, a bool; NaN compares as in IEEE 754."""

    op: CompareOp
    lhs: Expr
    rhs: Expr

    @property
    def dtype(self) -> DType:
        """The dtype of the result: bool."""
        return DType.BOOL


@dataclass(frozen=True, slots=True)
class Unary:
    """The operation ``op(arg)``; the operand has the result's dtype."""

    op: UnaryOp
    arg: Expr

    @property
    def dtype(self) -> DType:
        """The dtype of the operand, which is the result's."""
        return self.arg.dtype


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """The application of a function that ``INTRINSICS`` or ``BITCASTS`` names, or ``own``.

    ``own`` is the record of an intrinsic of a caller's own, which has this name.
    """

    name: str
    args: tuple[Expr, ...]
    own: Record | None = None

    @property
    def record(self) -> Record | None:
        """What is known of the function; None of a bitcast, and of a name that nobody knows."""
        return self.own or INTRINSICS.get(self.name)

    @property
    def dtype(self) -> DType:
        """The dtype of the result: bool of predicates, else the bitcast's or the operands'."""
        if self.name in BITCASTS:
            return BITCASTS[self.name]
        record, dtype = self.record, self.args[0].dtype
        return record.result(dtype) if record else dtype


@dataclass(frozen=True, slots=True)
class Select:
    """The value ``then if cond else other``, of which only the chosen side is evaluated."""

    cond: Expr
    then: Expr
    other: Expr

    @property
    def dtype(self) -> DType:
        """The dtype of both sides, which is the result's."""
        return self.then.dtype


@dataclass(frozen=True, slots=True)
class Load:
    """The value of one element of a buffer, by one index for each axis."""

    buffer: str
    index: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class LetExpr:
    """The value of ``body``, in which ``var`` stands for ``value``."""

    var: Var
    value: Expr
    body: Expr

    @property
    def dtype(self) -> DType:
        """The dtype of the body, which is the result's."""
        return self.body.dtype


@dataclass(frozen=True, slots=True)
class Ramp:
    """The vector ``base, base + stride, base + 2 * stride, ...`` of as many indices as lanes."""

    base: Expr
    stride: int
    lanes: int

    @property
    def dtype(self) -> DType:
        """The dtype of a lane: that of indices."""
        return INDEX


@dataclass(frozen=True, slots=True)
class Broadcast:
    """The vector that has ``value`` in each of its lanes."""

    value: Expr
    lanes: int

    @property
    def dtype(self) -> DType:
        """The dtype of a lane."""
        return self.value.dtype


Expr: TypeAlias = (
    Const | Var | Cast | Binary | Compare | Unary | Intrinsic | Select | Load | LetExpr
    | Ramp | Broadcast
)  # fmt: skip
