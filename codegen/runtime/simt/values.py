"""C's meaning of scalar operators and literals, in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pycparser import c_ast as c

from didyma.codegen.runtime.simt.access import Value


def truth(v: Value) -> Value:
    """Return whether a value is true: not zero, of any type."""
    return v if np.asarray(v).dtype == np.bool_ else np.not_equal(v, 0)


def promote(v: Value) -> Value:
    """Convert a value narrower than int to int, as C does before arithmetic."""
    a = np.asarray(v)
    return a.astype(np.int32) if a.dtype == np.bool_ or a.dtype.itemsize < 4 else a


def divide(a: Value, b: Value) -> Value:
    """Divide as C does: integers round towards zero."""
    if np.result_type(a, b).kind == "f":
        return np.divide(a, b)
    q = np.floor_divide(a, b)
    return q + ((q < 0) & (q * b != a)).astype(q.dtype)


BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "/": divide,
    "%": np.fmod,
}


def literal(n: c.Constant) -> Value:
    """Return the value of a literal, in the dtype that its suffix and size give it."""
    text = n.value
    if n.type in ("float", "double"):
        return np.float32(text[:-1]) if text[-1] in "fF" else np.float64(text)
    number = int(text.rstrip("uUlL"), 0)
    suffix = text.lower()[len(text.rstrip("uUlL")) :]
    unsigned, long = "u" in suffix, "l" in suffix
    if unsigned:
        return np.uint64(number) if long or number >= 2**32 else np.uint32(number)
    return np.int64(number) if long or number >= 2**31 else np.int32(number)
