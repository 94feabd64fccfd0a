"""Values of index expressions everywhere at once: the definition, by NumPy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from didyma.refimpl.ir.loop import Binary, Const, Expr, Var
from didyma.refimpl.ir.types import Array


def evaluate(e: Expr, values: Mapping[str, Array]) -> Array:
    """Return the values of an index expression, given those of its variables.

    ``x // 0`` and ``x mod 0`` are 0.  AssertionError for what is no index arithmetic.
    """
    match e:
        case Const(value):
            return np.asarray(value, np.int64)
        case Var(name):
            return values[name]
        case Binary(op, lhs, rhs):
            a, b = evaluate(lhs, values), evaluate(rhs, values)
            return _arithmetic(op, a, b)
        case _:
            raise AssertionError(f"no index arithmetic: {e}")


def _arithmetic(op: str, a: Array, b: Array) -> Array:
    match op:
        case "add":
            return np.asarray(a + b)
        case "sub":
            return np.asarray(a - b)
        case "mul":
            return np.asarray(a * b)
        case "min":
            return np.minimum(a, b)
        case "max":
            return np.maximum(a, b)
        case "floordiv" | "floormod":
            f = np.floor_divide if op == "floordiv" else np.mod
            return np.asarray(np.where(b == 0, 0, f(a, np.where(b == 0, 1, b))))
        case _:
            raise AssertionError(f"no index arithmetic: {op}")
