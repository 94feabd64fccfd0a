"""Algebraic rules that hold for every value: NaN, infinities, both zeros, integers that wrap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from didyma.codegen.decisions import Match
from didyma.codegen.passes.values import Values
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops import OPS


def _bits(value: float, dtype: DType) -> bytes:
    return np.array(value).astype(dtype.numpy).tobytes()


# By op and dtype: the position of each operand that may be neutral, and its bytes.
_NEUTRAL = {
    (op.name, dtype): tuple(
        (at, _bits(v.value, dtype))
        for v in op.laws.neutral
        if dtype in v.dtypes
        for at in v.operands
    )
    for op in OPS.values()
    for dtype in op.dtypes
}


NEUTRAL = tuple(
    Match(op.name, at, value=v.value)
    for op in OPS.values()
    for v in op.laws.neutral
    for at in v.operands
)
UNARY = (
    *(Match(op.name, source=op.name) for op in OPS.values() if op.laws.involution),
    *(
        Match(op.name, source=op.name)
        for op in OPS.values()
        if op.laws.idempotent and op.arity == (1, 1)
    ),
    Match("abs", source="negative"),
)
SAME = (
    *(Match(o.name, same=1) for o in OPS.values() if o.laws.idempotent and o.arity == (2, 2)),
    Match("where", operand=1, same=2),
)
CONDITION = (Match("where", value=1.0), Match("where", value=0.0))


def neutral(n: Node, values: Values) -> str | None:
    """Return one operand where the other is a neutral element: ``x * 1`` is ``x``.

    None where that operand would have to be broadcast.
    """
    if len(n.args) != 2:
        return None
    for at, bits in _NEUTRAL.get((n.op, n.types[0].dtype), ()):
        other = n.args[1 - at]
        if values.types[other] == n.types[0] and values.splat(n.args[at]) == bits:
            return other
    return None


def unary(n: Node, values: Values) -> Node | str | None:
    """Simplify ``--x`` to ``x``, and ``abs(abs(x))`` and ``abs(-x)`` to ``abs(x)``."""
    laws = OPS[n.op].laws
    if laws.involution:
        inner = values.source(n.args[0], n.op)
        return None if inner is None else inner.args[0]
    if len(n.args) == 1 and laws.idempotent and values.source(n.args[0], n.op) is not None:
        return n.args[0]
    inner = values.source(n.args[0], "negative") if n.op == "abs" else None
    # An unsigned -x wraps to another magnitude.
    return replace(n, args=inner.args) if inner and n.types[0].dtype.is_signed else None


def same(n: Node, values: Values) -> str | None:
    """Simplify ``x op x`` of an idempotent op, and ``where(c, x, x)``, to ``x`` of that shape."""
    pair = n.args[1:] if n.op == "where" else n.args if OPS[n.op].laws.idempotent else ()
    if len(pair) == 2 and pair[0] == pair[1] and values.types[pair[0]] == n.types[0]:
        return pair[0]
    return None


def condition(n: Node, values: Values) -> str | None:
    """Replace a ``where`` whose condition is constant by the operand chosen, if of that shape."""
    if n.op != "where":
        return None
    known = values.splat(n.args[0])
    if known is None:
        return None
    chosen = n.args[1] if known == b"\x01" else n.args[2]
    return chosen if values.types[chosen] == n.types[0] else None
