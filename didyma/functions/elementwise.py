"""Functions of each element alone, named after the Python Array API standard."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from didyma.composites import complex as complexes
from didyma.composites import numeric
from didyma.functions.axes import Operand, composed
from didyma.functions.complex_pairs import Complex, mark, refusal
from didyma.functions.creation import numbers
from didyma.functions.public import public, wrong
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops import OPS
from didyma.tracer.tensor import Tensor, apply, promote, scalar, together

Unary: TypeAlias = Callable[[Tensor], Tensor]
Binary: TypeAlias = Callable[[Operand, Operand], Tensor]


def named(f: Any, name: str, op: str, more: str = "") -> Any:
    """Name a function after an op, and document it from the op's record."""
    record = OPS[op]
    call = f"dd.{name}({'x' if record.arity == (1, 1) else 'x1, x2'})"
    f.__name__ = f.__qualname__ = name
    f.__doc__ = "\n\n".join(
        (
            record.doc,
            f"dtypes: {', '.join(record.dtypes)}{more}. Operands are promoted and broadcast.",
            f"Special values: {record.special}",
            f"Example: ``{call}``; see ``didyma ops {op}``. Errors: ``dtype-mismatch``, "
            "``shape-mismatch``.",
        )
    )
    return public(f)


def _unary(op: str) -> Unary:
    def f(x: Tensor, /) -> Tensor:
        return _of_complex(op, x) if isinstance(x, Complex) else apply(op, x)

    made: Unary = named(f, op, op)
    return made


def _of_reals(op: str, of_int: Callable[[Tensor], Tensor]) -> Unary:
    """Return a function of floats that the standard defines on integers, too."""

    def f(x: Tensor, /) -> Tensor:
        if isinstance(x, Complex):
            return _of_complex(op, x)
        return of_int(x) if x.value.type.dtype.is_int else apply(op, x)

    made: Unary = named(f, op, op, ", and all integers")
    return made


def _binary(op: str) -> Binary:
    def f(x1: Operand, x2: Operand, /) -> Tensor:
        if isinstance(x1, Complex) or isinstance(x2, Complex):
            return _of_two(op, x1, x2)
        return apply(op, *tensors(x1, x2))

    made: Binary = named(f, op, op)
    return made


def _of_complex(op: str, z: Complex) -> Tensor:
    """Apply what a function is for complex numbers; DidymaError ``complex-operand`` if nothing."""
    match op:
        case "abs":
            return builtins.abs(z)
        case "negative":
            return -z
        case "exp":
            return mark(composed(complexes.exp, z))
        case _:
            raise refusal(f"complex numbers given to dd.{op}", "see dd.complex")


def _of_two(op: str, x: Any, y: Any) -> Tensor:
    result: Tensor
    match op:
        case "add":
            result = x + y
        case "subtract":
            result = x - y
        case "multiply":
            result = x * y
        case "divide":
            result = x / y
        case _:
            raise refusal(f"complex numbers given to dd.{op}", "see dd.complex")
    return result


