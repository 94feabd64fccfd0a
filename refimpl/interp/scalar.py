"""What the operations of loop programs mean on arrays of lanes.

Operands are arrays or NumPy scalars of the exact dtype; shapes broadcast.  The caller silences
NumPy's warnings (``np.errstate(all="ignore")``): wrapping, NaN and infinity are results here, not
accidents.  Tables are keyed by (op, dtype), so that an interpreter looks a function up once.

>>> binary("floordiv", np.int8(-7), np.int8(2)), binary("truncdiv", np.int8(-7), np.int8(2))
(np.int8(-4), np.int8(-3))
"""

from __future__ import annotations

import operator
from typing import Any, Protocol
from typing import cast as typed

import numpy as np

from didyma.refimpl.ir.intrinsic import INTRINSICS, Intrinsic, in_order
from didyma.refimpl.ir.intrinsic import Fn as Fn
from didyma.refimpl.ir.intrinsic import Value as Value
from didyma.refimpl.ir.loop import BITCASTS, BinaryOp, CompareOp, UnaryOp
from didyma.refimpl.ir.narrow import narrow
from didyma.refimpl.ir.types import BYTES, INTS, SIGNED, DType
from didyma.refimpl.ops.powers import power


class Arithmetic(Protocol):
    """The functions of this module that an interpreter calls, or those of ``scalar_ring``."""

    def held(self, dtype: DType) -> np.dtype[Any]:
        """Return the NumPy dtype of an array in memory."""
        ...

    def binary_fn(self, op: BinaryOp, dtype: DType) -> Fn:
        """Return the function of a binary operation."""
        ...

    def fold_fn(self, op: BinaryOp, dtype: DType) -> Fn:
        """Return the function that folds the terms in a row into what comes before them."""
        ...

    def products_fn(self, dtype: DType) -> Fn:
        """Return the function that adds the products of two rows to what comes before them."""
        ...

    def compare_fn(self, op: CompareOp, dtype: DType) -> Fn:
        """Return the function of a comparison."""
        ...

    def unary_fn(self, op: UnaryOp, dtype: DType) -> Fn:
        """Return the function of a unary operation."""
        ...

    def intrinsic_fn(self, name: str | Intrinsic, dtype: DType) -> Fn:
        """Return the function of an intrinsic: Didyma's own by name, or that of a record."""
        ...

    def cast_fn(self, src: DType, dst: DType) -> Fn:
        """Return the conversion between two dtypes."""
        ...

    def constant(self, value: float, dtype: DType) -> Value:
        """Return a literal."""
        ...


COMPUTED = (DType.F64, DType.F32, *INTS, DType.BOOL)
REAL = (DType.F64, DType.F32)


OPERATOR: Any = operator  # whose stubs leave operands untyped
where: Fn = typed("Fn", np.where)  # whose result would be of unknown type


def _truncdiv(a: Value, b: Value) -> Value:
    # The remainder has the dividend's sign, so the difference cannot overflow and divides exactly.
    return (a - np.fmod(a, b)) // b


def _fmax(a: Value, b: Value) -> Value:
    r = np.maximum(a, b)
    if r.all():
        return r
    return where((a == 0) & (b == 0), a + b, r)  # (+0) + (-0) = +0; NumPy may yield either


def _fmin(a: Value, b: Value) -> Value:
    r = np.minimum(a, b)
    if r.all():
        return r
    return where((a == 0) & (b == 0), -((-a) + (-b)), r)


def _ipow(a: Value, b: Value) -> Value:
    zero: Value = b - b
    one: Value = zero + zero.dtype.type(1)
    negative = b < 0
    if not negative.any():
        return np.power(a, b)
    inverse = where(a == one, one, where(a == -one, where(b & one == one, -one, one), zero))
    return where(negative, inverse, np.power(a, where(negative, zero, b)))


def _binary_table() -> dict[tuple[str, DType], Fn]:
    ints: dict[str, Fn] = {
        "add": OPERATOR.add, "sub": OPERATOR.sub, "mul": OPERATOR.mul,
        "floordiv": OPERATOR.floordiv, "truncdiv": _truncdiv,
        "floormod": np.remainder, "truncmod": np.fmod,
        "min": np.minimum, "max": np.maximum,
        "and": OPERATOR.and_, "or": OPERATOR.or_, "xor": OPERATOR.xor,
        "shl": np.left_shift, "shr": np.right_shift,
    }  # fmt: skip
    floats: dict[str, Fn] = {
        "add": OPERATOR.add, "sub": OPERATOR.sub, "mul": OPERATOR.mul, "div": OPERATOR.truediv,
        "floordiv": np.floor_divide, "floormod": np.remainder, "truncmod": np.fmod,
        "min": _fmin, "max": _fmax, "pow": in_order(power), "atan2": in_order(np.arctan2),
    }  # fmt: skip
    bools: dict[str, Fn] = {
        "min": OPERATOR.and_, "max": OPERATOR.or_,
        "and": OPERATOR.and_, "or": OPERATOR.or_, "xor": OPERATOR.xor,
    }  # fmt: skip
    table = {(op, t): f for t in INTS for op, f in ints.items()}
    table |= {("pow", t): _ipow if t in SIGNED else np.power for t in INTS}
    table |= {("truncdiv", t): OPERATOR.floordiv for t in INTS if t not in SIGNED}
    table |= {(op, t): f for t in REAL for op, f in floats.items()}
    return table | {(op, DType.BOOL): f for op, f in bools.items()}


