"""What elementwise ops mean, in Python integers, fractions and multiple precision, one at a time.

Floats come in as Python floats (exact for every dtype) and go out as an exact real (an mpmath
number), or as a float that is nan, an infinity or a zero with the right sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath

from didyma.refimpl.ir.types import DType

mp = mpmath.mp.clone()
mp.prec = 240
HUGE = 1300  # bits to reduce the largest angles
INF, NAN = math.inf, math.nan


def wrap(v: int, bits: int, signed: bool) -> int:
    v %= 2**bits
    return v - 2**bits if signed and v >= 2 ** (bits - 1) else v


def floor_quotient(a: int, b: int) -> int:
    return a // b if b else 0


def trunc_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def int_pow(a: int, b: int) -> int:
    if b < 0:
        return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)
    return int(a**b)


def shift_left(a: int, n: int, bits: int) -> int:
    return a << n if 0 <= n < bits else 0


def shift_right(a: int, n: int, bits: int) -> int:
    return a >> n if 0 <= n < bits else (-1 if a < 0 else 0)


def of_ints(op: str, args: list[int], dtype: DType) -> int | bool:
    """Value of an op on integers, before the wrap."""
    bits = 8 * dtype.nbytes
    x, y = args[0], args[-1]
    table: dict[str, Callable[[], int | bool]] = {
        "abs": lambda: abs(x),
        "negative": lambda: -x,
        "sign": lambda: (x > 0) - (x < 0),
        "square": lambda: x * x,
        "add": lambda: x + y,
        "subtract": lambda: x - y,
        "multiply": lambda: x * y,
        "floor_divide": lambda: floor_quotient(x, y),
        "trunc_divide": lambda: trunc_quotient(x, y),
        "remainder": lambda: x - y * floor_quotient(x, y) if y else 0,
        "fmod": lambda: x - y * trunc_quotient(x, y) if y else 0,
        "pow": lambda: int_pow(x, y) if abs(y) < 200 else pow_mod(x, y, bits),
        "maximum": lambda: max(x, y),
        "minimum": lambda: min(x, y),
        "clip": lambda: min(max(x, args[1]), y),
        "equal": lambda: x == y,
        "not_equal": lambda: x != y,
        "less": lambda: x < y,
        "less_equal": lambda: x <= y,
        "greater": lambda: x > y,
        "greater_equal": lambda: x >= y,
        "bitwise_and": lambda: x & y,
        "bitwise_or": lambda: x | y,
        "bitwise_xor": lambda: x ^ y,
        "bitwise_invert": lambda: ~x,
        "bitwise_left_shift": lambda: shift_left(x, y, bits),
        "bitwise_right_shift": lambda: shift_right(x, y, bits),
    }
    return table[op]()


def pow_mod(x: int, y: int, bits: int) -> int:
    return int_pow(x, y) if y < 0 else pow(x, y, 1 << bits)


def sign_of(x: float) -> float:
    return math.copysign(1.0, x)


def odd(y: float) -> bool:
    return math.isfinite(y) and y % 2 == 1


def power(x: float, y: float) -> Any:
    """``pow`` of C99, Annex F."""
    if y == 0 or x == 1:
        return 1.0
    if math.isnan(x) or math.isnan(y):
        return NAN
    if x == 0:
        zero_or_inf = INF if y < 0 else 0.0
        return math.copysign(zero_or_inf, x) if odd(y) else zero_or_inf
    if math.isinf(y):
        if abs(x) == 1:
            return 1.0
        return INF if (abs(x) > 1) == (y > 0) else 0.0
    if math.isinf(x):
        size = INF if y > 0 else 0.0
        return -size if x < 0 and odd(y) else size
    if x < 0 and y != int(y):
        return NAN
    far = y * math.log2(abs(x))  # beyond every dtype the exact size does not matter
    size = mp.mpf(2) ** math.copysign(3000, far) if abs(far) > 2500 else mp.power(abs(x), y)
    return -size if x < 0 and odd(y) else size


def add(x: float, y: float) -> Any:
    if not (math.isfinite(x) and math.isfinite(y)):
        return x + y
    total = mp.mpf(x) + mp.mpf(y)
    return x + y if total == 0 else total


def multiply(x: float, y: float) -> Any:
    if not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        return x * y
    return mp.mpf(x) * mp.mpf(y)


def divide(x: float, y: float) -> Any:
    if math.isnan(x) or math.isnan(y) or (x == 0 == y) or (math.isinf(x) and math.isinf(y)):
        return NAN
    sign = sign_of(x) * sign_of(y)
    if y == 0 or math.isinf(x):
        return sign * INF
    if x == 0 or math.isinf(y):
        return sign * 0.0
    return mp.mpf(x) / mp.mpf(y)


def fmod(x: float, y: float) -> Any:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return NAN
    return math.fmod(x, y)


def remainder(x: float, y: float) -> Any:
    r = fmod(x, y)
    if math.isnan(r):
        return r
    if r == 0:
        return math.copysign(0.0, y)
    if (r < 0) == (y < 0):
        return mp.mpf(r)
    return y if math.isinf(y) else mp.mpf(r) + mp.mpf(y)


def floor_divide(x: float, y: float) -> Any:
    if math.isnan(x) or math.isnan(y) or y == 0:
        return divide(x, y)
    if math.isinf(x):
        return NAN
    if math.isinf(y):
        return divide(x, y) if x == 0 or (x < 0) == (y < 0) else -1.0
    q = mp.floor(mp.mpf(x) / mp.mpf(y))
    return divide(math.copysign(0.0, x), y) if q == 0 else q


def larger(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return NAN
    if x == y:
        return x if sign_of(x) > 0 else y
    return max(x, y)


def smaller(x: float, y: float) -> float:
    return -larger(-x, -y)


def atan2(y: float, x: float) -> Any:
    if math.isnan(x) or math.isnan(y):
        return NAN
    if not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        special = math.atan2(y, x)
        quarters = round(special / (math.pi / 4))
        return special if quarters == 0 else quarters * mp.pi / 4
    return mp.atan2(mp.mpf(y), mp.mpf(x))


def reciprocal_root(x: Any) -> Any:
    return 1 / mp.sqrt(x)


def power_of_two(x: Any) -> Any:
    return mp.power(2, x)


def log2(x: Any) -> Any:
    return mp.log(x, 2)


def log1p(x: Any) -> Any:
    return mp.log(1 + x)


# name: function, least and largest argument with a value, values at special arguments
_FUNCTIONS: dict[str, tuple[Any, float, float, dict[float, float]]] = {
    "sqrt": (mp.sqrt, 0, INF, {INF: INF}),
    "rsqrt": (reciprocal_root, 0, INF, {INF: 0.0}),
    "exp": (mp.exp, -INF, INF, {INF: INF, -INF: 0.0}),
    "exp2": (power_of_two, -INF, INF, {INF: INF, -INF: 0.0}),
    "expm1": (mp.expm1, -INF, INF, {INF: INF, -INF: -1.0}),
    "log": (mp.log, 0, INF, {INF: INF, 1.0: 0.0}),
    "log2": (log2, 0, INF, {INF: INF, 1.0: 0.0}),
    "log10": (mp.log10, 0, INF, {INF: INF, 1.0: 0.0}),
    "log1p": (log1p, -1, INF, {INF: INF, -1.0: -INF}),
    "sin": (mp.sin, -INF, INF, {INF: NAN, -INF: NAN}),
    "cos": (mp.cos, -INF, INF, {INF: NAN, -INF: NAN}),
    "tan": (mp.tan, -INF, INF, {INF: NAN, -INF: NAN}),
    "asin": (mp.asin, -1, 1, {}),
    "acos": (mp.acos, -1, 1, {1.0: 0.0}),
    "atan": (mp.atan, -INF, INF, {}),
    "sinh": (mp.sinh, -INF, INF, {INF: INF, -INF: -INF}),
    "cosh": (mp.cosh, -INF, INF, {INF: INF, -INF: INF}),
    "tanh": (mp.tanh, -INF, INF, {INF: 1.0, -INF: -1.0}),
    "asinh": (mp.asinh, -INF, INF, {INF: INF, -INF: -INF}),
    "acosh": (mp.acosh, 1, INF, {INF: INF, 1.0: 0.0}),
    "atanh": (mp.atanh, -1, 1, {1.0: INF, -1.0: -INF}),
    "erf": (mp.erf, -INF, INF, {INF: 1.0, -INF: -1.0}),
}
_ODD_NAMES = frozenset(
    {
        "sqrt",
        "expm1",
        "log1p",
        "sin",
        "tan",
        "asin",
        "atan",
        "sinh",
        "tanh",
        "asinh",
        "atanh",
        "erf",
    }
)


def function(name: str, x: float) -> Any:
    """Value of a named function at a point."""
    f, lo, hi, special = _FUNCTIONS[name]
    if math.isnan(x) or not lo <= x <= hi:
        return NAN
    if x == 0:
        if name in _ODD_NAMES:
            return x
        if name == "rsqrt":
            return math.copysign(INF, x)
        if name.startswith("log"):
            return -INF
    if x in special:
        return special[x]
    if math.isinf(x):
        return sign_of(x) * mp.pi / 2
    if name in ("exp", "exp2", "expm1", "sinh", "cosh") and abs(x) > 2000:
        return INF if x > 0 or name == "cosh" else {"expm1": -1.0, "sinh": -INF}.get(name, 0.0)
    if name in ("tanh", "erf") and abs(x) > 2000:
        return sign_of(x) * (1 - mp.mpf(2) ** -200)
    with mp.workprec(HUGE if name in ("sin", "cos", "tan", "log1p") else 240):
        return f(mp.mpf(x))


def whole(name: str, x: float) -> float:
    if not math.isfinite(x):
        return x
    rule: dict[str, Callable[[float], int]] = {
        "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
    }  # fmt: skip
    return math.copysign(float(rule[name](x)), x)


def of_floats(op: str, args: list[float]) -> Any:
    """Exact value of an op on floats; None where the definition leaves it open."""
    x, y = args[0], args[-1]
    if op in _FUNCTIONS:
        return function(op, x)
    if op in ("copysign", "signbit") and math.isnan(y):
        return NAN if op == "copysign" and math.isnan(x) else None
    table: dict[str, Callable[[], Any]] = {
        "abs": lambda: math.fabs(x),
        "negative": lambda: -x,
        "sign": lambda: x if math.isnan(x) else float((x > 0) - (x < 0)),
        "square": lambda: multiply(x, x),
        "reciprocal": lambda: divide(1.0, x),
        "add": lambda: add(x, y),
        "subtract": lambda: add(x, -y),
        "multiply": lambda: multiply(x, y),
        "divide": lambda: divide(x, y),
        "floor_divide": lambda: floor_divide(x, y),
        "remainder": lambda: remainder(x, y),
        "fmod": lambda: fmod(x, y),
        "pow": lambda: power(x, y),
        "atan2": lambda: atan2(x, y),
        "copysign": lambda: NAN if math.isnan(x) else abs(x) * sign_of(y),
        "maximum": lambda: larger(x, y),
        "minimum": lambda: smaller(x, y),
        "clip": lambda: smaller(larger(x, args[1]), y),
        "equal": lambda: x == y,
        "not_equal": lambda: x != y,
        "less": lambda: x < y,
        "less_equal": lambda: x <= y,
        "greater": lambda: x > y,
        "greater_equal": lambda: x >= y,
        "isnan": lambda: math.isnan(x),
        "isinf": lambda: math.isinf(x),
        "isfinite": lambda: math.isfinite(x),
        "signbit": lambda: sign_of(x) < 0,
    }
    return table[op]() if op in table else whole(op, x)
