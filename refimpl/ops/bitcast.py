"""``bitcast``: the bits of a number read as a number of another dtype."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.refimpl.ir.loop import (
    Binary,
    Cast,
    Compare,
    Const,
    Expr,
    Intrinsic,
    LetExpr,
    Select,
    Unary,
    Var,
)
from didyma.refimpl.ir.types import ALL as EVERY
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.attributes import attributes, choice
from didyma.refimpl.ops.bars import Bar, Contract, centre_dtype, store
from didyma.refimpl.ops.broadcasting import quiet
from didyma.refimpl.ops.conversion import convert, convert_expr
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.payloads import of_result
from didyma.refimpl.ops.rules import attr_error
from didyma.refimpl.ops.spec import Chooser, Index, Kind, Op, Read, Rules, Sample, Use

_UNSIGNED = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}
TARGETS = tuple(d for d in EVERY if d is not DType.BOOL)


def targets(source: DType) -> tuple[DType, ...]:
    """Return the dtypes to which a dtype may be bitcast: of the same width, bool excluded."""
    return tuple(d for d in TARGETS if d.bits == source.bits)


@attributes
class Bitcast:
    """The result's dtype."""

    dtype: DType = choice("the result's dtype", TARGETS)


def _infer(types: Sequence[TensorType], a: Bitcast) -> TensorType:
    (t,) = types
    if a.dtype not in targets(t.dtype):
        want = f"one of {', '.join(targets(t.dtype))}"
        raise attr_error("bitcast", "dtype", a.dtype, want)
    return t.with_dtype(a.dtype)


def _eval(args: Sequence[Array], a: Bitcast, _result: TensorType) -> Array:
    return reinterpreted(args[0], a.dtype)


def reinterpreted(x: Array, to: DType) -> Array:
    """Return an array of the same bits; those of packed dtypes are at the low end of a byte."""
    return np.ascontiguousarray(x).reshape(x.shape).view(to.numpy)


def _bar(bars: Sequence[Bar], use: Use[Bitcast], _contract: Contract) -> Bar:
    source, to = use.types[0].dtype, use.attrs.dtype
    b = store(bars[0], source)
    number = b.c.astype(source.numpy) if source.is_float else convert(b.c, source)
    c = reinterpreted(number, to).astype(centre_dtype(to))
    return Bar(c, np.where((b.e == 0) & (b.c == b.c), 0.0, np.inf))


def bits_of(x: Expr, source: DType) -> Expr:
    """Return the bits, as an unsigned number, of a value given in its compute dtype."""
    if source is DType.F4E2M1:
        return f4_bits(x)
    if source.is_packed:
        byte = x if x.dtype is DType.U8 else Cast(x, DType.U8)
        return Binary("and", byte, Const((1 << source.bits) - 1, DType.U8))
    unsigned = _UNSIGNED[source.nbytes]
    if source.is_float:
        number = x if x.dtype is source else Cast(x, source)
        return Intrinsic(f"as_{unsigned}", (number,))
    return x if source is unsigned else Cast(x, unsigned)


def of_bits(bits: Expr, to: DType) -> Expr:
    """Return the value of bits as a number of ``to``, in its compute dtype."""
    if to is DType.F4E2M1:
        return f4_value(bits)
    if not to.is_float:
        return convert_expr(bits, to)
    value = Intrinsic(f"as_{to}", (bits,))
    return value if to.compute is to else Cast(value, to.compute)


def _element(at: Index, reads: Sequence[Read], use: Use[Bitcast]) -> Expr:
    return of_bits(bits_of(reads[0](at), use.types[0].dtype), use.attrs.dtype)


def _f32(v: float) -> Const:
    return Const(v, DType.F32)


def _u8(v: int) -> Const:
    return Const(v, DType.U8)


def f4_value(bits: Expr) -> Expr:
    """Return the f4e2m1 of four bits, in f32: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and a sign."""
    code = Var("code", DType.U8)
    size = Cast(Binary("and", code, _u8(7)), DType.F32)
    half = Binary("mul", size, _f32(0.5))
    large = Select(Compare("eq", size, _f32(7.0)), _f32(6.0), Binary("sub", size, _f32(2.0)))
    value = Select(Compare("lt", size, _f32(5.0)), half, large)
    return LetExpr(code, bits, Select(Compare("ge", code, _u8(8)), Unary("neg", value), value))


def f4_bits(value: Expr) -> Expr:
    """Return the four bits of an f32 that is an f4e2m1."""
    x = Var("value", DType.F32)
    size = Unary("abs", x)
    double, more = Binary("mul", size, _f32(2.0)), Binary("add", size, _f32(2.0))
    small = Select(Compare("le", size, _f32(2.0)), double, more)
    code = Select(Compare("eq", size, _f32(6.0)), _f32(7.0), small)
    sign = Select(Intrinsic("signbit", (x,)), _u8(8), _u8(0))
    return LetExpr(x, value, Binary("or", Cast(code, DType.U8), sign))


def _sample(ch: Chooser, t: TensorType) -> Sample | None:
    few = targets(t.dtype)
    return Sample((t,), (("dtype", few[ch.below(len(few))]),))


BITCAST = Op(
    name="bitcast",
    doc="The elements' bits as elements of another dtype of as many bits.",
    special=(
        "-0 is not 0. Of a NaN any sign and payload may be found; whatever else the bits of a NaN"
        " are, they become the NaN of the dtype when computed with. A float that is rounded when"
        " it is stored is rounded first. true is 1; no bits become bool."
    ),
    kind=Kind.ELEMENTWISE,
    dtypes=EVERY,
    rules=Rules(
        Bitcast, infer=_infer, eval=_eval, bar=quiet(_bar), element=_element, ring=of_result
    ),
    sample=_sample,
    example=example([[1.0, -2.0]], [0x3F800000, 0xC0000000], DType.F32, DType.U32, dtype=DType.U32),
)

ALL: tuple[Op, ...] = (BITCAST,)
