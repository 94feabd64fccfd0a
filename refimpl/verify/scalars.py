"""The laws of scalar expressions in loop programs.

| law | says |
|---|---|
| L-undefined | a variable or buffer is declared around what uses it |
| L-freed | a buffer is not used once it is freed or another is placed over it |
| L-var-dtype | a variable is used at the dtype it was declared with |
| L-load-dtype | a load has its buffer's dtype |
| L-rank | an access has one index per axis |
| L-index-dtype | an index is i64 |
| L-const | a literal is a value of its dtype |
| L-operands | the two sides of an operation, and the two branches of a select, have one dtype |
| L-storage | f16, bf16 and f8 are loaded, stored, selected and cast, never computed with |
| L-packed | packed dtypes are held as u8: no buffer, literal or cast has one |
| L-op-dtype | an operation is defined on its operands' dtype |
| L-condition | a condition is bool |
| L-intrinsic | an intrinsic is known, and has its number of operands, f32 or f64 |
| L-bits | bits are cast between a float and the unsigned integer of its width |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.text import show_expr, show_line
from didyma.refimpl.ir.types import BYTES, INTS, DType

Construct: TypeAlias = ir.Expr | ir.Stmt | str  # what breaks a law

_F32, _F64 = DType.F32, DType.F64
_REALS = frozenset({_F32, _F64})
_WHOLE = frozenset(INTS)
_BITS = _WHOLE | {DType.BOOL}
_NUMERIC = _REALS | _WHOLE
_DEFINED: dict[str, frozenset[DType]] = {
    **dict.fromkeys(("add", "sub", "mul", "floordiv", "floormod", "truncmod", "pow"), _NUMERIC),
    **dict.fromkeys(("neg", "abs"), _NUMERIC),
    **dict.fromkeys(("min", "max"), _NUMERIC | {DType.BOOL}),
    **dict.fromkeys(("div", "atan2"), _REALS),
    **dict.fromkeys(("truncdiv", "shl", "shr"), _WHOLE),
    **dict.fromkeys(("and", "or", "xor", "not"), _BITS),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _NUMERIC | {DType.BOOL}),
}
_BITCAST = frozenset(ir.BITCASTS.values())
_STORAGE = frozenset(BYTES) - _NUMERIC - {DType.BOOL}
_LIMITS = {d: d.limits for d in INTS}


def _text(e: Construct) -> str:
    if isinstance(e, str):
        return e
    return show_expr(e) if isinstance(e, ir.Expr) else show_line(e)


class Scalars:
    """Checks the expressions of one function against the names that it has declared so far.

    ``where`` names the function in messages; ``written`` are the buffers that it may store to,
    ``aliases`` the parameters that may be one buffer where they are of one kind.
    """

    def __init__(
        self, where: str, written: Iterable[str] = (), aliases: Iterable[ir.Buffer] = ()
    ) -> None:
        self.where = where
        self.aliases = {b.name: (b.dtype, b.scope, len(b.shape)) for b in aliases}
        self.buffers: dict[str, ir.Buffer] = {}
        self.vars: dict[str, DType] = {}
        self.freed: set[str] = set()
        self.names: set[str] = set()  # all that were declared, seen from here or not
        self.written = set(written)
        self.in_vector = False  # the statement stores a vector

    def broken(self, law: str, e: Construct, got: str, want: str, help: str = "") -> DidymaError:
        """Return the error of a law that an expression or statement breaks."""
        return DidymaError(law, f"@{self.where}: {_text(e)}", got=got, want=want, help=help)

    def parameter(self, v: ir.Var) -> None:
        """Check a scalar parameter, law L-scalar of ``loop``, and declare it."""
        self.declare(v.name, v)
        if v.dtype not in _NUMERIC and v.dtype is not DType.BOOL:
            raise self.broken("L-scalar", v, v.dtype, ", ".join((*sorted(_NUMERIC), DType.BOOL)))
        self.vars[v.name] = v.dtype

    def condition(self, e: ir.Expr) -> None:
        """Check an expression that decides."""
        dtype = self.expr(e)
        if dtype is not DType.BOOL:
            raise self.broken("L-condition", e, str(dtype), "bool")

    def buffer(self, name: str, at: Construct) -> ir.Buffer:
        """Return the buffer of that name."""
        b = self.buffers.get(name)
        if b is None:
            known = ", ".join(self.buffers) or "none"
            raise self.broken("L-undefined", at, f"buffer {name}", f"a declared buffer: {known}")
        if name in self.freed:
            raise self.broken(
                "L-freed", at, f"{name}, which is freed or placed over", "a live buffer"
            )
        return b

    def may_be_one(self, a: str, b: str) -> bool:
        """Return whether two names may stand for one buffer."""
        kind = self.aliases.get(a)
        return a == b or (kind is not None and kind == self.aliases.get(b))

    def writable(self, s: ir.Stmt, name: str) -> None:
        """Check law L-store, of ``loop``: a statement may store to the buffer of that name."""
        if name not in self.written:
            want = f"an output or a buffer made inside: {', '.join(sorted(self.written)) or 'none'}"
            raise self.broken("L-store", s, name, want)

    def access(self, name: str, index: tuple[ir.Expr, ...], at: Construct) -> ir.Buffer:
        """Check an access to an element."""
        b = self.buffer(name, at)
        if len(index) != len(b.shape):
            got, want = f"indices on {counted(len(index), 'axis')}", counted(len(b.shape), "axis")
            raise self.broken("L-rank", at, got, f"{want}, as {name} has")
        for i in index:
            dtype = self.expr(i)
            if dtype is not ir.INDEX:
                raise self.broken("L-index-dtype", at, f"{show_expr(i)}: {dtype}", str(ir.INDEX))
        return b

    def expr(self, e: ir.Expr) -> DType:
        """Check an expression; return its dtype."""
        match e:
            case ir.Const(value, dtype):
                self._const(e, value, dtype)
                return dtype
            case ir.Var(name, dtype):
                declared = self.vars.get(name)
                if declared is not dtype:
                    self._var(e, name, declared)
                return dtype
            case ir.Load(name, index, dtype):
                b = self.access(name, index, e)
                if b.dtype is not dtype:
                    raise self.broken(
                        "L-load-dtype", e, str(dtype), f"{b.dtype}, the dtype of {name}"
                    )
                return dtype
            case ir.Binary(op, lhs, rhs):
                return self._operation(e, op, self._same(e, lhs, rhs))
            case ir.Compare(op, lhs, rhs):
                self._operation(e, op, self._same(e, lhs, rhs))
                return DType.BOOL
            case ir.Unary(op, arg):
                return self._operation(e, op, self.expr(arg))
            case ir.Cast(arg, dtype):
                self.expr(arg)
                self.unpacked(dtype, e)
                return dtype
            case ir.Select(cond, then, other):
                self.condition(cond)
                return self._same(e, then, other)
            case ir.Intrinsic():
                return self._intrinsic(e)
            case ir.LetExpr(var, value, body):
                self.bind(var, self.expr(value), e)
                dtype = self.expr(body)
                self.leave(var)
                return dtype
            case ir.Ramp(inner) | ir.Broadcast(inner):
                return self._vector(e, inner)
            case _:
                assert_never(e)

    def bind(self, var: ir.Var, dtype: DType, at: Construct) -> None:
        """Declare a variable for a value of a dtype."""
        if dtype is not var.dtype:
            raise self.broken(
                "L-var-dtype", at, f"{var.name}: {var.dtype}", f"{dtype}, the dtype of its value"
            )
        self.declare(var.name, at)
        self.vars[var.name] = dtype

    def leave(self, *variables: ir.Var) -> None:
        """End the scope of variables; their names stay taken."""
        for v in variables:
            del self.vars[v.name]

    def hide(self, *buffers: ir.Buffer) -> None:
        """End the scope of buffers; their names stay taken."""
        for b in buffers:
            del self.buffers[b.name]

    def declare(self, name: str, at: Construct) -> None:
        """Check law L-twice, of ``loop``, for the declaration of a name."""
        if name in self.vars or name in self.buffers or name in self.names:
            raise self.broken(
                "L-twice", at, f"{name} again", "one declaration of a name in a function"
            )
        self.names.add(name)

    def unpacked(self, dtype: DType, at: Construct) -> None:
        """Check law L-packed."""
        if dtype.is_packed:
            raise self.broken("L-packed", at, str(dtype), "u8, which holds several of it")

    def _var(self, e: ir.Var, name: str, known: DType | None) -> None:
        if known is None:
            names = ", ".join(self.vars) or "none"
            raise self.broken(
                "L-undefined", e, f"variable {name}", f"a variable declared above: {names}"
            )
        raise self.broken("L-var-dtype", e, str(e.dtype), f"{known}, as declared")

    def _const(self, e: ir.Const, value: int | float | bool, dtype: DType) -> None:
        self.unpacked(dtype, e)
        if dtype in _LIMITS:
            lo, hi = _LIMITS[dtype]
            fits = type(value) is int and lo <= value <= hi
        elif dtype is DType.BOOL:
            fits = type(value) is bool
        else:
            fits = isinstance(value, float)
        if not fits:
            raise self.broken("L-const", e, repr(value), f"a literal of {dtype}")

    def _same(self, e: ir.Expr, lhs: ir.Expr, rhs: ir.Expr) -> DType:
        a, b = self.expr(lhs), self.expr(rhs)
        if a is not b:
            raise self.broken("L-operands", e, f"{a} and {b}", "one dtype", "cast one of them")
        return a

    def _operation(self, e: ir.Expr, op: str, dtype: DType) -> DType:
        if dtype not in _DEFINED[op]:
            if dtype in _STORAGE:
                raise self.broken("L-storage", e, f"{op} on {dtype}", "f32", "cast to f32 first")
            want = ", ".join(sorted(_DEFINED[op]))
            raise self.broken("L-op-dtype", e, f"{op} on {dtype}", f"one of {want}")
        return dtype

    def _vector(self, e: ir.Ramp | ir.Broadcast, inner: ir.Expr) -> DType:
        if not self.in_vector:
            want = "a store whose index is a ramp around it: a[ramp(i, 1, 4)] = ..."
            raise self.broken("L-lanes", e, "a vector elsewhere", want)
        dtype = self.expr(inner)
        if isinstance(e, ir.Ramp) and dtype is not ir.INDEX:
            raise self.broken("L-index-dtype", e, f"{show_expr(inner)}: {dtype}", str(ir.INDEX))
        return dtype

    def _bitcast(self, e: ir.Intrinsic, source: DType) -> DType:
        to = ir.BITCASTS[e.name]
        if source.nbytes != to.nbytes or source.is_float is to.is_float or source not in _BITCAST:
            want = "a float and the unsigned integer of its width"
            raise self.broken("L-bits", e, f"{e.name}({source})", want)
        return to

    def _intrinsic(self, e: ir.Intrinsic) -> DType:
        dtypes = [self.expr(a) for a in e.args]
        if e.name in ir.BITCASTS and len(dtypes) == 1:
            return self._bitcast(e, dtypes[0])
        known = e.record
        count = known.operands if known else None
        if known is None or len(dtypes) != count or not set(dtypes) <= _REALS:
            want = (
                f"one of {', '.join(ir.INTRINSICS)}"
                if count is None
                else f"{counted(count, 'operand')} of f32, or of f64"
            )
            raise self.broken("L-intrinsic", e, f"{e.name}({', '.join(dtypes)})", want)
        if len(set(dtypes)) != 1:
            raise self.broken("L-operands", e, ", ".join(dtypes), "one dtype")
        return known.result(dtypes[0])
