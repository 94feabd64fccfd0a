"""Gather: slices or elements selected by index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import INDEX, Cast, Const, Expr
from didyma.refimpl.ir.types import ALL as EVERY
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.attributes import attributes, integer
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.choose import flag, pick, size
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.payloads import where_decided
from didyma.refimpl.ops.rules import check_axis, dtype_error, shape_error
from didyma.refimpl.ops.spec import (
    Chooser,
    Domain,
    Domains,
    Element,
    Index,
    Infer,
    Kind,
    Op,
    Read,
    Rules,
    Sample,
    Use,
    Work,
)

INDICES = (DType.I64, DType.I32)
RULE = (
    "A negative index counts from the end, once; what is then out of range is the first or last "
    "element. An empty axis gives 0, or false. Elements are moved as they are."
)


def position(i: Expr) -> Expr:
    """Return an index in the dtype of loop indices."""
    return i if i.dtype is INDEX else Cast(i, INDEX)


def clamped(i: Expr, n: Expr) -> Expr:
    """Return the position that an index means on an axis of size n, mentioning ``i`` once."""
    lowest = ex.sub(ex.ZERO, n)
    return ex.mod(ex.minimum(ex.maximum(i, lowest), ex.sub(n, ex.ONE)), n)


def resolved(i: Array, n: int) -> Array:
    """Return the positions of indices on an axis of size n > 0: wrapped once, then clamped."""
    wide = i.astype(np.int64)
    return np.clip(np.where(wide < 0, wide + n, wide), 0, n - 1)


def check_indices(op: str, types: Sequence[TensorType]) -> None:
    """Raise ``dtype-mismatch`` unless operand 1 holds indices."""
    if types[1].dtype not in INDICES:
        raise dtype_error(op, types, types[1].dtype, INDICES)


@attributes
class Pick:
    """The axis that indices count along."""

    axis: int = integer("axis to pick along")


def _gather_infer(types: Sequence[TensorType], a: Pick) -> TensorType:
    t, indices = types
    check_indices("gather", types)
    check_axis("gather", a.axis, t.rank)
    return t.with_shape(*t.shape[: a.axis], *indices.shape, *t.shape[a.axis + 1 :])


def _gather(x: Array, indices: Array, axis: int) -> Array:
    n = x.shape[axis]
    if n == 0:
        return _nothing((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    return np.asarray(np.take(x, resolved(indices, n), axis))


def _nothing(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return what an empty axis yields: 0, cast to the dtype (f8e8m0 has no 0)."""
    return np.zeros(shape, np.int8).astype(dtype)


def _gather_element(at: Index, reads: Sequence[Read], use: Use[Pick]) -> Expr:
    axis, rank = use.attrs.axis, use.types[1].rank
    n = ex.of_dim(use.types[0].shape[axis])
    i = clamped(position(reads[1](at[axis : axis + rank])), n)
    return _read_or_zero(reads[0], (*at[:axis], i, *at[axis + rank :]), n, use.result.dtype.compute)


def _read_or_zero(read: Read, at: Index, n: Expr, dtype: DType) -> Expr:
    zero = Const(dtype.numpy.type(0).item(), dtype)
    some = ex.compare("gt", n, ex.ZERO)
    return zero if some == ex.FALSE else ex.select(some, read(at), zero)


def _picking(
    pick: Callable[[Array, Array, int], Array], infer: Infer[Pick], element: Element[Pick]
) -> Rules[Pick]:
    """Return the rules of an op by the function that selects elements along an axis."""

    def run(args: Sequence[Array], a: Pick, _result: TensorType) -> Array:
        return pick(args[0], args[1], a.axis)

    def bar(args: Sequence[Bar], use: Use[Pick], _contract: Contract) -> Bar:
        (x, i), axis = args, use.attrs.axis
        c, e = pick(x.c, i.c, axis), pick(x.e, i.c, axis)
        return Bar(c, np.where(unsure(i, use), np.inf, e) if i.e.any() else e)

    def unsure(i: Bar, use: Use[Pick]) -> Array:
        """Return which elements of the result an undecided index selects."""
        if use.result.rank == i.e.ndim:
            return i.e > 0
        behind = use.result.rank - use.attrs.axis - i.e.ndim  # gather: they stand for the axis
        return np.reshape(i.e > 0, (*[1] * use.attrs.axis, *i.e.shape, *[1] * behind))

    def ring(bars: Sequence[Bar], payloads: Sequence[Array], use: Use[Pick], _out: Bar) -> Array:
        moved = pick(payloads[0], bars[1].c, use.attrs.axis)
        return where_decided(~unsure(bars[1], use), moved)

    return Rules(Pick, infer, run, bar, element, ring=ring, domains=_domains)


