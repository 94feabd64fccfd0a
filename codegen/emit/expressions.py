"""Write loop expressions as C.

Integer operators are plain where the intervals of their operands prove that nothing overflows, or
where the expression is an index made of loop variables and sizes; else they are intrinsics, which
wrap.  What C cannot say inside an expression (``LetExpr``) becomes a statement before it, under
the guards that stand above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

import numpy as np

from didyma.codegen.emit.arithmetic import INTERVALS, bounded, call, divide, plain
from didyma.codegen.emit.intrinsics import STORED, c_type, components
from didyma.codegen.emit.lines import TextLine, TextLines
from didyma.codegen.emit.terms import (
    ADD,
    AND,
    COND,
    EQ,
    I64_MAX,
    I64_MIN,
    LAND,
    LOR,
    MUL,
    OR,
    PRIMARY,
    REL,
    SHIFT,
    UNARY,
    XOR,
    Term,
    index_literal,
    literal,
)
from didyma.codegen.emit.wide import WideKey, wide_key
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.intrinsic import Intrinsic as Record
from didyma.refimpl.ir.loop import (
    BITCASTS,
    Binary,
    Broadcast,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    Intrinsic,
    LetExpr,
    Load,
    Ramp,
    Scope,
    Select,
    Unary,
    Var,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import DType

_FLOAT_OPERATORS = {"add": ("+", ADD), "sub": ("-", ADD), "mul": ("*", MUL), "div": ("/", MUL)}
_FOLDS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
_BITS = {"and": ("&", AND), "xor": ("^", XOR), "or": ("|", OR)}
_COMPARE = {
    "lt": ("<", REL),
    "le": ("<=", REL),
    "gt": (">", REL),
    "ge": (">=", REL),
    "eq": ("==", EQ),
    "ne": ("!=", EQ),
}
_SMALL = (DType.I8, DType.I16, DType.U8, DType.U16)
_RANGE = {
    d: (-(2 ** (8 * d.nbytes - 1)), 2 ** (8 * d.nbytes - 1) - 1)
    for d in (DType.I8, DType.I16, DType.I32)
} | {d: (0, 2 ** (8 * d.nbytes) - 1) for d in (DType.U8, DType.U16, DType.U32)}
_RANGE[DType.BOOL] = (0, 1)


Side: TypeAlias = tuple[list[TextLine], Term]  # of a branch: its own statements, then its value


@dataclass(slots=True)
class CBuffer:
    """A buffer and its name in C; a ``scalar`` is a plain variable."""

    buffer: Buffer
    name: str
    scalar: bool = False


@dataclass(slots=True)
class Expressions:
    """Writes the expressions of one kernel."""

    names: Names
    lines: TextLines
    variables: dict[str, Term] = field(default_factory=dict[str, Term])
    buffers: dict[str, CBuffer] = field(default_factory=dict[str, CBuffer])
    wide: dict[WideKey, str] = field(default_factory=dict[WideKey, str])
    quotients: dict[Expr, str] = field(default_factory=dict[Expr, str])  # vectors that hold them
    flushed: str = ""  # the function whose least results may be 0
    rank: Var | None = None  # of a block in its cluster
    own: dict[str, Record] = field(default_factory=dict[str, Record])  # a caller's intrinsics
    lane: int = -1  # of the vectorised loop being written out
    lanes: int = 0  # of that loop
    lane_var: str = ""
    _index: bool = False  # inside an index or extent, where sizes cannot overflow

    def index(self, e: Expr) -> Term:
        """Write an index or extent: arithmetic on variables and sizes cannot overflow there."""
        outer, self._index = self._index, True
        term = self.value(e)
        self._index = outer
        return term

    def data(self, e: Expr) -> Term:
        """Write a value that is no index, even inside one."""
        outer, self._index = self._index, False
        term = self.value(e)
        self._index = outer
        return term

    def value(self, e: Expr) -> Term:
        """Write an expression."""
        match e:
            case Var():
                return self.variables[e.name]
            case Const():
                return literal(e.value, e.dtype)
            case Binary():
                return self._binary(e)
            case Load():
                if (other := self.elsewhere(e.buffer, e.index)) is not None:
                    return Term(f"cluster_load_{c_type(e.dtype)}({other})")
                return Term(self.element(e.buffer, e.index))
            case Compare():
                sign, level = _COMPARE[e.op]
                return Term(
                    f"{self.value(e.lhs).at(SHIFT)} {sign} {self.value(e.rhs).at(SHIFT)}", level
                )
            case Select():
                return self._select(e)
            case Cast():
                return self._cast(e)
            case Unary():
                return self._unary(e)
            case Intrinsic():
                if e.own:
                    self.own[e.name] = e.own
                dtype = c_type(e.args[0].dtype)
                args = [self.value(a) for a in e.args]
                if e.name in BITCASTS:
                    return call(f"bitcast_{dtype}_{c_type(e.dtype)}", args)
                flush = "_flush" if e.name == self.flushed and e.dtype is DType.F32 else ""
                return call(f"{e.name}{flush}_{dtype}", args)
            case LetExpr():
                self.bind(e.var, self.value(e.value))
                return self.value(e.body)
            case Ramp() | Broadcast():
                raise AssertionError("stores of vectors are written out before")
            case _:
                assert_never(e)

    def bind(self, var: Var, value: Term) -> None:
        """Bind a variable: declare a C constant, or use the value itself if it is a literal."""
        if value.value is not None:
            self.variables[var.name] = value
            return
        name = self.names.fresh(var.name)
        self.lines.add(f"const {c_type(var.dtype)} {name} = {value.text};")
        self.variables[var.name] = value._replace(text=name, level=PRIMARY, is_int=False)

    # Memory

    def element(self, buffer: str, at: Sequence[Expr]) -> str:
        """Write the lvalue of an element: a lane of a wide access where there is one."""
        if self.wide and (key := wide_key(buffer, at, self.lane_var, self.lanes)):
            name = self.wide.get(key)
            if name is not None:
                return f"{name}.{components(self.lanes)[self.lane]}"
        place = self.buffers[buffer]
        if place.scalar:
            return place.name
        shape = place.buffer.shape
        if place.buffer.scope is Scope.CLUSTER:
            shape, at = shape[1:], at[1:]
        return f"{place.name}[{self.offset(shape, at).text}]"

    def elsewhere(self, buffer: str, at: Sequence[Expr]) -> str | None:
        """Write the address of an element in this block and the rank of the block that has it.

        None if that is this block, or if no other may have it.
        """
        if self.buffers[buffer].buffer.scope is not Scope.CLUSTER or at[0] == self.rank:
            return None
        return f"&{self.element(buffer, at)}, {self.index(at[0]).text}"

    def offset(self, shape: Sequence[Dim], at: Sequence[Expr]) -> Term:
        """Write the row-major offset of an element."""
        flat: Term | None = None
        for i, n in zip(at, shape, strict=True):
            term = self.index(i)
            if flat is None or flat.value == 0 or n == 1:
                flat = term if flat is None or flat.value == 0 else flat
                continue
            size = index_literal(n) if isinstance(n, int) else self.index(of_dim(n))
            scaled = plain("mul", flat, size)
            flat = scaled if term.value == 0 else plain("add", scaled, term)
        return index_literal(0) if flat is None else flat

    # Operators

    def _binary(self, e: Binary) -> Term:
        dtype = e.lhs.dtype
        op = e.op
        if op == "div" and (held := self.quotients.get(e)) is not None:
            return Term(f"{held}.{components(self.lanes)[self.lane]}")
        if isinstance(folded := _folded(e), Const):
            return literal(folded.value, dtype)
        if dtype is DType.BOOL:
            return self._logic(e)
        a, b = self.value(e.lhs), self.value(e.rhs)
        if dtype is DType.I64 and (term := self._exact(op, a, b)):
            return term
        if dtype.is_float and op in _FLOAT_OPERATORS:
            sign, level = _FLOAT_OPERATORS[op]
            return Term(f"{a.at(level)} {sign} {b.at(level + 1)}", level)
        if dtype.is_int and op in _BITS:
            sign, level = _BITS[op]
            return _narrow(Term(f"{a.at(UNARY)} {sign} {b.at(UNARY)}", level), dtype)
        return call(f"{op}_{c_type(dtype)}", [a, b])

    def _exact(self, op: str, a: Term, b: Term) -> Term | None:
        """Write integer arithmetic with C's operators where they mean the same, else None."""
        if rule := INTERVALS.get(op):
            lo, hi = rule(a, b)
            if lo >= I64_MIN and hi <= I64_MAX:
                return plain(op, a, b)._replace(lo=lo, hi=hi)
            return plain(op, a, b) if self._index and a.plain and b.plain else None
        if op in ("floordiv", "floormod") and (term := divide(op, a, b)):
            return term
        interval = bounded(op, a, b)
        if interval is None:
            return None
        term = call(f"{op}_i64", [a, b])
        return term._replace(lo=interval[0], hi=interval[1], plain=a.plain and b.plain)

    def _logic(self, e: Binary) -> Term:
        a = self.value(e.lhs)
        if e.op in ("and", "min", "or", "max"):
            conjunction = e.op in ("and", "min")
            with self.lines.captured() as aside:
                b = self.value(e.rhs)
            if aside:
                done = Term("0" if conjunction else "1")
                empty: list[TextLine] = []
                then, other = (
                    ((aside, b), (empty, done)) if conjunction else ((empty, done), (aside, b))
                )
                return self._branch(DType.BOOL, a, then, other)
            sign, level = ("&&", LAND) if conjunction else ("||", LOR)
            # The other of the two gets its parentheses: compilers warn without.
            return Term(f"{_inner(a, level)} {sign} {_inner(b, level)}", level)
        assert e.op == "xor", f"{e.op} has no meaning on bool"
        b = self.value(e.rhs)
        return Term(f"{a.at(SHIFT)} != {b.at(SHIFT)}", EQ)

    def _unary(self, e: Unary) -> Term:
        dtype = e.arg.dtype
        a = self.value(e.arg)
        if e.op == "not":
            sign = "!" if dtype is DType.BOOL else "~"
            return _narrow(Term(f"{sign}{a.at(PRIMARY)}", UNARY), dtype)
        if e.op == "neg" and dtype.is_float:
            return Term(f"-{a.at(PRIMARY)}", UNARY)
        return call(f"{e.op}_{c_type(dtype)}", [a])

    def _cast(self, e: Cast) -> Term:
        a = self.data(e.arg)
        source, target = e.arg.dtype, e.dtype
        if source is target:
            return a
        if source is DType.I64 and target is DType.F32 and _fits(a, DType.I32):
            a, source = Term(f"(i32){a.at(UNARY)}", UNARY), DType.I32  # a cheaper instruction
        if source in STORED and target is not DType.F32:
            a, source = _convert(a, source, DType.F32), DType.F32
        if target in STORED and source is not DType.F32:
            a, source = _convert(a, source, DType.F32), DType.F32
        return _convert(a, source, target)

    def _select(self, e: Select) -> Term:
        cond = self.data(e.cond)
        with self.lines.captured() as then_lines:
            then = self.value(e.then)
        with self.lines.captured() as other_lines:
            other = self.value(e.other)
        if then_lines or other_lines:
            term = self._branch(e.then.dtype, cond, (then_lines, then), (other_lines, other))
        else:
            text = f"{cond.at(COND + 1)} ? {then.at(COND + 1)} : {other.at(COND + 1)}"
            term = Term(text, COND)
        is_int = then.is_int and other.is_int and term.level == COND
        return term._replace(lo=min(then.lo, other.lo), hi=max(then.hi, other.hi), is_int=is_int)

    def _branch(
        self,
        dtype: DType,
        cond: Term,
        then: Side,
        other: Side,
    ) -> Term:
        """Evaluate one of two values, each with its own statements, into a temporary."""
        name = self.names.fresh("chosen")
        self.lines.add(f"{c_type(dtype)} {name};")
        for head, (lines, term) in ((f"if ({cond.text}) {{", then), ("} else {", other)):
            self.lines.add(head)
            self.lines.splice(lines)
            with self.lines.indented():
                self.lines.add(f"{name} = {term.text};")
        self.lines.add("}")
        return Term(name)


