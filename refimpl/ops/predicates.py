"""Ops on truth values and bits: comparison, tests of floats, logic, bitwise logic, shifts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from didyma.refimpl.ir.loop import Binary, Compare, CompareOp, Const, Expr, Unary
from didyma.refimpl.ir.types import FLOATS, INTS, NUMBERS, Array, DType
from didyma.refimpl.ir.types import PLAIN as ALL_DTYPES
from didyma.refimpl.ops import bar_math as bm
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.elementwise import intrinsic, numbers, unrounded
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.pointwise import ToBar, ToExpr, pointwise
from didyma.refimpl.ops.spec import Domain, Domains, Laws, Neutral, Op

BOOL = (DType.BOOL,)
BITS = (*INTS, DType.BOOL)


def compared(f: Callable[[Array, Array], Array], bars: Sequence[Bar]) -> Bar:
    """Return the bar of a comparison: undecided where the bars of the operands overlap."""
    a, b = bars
    c = np.asarray(f(a.c, b.c))
    if not (a.e.any() or b.e.any()):
        return Bar(c, np.zeros(c.shape))
    wide = a.c.dtype if a.c.dtype.kind == "f" else np.dtype(np.longdouble)
    x, y = a.c.astype(wide), b.c.astype(wide)
    room = a.e + b.e
    apart = (np.abs(x - y) > room) & (room < np.inf)
    nan = (np.isnan(x) | np.isnan(y)) & (room < np.inf)
    return Bar(c, np.where((room == 0) | apart | nan, 0.0, np.inf))


def _tested(f: Callable[[Array], Array], bars: Sequence[Bar]) -> Bar:
    (b,) = bars
    return Bar(f(b.c), np.where(b.e == np.inf, np.inf, 0.0))


def _signbit_bar(b: Bar, _dtype: DType, _contract: Contract) -> Bar:
    either = np.isnan(b.c) | ((b.e > 0) & ~(np.abs(b.c) > b.e))
    return Bar(np.signbit(b.c), np.where(either, np.inf, 0.0))


def _isfinite_rule(x: Expr) -> Expr:
    return Compare("lt", Unary("abs", x), Const(float("inf"), x.dtype))


def _connected(decisive: bool | None, f: Callable[..., Array], bars: Sequence[Bar]) -> Bar:
    """Return the bar of a connective; an operand that is surely ``decisive`` decides it."""
    out = bm.integers(f, bars)
    if decisive is None or not out.e.any():
        return out
    a, b = bars
    sure = ((a.e == 0) & (a.c == decisive)) | ((b.e == 0) & (b.c == decisive))
    return Bar(np.where(sure, decisive, out.c), np.where(sure, 0.0, out.e))


def _counts(dtype: DType) -> Domains:
    return (None, Domain(0, 8 * dtype.nbytes - 1))


def _comparison(
    name: str,
    op: CompareOp,
    doc: str,
    f: Callable[[Array, Array], Array],
    case: tuple[bool, bool, bool, bool],
) -> Op:
    truth = "true" if op == "ne" else "false"
    return pointwise(
        name,
        doc,
        f"With NaN on either side: {truth}. Zeros are equal whatever their signs; infinities"
        " compare by value.",
        arity=2,
        dtypes=ALL_DTYPES if op in ("eq", "ne") else NUMBERS,
        to=DType.BOOL,
        evaluate=f,
        bar=unrounded(compared, f),
        element=partial(Compare, op),
        laws=Laws(commutative=op in ("eq", "ne")),
        example=example([[1, 2, 3, math.nan], [2, 2, 2, 2]], case, DType.F32, DType.BOOL),
    )


def _predicate(
    name: str,
    doc: str,
    special: str,
    f: Callable[[Array], Array],
    case: tuple[bool, ...],
    bar: ToBar | None = None,
    rule: ToExpr | None = None,
) -> Op:
    return pointwise(
        name,
        doc,
        special,
        arity=1,
        dtypes=FLOATS,
        to=DType.BOOL,
        evaluate=f,
        bar=bar or unrounded(_tested, f),
        element=rule or intrinsic(name),
        example=example(
            [[1.0, -0.0, float("-inf"), float("nan")][: len(case)]], case, DType.F32, DType.BOOL
        ),
    )


def _logical(
    name: str,
    doc: str,
    f: Callable[..., Array],
    rule: ToExpr,
    case: Sequence[bool],
    laws: Laws,
    decisive: bool | None = None,
    arity: int = 2,
) -> Op:
    sides = ([True, True, False, False], [True, False, True, False])
    return pointwise(
        name,
        doc,
        "Defined on bool alone: compare with zero first.",
        arity=arity,
        dtypes=BOOL,
        evaluate=f,
        bar=unrounded(partial(_connected, decisive), f),
        element=rule,
        laws=laws,
        example=example(sides[:arity], case, DType.BOOL),
    )


def _bitwise(
    name: str,
    doc: str,
    f: Callable[..., Array],
    rule: ToExpr,
    case: Sequence[int],
    laws: Laws,
    arity: int = 2,
) -> Op:
    return pointwise(
        name,
        doc,
        "Integers are bit patterns, signed ones in two's complement; on bool it is the logical"
        " connective.",
        arity=arity,
        dtypes=BITS,
        evaluate=f,
        bar=unrounded(bm.integers, f),
        element=rule,
        laws=laws,
        example=example(([12, -1], [10, 5])[:arity], case, DType.I32),
    )


ALL: tuple[Op, ...] = (
    _comparison(
        "equal", "eq", "Whether two values are equal.", np.equal, (False, True, False, False)
    ),
    _comparison(
        "not_equal", "ne", "Whether two values differ.", np.not_equal, (True, False, True, True)
    ),
    _comparison(
        "less", "lt", "Whether the first number is smaller.", np.less, (True, False, False, False)
    ),
    _comparison(
        "less_equal",
        "le",
        "Whether the first number is not larger.",
        np.less_equal,
        (True, True, False, False),
    ),
    _comparison(
        "greater",
        "gt",
        "Whether the first number is larger.",
        np.greater,
        (False, False, True, False),
    ),
    _comparison(
        "greater_equal",
        "ge",
        "Whether the first number is not smaller.",
        np.greater_equal,
        (False, True, True, False),
    ),
    _predicate(
        "isnan",
        "Whether a float is not a number.",
        "True of every NaN, whatever its bits.",
        np.isnan,
        (False, False, False, True),
    ),
    _predicate(
        "isinf",
        "Whether a float is an infinity.",
        "True of both infinities, false of NaN.",
        np.isinf,
        (False, False, True, False),
    ),
    _predicate(
        "isfinite",
        "Whether a float is a number and no infinity.",
        "False of NaN and both infinities.",
        np.isfinite,
        (True, True, False, False),
        rule=_isfinite_rule,
    ),
    _predicate(
        "signbit",
        "Whether a float's sign is minus.",
        "True of -0 and -inf; the sign of a NaN is unspecified.",
        np.signbit,
        (False, True, True),
        bar=numbers(_signbit_bar),
    ),
    _logical(
        "logical_and",
        "Whether both are true.",
        np.logical_and,
        partial(Binary, "and"),
        [True, False, False, False],
        Laws(commutative=True, idempotent=True, neutral=(Neutral(True, BOOL),)),
        decisive=False,
    ),
    _logical(
        "logical_or",
        "Whether one or both are true.",
        np.logical_or,
        partial(Binary, "or"),
        [True, True, True, False],
        Laws(commutative=True, idempotent=True, neutral=(Neutral(False, BOOL),)),
        decisive=True,
    ),
    _logical(
        "logical_xor",
        "Whether exactly one is true.",
        np.logical_xor,
        partial(Binary, "xor"),
        [False, True, True, False],
        Laws(commutative=True, neutral=(Neutral(False, BOOL),)),
    ),
    _logical(
        "logical_not",
        "Whether it is false.",
        np.logical_not,
        partial(Unary, "not"),
        [False, False, True, True],
        Laws(involution=True),
        arity=1,
    ),
    _bitwise(
        "bitwise_and",
        "Bits set in both.",
        np.bitwise_and,
        partial(Binary, "and"),
        [8, 5],
        Laws(commutative=True, idempotent=True, neutral=(Neutral(-1, INTS),)),
    ),
    _bitwise(
        "bitwise_or",
        "Bits set in either.",
        np.bitwise_or,
        partial(Binary, "or"),
        [14, -1],
        Laws(commutative=True, idempotent=True, neutral=(Neutral(0, INTS),)),
    ),
    _bitwise(
        "bitwise_xor",
        "Bits set in exactly one.",
        np.bitwise_xor,
        partial(Binary, "xor"),
        [6, -6],
        Laws(commutative=True, neutral=(Neutral(0, INTS),)),
    ),
    _bitwise(
        "bitwise_invert",
        "Every bit flipped.",
        np.invert,
        partial(Unary, "not"),
        [-13, 0],
        Laws(involution=True),
        arity=1,
    ),
    pointwise(
        "bitwise_left_shift",
        "Bits moved up by a count; zeros come in.",
        "A count outside [0, bits), negative ones too, gives 0. Bits moved past the top are lost.",
        arity=2,
        dtypes=INTS,
        evaluate=np.left_shift,
        bar=unrounded(bm.integers, np.left_shift),
        element=partial(Binary, "shl"),
        laws=Laws(neutral=(Neutral(0, INTS, (1,)),)),
        example=example([[1, -3, 1], [4, 1, 32]], [16, -6, 0], DType.I32),
        domains=_counts,
    ),
    pointwise(
        "bitwise_right_shift",
        "Bits moved down by a count; copies of the sign come in, zeros for unsigned integers.",
        "A count outside [0, bits), negative ones too, gives 0, or -1 for negative numbers.",
        arity=2,
        dtypes=INTS,
        evaluate=np.right_shift,
        bar=unrounded(bm.integers, np.right_shift),
        element=partial(Binary, "shr"),
        laws=Laws(neutral=(Neutral(0, INTS, (1,)),)),
        example=example([[16, -3, -1], [2, 1, 99]], [4, -2, -1], DType.I32),
        domains=_counts,
    ),
)
