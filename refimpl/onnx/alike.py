"""Operands whose sizes must be equal, where only the run tells whether they are.

Two loops may give as many rows each, or a count be what a formula says: the model relies on it, and
nothing at import tells.  The difference is bound to a symbol whose only value is 0, so that every
level refuses other inputs; then the operand is read as one of the size wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.ir.types import DType
from refimpl.onnx.values import as_value, sizes
from refimpl.ops.builder import Builder, Value


def broadcast(b: Builder, args: Sequence[Value]) -> list[Value] | None:
    """Return operands that broadcast, or None if sizes told by inputs keep them from it."""
    told = b.told()
    wanted: list[Dim] = []  # from the last axis on
    for shape in zip_longest(*(reversed(a.type.shape) for a in args), fillvalue=1):
        many = [d for d in dict.fromkeys(shape) if d != 1]
        fixed = [d for d in many if told.issuperset(dims.free(d))]
        if len(fixed) > 1:
            return None
        wanted.append((fixed or many or [1])[0])
    return [_like(b, a, wanted[: a.type.rank][::-1]) for a in args]


def settled(b: Builder, args: Sequence[Value]) -> list[Value] | None:
    """Return operands whose sizes are numbers where ranges leave but one; None if all are so."""
    found: list[Value] = []
    for v in args:
        for axis, d in enumerate(v.type.shape):
            low, high = dims.bounds(d, b.ranges())
            if low == high and d != low:
                v = taken(b, v, axis, low)
        found.append(v)
    return found if found != list(args) else None


def taken(b: Builder, v: Value, axis: int, count: Dim) -> Value:
    """Take the first elements of an axis, which has so many."""
    places = b("iota", [], dtype=DType.I64, shape=(count,), axis=0)
    return b("gather", [v, places], axis=axis)


def _like(b: Builder, v: Value, shape: Sequence[Dim]) -> Value:
    for axis, (d, want) in enumerate(zip(v.type.shape, shape, strict=True)):
        if d in (1, want):
            continue
        more = b("reshape", [as_value(b, sizes([dims.sub(d, want)]))], shape=())
        zero = b.bind(more, 0, "unequal")
        places = b("iota", [], dtype=DType.I64, shape=(want,), axis=0)
        first = as_value(b, sizes([zero]))
        v = b("gather", [v, b("add", [places, first])], axis=axis)
    return v
