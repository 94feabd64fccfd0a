"""What PTX's instructions on floats mean.

Functions that PTX calls approximate are the exact ones here, rounded once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.runtime.native import Native
from didyma.codegen.runtime.ptx.kinds import BF16, DT, choose
from didyma.codegen.runtime.tinycc import TinyCC
from didyma.refimpl.ir.types import Array

Fn: TypeAlias = Callable[..., Any]

_FUSED = """
extern double fma(double, double, double);
extern float fmaf(float, float, float);
void fma_(long long n, double *a, double *b, double *c, double *out) {
  long long i; for (i = 0; i < n; ++i) out[i] = fma(a[i], b[i], c[i]);
}
void fmaf_(long long n, float *a, float *b, float *c, float *out) {
  long long i; for (i = 0; i < n; ++i) out[i] = fmaf(a[i], b[i], c[i]);
}
"""
_TINY = np.float32(np.finfo(np.float32).tiny)
DIRECTED = frozenset(("rz", "rm", "rp"))


@cache
def _native() -> tuple[Native, Mapping[DT, Callable[..., None]]]:
    native = TinyCC().compile(_FUSED, "fma of engine ptx", ("fma_", "fmaf_"))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, *(ctypes.c_void_p,) * 4)
    names: Mapping[DT, str] = {np.dtype(np.float64): "fma_", np.dtype(np.float32): "fmaf_"}
    return native, {d: prototype(native.addresses[n]) for d, n in names.items()}


def fused(a: Any, b: Any, c: Any) -> Array:
    """Return a * b + c of f32 or f64, rounded once.

    >>> x = np.float32(1 + 2.0**-12)
    >>> float(fused(x, x, np.float32(-1))) == 2.0**-11 + 2.0**-24
    True
    """
    d = np.result_type(a, b, c)
    memory = np.empty((4, *np.broadcast(a, b, c).shape), d)
    memory[0], memory[1], memory[2] = a, b, c
    at, step = memory.ctypes.data, memory.nbytes // 4
    _native()[1][d](memory.size // 4, at, at + step, at + 2 * step, at + 3 * step)
    return memory[3, ...]


def exact_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a sum of f64 and its error (Knuth)."""
    s = a + b
    z = s - a
    return s, (a - (s - z)) + (b - z)


def to_odd(s: Any, error: Any) -> Array:
    """Return an inexact f64 with its last bit set, towards zero: a later rounding is then right.

    The method is Boldo's and Melquiond's.
    """
    u = np.array(s, np.float64).view(np.int64)
    inexact = np.isfinite(s) & (error != 0) & ((u & 1) == 0)
    outward = (error > 0) == (np.asarray(s) > 0)
    return np.where(inexact, np.where(outward, u + 1, u - 1), u).view(np.float64)


def narrow(x: Any, d: DT) -> Array:
    """Round an f64 to a float type, to nearest, once."""
    if d != BF16:
        return np.asarray(x, np.float64).astype(d)
    x = np.asarray(x, np.float64)
    f = x.astype(np.float32)
    inexact = np.isfinite(f) & (f != x)
    inward: Any = choose(np.abs(f) > np.abs(x), np.nextafter(f, np.float32(0)), f)
    odd = (np.asarray(inward, np.float32).view(np.uint32) | np.uint32(1)).view(np.float32)
    return np.where(inexact, odd, f).astype(BF16)


def fma(a: Any, b: Any, c: Any) -> Array:
    """Return a * b + c of any float type, rounded once."""
    d = np.result_type(a, b, c)
    if d.itemsize >= 4:
        return fused(a, b, c)
    x, y, z = (np.asarray(v).astype(np.float64) for v in (a, b, c))
    return narrow(to_odd(*exact_sum(x * y, z)), d)


def directed(nearest: Array, s: Any, error: Any, how: str) -> Array:
    """Move a result that was rounded to nearest where another rounding of s + error leaves it."""
    d = nearest.dtype
    if how not in DIRECTED:
        return nearest
    r = nearest.astype(np.float64)
    above = (r > s) | ((r == s) & (error < 0))
    below = (r < s) | ((r == s) & (error > 0))
    low = np.where(above, _step(nearest, -1), nearest)
    high = np.where(below, _step(nearest, 1), nearest)
    if how == "rz":
        return np.where(np.asarray(s) < 0, high, low).astype(d)
    return (low if how == "rm" else high).astype(d)


def _step(v: Array, sign: int) -> Array:
    stepped: Array = np.nextafter(v, v.dtype.type(sign * np.inf)).astype(v.dtype)
    return stepped


