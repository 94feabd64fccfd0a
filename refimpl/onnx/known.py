"""Nodes on tensors that are known at import: shape arithmetic, with sizes kept symbolic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from refimpl.ir import dims
from refimpl.ir.types import Array, DType
from refimpl.onnx.context import Context
from refimpl.onnx.tensors import dtype_of
from refimpl.onnx.values import Known, settle

Operands: TypeAlias = Sequence[Known | None]
Handler: TypeAlias = Callable[[Context, Operands], Known | None]


def _arrays(operands: Operands) -> list[Array]:
    return [k.array for k in operands if k is not None]


def _first(operands: Operands) -> Known:
    k = operands[0]
    assert k is not None
    return k


def _symbolic(operands: Operands) -> bool:
    return any(k is not None and k.array.dtype == object for k in operands)


def _cast(c: Context, x: Operands) -> Known | None:
    to = dtype_of(int(c.attrs["to"]), c.where)
    k = _first(x)
    if not to.is_int or k.dtype is DType.BOOL:
        return None
    return Known(k.array, to) if _symbolic(x) else Known(k.array.astype(to.numpy), to)


def _concat(c: Context, x: Operands) -> Known | None:
    parts = [a.astype(object) for a in _arrays(x)]
    return settle(np.concatenate(parts, int(c.attrs["axis"])), _first(x).dtype)


def _axes(c: Context, x: Operands) -> tuple[int, ...]:
    if len(x) > 1 and x[1] is not None:
        return c.ints(x[1])
    return tuple(c.attrs.get("axes", ()))


def _unsqueeze(c: Context, x: Operands) -> Known | None:
    k = _first(x)
    axes = _axes(c, x)
    return Known(np.expand_dims(k.array, axes), k.dtype)


def _squeeze(c: Context, x: Operands) -> Known | None:
    k = _first(x)
    return Known(np.squeeze(k.array, _axes(c, x) or None), k.dtype)


def _gather(c: Context, x: Operands) -> Known | None:
    k, at = x[0], x[1]
    assert k is not None
    assert at is not None
    if _symbolic([at]):
        return None
    axis = c.integer("axis", 0)
    n = k.array.shape[axis]
    if at.array.size and not (at.array.min() >= -n and at.array.max() < n):
        raise c.bad(f"index {at.array.tolist()} into {n} elements", "indices in range")
    taken = np.take(k.array, at.array.astype(np.int64), axis)
    return settle(np.asarray(taken, k.array.dtype), k.dtype)


def _slice(c: Context, x: Operands) -> Known | None:
    k = _first(x)
    if len(x) > 1:
        bounds = [None if i is None else c.ints(i) for i in x[1:]]
        starts, ends = bounds[0] or (), bounds[1] or ()
        axes = (bounds[2] if len(bounds) > 2 else None) or tuple(range(len(starts)))
        steps = (bounds[3] if len(bounds) > 3 else None) or (1,) * len(starts)
    else:
        starts, ends = tuple(c.attrs["starts"]), tuple(c.attrs["ends"])
        axes = tuple(c.attrs.get("axes", range(len(starts))))
        steps = (1,) * len(starts)
    at = [slice(None)] * k.array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        low_end = step < 0 and end < -(2**30)
        at[axis] = slice(start, None if low_end else end, step)
    return Known(k.array[tuple(at)], k.dtype)


def _reshape(c: Context, x: Operands) -> Known | None:
    k, to = x[0], x[1]
    assert k is not None
    assert to is not None
    shape = c.ints(to)
    shape = tuple(k.array.shape[i] if s == 0 else s for i, s in enumerate(shape))
    return Known(k.array.reshape(shape), k.dtype)


def _identity(c: Context, x: Operands) -> Known | None:
    del c
    return _first(x)


def _arithmetic(f: Callable[[object, object], object]) -> Handler:
    def run(c: Context, x: Operands) -> Known | None:
        del c
        a, b = _arrays(x)
        if _first(x).dtype is DType.BOOL:
            return None
        both = np.frompyfunc(f, 2, 1)(a.astype(object), b.astype(object))
        return settle(np.asarray(both, object), _first(x).dtype)

    return run


def _add(a: object, b: object) -> object:
    return dims.add(dims.canonical(a), dims.canonical(b))


def _sub(a: object, b: object) -> object:
    return dims.sub(dims.canonical(a), dims.canonical(b))


def _mul(a: object, b: object) -> object:
    return dims.mul(dims.canonical(a), dims.canonical(b))


def _div(a: object, b: object) -> object:
    # Sizes are nonnegative, for which ONNX's truncating division is the rounding down of dims.
    x, y = dims.canonical(a), dims.canonical(b)
    if isinstance(x, int) and isinstance(y, int):
        return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return dims.floordiv(x, y)


def _reduce_prod(c: Context, x: Operands) -> Known | None:
    k = _first(x)
    if k.array.ndim != 1:
        return None
    total = np.empty((1,) if c.attrs.get("keepdims", 1) else (), object)
    total[...] = dims.mul(*k.dims())
    return settle(total, k.dtype)


HANDLERS: dict[str, Handler] = {
    "Cast": _cast,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Gather": _gather,
    "Slice": _slice,
    "Reshape": _reshape,
    "Identity": _identity,
    "Add": _arithmetic(_add),
    "Sub": _arithmetic(_sub),
    "Mul": _arithmetic(_mul),
    "Div": _arithmetic(_div),
    "ReduceProd": _reduce_prod,
}
