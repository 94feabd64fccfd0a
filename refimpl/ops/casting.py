"""Selection and conversion: ``where``, ``cast`` and ``saturating_cast``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from didyma.refimpl.ir.loop import Expr, Select
from didyma.refimpl.ir.types import ALL as ALL_DTYPES
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import bar_math as bm
from didyma.refimpl.ops import ring
from didyma.refimpl.ops.arithmetic import maximum, minimum
from didyma.refimpl.ops.attributes import Nothing, attributes, choice
from didyma.refimpl.ops.bars import Bar, Contract, exact, hull
from didyma.refimpl.ops.broadcasting import broadcast, operand_index, partner, quiet
from didyma.refimpl.ops.conversion import (
    cast_bar,
    convert,
    convert_expr,
    ends,
    saturate,
    saturate_bar,
    saturate_expr,
)
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.payloads import larger, of_result, where_decided
from didyma.refimpl.ops.rules import dtype_error
from didyma.refimpl.ops.spec import Chooser, Index, Kind, Op, Read, Rules, Sample, Use


@attributes
class Conversion:
    """The result's dtype."""

    dtype: DType = choice("the result's dtype", ALL_DTYPES)


def _converted(types: Sequence[TensorType], a: Conversion) -> TensorType:
    return types[0].with_dtype(a.dtype)


def _cast(args: Sequence[Array], a: Conversion, _result: TensorType) -> Array:
    return args[0] if DType.of(args[0]) is a.dtype else convert(args[0], a.dtype)


def _bar(
    rule: Callable[[Bar, DType, DType], Bar],
    bars: Sequence[Bar],
    use: Use[Conversion],
    _contract: Contract,
) -> Bar:
    return rule(bars[0], use.types[0].dtype, use.attrs.dtype)


def _cast_element(at: Index, reads: Sequence[Read], use: Use[Conversion]) -> Expr:
    x, to = reads[0](at), use.attrs.dtype
    return x if use.types[0].dtype is to else convert_expr(x, to)


def _saturate(args: Sequence[Array], a: Conversion, _result: TensorType) -> Array:
    return saturate(args[0], a.dtype)


def _saturate_element(at: Index, reads: Sequence[Read], use: Use[Conversion]) -> Expr:
    return saturate_expr(reads[0](at), use.types[0].dtype, use.attrs.dtype)


def _cast_ring(
    bars: Sequence[Bar], payloads: Sequence[Array], use: Use[Conversion], out: Bar
) -> Array:
    """Keep payloads between floats; but f4e2m1 is computed, by decisions."""
    if use.attrs.dtype is DType.F4E2M1:
        return of_result(bars, payloads, use, out)
    if use.types[0].dtype.is_float:
        return payloads[0]
    return where_decided(bars[0].e == 0, ring.embed(bars[0].c))


def _saturate_ring(
    bars: Sequence[Bar], payloads: Sequence[Array], use: Use[Conversion], out: Bar
) -> Array:
    to, source = use.attrs.dtype, use.types[0].dtype
    if to is DType.F4E2M1:
        return of_result(bars, payloads, use, out)
    wide = cast_bar(bars[0], source, to.compute)
    p = payloads[0] if source.is_float else where_decided(wide.e == 0, ring.embed(bars[0].c))
    for largest, end in zip((True, False), ends(to), strict=True):
        limit = exact(np.full(wide.c.shape, end).astype(wide.c.dtype), to.compute)
        p = larger(largest, (p, ring.embed(limit.c)), (wide, limit))
        wide = bm.ends(maximum if largest else minimum, (wide, limit))
    return p


def _cast_sample(chooser: Chooser, t: TensorType) -> Sample | None:
    return Sample((t,), (("dtype", ALL_DTYPES[chooser.below(len(ALL_DTYPES))]),))


def _where_infer(types: Sequence[TensorType], _: Nothing) -> TensorType:
    cond, then, other = types
    if cond.dtype is not DType.BOOL:
        raise dtype_error("where", types, cond.dtype, (DType.BOOL,))
    if other.dtype is not then.dtype:
        raise dtype_error("where", types, other.dtype, (then.dtype,))
    shape, device = broadcast("where", types)
    return TensorType(then.dtype, shape, device)