def _gather_sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.rank == 0:
        return None
    axis = ch.below(t.rank)
    shape: list[Dim] = [size(ch, 8) for _ in range(pick(ch, (1, 0, 2)))]
    if shape and not isinstance(t.shape[0], int) and flag(ch):
        shape[0] = t.shape[0]
    indices = TensorType(pick(ch, INDICES), tuple(shape), t.device)
    return Sample((t, indices), freeze({"axis": axis}))


def index_domains(types: Sequence[TensorType], axis: int) -> Domains:
    """Return domains of indices a little beyond both ends of an axis, near 0 if it is symbolic."""
    n = types[0].shape[axis]
    n = n if isinstance(n, int) else 3
    return (None, Domain(-n - 1, n), *[None] * (len(types) - 2))


def _domains(types: Sequence[TensorType], a: Pick) -> Domains:
    return index_domains(types, a.axis)


def check_elements(op: str, types: Sequence[TensorType], axis: int) -> None:
    """Raise ``shape-mismatch`` unless indices have the operand's rank and fit off ``axis``.

    Error ``bad-attr`` for an axis that the operand does not have.
    """
    t, i = types[:2]
    check_axis(op, axis, t.rank)
    fits = i.rank == t.rank and all(
        a == axis or dims.equal(m, n) or (isinstance(m, int) and isinstance(n, int) and m <= n)
        for a, (m, n) in enumerate(zip(i.shape, t.shape, strict=True))
    )
    if not fits:
        raise shape_error(
            op, types, f"indices {i}", f"rank {t.rank}, sizes off axis {axis} no larger than {t}'s"
        )


def _elements_infer(types: Sequence[TensorType], a: Pick) -> TensorType:
    t, indices = types
    check_indices("gather_elements", types)
    check_elements("gather_elements", types, a.axis)
    return t.with_shape(*indices.shape)


def _elements(x: Array, indices: Array, axis: int) -> Array:
    n = x.shape[axis]
    if n == 0:
        return _nothing(indices.shape, x.dtype)
    part = tuple(slice(None) if a == axis else slice(0, m) for a, m in enumerate(indices.shape))
    return np.asarray(np.take_along_axis(x[part], resolved(indices, n), axis))


def _elements_element(at: Index, reads: Sequence[Read], use: Use[Pick]) -> Expr:
    axis = use.attrs.axis
    n = ex.of_dim(use.types[0].shape[axis])
    i = clamped(position(reads[1](at)), n)
    return _read_or_zero(reads[0], (*at[:axis], i, *at[axis + 1 :]), n, use.result.dtype.compute)


def fitting_shape(ch: Chooser, t: TensorType, axis: int) -> tuple[Dim, ...]:
    """Choose a shape of indices that select elements along ``axis``."""
    shape = list(t.shape)
    for a, n in enumerate(t.shape):
        if a == axis:
            shape[a] = n if flag(ch) else size(ch, 8)
        elif isinstance(n, int) and n > 1 and ch.below(4) == 3:
            shape[a] = n - 1 - ch.below(n - 1)
    return tuple(shape)


def _elements_sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.rank == 0:
        return None
    axis = ch.below(t.rank)
    indices = TensorType(pick(ch, INDICES), fitting_shape(ch, t, axis), t.device)
    return Sample((t, indices), freeze({"axis": axis}))


GATHER = Op(
    name="gather",
    doc=(
        "Slices along ``axis`` picked by indices (i32 or i64), whose axes take its place: "
        "result[a, i, b] = operand[a, indices[i], b]."
    ),
    special=RULE,
    kind=Kind.INJECTIVE,
    arity=(2, 2),
    dtypes=EVERY,
    rules=_picking(_gather, _gather_infer, _gather_element),
    sample=_gather_sample,
    work=Work.LOOKUP,
    example=example(
        [[10, 20, 30], [[2, -3], [9, 0]]], [[30, 10], [30, 10]], (DType.I32, DType.I64), axis=0
    ),
)

GATHER_ELEMENTS = Op(
    name="gather_elements",
    doc=(
        "Elements picked along ``axis`` by an index each, of the operand's rank: "
        "result[a, i, b] = operand[a, indices[a, i, b], b]. Off ``axis``, indices are as large "
        "as the operand, or (static sizes) smaller."
    ),
    special=RULE,
    kind=Kind.INJECTIVE,
    arity=(2, 2),
    dtypes=EVERY,
    rules=_picking(_elements, _elements_infer, _elements_element),
    sample=_elements_sample,
    work=Work.LOOKUP,
    example=example(
        [[[1, 2], [3, 4]], [[0, 0], [1, 0]]], [[1, 1], [4, 3]], (DType.I32, DType.I64), axis=1
    ),
)

ALL: tuple[Op, ...] = (GATHER, GATHER_ELEMENTS)