def _inner(t: Term, level: int) -> str:
    return t.text if t.level == level or t.level >= EQ else f"({t.text})"


def _narrow(t: Term, dtype: DType) -> Term:
    """Undo C's promotion to int."""
    return Term(f"({c_type(dtype)}){t.at(PRIMARY)}", UNARY) if dtype in _SMALL else t


def _convert(a: Term, source: DType, target: DType) -> Term:
    term = call(f"cast_{c_type(source)}_{c_type(target)}", [a])
    if target is DType.I64 and (interval := _RANGE.get(source)):
        return term._replace(lo=interval[0], hi=interval[1])
    return term


def _fits(a: Term, dtype: DType) -> bool:
    """Return whether an i64 that is no literal is known to be in the range of another dtype."""
    lo, hi = _RANGE[dtype]
    return a.value is None and lo <= a.lo and a.hi <= hi


def _folded(e: Expr) -> Expr:
    """Fold floating-point arithmetic on constants; return any other expression as it is.

    A C compiler may fold in more precision than the dtype's (TinyCC in 80 bits) and round twice.
    """
    if not isinstance(e, Binary) or not e.lhs.dtype.is_float or e.op not in _FOLDS:
        return e
    b = _folded(e.rhs)
    a = _folded(e.lhs) if isinstance(b, Const) else e.lhs
    if not isinstance(a, Const) or not isinstance(b, Const):
        return e
    x, y = (np.asarray(k.value, k.dtype.compute.numpy) for k in (a, b))
    with np.errstate(all="ignore"):
        return Const(float(_FOLDS[e.op](x, y)), a.dtype)