def _where(args: Sequence[Array], _: Nothing, result: TensorType) -> Array:
    return np.where(*args).astype(result.dtype.numpy, copy=False)


def _where_bar(bars: Sequence[Bar], _use: Use[Nothing], _contract: Contract) -> Bar:
    cond, then, other = bars
    chosen = Bar(np.where(cond.c, then.c, other.c), np.where(cond.c, then.e, other.e))
    if not cond.e.any():
        return chosen
    rest = Bar(np.where(cond.c, other.c, then.c), np.where(cond.c, other.e, then.e))
    decided = np.broadcast_to(cond.e == 0, chosen.c.shape)
    return hull(decided, chosen, rest)


def _where_ring(
    bars: Sequence[Bar], payloads: Sequence[Array], _use: Use[Nothing], _out: Bar
) -> Array:
    cond, (_, p, q) = bars[0], payloads
    found = np.where(cond.c, p, q)
    return where_decided((cond.e == 0) | (p == q), found) if cond.e.any() else found


def _where_element(at: Index, reads: Sequence[Read], use: Use[Nothing]) -> Expr:
    cond, then, other = (r(operand_index(at, t)) for r, t in zip(reads, use.types, strict=True))
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
        rules=Rules(
            Nothing,
            infer=_where_infer,
            eval=_where,
            bar=quiet(_where_bar),
            ring=_where_ring,
            element=_where_element,
        ),
        sample=_where_sample,
        example=example(
            [[True, False], [1.0, 2.0], [-1.0]],
            [1.0, -1.0],
            (DType.BOOL, DType.F32, DType.F32),
            DType.F32,
        ),
    ),
    Op(
        name="cast",
        doc="The same number in another dtype, as near as that dtype has one.",
        special=(
            "Float to integer: truncated, saturated at the ends of the range, NaN to 0. Integer to"
            " integer wraps. Number to bool: not equal to 0, so NaN is true. Bool to number: 0 or"
            " 1. To a float: rounded to nearest, halves to even, beyond the largest to infinity;"
            " to f16, bf16, f8 and f4 by way of f32. NaN stays NaN, -0 stays -0. Where a dtype has"
            " no infinity (f8e4m3 and the fnuz ones) it is NaN; f4e2m1 has neither: beyond 6 is 6,"
            " NaN is 0. The fnuz dtypes have no -0: it is 0. To f8e8m0: the nearest power of two,"
            " halves to the larger; 0, negative numbers and what is beyond the largest are NaN."
        ),
        kind=Kind.ELEMENTWISE,
        dtypes=ALL_DTYPES,
        rules=Rules(
            Conversion,
            infer=_converted,
            eval=quiet(_cast),
            bar=quiet(partial(_bar, cast_bar)),
            ring=_cast_ring,
            element=_cast_element,
        ),
        sample=_cast_sample,
        nearby=True,
        corners=(0.5, -0.5, 127.5, 255.5, 2147483648.0, 65520.0, 1.00048828125),
        example=example(
            [[3.9, -3.9, 300.0, math.nan]], [3, -3, 127, 0], DType.F32, DType.I8, dtype=DType.I8
        ),
    ),
    Op(
        name="saturating_cast",
        doc="The same number in another dtype, or the nearest finite one that it has.",
        special=(
            "As ``cast``, but what is beyond the ends of the range, infinities included, becomes"
            " the largest or least finite number, between integers too. f8e8m0 ends at 2 ** -127,"
            " so 0 and negative numbers become that. NaN stays NaN, or becomes 0 in an integer."
            " Also from a dtype to itself, where an infinity becomes finite."
        ),
        kind=Kind.ELEMENTWISE,
        dtypes=ALL_DTYPES,
        rules=Rules(
            Conversion,
            infer=_converted,
            eval=quiet(_saturate),
            bar=quiet(partial(_bar, saturate_bar)),
            ring=_saturate_ring,
            element=_saturate_element,
        ),
        sample=_cast_sample,
        corners=(0.5, -0.5, 127.5, 255.5, 2147483648.0, 65520.0, 464.0, 61440.0, 248.0),
        example=example(
            [[3.9, -3.9, 1000.0, -math.inf]],
            [4.0, -4.0, 448.0, -448.0],
            DType.F32,
            DType.F8E4M3,
            dtype=DType.F8E4M3,
        ),
    ),
)
