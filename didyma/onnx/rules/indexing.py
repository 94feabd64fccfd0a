"""Gather and scatter, one-hot, top-k, and selections by constant or data-dependent masks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.composites.builder import Value
from didyma.composites.ordering import top_k
from didyma.onnx.context import Context, Handler, Inputs, NotConstant
from didyma.onnx.rules import data_dependent
from didyma.onnx.tensors import dtype_of
from didyma.onnx.values import Constant, Operand, size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import Array, DType


def index64(c: Context, at: Value, n: Dim) -> Value:
    """Return indices as i64; negative ones are made to count from the front."""
    at = c.cast(at, DType.I64)
    count = c.value(size(n))
    return c.emit("where", c.emit("less", at, 0), c.emit("add", at, count), at)


def _flat_index(c: Context, at: Value, lead: Sequence[Dim]) -> Value:
    """Return the row-major flat indices of index tuples along the last axis."""
    total: Value | None = None
    for i, n in enumerate(lead):
        part = c.slice(at, at.type.rank - 1, i, i + 1)
        part = index64(c, c.reshape(part, *at.type.shape[:-1]), n)
        if total is None:
            total = part
        else:
            total = c.emit("add", c.emit("multiply", total, c.value(size(n))), part)
    if total is None:
        raise c.error("index tuples of no indices", "at least one")
    return total


def _gather(c: Context, x: Inputs) -> Sequence[Operand]:
    v, at = c.operand(x, 0), c.operand(x, 1)
    axis = c.axis(c.integer("axis", 0), v.type.rank)
    return [c.emit("gather", v, at, axis=axis)]


def _gather_elements(c: Context, x: Inputs) -> Sequence[Operand]:
    v, at = c.operand(x, 0), c.operand(x, 1)
    axis = c.axis(c.integer("axis", 0), v.type.rank)
    return [c.emit("gather_elements", v, at, axis=axis)]


def _scatter_elements(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    axis = c.axis(c.integer("axis", 0), v.type.rank)
    how = c.attrs.get("reduction", "none")
    args = v, c.operand(x, 1), c.operand(x, 2)
    return [c.emit("scatter", *args, axis=axis, reduction=how)]


def _gather_nd(c: Context, x: Inputs) -> Sequence[Operand]:
    v, at = c.operand(x, 0), c.operand(x, 1)
    batch = c.integer("batch_dims")
    parts = at.type.shape[-1]
    if not isinstance(parts, int) or not 0 <= batch < min(v.type.rank, at.type.rank):
        got = f"{at.type} into {v.type} with batch_dims {batch}"
        raise c.broken(got, "a static number of indices, and batch_dims below both ranks")
    if batch + parts > v.type.rank:
        raise c.broken(f"{parts} indices into {v.type}", "at most one for each axis")
    lead = v.type.shape[batch : batch + parts]
    rest = v.type.shape[batch + parts :]
    flat = _flat_index(c, at, lead)
    before = v.type.shape[:batch]
    if batch:  # each batch has a table of its own
        number = c.reshape(c.iota(dims.mul(*before)), *before, *[1] * (flat.type.rank - batch))
        stride = c.value(size(dims.mul(*lead)))
        flat = c.emit("add", flat, c.emit("multiply", number, stride))
    table = c.reshape(v, dims.mul(*before, *lead), *rest)
    return [c.emit("gather", table, flat, axis=0)]


def _scatter_nd(c: Context, x: Inputs) -> Sequence[Operand]:
    v, at, new = (c.operand(x, i) for i in range(3))
    parts = at.type.shape[-1]
    if not isinstance(parts, int) or parts > v.type.rank:
        raise c.broken(f"{at.type} into {v.type}", "indices for leading axes")
    lead, rest = v.type.shape[:parts], v.type.shape[parts:]
    flat = _flat_index(c, at, lead)
    count, width = flat.type.numel, dims.mul(*rest)
    column = c.reshape(flat, count, 1)
    positions = c.emit("broadcast_to", column, shape=(count, width))
    table = c.reshape(v, dims.mul(*lead), width)
    how = c.string("reduction", "none")
    updates = c.reshape(new, count, width)
    out = c.emit("scatter", table, positions, updates, axis=0, reduction=how)
    return [c.reshape(out, *v.type.shape)]


def _tensor_scatter(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``TensorScatter``: write updates into each batch of a cache, from its own index on."""
    v, new = c.operand(x, 0), c.operand(x, 1)
    axis = c.axis(c.integer("axis", -2), v.type.rank)
    shape = new.type.shape
    steps = c.iota(shape[axis], rank=v.type.rank, axis=axis)
    if (first := c.optional(x, 2)) is not None:
        first = c.reshape(c.cast(first, DType.I64), shape[0], *[1] * (v.type.rank - 1))
        steps = c.emit("add", steps, first)
    if c.choice("mode", "linear", "circular") == "circular":
        steps = c.emit("remainder", steps, c.value(size(v.type.shape[axis])))
    positions = c.emit("broadcast_to", steps, shape=shape)
    return [c.emit("scatter", v, positions, new, axis=axis, reduction="none")]


