"""Operands whose sizes must be equal and are written differently.

Where two sizes are equal for all values of their symbols, one operand is read in the size of the
other.  Where only the run decides it, such as two loops that yield as many rows, the model relies
on it: the difference is bound to a symbol whose only value is 0, so that every level refuses other
inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy

from didyma.composites.builder import Builder, Value
from didyma.onnx.values import as_value, sizes
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar, always_equal, roots
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.rules import unequal_sizes
from didyma.refimpl.ops.spec import Kind


def unify_sizes(
    b: Builder,
    op: str,
    args: Sequence[Value],
    attrs: Mapping[str, Attr],
    runtime_checks: bool,
) -> list[Value] | None:
    """Return operands of an op whose sizes match; None if they match already.

    With ``runtime_checks``, data-dependent sizes are compared at run time where nothing else
    decides whether they are equal.  Raises ``ShapeMismatch`` for two sizes that are never equal, or
    that inputs decide.
    """
    input_symbols = b.input_symbols()
    found = list(args)
    for together, broadcasts in _equal_axes(op, args, attrs):
        sizes = {args[i].type.shape[axis]: None for i, axis in together}
        if broadcasts:
            sizes.pop(1, None)
        names = {d: dims.free(d) for d in sizes}
        wanted = min(
            sizes,
            key=lambda d: (bool(names[d]), not input_symbols.issuperset(names[d]), _is_clipped(d)),
            default=1,
        )  # a number is best, then a size of inputs, and of these one that is no minimum of others
        for i, axis in together:
            d = args[i].type.shape[axis]
            if d == wanted or d not in sizes:
                continue
            same = equal_in_range(b, d, wanted)
            data_dependent = not input_symbols.issuperset(dims.free((d, wanted)))
            checked = runtime_checks and same is None and data_dependent
            if not same and not checked:
                raise unequal_sizes(op, wanted, d, axis)
            found[i] = (first_elements if same else _checked)(b, found[i], axis, wanted)
    return found if found != list(args) else None


def _is_clipped(d: Dim) -> bool:
    """Return whether a size is computed of minima or maxima."""
    size: Any = d
    return isinstance(d, sympy.Expr) and bool(size.has(sympy.Min, sympy.Max))


def _equal_axes(
    op: str, args: Sequence[Value], attrs: Mapping[str, Attr]
) -> Iterator[tuple[list[tuple[int, int]], bool]]:
    """Yield operands and axes of one size, and whether a size of 1 is broadcast to the others."""
    ranks = [a.type.rank for a in args]
    if op == "matmul" and min(ranks) > 0:
        yield [(0, ranks[0] - 1), (1, max(ranks[1] - 2, 0))], False
    if op == "concat" and len(set(ranks)) == 1:
        for axis in {*range(ranks[0])} - {attrs["axis"]}:
            yield [(i, axis) for i in range(len(args))], False
    if OPS[op].kind is Kind.ELEMENTWISE or op == "matmul":
        for back in range(3 if op == "matmul" else 1, max(ranks) + 1):
            yield [(i, rank - back) for i, rank in enumerate(ranks) if back <= rank], True


def equal_in_range(b: Builder, d: Dim, wanted: Dim) -> bool | None:
    """Return whether two sizes are always equal (True) or never (False); None if unknown.

    The range of an input's symbol is narrowed if that makes the sizes equal and a minimum or
    maximum decides it: the first n rows of a table of 512 say that n is at most 512.  In a branch,
    which may not be taken, no range is narrowed.
    """
    ranges = b.ranges()
    same = always_equal(d, wanted, ranges)
    more: Any = dims.sub(d, wanted)
    if same is not None or not _is_clipped(more) or len(names := dims.free(more)) != 1:
        return same
    fitting = roots(more, *ranges[names[0]])
    if len(fitting) < 2 or names[0] not in b.input_symbols() or b.parent is not None:
        return None
    b.know([DimVar(names[0], fitting[0], fitting[-1])])
    return True


def with_fixed_sizes(b: Builder, args: Sequence[Value]) -> list[Value] | None:
    """Return operands with numbers for sizes whose range has one value; None if there are none."""
    fixed: list[Value] = []
    for v in args:
        for axis, d in enumerate(v.type.shape):
            low, high = dims.bounds(d, b.ranges())
            if low == high and d != low:
                v = first_elements(b, v, axis, low)
        fixed.append(v)
    return fixed if fixed != list(args) else None


def first_elements(b: Builder, v: Value, axis: int, count: Dim) -> Value:
    """Return the first ``count`` elements of an axis."""
    positions = b("iota", [], dtype=DType.I64, shape=(count,), axis=0)
    return b("gather", [v, positions], axis=axis)


def _checked(b: Builder, v: Value, axis: int, wanted: Dim) -> Value:
    """Return all of an axis, whose size a run compares with the one wanted."""
    difference = as_value(b, sizes([dims.sub(v.type.shape[axis], wanted)]))
    zero = b.bind(b("reshape", [difference], shape=()), 0, "unequal")
    positions = b("iota", [], dtype=DType.I64, shape=(wanted,), axis=0)
    first = as_value(b, sizes([zero]))
    return b("gather", [v, b("add", [positions, first])], axis=axis)
