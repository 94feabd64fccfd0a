from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from pycparser.c_parser import CParser

from didyma.codegen.emit.arithmetic import bounded, divide, plain
from didyma.codegen.emit.terms import COND, Term, index_literal, literal
from didyma.refimpl.interp import scalar
from didyma.refimpl.ir.loop import BinaryOp
from didyma.refimpl.ir.types import DType

SPANS = [(-3, -1), (-2, 0), (-4, 3), (0, 0), (0, 5), (2, 4), (-(2**63), -(2**63) + 1)]
OPS: tuple[BinaryOp, ...] = (
    "min", "max", "floordiv", "truncdiv", "floormod", "truncmod", "shl", "shr",
)  # fmt: skip


def values(op: BinaryOp, a: tuple[int, int], b: tuple[int, int]) -> list[int]:
    """Every result for operands in two intervals, by the loop language's meaning."""
    pairs = list(product(range(a[0], a[1] + 1), range(b[0], b[1] + 1)))
    lhs, rhs = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        found = scalar.binary(op, lhs, rhs)
    return [int(v) for v in found]


@pytest.mark.parametrize("op", OPS)
def test_intervals_hold_every_result(op: BinaryOp) -> None:
    known = 0
    for a, b in product(SPANS, SPANS):
        x, y = Term("x", lo=a[0], hi=a[1]), Term("y", lo=b[0], hi=b[1])
        interval = bounded(op, x, y)
        if interval is not None:
            known += 1
            found = values(op, a, b)
            assert interval[0] <= min(found), (a, b)
            assert max(found) <= interval[1], (a, b)
    assert known > 5


@pytest.mark.parametrize("op", ["floordiv", "floormod"])
def test_c_s_division_is_used_where_both_agree(op: BinaryOp) -> None:
    for a, b in product(SPANS, SPANS):
        term = divide(op, Term("x", lo=a[0], hi=a[1]), Term("y", lo=b[0], hi=b[1]))
        assert (term is not None) == (a[0] >= 0 and b[0] > 0)
        if term is not None:
            found = values(op, a, b)
            assert term.lo <= min(found)
            assert max(found) <= term.hi


def test_literals_fold_in_python() -> None:
    # C would multiply two ints, and overflow.
    assert plain("mul", index_literal(100_000), index_literal(100_000)).text == "10000000000LL"


@pytest.mark.parametrize("value", [0, 7, 200, 2**31, 2**32 - 1])
@pytest.mark.parametrize("dtype", [d for d in DType if d.is_int and d is not DType.I64])
def test_a_literal_has_in_c_the_type_of_its_dtype_or_int(value: int, dtype: DType) -> None:
    if value < 2 ** (dtype.bits - dtype.is_signed):
        declared = CParser().parse(f"long x = {literal(value, dtype).text};").ext[0]
        wide = {DType.U32: "unsigned int", DType.U64: "unsigned long long int"}
        assert declared.init.type == wide.get(dtype, "int")


def test_negative_terms_read_as_subtraction() -> None:
    i = Term("i", lo=0, hi=9)
    assert plain("add", i, index_literal(-1)).text == "i - 1"
    assert plain("sub", i, index_literal(-1)).text == "i + 1"
    assert plain("sub", i, plain("sub", i, i)).text == "i - (i - i)"
    smallest = plain("add", i, index_literal(-(2**63)))
    assert smallest.text == "i + (-9223372036854775807LL - 1)"


def test_choices_of_literals_are_no_ints_where_these_overflow() -> None:
    most = 2**31 - 1
    choice = Term("c ? 2147483647 : 3", COND, 3, most, is_int=True)
    doubled = plain("mul", choice, index_literal(2))
    assert doubled.text == "(i64)(c ? 2147483647 : 3) * 2"
    assert not doubled.is_int
    assert plain("sub", choice, index_literal(3)).text == "(c ? 2147483647 : 3) - 3"
    half = divide("floordiv", choice, index_literal(2))
    assert half is not None
    assert plain("mul", half, index_literal(4)).text == "(i64)((c ? 2147483647 : 3) / 2) * 4"