def tensors(a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """Bring two operands, one a tensor, to one dtype; DidymaError ``bad-call`` for numbers."""
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        raise wrong("an elementwise function", f"{a!r} and {b!r}", "a tensor and another operand",
                    "dd.asarray makes a tensor of a number")  # fmt: skip
    return together(a, b)


def _constants(a: Operand, b: Operand) -> list[Tensor]:
    """Return two numbers as constants of one dtype: f32, i64 or bool."""
    both = [numbers(v) for v in (a, b)]
    return [t.astype(_default(both)) for t in both]


def _default(values: Sequence[Tensor]) -> DType:
    kinds = [v.value.type.dtype for v in values]
    order = (DType.F32, DType.I64, DType.BOOL)
    return next(d for d in order if d in kinds)


def _itself(x: Tensor) -> Tensor:
    return x


def _never(x: Tensor) -> Tensor:
    return apply("not_equal", x, x)


def _always(x: Tensor) -> Tensor:
    return apply("equal", x, x)


abs, negative, sign, square = (_unary(n) for n in ("abs", "negative", "sign", "square"))
reciprocal, sqrt, rsqrt = (_unary(n) for n in ("reciprocal", "sqrt", "rsqrt"))
exp, exp2, expm1 = (_unary(n) for n in ("exp", "exp2", "expm1"))
log, log2, log10, log1p = (_unary(n) for n in ("log", "log2", "log10", "log1p"))
sin, cos, tan = (_unary(n) for n in ("sin", "cos", "tan"))
asin, acos, atan = (_unary(n) for n in ("asin", "acos", "atan"))
sinh, cosh, tanh = (_unary(n) for n in ("sinh", "cosh", "tanh"))
asinh, acosh, atanh = (_unary(n) for n in ("asinh", "acosh", "atanh"))
erf, signbit, logical_not = (_unary(n) for n in ("erf", "signbit", "logical_not"))
bitwise_invert = _unary("bitwise_invert")
floor, ceil, trunc = (_of_reals(n, _itself) for n in ("floor", "ceil", "trunc"))
round = _of_reals("round", _itself)
isnan, isinf = (_of_reals(n, _never) for n in ("isnan", "isinf"))
isfinite = _of_reals("isfinite", _always)

add, subtract, multiply = (_binary(n) for n in ("add", "subtract", "multiply"))
divide, floor_divide = _binary("divide"), _binary("floor_divide")
trunc_divide, remainder, fmod = (_binary(n) for n in ("trunc_divide", "remainder", "fmod"))
pow, atan2, copysign = (_binary(n) for n in ("pow", "atan2", "copysign"))
maximum, minimum = _binary("maximum"), _binary("minimum")
equal, not_equal = _binary("equal"), _binary("not_equal")
less, less_equal = _binary("less"), _binary("less_equal")
greater, greater_equal = _binary("greater"), _binary("greater_equal")
logical_and, logical_or, logical_xor = (_binary(f"logical_{n}") for n in ("and", "or", "xor"))
bitwise_and, bitwise_or, bitwise_xor = (_binary(f"bitwise_{n}") for n in ("and", "or", "xor"))
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_right_shift = _binary("bitwise_right_shift")


@public
def positive(x: Tensor, /) -> Tensor:
    """Return ``x``, of any numeric dtype, as it is.

    Example: ``dd.positive(x)``.  Errors: ``bad-call`` for bools.
    """
    if x.value.type.dtype is DType.BOOL:
        raise wrong("dd.positive", "a bool tensor", "numbers", "call astype on it first")
    return x


@public
def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """Square root of the sum of squares, computed so that nothing overflows on the way.

    Floats, promoted and broadcast.  An infinity gives infinity even beside NaN, as in C.
    Example: ``dd.hypot(x, y)``.  Errors: ``dtype-mismatch``, ``shape-mismatch``.
    """
    return composed(numeric.hypot, *tensors(x1, x2))


@public
def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """Logarithm of the sum of exponentials of two operands, without forming them.

    Floats, promoted and broadcast.  Example: ``dd.logaddexp(x, y)``.
    Errors: ``dtype-mismatch``, ``shape-mismatch``.
    """
    return composed(numeric.logaddexp, *tensors(x1, x2))


@public
def nextafter(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the float next to ``x1`` in the direction of ``x2``; ``x2`` where they are equal.

    f64, f32, f16 or bf16, promoted and broadcast; NaN if either is NaN.
    Example: ``dd.nextafter(x, dd.inf)``.  Errors: ``dtype-mismatch``, ``shape-mismatch``.
    """
    return composed(numeric.nextafter, *tensors(x1, x2))


@public
def clip(x: Tensor, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Limit to [min, max]; None is no bound.

    Numbers of any dtype.  Tensor bounds are promoted with ``x`` and broadcast.  Where ``min`` is
    above ``max`` the result is ``max``; NaN if any of the three is NaN.
    Example: ``dd.clip(x, 0, 6)``.  Errors: ``dtype-mismatch``, ``shape-mismatch``.
    """
    if isinstance(x, Complex):
        raise refusal("complex numbers given to dd.clip", "see dd.complex")
    dtype = x.value.type.dtype
    for bound in (min, max):
        if isinstance(bound, Tensor):
            dtype = promote(dtype, bound.value.type.dtype)
    x = x.astype(dtype)
    low, high = (
        b.astype(dtype) if isinstance(b, Tensor) else None if b is None else scalar(x, b)
        for b in (min, max)
    )
    if low is not None:
        x = apply("maximum", x, low)
    return x if high is None else apply("minimum", x, high)


@public
def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """Elements of ``x1`` where the condition, a bool tensor, is true; else of ``x2``.

    All three are broadcast, ``x1`` and ``x2`` promoted.  The side not chosen has no influence.
    Example: ``dd.where(x > 0, x, 0)``.  ``dd.nonzero(condition)`` gives the places.
    Errors: ``dtype-mismatch``, ``shape-mismatch``.
    """
    if condition.value.type.dtype is not DType.BOOL:
        raise wrong(
            "dd.where", f"a condition of type {condition.value.type}", "a bool tensor",
            "compare first: condition != 0",
        )  # fmt: skip
    plain = not isinstance(x1, Tensor) and not isinstance(x2, Tensor)
    return apply("where", condition, *(_constants(x1, x2) if plain else tensors(x1, x2)))


__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "ceil", "clip", "copysign", "cos", "cosh", "divide", "equal", "erf", "exp", "exp2", "expm1",
    "floor", "floor_divide", "fmod", "greater", "greater_equal", "hypot", "isfinite", "isinf",
    "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "nextafter", "not_equal", "positive", "pow", "reciprocal", "remainder", "round", "rsqrt",
    "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
    "trunc_divide", "where",
]  # fmt: skip
