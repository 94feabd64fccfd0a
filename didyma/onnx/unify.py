"""Operands whose sizes must be equal and are written in different ways.

Where they are equal for all values of their symbols, one is read in the size of the other.  Where
only the run tells, such as a loop giving as many rows as another, the model relies on it: the
difference is bound to a symbol whose only value is 0, so that every level refuses other inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy

from didyma.onnx.values import as_value, sizes
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar, always_equal, roots
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.builder import Builder, Value
from didyma.refimpl.ops.spec import Kind


def equalised(
    b: Builder,
    op: str,
    args: Sequence[Value],
    attrs: Mapping[str, Attr],
    held: bool,
) -> list[Value] | None:
    """Return operands whose sizes match, ``held`` equal in the run where nothing else tells.

    None if nothing is to be done.  DidymaError ``shape-mismatch`` for two that cannot match, or
    that inputs tell.
    """
    told = b.told()
    found = list(args)
    for together, spread in _equal(op, args, attrs):
        many = {args[i].type.shape[axis]: None for i, axis in together}
        if spread:
            many.pop(1, None)
        names = {d: dims.free(d) for d in many}
        wanted = min(many, key=lambda d: (bool(names[d]), not told.issuperset(names[d])), default=1)
        for i, axis in together:
            d = args[i].type.shape[axis]
            if d == wanted or d not in many:
                continue
            same = agree(b, d, wanted)
            open_ = held and same is None and not told.issuperset(dims.free((d, wanted)))
            if not same and not open_:
                raise DidymaError(
                    "shape-mismatch", op, got=f"sizes {wanted} and {d} on axis {axis}",
                    want="sizes that are equal",
                )  # fmt: skip
            found[i] = (taken if same else _held)(b, found[i], axis, wanted)
    return found if found != list(args) else None


def _equal(
    op: str, args: Sequence[Value], attrs: Mapping[str, Attr]
) -> Iterator[tuple[list[tuple[int, int]], bool]]:
    """Operands and axes of one size, and whether a size of 1 spreads to that of the others."""
    ranks = [a.type.rank for a in args]
    if op == "matmul" and min(ranks) > 0:
        yield [(0, ranks[0] - 1), (1, max(ranks[1] - 2, 0))], False
    if op == "concat" and len(set(ranks)) == 1:
        for axis in {*range(ranks[0])} - {attrs["axis"]}:
            yield [(i, axis) for i in range(len(args))], False
    if OPS[op].kind is Kind.ELEMENTWISE or op == "matmul":
        for back in range(3 if op == "matmul" else 1, max(ranks) + 1):
            yield [(i, rank - back) for i, rank in enumerate(ranks) if back <= rank], True


def agree(b: Builder, d: Dim, wanted: Dim) -> bool | None:
    """Tell whether two sizes are always equal, or never.

    A table of so many rows, of which an input takes the first, says how long the input can be, and
    a part that is cut off how long it must be: then the symbol's range is made so small, but for
    what is in a branch, which may not be taken.
    """
    ranges = b.ranges()
    same = always_equal(d, wanted, ranges)
    more: Any = dims.sub(d, wanted)
    if same is not None or not more.has(sympy.Min, sympy.Max) or len(names := dims.free(more)) != 1:
        return same
    fitting = roots(more, *ranges[names[0]])
    if len(fitting) < 2 or names[0] not in b.told() or b.parent is not None:
        return None
    b.know([DimVar(names[0], fitting[0], fitting[-1])])
    return True


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


def _held(b: Builder, v: Value, axis: int, want: Dim) -> Value:
    """Take all of an axis, which the run must find to have so many elements."""
    more = as_value(b, sizes([dims.sub(v.type.shape[axis], want)]))
    zero = b.bind(b("reshape", [more], shape=()), 0, "unequal")
    places = b("iota", [], dtype=DType.I64, shape=(want,), axis=0)
    first = as_value(b, sizes([zero]))
    return b("gather", [v, b("add", [places, first])], axis=axis)
