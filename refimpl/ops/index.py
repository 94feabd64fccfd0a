"""Gather: elements picked by index."""

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
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.choose import flag, pick, size
from didyma.refimpl.ops.movement import BarRule
from didyma.refimpl.ops.rules import check, dtype_error, get_axis, shape_error
from didyma.refimpl.ops.spec import (
    AttrMap,
    AttrSpec,
    Chooser,
    Domain,
    Example,
    Index,
    Kind,
    Op,
    Read,
    Sample,
)

INDICES = (DType.I64, DType.I32)
RULE = (
    "A negative index counts from the end, once; what is then out of range is the first or last "
    "element. An empty axis gives 0, or false. Elements are moved as they are."
)


def position(i: Expr) -> Expr:
    """Index as loop indices are typed."""
    return i if i.dtype is INDEX else Cast(i, INDEX)


def clamped(i: Expr, n: Expr) -> Expr:
    """Place of an index in an axis of size n, using ``i`` once."""
    lowest = ex.sub(ex.ZERO, n)
    return ex.mod(ex.minimum(ex.maximum(i, lowest), ex.sub(n, ex.ONE)), n)


def resolved(i: Array, n: int) -> Array:
    """Positions of indices in an axis of size n > 0: wrapped once, then clamped."""
    wide = i.astype(np.int64)
    return np.clip(np.where(wide < 0, wide + n, wide), 0, n - 1)


def check_indices(op: str, types: Sequence[TensorType]) -> None:
    """Raise ``dtype-mismatch`` unless operand 1 holds indices."""
    if types[1].dtype not in INDICES:
        raise dtype_error(op, types, types[1].dtype, INDICES)


def _gather_infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
    t = check("gather", types, 2)
    check_indices("gather", types)
    axis = get_axis("gather", attrs, "axis", t.rank)
    return t.with_shape(*t.shape[:axis], *types[1].shape, *t.shape[axis + 1 :])