def _one_hot(c: Context, x: Inputs) -> Sequence[Operand]:
    at, pair = c.operand(x, 0), c.operand(x, 2)
    (depth,) = _depth(c, c.input(x, 1))
    if not at.type.dtype.is_int:
        at = c.cast(at, DType.I64)
    rank = at.type.rank + 1
    axis = c.axis(c.integer("axis", -1), rank)
    index = index64(c, at, depth)
    index = c.reshape(index, *at.type.shape[:axis], 1, *at.type.shape[axis:])
    hit = c.emit("equal", index, c.iota(depth, rank=rank, axis=axis))
    off, on = (c.reshape(c.slice(pair, 0, i, i + 1)) for i in (0, 1))
    return [c.emit("where", hit, on, off)]


def _depth(c: Context, item: Operand) -> tuple[Dim, ...]:
    if item.type.dtype.is_int:
        return data_dependent.bind_sizes(c, item, "depth")
    try:
        return (int(c.number(item)),)
    except NotConstant:
        return (c.bind(c.value(item), "depth"),)


def _eye_like(c: Context, x: Inputs) -> Sequence[Operand]:
    t = c.input(x, 0).type
    if t.rank != 2:
        raise c.broken(str(t), "a matrix")
    dtype = dtype_of(c.integer("dtype"), c.where) if "dtype" in c.attrs else t.dtype
    row = c.emit("add", c.iota(t.shape[0], rank=2, axis=0), float(c.integer("k")))
    return [c.cast(c.emit("equal", row, c.iota(t.shape[1], rank=2, axis=1)), dtype)]


def _hardmax(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    shape = v.type.shape
    if c.opset < 13:  # the operand is a matrix: axes before ``axis``, and the others
        axis = c.axis(c.integer("axis", 1), v.type.rank)
        v = c.reshape(v, dims.mul(*shape[:axis]), dims.mul(*shape[axis:]))
        axis = 1
    else:
        axis = c.axis(c.integer("axis", -1), v.type.rank)
    best = c.emit("argmax", v, axis=axis, keepdims=True)
    hit = c.emit("equal", best, c.iota(v.type.shape[axis], rank=v.type.rank, axis=axis))
    return [c.reshape(c.cast(hit, v.type.dtype), *shape)]


def _top_k(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``TopK``, sorted even if the attribute ``sorted`` is 0, which allows any order."""
    v = c.operand(x, 0)
    k: Dim = c.integer("k")
    if len(x) > 1:
        (k,) = data_dependent.bind_sizes(c, c.input(x, 1), "k")
    axis = c.axis(c.integer("axis", -1), v.type.rank)
    n = v.type.shape[axis]
    if isinstance(n, int) and isinstance(k, int) and not 0 <= k <= n:
        raise c.broken(f"the best {k} of {n}", f"from 0 to {n}")
    return list(top_k(c.builder, v, k, axis, bool(c.integer("largest", 1))))


def _reverse_sequence(c: Context, x: Inputs) -> Sequence[Operand]:
    v, lengths = c.operand(x, 0), c.operand(x, 1)
    time, batch = c.integer("time_axis", 0), c.integer("batch_axis", 1)
    rank = v.type.rank
    step = c.iota(v.type.shape[time], rank=rank, axis=time)
    spread = tuple(v.type.shape[batch] if i == batch else 1 for i in range(rank))
    length = c.reshape(c.cast(lengths, DType.I64), *spread)
    turned = c.emit("subtract", c.emit("subtract", length, step), 1)
    source = c.emit("where", c.emit("less", step, length), turned, step)
    source = c.emit("broadcast_to", source, shape=v.type.shape)
    return [c.emit("gather_elements", v, source, axis=time)]


def _compress(c: Context, x: Inputs) -> Sequence[Operand]:
    try:
        chosen = np.flatnonzero(c.array(c.input(x, 1)))
    except NotConstant:
        return data_dependent.compress(c, x)
    v = c.operand(x, 0)
    if "axis" not in c.attrs:
        v = c.reshape(v, v.type.numel)
    axis = c.axis(c.integer("axis"), v.type.rank)
    n = v.type.shape[axis]
    if isinstance(n, int) and chosen.size and chosen[-1] >= n:
        raise c.broken(f"element {chosen[-1]} of an axis of {n}", "elements that exist")
    return [c.emit("gather", v, c.constant(chosen.astype(np.int64)), axis=axis)]


def _non_zero(c: Context, x: Inputs) -> Sequence[Operand]:
    try:
        a = np.atleast_1d(c.array(c.input(x, 0)))
    except NotConstant:
        return data_dependent.non_zero(c, x)
    return [Constant(np.stack(np.nonzero(a)).astype(np.int64), DType.I64)]


def _unique(c: Context, x: Inputs) -> Sequence[Operand]:
    try:
        a = c.array(c.input(x, 0))
    except NotConstant:
        return data_dependent.unique(c, x)
    dtype = c.input(x, 0).type.dtype
    axis = c.axis(c.integer("axis"), a.ndim) if "axis" in c.attrs else None
    values, first, back, counts = np.unique(
        a, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    back = back.reshape(-1)
    if not c.integer("sorted", 1):
        order = np.argsort(first, kind="stable")
        values = np.take(values, order, axis if axis is not None else 0)
        first, counts = first[order], counts[order]
        back = np.argsort(order, kind="stable")[back]
    rest: list[Array] = [first, back, counts]
    return [Constant(values, dtype), *(Constant(r.astype(np.int64), DType.I64) for r in rest)]


HANDLERS: dict[str, Handler] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "OneHot": _one_hot,
    "EyeLike": _eye_like,
    "Hardmax": _hardmax,
    "TopK": _top_k,
    "ReverseSequence": _reverse_sequence,
    "Compress": _compress,
    "NonZero": _non_zero,
    "Unique": _unique,
}