def _same(x: Value) -> Value:
    return x


def _unary_table() -> dict[tuple[str, DType], Fn]:
    table: dict[tuple[str, DType], Fn] = {("not", DType.BOOL): np.logical_not}
    for t in (*INTS, *REAL):
        table["neg", t] = OPERATOR.neg
        table["abs", t] = OPERATOR.abs if t.is_signed else _same
    return table | {("not", t): OPERATOR.invert for t in INTS}


_COMPARE: dict[CompareOp, Fn] = {
    "eq": OPERATOR.eq,
    "ne": OPERATOR.ne,
    "lt": OPERATOR.lt,
    "le": OPERATOR.le,
    "gt": OPERATOR.gt,
    "ge": OPERATOR.ge,
}


def _narrowing(dst: DType) -> Fn:
    def convert(x: Value) -> Value:
        return narrow(x.astype(np.float32), dst)

    return convert


def _plain(dst: np.dtype[Any]) -> Fn:
    def convert(x: Value) -> Value:
        return x.astype(dst)

    return convert


def _nonzero(x: Value) -> Value:
    return x.astype(np.float32) != 0


def _saturating(src: DType, dst: DType) -> Fn:
    """Float to int: truncated, clamped to the range, NaN to 0."""
    (low, high), real, whole = dst.limits, src.compute.numpy.type, dst.numpy.type
    lo, hi = real(low), real(2.0) ** real(dst.bits - dst.is_signed)  # both exact in f32
    least, most, zero = whole(low), whole(high), whole(0)

    def convert(x: Value) -> Value:
        v: Value = x.astype(real)
        inside: Value = (v >= lo) & (v < hi)
        if inside.all():
            return v.astype(dst.numpy)
        safe = where(inside, v, real(0)).astype(dst.numpy)
        return where(inside, safe, where(v >= hi, most, where(v < lo, least, zero)))

    return convert


def _cast_rule(src: DType, dst: DType) -> Fn:
    if src == dst:
        return _same
    if dst == DType.BOOL:
        return _nonzero if src.compute is not src else _plain(dst.numpy)
    if src.is_float and dst.is_int:
        return _saturating(src, dst)
    if dst.compute is not dst:
        return _narrowing(dst)
    return _plain(dst.numpy)


def _viewing(to: np.dtype[Any]) -> Fn:
    def view(x: Value) -> Value:
        return x.view(to)

    return view


_BITCAST = {name: _viewing(d.numpy) for name, d in BITCASTS.items()}
_BINARY = _binary_table()
_UNARY = _unary_table()
_CAST = {(a, b): _cast_rule(a, b) for a in BYTES for b in BYTES}


def held(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy dtype of an array in memory."""
    return dtype.numpy


def binary_fn(op: BinaryOp, dtype: DType) -> Fn:
    """Return the function of a binary operation; KeyError if the dtype has none."""
    return _BINARY[op, dtype]


def fold_fn(op: BinaryOp, dtype: DType) -> Fn:
    """Return what folds terms, one after another along the first axis, into a first operand.

    >>> fold_fn("sub", DType.I32)(np.int32(9), np.int32([4, 3, 1]))
    np.int32(1)
    """
    return in_turn(binary_fn(op, dtype))


def in_turn(step: Fn) -> Fn:
    """Return what applies a step to a first operand and the elements of rows, round by round."""

    def fold(before: Value, *rows: Value) -> Value:
        for k in range(len(rows[0])):
            before = step(before, *(row[k] for row in rows))
        return before

    return fold


def products_fn(dtype: DType) -> Fn:
    """Return what adds products, one after another along the first axis, to a first operand.

    >>> products_fn(DType.I32)(np.int32(1), np.int32([2, 3]), np.int32([4, 5]))
    np.int32(24)
    """
    plus, times = binary_fn("add", dtype), binary_fn("mul", dtype)

    def add_product(before: Value, x: Value, y: Value) -> Value:
        return plus(before, times(x, y))

    return in_turn(add_product)


def compare_fn(op: CompareOp, dtype: DType) -> Fn:
    """Return the function of a comparison of two operands of a dtype; it yields bool."""
    del dtype  # all compare alike
    return _COMPARE[op]


def unary_fn(op: UnaryOp, dtype: DType) -> Fn:
    """Return the function of a unary operation; KeyError if the dtype has none."""
    return _UNARY[op, dtype]


def intrinsic_fn(name: str | Intrinsic, dtype: DType) -> Fn:
    """Return the function of an intrinsic on operands of a dtype; KeyError if it has none."""
    if isinstance(name, Intrinsic):
        return name.function(dtype)
    if name in BITCASTS:
        return _BITCAST[name]
    return INTRINSICS[name].function(dtype)


def cast_fn(src: DType, dst: DType) -> Fn:
    """Return the conversion between two dtypes; every pair has one."""
    return _CAST[src, dst]


def binary(op: BinaryOp, a: Value, b: Value) -> Value:
    """``a op b``.

    >>> binary("max", np.float32(-0.0), np.float32([0.0, np.nan]))
    array([ 0., nan], dtype=float32)
    """
    return _BINARY[op, DType.of(a)](a, b)


def constant(value: float, dtype: DType) -> Value:
    """Literal of a dtype; rounded once, to storage through f32.

    >>> constant(-1, DType.I16)
    np.int16(-1)
    """
    if dtype.compute is not dtype:
        return narrow(np.float32(value), dtype)
    return dtype.numpy.type(value)
