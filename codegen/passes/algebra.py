"""Algebraic rules that hold for every value: NaN, infinities, both zeros, integers that wrap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from didyma.codegen.passes.values import Values
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import DType

INVOLUTIONS = frozenset(("negative", "bitwise_invert", "logical_not"))
IDEMPOTENT = frozenset(("abs", "floor", "ceil", "trunc", "round", "sign"))
SAME = frozenset(["maximum", "minimum", "bitwise_and", "bitwise_or", "logical_and", "logical_or"])

# (op, operand, float only or integer only or bool only, value): x op value is x.  Not x + 0 on
# floats, which turns -0 into 0; x + -0 and x - 0 keep it.
NEUTRAL: tuple[tuple[str, int, str, float], ...] = (
    ("multiply", 0, "fi", 1),
    ("multiply", 1, "fi", 1),
    ("divide", 1, "f", 1),
    ("add", 0, "i", 0),
    ("add", 1, "i", 0),
    ("add", 0, "f", -0.0),
    ("add", 1, "f", -0.0),
    ("subtract", 1, "fi", 0.0),
    ("floor_divide", 1, "i", 1),
    ("trunc_divide", 1, "i", 1),
    ("bitwise_left_shift", 1, "i", 0),
    ("bitwise_right_shift", 1, "i", 0),
    ("bitwise_or", 0, "i", 0),
    ("bitwise_or", 1, "i", 0),
    ("bitwise_xor", 0, "i", 0),
    ("bitwise_xor", 1, "i", 0),
    ("bitwise_and", 0, "i", -1),
    ("bitwise_and", 1, "i", -1),
    ("logical_or", 0, "b", False),
    ("logical_or", 1, "b", False),
    ("logical_xor", 0, "b", False),
    ("logical_xor", 1, "b", False),
    ("logical_and", 0, "b", True),
    ("logical_and", 1, "b", True),
)


def _class(dtype: DType) -> str:
    return "f" if dtype.is_float else "i" if dtype.is_int else "b"


def _bits(value: float, dtype: DType) -> bytes:
    return np.array(value).astype(dtype.numpy).tobytes()


def _neutral_table() -> dict[tuple[str, DType], tuple[tuple[int, bytes], ...]]:
    table: dict[tuple[str, DType], tuple[tuple[int, bytes], ...]] = {}
    for op, at, classes, value in NEUTRAL:
        for dtype in DType:
            if _class(dtype) in classes:
                old = table.get((op, dtype), ())
                table[op, dtype] = (*old, (at, _bits(value, dtype)))
    return table


_NEUTRAL = _neutral_table()


def neutral(n: Node, values: Values) -> str | None:
    """Return the operand of an op whose other operand does nothing, where the shapes agree."""
    if len(n.args) != 2:
        return None
    for at, bits in _NEUTRAL.get((n.op, n.types[0].dtype), ()):
        other = n.args[1 - at]
        if values.types[other] == n.types[0] and values.splat(n.args[at]) == bits:
            return other
    return None


def unary(n: Node, values: Values) -> Node | str | None:
    """--x is x, abs(abs(x)) is abs(x), a signed abs(-x) is abs(x)."""
    if n.op in INVOLUTIONS:
        inner = values.source(n.args[0], n.op)
        return None if inner is None else inner.args[0]
    if n.op in IDEMPOTENT and values.source(n.args[0], n.op) is not None:
        return n.args[0]
    inner = values.source(n.args[0], "negative") if n.op == "abs" else None
    # An unsigned -x wraps to another magnitude.
    return replace(n, args=inner.args) if inner and n.types[0].dtype.is_signed else None


def same(n: Node, values: Values) -> str | None:
    """x op x is x for the ops of ``SAME``; where(c, x, x) is x, if it is not broadcast."""
    pair = n.args[1:] if n.op == "where" else n.args if n.op in SAME else ()
    if len(pair) == 2 and pair[0] == pair[1] and values.types[pair[0]] == n.types[0]:
        return pair[0]
    return None


def condition(n: Node, values: Values) -> str | None:
    """Where(true, x, y) is x, if it is not broadcast."""
    if n.op != "where":
        return None
    known = values.splat(n.args[0])
    if known is None:
        return None
    chosen = n.args[1] if known == b"\x01" else n.args[2]
    return chosen if values.types[chosen] == n.types[0] else None
