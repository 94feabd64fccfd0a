"""C's meaning of scalar operators, conversions and literals, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pycparser import c_ast as c

from didyma.codegen.emit.intrinsics import TYPES
from didyma.codegen.runtime.simt import intrinsics
from didyma.codegen.runtime.simt.access import Value
from didyma.codegen.runtime.simt.memory import Lanes

Fn: TypeAlias = Callable[..., Value]

NUMPY: dict[str, np.dtype[Any]] = {
    name: np.dtype(intrinsics.NUMPY_OF_C[text]) for name, text in TYPES.items()
}


class Arithmetic(Protocol):
    """What the values of kernel text are, and what C's operators and the intrinsics do with them.

    Types are named as kernel text names them.
    """

    def zeros(self, type_name: str, size: int) -> Lanes:
        """Return values of which nobody may read one before it is set."""
        ...

    def memory(self, type_name: str, size: int) -> tuple[Lanes, Lanes | None]:
        """Return fresh elements, and their payloads if they have any."""
        ...

    def converter(self, type_name: str) -> Fn:
        """Return the conversion of a value to a type."""
        ...

    def literal(self, n: c.Constant) -> Value:
        """Return the value of a literal."""
        ...

    def binary(self, op: str) -> Fn:
        """Return what one of C's operators does."""
        ...

    def negative(self, v: Value) -> Value:
        """Return ``-v``."""
        ...

    def choose(self, cond: Value, then: Value, other: Value) -> Value:
        """Return ``cond ? then : other``."""
        ...

    def function(self, name: str) -> Fn:
        """Return what an intrinsic computes from arguments of the types that it declares."""
        ...


class Plain:
    """Values are numbers: storage floats are their bits."""

    def zeros(self, type_name: str, size: int) -> Lanes:
        """Return zeros."""
        return np.zeros(size, NUMPY[type_name])

    def memory(self, type_name: str, size: int) -> tuple[Lanes, Lanes | None]:
        """Return fresh elements, which are zeros."""
        return np.zeros(size, NUMPY[type_name]), None

    def converter(self, type_name: str) -> Fn:
        """Return the conversion of a value to a type."""
        dtype = NUMPY[type_name]

        def convert(v: Value) -> Value:
            return np.asarray(v).astype(dtype)[()]

        return convert

    def literal(self, n: c.Constant) -> Value:
        """Return the value of a literal."""
        return literal(n)

    def binary(self, op: str) -> Fn:
        """Return what one of C's operators does."""
        return BINARY[op]

    def negative(self, v: Value) -> Value:
        """Return ``-v``."""
        return np.negative(v)

    def choose(self, cond: Value, then: Value, other: Value) -> Value:
        """Return ``cond ? then : other``."""
        return np.where(cond, np.asarray(then), np.asarray(other))

    def function(self, name: str) -> Fn:
        """Return what an intrinsic computes from arguments of the types that it declares."""
        return intrinsics.function(name)


def truth(v: Value) -> Value:
    """Return whether a value is true: not zero, of any type."""
    if np.asarray(v).dtype == np.bool_:
        return v
    return np.not_equal(v if v.dtype.names is None else v["value"], 0)


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


_INEXACT: dict[str, Fn] = {"+": np.add, "-": np.subtract, "*": np.multiply}


def overflown(op: str, a: Value, b: Value, result: Value) -> NDArray[np.bool_] | None:
    """Return where signed integers have a sum, difference or product that their type cannot hold.

    None for other operators and types.  What wraps is a power of two away from what is exact, which
    the rounding of doubles does not hide.
    """
    dtype = np.asarray(result).dtype
    if op not in _INEXACT or dtype.kind != "i":
        return None
    exact = _INEXACT[op](np.asarray(a, np.float64), np.asarray(b, np.float64))
    return np.asarray(np.abs(exact - result) > 2.0 ** (8 * dtype.itemsize - 2))


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


def is_int(n: c.Node) -> bool:
    """Return whether an expression is an int literal in decimal, or a choice of such."""
    match n:
        case c.Constant():
            return n.type == "int" and n.value.isdecimal()
        case c.UnaryOp():
            return n.op == "-" and is_int(n.expr)
        case c.TernaryOp():
            return is_int(n.iftrue) and is_int(n.iffalse)
        case _:
            return False