def binary(op: str, how: str) -> Fn:
    """Return add, sub, mul or div with a rounding."""
    plain: Fn = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    if how not in DIRECTED:
        return plain

    def run(a: Any, b: Any) -> Array:
        r = np.asarray(plain(a, b))
        x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
        s: Any = plain(x, y)
        error: Any = np.float64(0)
        if op in ("add", "sub"):
            s, error = exact_sum(x, y if op == "add" else -y)
        elif r.dtype == np.float64:
            error = fused(x, y, -s) if op == "mul" else fused(-s, y, x) * np.sign(y)
        return directed(r, s, error, how)

    return run


def reciprocal(how: str) -> Fn:
    """Return one divided by a number, with a rounding."""
    divide = binary("div", how)

    def run(a: Any) -> Array:
        return np.asarray(divide(np.ones_like(a), a))

    return run


def root(how: str) -> Fn:
    """Return the square root with a rounding."""

    def run(a: Any) -> Array:
        x = np.asarray(a, np.float64)
        s = np.sqrt(x)
        error = fused(-s, s, x) if np.asarray(a).dtype == np.float64 else np.float64(0)
        return directed(np.sqrt(np.asarray(a)), s, error, how)

    return run if how in DIRECTED else np.sqrt


def fma_directed(how: str) -> Fn:
    """Return fma of f32 with a rounding in a direction."""

    def run(a: Any, b: Any, c: Any) -> Array:
        x, y, z = (np.asarray(v, np.float64) for v in (a, b, c))
        if np.result_type(a, b, c) == np.float64:
            r, error = fma_exact(x, y, z)
            return directed(r, r, error, how)
        return directed(fused(a, b, c), *exact_sum(x * y, z), how)

    return run


def fma_exact(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Return a * b + c of f64, rounded, and a number with the sign of its error.

    Products are split exactly (Dekker); the error is the sum of what each step loses (Ogita, Rump
    and Oishi), whose sign is right where nothing overflows.
    """
    x, y, z = (np.asarray(v, np.float64) for v in (a, b, c))
    r = fused(x, y, z)
    p = x * y
    e = fused(x, y, -p)
    s, t = exact_sum(p, z)
    u, v = exact_sum(t, e)
    return r, ((s - r) + u) + v


def flushed(v: Any) -> Any:
    """Return values of f32 with subnormal numbers made zeros of their sign."""
    return choose(np.abs(v) < _TINY, np.copysign(np.float32(0), v), v)


def least(nan: bool, most: bool) -> Fn:
    """Return min or max: a NaN loses, or with ``nan`` wins; -0 is below +0."""
    pick: Fn = (np.maximum if nan else np.fmax) if most else (np.minimum if nan else np.fmin)

    def run(a: Any, b: Any) -> Any:
        r = np.asarray(pick(a, b))
        zeros = (a == 0) & (b == 0)
        if np.any(zeros):
            x, y = np.signbit(a), np.signbit(b)
            sign = (x & y) if most else (x | y)
            r = choose(zeros, choose(sign, r.dtype.type(-0.0), r.dtype.type(0.0)), r)
        return r

    return run


def of_three(f: Fn) -> Fn:
    """Return a function of two applied to three."""

    def run(a: Any, b: Any, c: Any) -> Any:
        return f(f(a, b), c)

    return run


def with_joint_sign(f: Fn) -> Fn:
    """Return a function of magnitudes whose result has the product of the signs."""

    def run(a: Any, b: Any) -> Any:
        r: Any = np.abs(f(np.abs(a), np.abs(b)))
        return choose(np.signbit(a) ^ np.signbit(b), -r, r)

    return run


def _wide(f: Fn) -> Fn:
    """Compute in f64 and round once."""

    def run(a: Any) -> Array:
        a = np.asarray(a)
        return narrow(f(a.astype(np.float64)), a.dtype)

    return run


def _inverse_root(x: Any) -> Any:
    return 1 / np.sqrt(x)


APPROXIMATE: Mapping[str, Fn] = {
    "ex2": _wide(np.exp2), "lg2": _wide(np.log2), "sin": _wide(np.sin), "cos": _wide(np.cos),
    "tanh": _wide(np.tanh), "rsqrt": _wide(_inverse_root),
}  # fmt: skip


def test(what: str) -> Fn:
    """Return a test of the kind of floats, such as ``finite``."""
    tests: Mapping[str, Fn] = {
        "finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": _number,
        "normal": _normal, "subnormal": _subnormal,
    }  # fmt: skip
    return tests[what]


def _number(a: Any) -> Any:
    return ~np.isnan(a)


def _normal(a: Any) -> Any:
    return np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny)


def _subnormal(a: Any) -> Any:
    return (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)
