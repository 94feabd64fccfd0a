"""Nodes on tensors that are known at import: shape arithmetic, with sizes kept symbolic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from didyma.onnx.context import Context
from didyma.onnx.tensors import dtype_of
from didyma.onnx.values import Known, settle
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, Ranges, always_equal, never_negative
from didyma.refimpl.ir.types import Array, DType

MOST_TERMS = 64  # of a size: products of sums grow without end, and are left to the run

Operands: TypeAlias = Sequence[Known | None]
Handler: TypeAlias = Callable[[Context, Operands], Known | None]
Tell: TypeAlias = Callable[[Dim, Dim, Ranges], bool | None]  # of two sizes; None if not known


def _arrays(operands: Operands) -> list[Array]:
    return [k.array for k in operands if k is not None]


def _at(operands: Operands, i: int) -> Known:
    k = operands[i]
    assert k is not None
    return k


def _first(operands: Operands) -> Known:
    return _at(operands, 0)


def _symbolic(operands: Operands) -> bool:
    return any(k is not None and k.array.dtype == object for k in operands)


def _cast(c: Context, x: Operands) -> Known | None:
    to = dtype_of(c.integer("to"), c.where)
    k = _first(x)
    if to.is_packed:
        return None
    if k.symbolic:
        return Known(k.array, to) if to.is_int else None
    return Known(k.array.astype(to.numpy), to) if to.is_int or to is DType.BOOL else None


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


def _long(a: Array) -> int:
    """Count the terms of the longest of some sizes."""
    return 1 if a.dtype != object else max((dims.terms(_dim(d)) for d in a.flat), default=1)


def _arithmetic(f: Callable[[object, object], object]) -> Handler:
    def run(c: Context, x: Operands) -> Known | None:
        del c
        a, b = _arrays(x)
        if _first(x).dtype is DType.BOOL or _long(a) * _long(b) > MOST_TERMS:
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


def _truncated(x: Dim, y: Dim) -> Dim:
    """Quotient of sizes rounded towards zero, as ONNX divides integers; by zero it is 0."""
    if isinstance(y, int) and y <= 0:
        return 0 if y == 0 else _truncated(dims.mul(x, -1), -y)
    if isinstance(x, int) and isinstance(y, int):
        return x // y if x >= 0 else -(-x // y)
    below = dims.mul(x, -1)
    if never_negative(x):
        return dims.floordiv(x, y)
    if never_negative(below):
        return dims.mul(dims.floordiv(below, y), -1)
    parts = (dims.floordiv(dims.maximum(side, 0), y) for side in (x, below))
    return dims.sub(*parts)


def _div(c: Context, x: Operands) -> Known | None:
    """Divide; a divisor that may not be positive is left to the run."""
    if any(not isinstance(d, int) and c.bounds(d)[0] < 1 for d in _at(x, 1).dims()):
        return None
    return _arithmetic(lambda a, b: _truncated(_dim(a), _dim(b)))(c, x)


def _mod(c: Context, x: Operands) -> Known | None:
    """Remainder with the sign of the divisor, which must be a positive number if any is a size."""
    if c.flag("fmod") or not _symbolic(x):
        return None
    if not all(isinstance(d, int) and d > 0 for d in _at(x, 1).dims()):
        return None
    return _arithmetic(_remainder)(c, x)


def _remainder(a: object, b: object) -> object:
    x, y = _dim(a), _dim(b)
    return dims.sub(x, dims.mul(y, dims.floordiv(x, y)))


def _extreme(pick: Callable[..., Dim]) -> Handler:
    def run(c: Context, x: Operands) -> Known | None:
        del c
        if not _symbolic(x):
            return None
        total = _arrays(x)[0].astype(object)
        for other in _arrays(x)[1:]:
            total = np.asarray(np.frompyfunc(pick, 2, 1)(total, other.astype(object)), object)
        return settle(total, _first(x).dtype)

    return run


def _least(a: object, b: object) -> Dim:
    return dims.minimum(dims.canonical(a), dims.canonical(b))


def _most(a: object, b: object) -> Dim:
    return dims.maximum(dims.canonical(a), dims.canonical(b))


def _compare(tell: Tell) -> Handler:
    """Compare sizes, where nothing but their ranges is needed."""

    def run(c: Context, x: Operands) -> Known | None:
        a, b = np.broadcast_arrays(*(k.astype(object) for k in _arrays(x)))
        found: list[bool] = []
        ranges = c.builder.ranges()
        for m, n in zip(a.reshape(-1), b.reshape(-1), strict=True):
            verdict = tell(_dim(m), _dim(n), ranges)
            if verdict is None:
                return None
            found.append(verdict)
        return Known(np.array(found, np.bool_).reshape(a.shape), DType.BOOL)

    return run


def _dim(x: Any) -> Dim:
    number: Any = x
    return dims.canonical(int(number) if isinstance(x, (bool, np.generic)) else number)


def _less(a: Dim, b: Dim, ranges: Ranges) -> bool | None:
    more = dims.sub(b, a)
    low, high = dims.bounds(more, ranges)
    if low > 0 or never_negative(dims.sub(more, 1)):
        return True
    return False if high <= 0 or never_negative(dims.mul(more, -1)) else None


def _greater(a: Dim, b: Dim, ranges: Ranges) -> bool | None:
    return _less(b, a, ranges)


def _negated(tell: Tell) -> Tell:
    def run(a: Dim, b: Dim, ranges: Ranges) -> bool | None:
        verdict = tell(a, b, ranges)
        return None if verdict is None else not verdict

    return run


def _not(c: Context, x: Operands) -> Known | None:
    del c
    return Known(np.asarray(np.logical_not(_first(x).array)), DType.BOOL)


def _where(c: Context, x: Operands) -> Known | None:
    del c
    condition, a, b = _arrays(x)
    dtype = x[1].dtype if x[1] is not None else DType.I64
    picked = np.where(condition.astype(np.bool_), a.astype(object), b.astype(object))
    return settle(np.asarray(picked, object), dtype) if dtype.is_int else None


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
    "Add": _arithmetic(_add),
    "Sub": _arithmetic(_sub),
    "Mul": _arithmetic(_mul),
    "Div": _div,
    "Mod": _mod,
    "Min": _extreme(_least),
    "Max": _extreme(_most),
    "Equal": _compare(always_equal),
    "Less": _compare(_less),
    "Greater": _compare(_greater),
    "LessOrEqual": _compare(_negated(_greater)),
    "GreaterOrEqual": _compare(_negated(_less)),
    "Not": _not,
    "Where": _where,
    "ReduceProd": _reduce_prod,
}
