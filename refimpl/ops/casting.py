"""Choice and conversion: ``where`` and ``cast``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refimpl.ir.loop import Cast, Expr, Select
from refimpl.ir.types import ALL as ALL_DTYPES
from refimpl.ir.types import Array, DType, TensorType
from refimpl.ops.bars import (
    LEAST,
    Bar,
    Contract,
    as_error,
    centre_dtype,
    close,
    finish,
    hull,
    rounded,
)
from refimpl.ops.broadcasting import broadcast, operand_index, partner, quiet
from refimpl.ops.pointwise import array
from refimpl.ops.rules import check, check_same_dtype, dtype_error, get_dtype
from refimpl.ops.spec import (
    AttrMap,
    AttrSpec,
    Chooser,
    Example,
    Index,
    Kind,
    Op,
    Read,
    Sample,
)

SMALL = (DType.F16, DType.BF16)


def convert(x: Array, to: DType) -> Array:
    """Convert by the rules of ``cast``; ``x`` may be an array of centres."""
    kind = x.dtype.kind
    if to is DType.BOOL:
        return np.asarray(x != 0)
    if kind not in "iub" and to.is_int:
        return _saturate(x, to)
    if to in SMALL and x.dtype != np.float32:
        x = x.astype(np.float32)
    return x.astype(to.numpy)


def _saturate(x: Array, to: DType) -> Array:
    if x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    info = np.iinfo(to.numpy)
    least, beyond = x.dtype.type(info.min), x.dtype.type(2.0 ** (info.bits - to.is_signed))
    low, high = x < least, x >= beyond
    safe = np.where(np.isnan(x) | low | high, x.dtype.type(0), x).astype(to.numpy)
    out = np.where(high, to.numpy.type(info.max), safe)
    return np.where(low, to.numpy.type(info.min), out)


def cast_bar(b: Bar, source: DType, to: DType) -> Bar:
    """Bar of a conversion."""
    if source is to:
        return b
    centre = centre_dtype(to)
    if to is DType.BOOL:
        either = (b.e == np.inf) | ((np.abs(b.c) <= b.e) & (b.e > 0)) if b.e.any() else b.e > 0
        return Bar(np.asarray(b.c != 0), np.where(either, np.inf, 0.0))
    if source.is_float and to.is_float:
        widened = Bar(b.c.astype(np.longdouble), b.e) if to is DType.F64 else b
        widening = to is DType.F64 or (to is DType.F32 and source is not DType.F64)
        out = widened if widening else rounded(b, to)
        return Bar(out.c.astype(centre), out.e)
    if not b.e.any():
        return Bar(convert(b.c, to).astype(centre), np.zeros(b.c.shape))
    if source.is_float:
        c, lo, hi = (convert(x, to) for x in (b.c, b.c - b.e, b.c + b.e))
        wide = [x.astype(np.longdouble) for x in (c, lo, hi)]
        spread = close(wide[0], wide[1], wide[2], b.e == 0).e
        e = np.where(spread == LEAST, 0.0, spread)
        return Bar(c, np.where(b.e == np.inf, np.inf, e))
    return _of_inexact_ints(b, source, to)


def _of_inexact_ints(b: Bar, source: DType, to: DType) -> Bar:
    """Of integers or bools that hang on a decision: the far value is as far after the cast."""
    if source is DType.BOOL:  # undecided: 0 or 1
        e = np.where(b.e > 0, 1.0, 0.0)
        return Bar(b.c.astype(centre_dtype(to)), e)
    known = b.e == 0
    if to.is_float:
        wide = b.c.astype(np.longdouble)
        out = finish(wide.astype(centre_dtype(to)), b.e, to, known)
        near = Bar(out.c, np.where(known, 0.0, out.e + as_error(np.abs(wide - out.c))))
        return Bar(
            np.where(known, convert(b.c, to).astype(centre_dtype(to)), near.c),
            rounded(near, to).e if to in SMALL else near.e,
        )
    info = np.iinfo(to.numpy)
    wide = b.c.astype(np.longdouble)
    fits = (wide - b.e >= info.min) & (wide + b.e <= info.max)
    return Bar(convert(b.c, to), np.where(known | fits, b.e, np.inf))


def convert_expr(x: Expr, to: DType) -> Expr:
    """Loop expression of a conversion to a compute dtype, rounded to f16 or bf16 on the way."""
    if to in SMALL:
        wide = x if x.dtype is DType.F32 else Cast(x, DType.F32)
        return Cast(Cast(wide, to), DType.F32)
    return x if x.dtype is to else Cast(x, to)


def _cast_infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
    t = check("cast", types, 1)
    return t.with_dtype(get_dtype("cast", attrs, "dtype", ALL_DTYPES))


def _cast_eval(args: Sequence[Array], attrs: AttrMap, out: TensorType) -> Array:
    del attrs
    if DType.of(args[0]) is out.dtype:
        return args[0]
    return convert(args[0], out.dtype)


def _cast_bars(
    bars: Sequence[Bar],
    attrs: AttrMap,
    types: Sequence[TensorType],
    out: TensorType,
    contract: Contract,
) -> Bar:
    del attrs, contract
    return cast_bar(bars[0], types[0].dtype, out.dtype)


def _cast_rule(
    index: Index,
    reads: Sequence[Read],
    types: Sequence[TensorType],
    attrs: AttrMap,
    out: TensorType,
) -> Expr:
    del attrs
    x = reads[0](index)
    return x if types[0].dtype is out.dtype else convert_expr(x, out.dtype)


def _cast_sample(chooser: Chooser, t: TensorType) -> Sample | None:
    return Sample((t,), (("dtype", ALL_DTYPES[chooser.below(len(ALL_DTYPES))]),))


def _where_infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
    del attrs
    check("where", types, 3, dtypes=(DType.BOOL,))
    try:
        check_same_dtype("where", types[1:])
    except Exception:
        raise dtype_error("where", types, types[2].dtype, (types[1].dtype,)) from None
    shape, device = broadcast("where", types)
    return TensorType(types[1].dtype, shape, device)


def _where_eval(args: Sequence[Array], attrs: AttrMap, out: TensorType) -> Array:
    del attrs
    return np.where(*args).astype(out.dtype.numpy, copy=False)


def _where_bar(
    bars: Sequence[Bar],
    attrs: AttrMap,
    types: Sequence[TensorType],
    out: TensorType,
    contract: Contract,
) -> Bar:
    del attrs, types, out, contract
    cond, then, other = bars
    chosen = Bar(np.where(cond.c, then.c, other.c), np.where(cond.c, then.e, other.e))
    if not cond.e.any():
        return chosen
    rest = Bar(np.where(cond.c, other.c, then.c), np.where(cond.c, other.e, then.e))
    decided = np.broadcast_to(cond.e == 0, chosen.c.shape)
    return hull(decided, chosen, rest)


def _where_rule(
    index: Index,
    reads: Sequence[Read],
    types: Sequence[TensorType],
    attrs: AttrMap,
    out: TensorType,
) -> Expr:
    del attrs, out
    cond, then, other = (r(operand_index(index, t)) for r, t in zip(reads, types, strict=True))
    return Select(cond, then, other)


def _where_sample(chooser: Chooser, t: TensorType) -> Sample | None:
    if t.dtype is DType.BOOL and chooser.below(2):
        other = TensorType(ALL_DTYPES[chooser.below(len(ALL_DTYPES))], t.shape, t.device)
        return Sample((t, other, partner(chooser, other)))
    return Sample((partner(chooser, t, DType.BOOL), t, partner(chooser, t)))


ALL: tuple[Op, ...] = (
    Op(
        name="where",
        doc="Second operand where the first is true, else the third.",
        special="The side not chosen has no influence, NaN or not; values keep their bits.",
        kind=Kind.ELEMENTWISE,
        arity=(3, 3),
        dtypes=ALL_DTYPES,
        infer=_where_infer,
        eval=_where_eval,
        bar=quiet(_where_bar),
        element=_where_rule,
        sample=_where_sample,
        example=Example(
            (
                array([True, False], DType.BOOL),
                array([1.0, 2.0], DType.F32),
                array([-1.0], DType.F32),
            ),
            array([1.0, -1.0], DType.F32),
        ),
    ),
    Op(
        name="cast",
        doc="The same number in another dtype, as near as that dtype has one.",
        special=(
            "Float to integer: truncated, saturated at the ends of the range, NaN to 0. Integer to"
            " integer wraps. Number to bool: not equal to 0, so NaN is true. Bool to number: 0 or"
            " 1. To a float: rounded to nearest, halves to even, beyond the largest to infinity;"
            " to f16 and bf16 by way of f32. NaN stays NaN, -0 stays -0."
        ),
        kind=Kind.ELEMENTWISE,
        arity=(1, 1),
        attrs=(AttrSpec("dtype", "dtype", "the result's dtype", tuple(ALL_DTYPES)),),
        dtypes=ALL_DTYPES,
        infer=_cast_infer,
        eval=quiet(_cast_eval),
        bar=quiet(_cast_bars),
        element=_cast_rule,
        sample=_cast_sample,
        corners=(0.5, -0.5, 127.5, 255.5, 2147483648.0, 65520.0, 1.00048828125),
        example=Example(
            (array([3.9, -3.9, 300.0, float("nan")], DType.F32),),
            array([3, -3, 127, 0], DType.I8),
            (("dtype", DType.I8),),
        ),
    ),
)
