"""Random scalar expressions of the loop language: every operator, dtype and conversion.

All but the roots are *exact*: every correct implementation yields the same bits.  A root may be a
function like ``exp``, whose result is compared by the ulps that its contract allows; nothing is
computed from that.  The bits of a NaN are not specified where it is computed, so that they are
looked at only where it was loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from didyma.fuzz import kits, values
from didyma.fuzz.steering.names import C_WORDS, TAKEN
from didyma.refimpl.ir.loop import (
    BITCASTS,
    INDEX,
    INTRINSICS,
    Binary,
    BinaryOp,
    Buffer,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Intrinsic,
    LetExpr,
    Load,
    Scope,
    Select,
    Unary,
    UnaryOp,
    Var,
)
from didyma.refimpl.ir.types import BYTES, INTS, DType

REAL = (DType.F32, DType.F64)
STORED = tuple(d for d in BYTES if d.is_float and d not in REAL)
DTYPES = (*INTS, *REAL, *REAL, DType.BOOL, *STORED)

_INT_OPS: tuple[BinaryOp, ...] = (
    "add", "sub", "mul", "floordiv", "truncdiv", "floormod", "truncmod", "min", "max",
    "and", "or", "xor", "shl", "shr", "pow",
)  # fmt: skip
_REAL_OPS: tuple[BinaryOp, ...] = (
    "add", "sub", "mul", "div", "min", "max", "floordiv", "floormod", "truncmod",
)  # fmt: skip
_FOLDED: tuple[BinaryOp, ...] = ("add", "sub", "mul", "div")  # of literals
_BOOL_OPS: tuple[BinaryOp, ...] = ("and", "or", "xor", "min", "max")
_NARROW = (DType.I8, DType.U8, DType.I16, DType.U16)  # which C computes with as int
_COMPARE: tuple[CompareOp, ...] = ("eq", "ne", "lt", "le", "gt", "ge")
_ROUNDING = ("sqrt", "floor", "ceil", "trunc", "round")  # and ``fma``: rounded correctly
INEXACT = tuple(name for name, x in INTRINSICS.items() if not x.is_exact)
INEXACT_OPS: tuple[BinaryOp, ...] = ("pow", "atan2")
_WORDS = (*C_WORDS, *TAKEN)
_AMONG = Const(3, INDEX)
_DIVIDE: tuple[BinaryOp, ...] = ("floordiv", "floormod", "truncdiv", "truncmod")
_LARGE = (2**31 - 1, 2**31, -(2**31) - 1, 2**32 + 3, 2**40)  # beyond an int of C


class Expressions:
    """Draws expressions over some buffers of one axis, and variables.

    ``counters`` are variables that lie in known ranges, from 0 to below a number; ``places`` the
    indices that are valid for the buffers, beside those that are made of counters.  ``short`` are
    buffers that end at ``end``, before some of the places: they are read behind a guard.
    """

    def __init__(self, r: Random, buffers: Mapping[DType, Sequence[Buffer]], size: int) -> None:
        self.r = r
        self.buffers = buffers
        self.size = size
        self.counters: list[Var] = []
        self.places: list[Expr] = []
        self.bound: list[Var] = []  # by lets, of any dtype
        self.short: Mapping[DType, Buffer] = {}
        self.end = 0
        self._names = 0
        self._words: set[str] = set()

    def fresh(self, stem: str, words: Sequence[str] = _WORDS) -> str:
        """Return a name that no other variable of the kernel has, sometimes one that C has."""
        word = self.r.choice(words) if self.r.random() < 0.1 else ""
        if word and word not in self._words:
            self._words.add(word)
            return word
        self._names += 1
        return f"{stem}{self._names}"

    def root(self, dtype: DType, depth: int) -> Expr:
        """Draw an expression whose last step may be inexact."""
        r = self.r
        if dtype not in REAL or r.random() < 0.6:
            return self.value(dtype, depth)
        if r.random() < 0.2:
            op = r.choice(INEXACT_OPS)
            return Binary(op, self.value(dtype, depth - 1), self.value(dtype, depth - 1))
        return Intrinsic(r.choice(INEXACT), (self.value(dtype, depth - 1),))

    def nested(self) -> Expr:
        """Draw an operation or a conversion of elements, or two: little can hide a slip."""
        r = self.r
        dtype = r.choice((r.choice(REAL), r.choice(INTS), r.choice(_NARROW), DType.BOOL))
        inner = dtype
        if dtype is DType.BOOL and r.random() < 0.5:
            inner = r.choice((*_NARROW, *REAL))
            test = (self._operation(inner), self.load(inner))
            return Compare(r.choice(_COMPARE), *(test if r.random() < 0.5 else test[::-1]))
        if dtype in INTS and r.random() < 0.2:
            return Cast(self._operation(inner), r.choice((*INTS, *REAL)))
        if r.random() < 0.25:
            return Cast(self.load(dtype), r.choice((*INTS, *REAL)))
        parts = (self._operation(inner), self.load(inner))
        return Binary(r.choice(_ops(dtype)), *(parts if r.random() < 0.4 else parts[::-1]))

    def ranged(self) -> Expr:
        """Draw a division of what is computed of numbers in known ranges.

        Whether the dividend may be negative, which decides the text, hangs on each of the ranges.
        """
        r = self.r
        number = Cast(self.load(r.choice((DType.U8, DType.I8, DType.U16))), INDEX)
        small = Binary("floormod", Cast(self.load(DType.U8), INDEX), Const(5, INDEX))
        one, two, three = (Const(r.randrange(-3, 10), INDEX) for _ in range(3))
        by: Expr = small if r.random() < 0.5 else Const(r.randrange(5), INDEX)
        ops: tuple[BinaryOp, ...] = ("shr", "shl", "min", "max", *_DIVIDE)
        op = r.choice(ops)
        if op in _DIVIDE:
            by = Binary("add", by, Const(r.choice((1, 1, 2)), INDEX))
        step = Binary(op, Binary("add", number, one), by)
        ends = (step, two) if r.random() < 0.5 else (two, step)
        apart = Binary("sub", *ends)
        if r.random() < 0.25:  # to a dtype that holds not all of it, or just so
            edge = Const(r.choice((0, 2**31 - 1, -(2**31))), INDEX)
            return Cast(Binary("add", apart, edge), r.choice((*_NARROW, *REAL)))
        whole = Binary("floordiv" if r.random() < 0.5 else "floormod", apart, _AMONG)
        return whole if r.random() < 0.5 else Binary("sub", three, whole)

    def _operation(self, dtype: DType) -> Expr:
        """Draw one operation on elements."""
        r = self.r
        if r.random() < 0.25:
            ops: tuple[UnaryOp, ...] = ("not",) if dtype is DType.BOOL else ("neg", "abs")
            return Unary(r.choice((*ops, "not") if dtype.is_int else ops), self.load(dtype))
        return Binary(r.choice(_ops(dtype)), self.load(dtype), self.load(dtype))

    def value(self, dtype: DType, depth: int) -> Expr:
        """Draw an exact expression of a dtype."""
        r = self.r
        if depth <= 0 or r.random() < 0.1:
            return self.leaf(dtype)
        if r.random() < 0.15:
            return self.select(dtype, depth)
        if r.random() < 0.2:
            return self.cast(dtype, depth)
        if r.random() < 0.06:
            return self.let(dtype, depth)
        if dtype in STORED:
            return self.stored(dtype, depth)
        if dtype is DType.BOOL:
            return self.decision(depth)
        if dtype in REAL:
            return self.real(dtype, depth)
        return self.integer(dtype, depth)

    def cast(self, dtype: DType, depth: int) -> Expr:
        """Draw a conversion, often of an element or of a number at which it changes course."""
        r = self.r
        source = r.choice(DTYPES)
        kit = kits.converted(source, dtype)
        if kit and r.random() < 0.15:
            return Cast(_const(r.choice(kit), source), dtype)
        return Cast(self.value(source, 0 if r.random() < 0.5 else depth - 1), dtype)

    def leaf(self, dtype: DType) -> Expr:
        """Draw a loaded element, a variable or a literal."""
        r = self.r
        known = [v for v in (*self.bound, *self.counters) if v.dtype is dtype]
        if known and r.random() < 0.25:
            return r.choice(known)
        return self.literal(dtype) if r.random() < 0.35 else self.load(dtype)

    def load(self, dtype: DType) -> Expr:
        """Draw a loaded element, perhaps of a buffer that does not have it everywhere."""
        if dtype in self.short and self.r.random() < 0.3:
            at = self.r.choice(self.places)
            there = Compare("lt", at, Const(self.end, INDEX))
            element = Load(self.short[dtype].name, (at,), dtype)
            if self.r.random() < 0.5:
                return Select(there, element, self.literal(dtype))
            there = Compare("ge", at, Const(self.end, INDEX))
            return Select(there, self.literal(dtype), element)
        buffer = self.r.choice(self.buffers[dtype])
        return Load(buffer.name, (self.place(),), dtype)

    def given(self, dtype: DType) -> Expr:
        """Draw an element of an input: the sign of a NaN that was computed is open."""
        inputs = [b for b in self.buffers[dtype] if b.scope is Scope.GLOBAL]
        return Load(self.r.choice(inputs).name, (self.place(),), dtype)

    def literal(self, dtype: DType) -> Const:
        """Draw a literal, mostly of those that decide most, else any that the dtype has."""
        r = self.r
        if r.random() < 0.1:
            return self.any_literal(dtype)
        some = values.core(dtype) if r.random() < 0.5 else values.corners(dtype)
        return _literal(some[r.randrange(some.size)], dtype)

    def any_literal(self, dtype: DType) -> Const:
        """Draw a literal of random bits."""
        seed = self.r.randrange(1 << 30)
        return _literal(values.array(seed, dtype, (), None, values.Distribution.BITS)[()], dtype)

    def folded(self, dtype: DType) -> Expr:
        """Draw arithmetic on three literals of many digits, so that its inner result is rounded."""
        r = self.r
        some = values.array(r.randrange(1 << 30), dtype, (3,), None, values.Distribution.NORMAL)
        a, b, c = (_literal(x, dtype) for x in some)
        inner = Binary(r.choice(_FOLDED), a, b)
        return Binary(r.choice(_FOLDED), *((inner, c) if r.random() < 0.5 else (c, inner)))

    # ---- indices

    def place(self) -> Expr:
        """Draw a valid index of the buffers: a place, or any number modulo their size."""
        r = self.r
        if r.random() < 0.6:
            return r.choice(self.places)
        number = self.count(3)
        if r.random() < 0.1:  # what is loaded may overflow in an index; literals and sizes may not
            ops: tuple[BinaryOp, ...] = ("add", "sub", "mul", "floordiv")
            loads = self.load(INDEX), self.load(INDEX) if r.random() < 0.6 else self.count(1)
            number = Binary(r.choice(ops), *(loads if r.random() < 0.5 else loads[::-1]))
        return Binary("floormod", number, Const(self.size, INDEX))

    def count(self, depth: int) -> Expr:
        """Draw an index expression whose intermediate results are small."""
        r = self.r
        if depth <= 0 or r.random() < 0.15:
            if r.random() < 0.7:
                return r.choice(self.counters)
            return Const(r.choice(_LARGE) if r.random() < 0.15 else r.randrange(-5, 9), INDEX)
        a = self.count(depth - 1)
        match r.randrange(10):
            case 0 | 1:
                return Binary(r.choice(("add", "sub")), a, self.count(depth - 1))
            case 2 | 3:
                return Binary("mul", a, Const(r.choice((1, 2, 3, 4, 7, -1)), INDEX))
            case 4 | 5 | 6:
                op: BinaryOp = r.choice(("floordiv", "floormod", "truncdiv", "truncmod"))
                return Binary(op, a, self.divisor())
            case 7:
                return Binary(r.choice(("min", "max")), a, self.count(depth - 1))
            case 8:
                return Binary(r.choice(("shl", "shr")), a, Const(r.randrange(4), INDEX))
            case _:
                test = Compare(r.choice(_COMPARE), a, self.count(depth - 1))
                number = 2**31 - 1 if r.random() < 0.2 else r.randrange(-5, 9)
                sides = (self.count(depth - 1), Const(number, INDEX))
                return Select(test, *(sides if r.random() < 0.5 else sides[::-1]))

    def divisor(self) -> Expr:
        """Draw a small number, or a sum, product, quotient or extreme of positive numbers."""
        r = self.r
        if r.random() < 0.5:
            return Const(r.choice((1, 2, 3, 4, 8, self.size, -3)), INDEX)
        one = Binary("add", r.choice(self.counters), Const(r.choice((1, 1, 2)), INDEX))
        op: BinaryOp = r.choice(("add", "mul", "mul", "floordiv", "floormod", "max", "min", "sub"))
        other = r.choice((Const(2, INDEX), Const(3, INDEX), r.choice(self.counters)))
        return Binary(op, one, other)

    # ---- by dtype

    def select(self, dtype: DType, depth: int) -> Expr:
        """Draw a choice."""
        cond = self.decision(depth - 1)
        return Select(cond, self.value(dtype, depth - 1), self.value(dtype, depth - 1))

    def let(self, dtype: DType, depth: int) -> Expr:
        """Draw an expression with a variable of its own."""
        var = Var(self.fresh("e"), self.r.choice(DTYPES))
        bound = self.value(var.dtype, depth - 1)
        self.bound.append(var)
        body = self.value(dtype, depth - 1)
        self.bound.pop()
        return LetExpr(var, bound, body)

    def stored(self, dtype: DType, depth: int) -> Expr:
        """Draw a number that is only stored: loaded, converted, or read from bits."""
        same = [d for d in INTS if f"as_{dtype}" in BITCASTS and f"as_{d}" in BITCASTS
                and d.nbytes == dtype.nbytes]  # fmt: skip
        if same and self.r.random() < 0.3:
            return Intrinsic(f"as_{dtype}", (self.value(same[0], depth - 1),))
        return Cast(self.value(self.r.choice(REAL), depth - 1), dtype)

    def integer(self, dtype: DType, depth: int) -> Expr:
        """Draw integer arithmetic."""
        r = self.r
        if r.random() < 0.12:
            return self.signed(("neg", "abs", "not"), dtype, depth)
        floats = [d for d in (*REAL, *STORED) if d.nbytes == dtype.nbytes and f"as_{d}" in BITCASTS]
        if floats and f"as_{dtype}" in BITCASTS and r.random() < 0.1:
            return Intrinsic(f"as_{dtype}", (self.given(r.choice(floats)),))
        op = r.choice(_INT_OPS)
        rhs = self.value(dtype, depth - 1) if r.random() < 0.7 else self.literal(dtype)
        kit = kits.combined(op, 1, dtype)
        if kit and r.random() < 0.1:
            rhs = _const(r.choice(kit), dtype)
        return Binary(op, self.value(dtype, depth - 1), rhs)

    def signed(self, ops: Sequence[UnaryOp], dtype: DType, depth: int) -> Expr:
        """Draw a unary operator, now and then on a literal, which may have a sign itself."""
        arg = self.literal(dtype) if self.r.random() < 0.25 else self.value(dtype, depth - 1)
        return Unary(self.r.choice(ops), arg)

    def decision(self, depth: int) -> Expr:
        """Draw a truth value."""
        r = self.r
        if depth <= 0:
            return self.leaf(DType.BOOL)
        match r.randrange(8):
            case 0:
                return Unary("not", self.value(DType.BOOL, depth - 1))
            case 1 | 2:
                op = r.choice(_BOOL_OPS)
                aside = r.random() < 0.2  # C takes a statement for it, under what comes before
                other = self.let(DType.BOOL, depth) if aside else self.decision(depth - 1)
                return Binary(op, self.decision(depth - 1), other)
            case 3:
                dtype = r.choice(REAL)
                name = r.choice(("isnan", "isinf"))
                return Intrinsic(name, (self.value(dtype, depth - 1),))
            case 4:
                return Intrinsic("signbit", (self.given(r.choice(REAL)),))
            case 5 if r.random() < 0.5:  # of truth values that are comparisons, too
                a, b = self.decision(depth - 1), self.decision(depth - 1)
                return Compare(r.choice(_COMPARE), a, b)
            case _:
                dtype = r.choice((*INTS, *_NARROW, *REAL, *REAL, DType.BOOL))
                a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
                return Compare(r.choice(_COMPARE), a, b)

    def real(self, dtype: DType, depth: int) -> Expr:
        """Draw floating-point arithmetic that rounds correctly."""
        r = self.r
        match r.randrange(10):
            case 0:
                return self.signed(("neg", "abs"), dtype, depth)
            case 1 | 2:
                return Intrinsic(r.choice(_ROUNDING), (self.value(dtype, depth - 1),))
            case 3:
                return Intrinsic("copysign", (self.value(dtype, depth - 1), self.given(dtype)))
            case 4:
                whole = next(d for d in INTS if f"as_{d}" in BITCASTS and d.nbytes == dtype.nbytes)
                return Intrinsic(f"as_{dtype}", (self.value(whole, depth - 1),))
            case 5 if r.random() < 0.3:  # of literals alone, which are folded
                a, b, e = (self.literal(dtype) for _ in range(3))
                inner = Binary(r.choice(_FOLDED), a, b)
                return Binary(r.choice(_FOLDED), *((inner, e) if r.random() < 0.5 else (e, inner)))
            case _:
                op = r.choice(_REAL_OPS)
                return Binary(op, self.value(dtype, depth - 1), self.value(dtype, depth - 1))


def _literal(x: Any, dtype: DType) -> Const:
    if dtype is DType.BOOL:
        return Const(bool(x), dtype)
    return Const(int(x) if dtype.is_int else float(x), dtype)


def _ops(dtype: DType) -> Sequence[BinaryOp]:
    return _BOOL_OPS if dtype is DType.BOOL else _INT_OPS if dtype.is_int else _REAL_OPS


def _const(x: float, dtype: DType) -> Const:
    return Const(int(x) if dtype.is_int else x, dtype)


def inexact(e: Expr) -> str:
    """Return the operation of an expression whose last step may round in more than one way."""
    if isinstance(e, Intrinsic) and e.name in INEXACT:
        return e.name
    if isinstance(e, Binary) and e.op in INEXACT_OPS and e.dtype.is_float:
        return e.op
    return ""
