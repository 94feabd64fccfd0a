"""Pieces of C expressions, with their precedence and the range of their value."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from didyma.codegen.emit.intrinsics import STORED, c_type
from didyma.refimpl.ir.narrow import narrow
from didyma.refimpl.ir.types import DType

# Levels of precedence, loosest first.
COND, LOR, LAND, OR, XOR, AND, EQ, REL, SHIFT, ADD, MUL, UNARY, PRIMARY = range(13)

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
INT_MAX = 2**31 - 1


class Term(NamedTuple):
    """C text, its precedence, and for i64 the interval that its value lies in.

    ``plain`` says that it is made of loop variables, sizes and literals alone.  ``value`` is that
    of an index literal.  ``is_int`` says that C gives the text of an i64 the type int.
    """

    text: str
    level: int = PRIMARY
    lo: int = I64_MIN
    hi: int = I64_MAX
    plain: bool = False
    value: int | None = None
    is_int: bool = False

    def at(self, level: int) -> str:
        """Return the text, in parentheses if an operator of this level binds tighter."""
        return self.text if self.level >= level else f"({self.text})"


def index_literal(value: int) -> Term:
    """Return an i64 literal.

    >>> index_literal(-(2**63)).text, index_literal(2**31).text, index_literal(7).text
    ('(-9223372036854775807LL - 1)', '2147483648LL', '7')
    """
    is_int = -INT_MAX <= value <= INT_MAX
    text = str(value) if is_int else f"{value}LL"
    if value == I64_MIN:
        return Term(f"(-{I64_MAX}LL - 1)", PRIMARY, value, value, True, value)
    return Term(text, PRIMARY if value >= 0 else UNARY, value, value, True, value, is_int)


def literal(value: int | float | bool, dtype: DType) -> Term:
    """Return a literal that reads back exactly; storage floats are their bits.

    >>> literal(-0.0, DType.F32).text, literal(float("-inf"), DType.F64).text
    ('-0.0f', '-inf_f64()')
    >>> literal(2**64 - 1, DType.U64).text, literal(-(2**31), DType.I32).text
    ('18446744073709551615ULL', '(-2147483647 - 1)')
    >>> literal(1.0, DType.F16).text, literal(1e-45, DType.F32).text
    ('0x3c00', '1e-45f')
    """
    if dtype is DType.I64:
        return index_literal(int(value))
    if dtype is DType.BOOL:
        return Term("1" if value else "0")
    if dtype in STORED:
        # Through f32, as every conversion to a storage dtype.
        with np.errstate(all="ignore"):
            bits = narrow(np.float32(value), dtype).view(f"u{dtype.nbytes}")
        return Term(f"0x{int(bits):0{2 * dtype.nbytes}x}")
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    if dtype is DType.I32 and value == -INT_MAX - 1:
        return Term(f"(-{INT_MAX} - 1)")
    suffix = {DType.U32: "u", DType.U64: "ULL"}.get(dtype, "")
    return Term(f"{int(value)}{suffix}", PRIMARY if value >= 0 else UNARY)


def _float_literal(value: float, dtype: DType) -> Term:
    negative = math.copysign(1.0, value) < 0
    if math.isnan(value):
        return Term(f"nan_{c_type(dtype)}()")
    size = abs(value)
    text = str(size)
    if dtype is DType.F32:
        with np.errstate(over="ignore"):
            single = np.float32(size)
        size, text = float(single), str(single) + "f"
    if math.isinf(size):
        text = f"inf_{c_type(dtype)}()"
    return Term(f"-{text}", UNARY) if negative else Term(text)