def _gather(x: Array, indices: Array, attrs: AttrMap) -> Array:
    axis = get_axis("gather", attrs, "axis", x.ndim)
    n = x.shape[axis]
    if n == 0:
        return _nothing((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    return np.asarray(np.take(x, resolved(indices, n), axis))


def _nothing(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """What an empty axis yields: 0 as ``cast`` gives it, which f8e8m0 has no number for."""
    return np.zeros(shape, np.int8).astype(dtype)


def _gather_element(
    at: Index,
    reads: Sequence[Read],
    types: Sequence[TensorType],
    attrs: AttrMap,
    result: TensorType,
) -> Expr:
    t, rank = types[0], types[1].rank
    axis = get_axis("gather", attrs, "axis", t.rank)
    n = ex.of_dim(t.shape[axis])
    i = clamped(position(reads[1](at[axis : axis + rank])), n)
    return _read_or_zero(reads[0], (*at[:axis], i, *at[axis + rank :]), n, result.dtype.compute)


def _read_or_zero(read: Read, at: Index, n: Expr, dtype: DType) -> Expr:
    zero = Const(dtype.numpy.type(0).item(), dtype)
    some = ex.compare("gt", n, ex.ZERO)
    return zero if some == ex.FALSE else ex.select(some, read(at), zero)


def _picked(gather: Callable[[Array, Array, AttrMap], Array]) -> BarRule:
    def run(
        args: Sequence[Bar],
        attrs: AttrMap,
        types: Sequence[TensorType],
        result: TensorType,
        contract: Contract,
    ) -> Bar:
        del types, contract
        x, i = args
        c, e = gather(x.c, i.c, attrs), gather(x.e, i.c, attrs)
        if i.e.any():
            unsure = i.e > 0
            if c.shape != i.e.shape:  # gather: indices stand in the place of the axis
                axis = get_axis("gather", attrs, "axis", x.c.ndim)
                unsure = unsure.reshape(
                    *[1] * axis, *i.e.shape, *[1] * (result.rank - axis - i.e.ndim)
                )
            e = np.where(unsure, np.inf, e)
        return Bar(c, e)

    return run


def _gather_eval(args: Sequence[Array], attrs: AttrMap, result: TensorType) -> Array:
    del result
    return _gather(args[0], args[1], attrs)


def _gather_sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.rank == 0:
        return None
    axis = ch.below(t.rank)
    shape: list[Dim] = [size(ch, 8) for _ in range(pick(ch, (1, 0, 2)))]
    if shape and not isinstance(t.shape[0], int) and flag(ch):
        shape[0] = t.shape[0]
    indices = TensorType(pick(ch, INDICES), tuple(shape), t.device)
    return Sample((t, indices), freeze({"axis": axis}))


def index_domains(types: Sequence[TensorType], attrs: AttrMap) -> tuple[Domain | None, ...]:
    """Indices a little beyond the range on both sides; near 0 where the size is not known."""
    n = types[0].shape[get_axis("gather", attrs, "axis", types[0].rank)]
    n = n if isinstance(n, int) else 3
    return (None, Domain(-n - 1, n), *[None] * (len(types) - 2))


def check_elements(op: str, types: Sequence[TensorType], axis: int) -> None:
    """Raise ``shape-mismatch`` unless indices have the operand's rank and fit off ``axis``."""
    t, i = types[:2]
    fits = i.rank == t.rank and all(
        a == axis or dims.equal(m, n) or (isinstance(m, int) and isinstance(n, int) and m <= n)
        for a, (m, n) in enumerate(zip(i.shape, t.shape, strict=True))
    )
    if not fits:
        raise shape_error(
            op, types, f"indices {i}", f"rank {t.rank}, sizes off axis {axis} no larger than {t}'s"
        )


def _elements_infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
    t = check("gather_elements", types, 2)
    check_indices("gather_elements", types)
    check_elements("gather_elements", types, get_axis("gather_elements", attrs, "axis", t.rank))
    return t.with_shape(*types[1].shape)


def _elements(x: Array, indices: Array, attrs: AttrMap) -> Array:
    axis = get_axis("gather_elements", attrs, "axis", x.ndim)
    n = x.shape[axis]
    if n == 0:
        return _nothing(indices.shape, x.dtype)
    part = tuple(slice(None) if a == axis else slice(0, m) for a, m in enumerate(indices.shape))
    return np.asarray(np.take_along_axis(x[part], resolved(indices, n), axis))


def _elements_eval(args: Sequence[Array], attrs: AttrMap, result: TensorType) -> Array:
    del result
    return _elements(args[0], args[1], attrs)


def _elements_element(
    at: Index,
    reads: Sequence[Read],
    types: Sequence[TensorType],
    attrs: AttrMap,
    result: TensorType,
) -> Expr:
    axis = get_axis("gather_elements", attrs, "axis", result.rank)
    n = ex.of_dim(types[0].shape[axis])
    i = clamped(position(reads[1](at)), n)
    return _read_or_zero(reads[0], (*at[:axis], i, *at[axis + 1 :]), n, result.dtype.compute)


def fitting_shape(ch: Chooser, t: TensorType, axis: int) -> tuple[Dim, ...]:
    """Choose a shape for indices that name elements along ``axis``."""
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
    attrs=(AttrSpec("axis", "int", "axis to pick along"),),
    dtypes=EVERY,
    infer=_gather_infer,
    eval=_gather_eval,
    bar=_picked(_gather),
    element=_gather_element,
    sample=_gather_sample,
    domains=index_domains,
    example=Example(
        (np.array([10, 20, 30], np.int32), np.array([[2, -3], [9, 0]], np.int64)),
        np.array([[30, 10], [30, 10]], np.int32),
        freeze({"axis": 0}),
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
    attrs=(AttrSpec("axis", "int", "axis to pick along"),),
    dtypes=EVERY,
    infer=_elements_infer,
    eval=_elements_eval,
    bar=_picked(_elements),
    element=_elements_element,
    sample=_elements_sample,
    domains=index_domains,
    example=Example(
        (np.array([[1, 2], [3, 4]], np.int32), np.array([[0, 0], [1, 0]], np.int64)),
        np.array([[1, 1], [4, 3]], np.int32),
        freeze({"axis": 1}),
    ),
)

ALL: tuple[Op, ...] = (GATHER, GATHER_ELEMENTS)
