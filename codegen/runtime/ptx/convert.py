"""Conversions: ``cvt`` between integers and floats, with rounding and saturation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx.code import Instr, unknown
from didyma.codegen.runtime.ptx.floats import DIRECTED, directed, flushed, narrow
from didyma.codegen.runtime.ptx.kinds import (
    EIGHTS,
    FLOATS,
    PACKED,
    TYPES,
    canonical,
    halves,
    packed,
)
from didyma.codegen.runtime.ptx.operands import Action, Operands
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

Fn: TypeAlias = Callable[[Any], Array]
_LARGEST = {"e4m3x2": 448.0, "e5m2x2": 57344.0}

_INTEGRAL: Mapping[str, Callable[..., Any]] = {
    "rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil,
}  # fmt: skip
_NARROW = re.compile(r"[us](?:2|4|8|16)$")
_ROUNDING = re.compile(r"r[nzmp]i?$|rna$")


def compile_convert(ops: Operands) -> Action:
    """Compile a ``cvt``; DidymaError ``unknown-instruction`` for types that are not here."""
    ins = ops.ins
    mods = ins.mods
    if mods[-1] == "f32" and mods[-2] in ("f16x2", "bf16x2"):
        return _pair(ops)
    if (small := next((x for x in mods if x in EIGHTS), None)) is not None:
        return _to_eights(ops, small) if mods[-1] != small else _from_eights(ops, small)
    if mods[0] == "pack":
        return _packing(ops)
    kinds = [x for x in mods if x in TYPES]
    if len(kinds) != 2 or any("x" in k for k in kinds):
        raise unknown(ins)
    to, source = kinds
    f = conversion(ins, to, source)
    get, put = ops.source(1, source), ops.target(0, to)
    return lambda m: put(m, f(np.asarray(get(m))))


def _packing(ops: Operands) -> Action:
    """``cvt.pack``: two numbers, clamped, side by side below the lower bits of a third."""
    sources, put = [ops.source(k, "s32") for k in range(1, len(ops))], ops.target(0, "u32")
    to = next(x for x in ops.ins.mods if _NARROW.match(x))
    bits, signed = int(to[1:]), to[0] == "s"
    top = (1 << (bits - signed)) - 1
    low, field = -top - 1 if signed else 0, (1 << bits) - 1

    def run(m: Machine) -> None:
        upper, lower, *rest = (np.asarray(g(m)).astype(np.int64) for g in sources)
        pair = (np.clip(upper, low, top) & field) << bits | (np.clip(lower, low, top) & field)
        pair = pair | (rest[0] << 2 * bits if rest else 0)
        put(m, (pair & 0xFFFFFFFF).astype(np.uint32))

    return run


def _pair(ops: Operands) -> Action:
    """Two f32 to one register of halves; the first operand is the upper one."""
    mods = ops.ins.mods
    f = conversion(ops.ins, "bf16" if "bf16x2" in mods else "f16", "f32")
    high, low, put = ops.source(1, "f32"), ops.source(2, "f32"), ops.target(0, "u32")
    return lambda m: put(m, packed(f(np.asarray(low(m))), f(np.asarray(high(m)))))


def _to_eights(ops: Operands, to: str) -> Action:
    """Two f32, or a register of halves, to two 8-bit floats: the largest where they overflow."""
    mods, d, put = ops.ins.mods, EIGHTS[to], ops.target(0, to)
    top = _LARGEST[to]
    relu = "relu" in mods
    half = PACKED.get(mods[-1])
    gets = [ops.source(k, mods[-1]) for k in range(1, len(ops))]

    def small(v: Array) -> Array:
        v = np.where(v < 0, v.dtype.type(0), v) if relu else v
        v = np.clip(v.astype(np.float32), -top, top)
        return np.ascontiguousarray(v.astype(d)).view(np.uint8).astype(np.uint16)

    def run(m: Machine) -> None:
        given = [np.broadcast_to(np.asarray(g(m)), (m.n,)) for g in gets]
        low, high = halves(given[0], half) if half else given[::-1]
        put(m, small(low) | (small(high) << np.uint16(8)))

    return run


def _from_eights(ops: Operands, source: str) -> Action:
    """Two 8-bit floats to a register of halves, exactly."""
    d, get = EIGHTS[source], ops.source(1, source)
    put = ops.target(0, "u32")
    half = TYPES["bf16" if "bf16x2" in ops.ins.mods else "f16"]

    def run(m: Machine) -> None:
        pair = np.ascontiguousarray(np.broadcast_to(get(m), (m.n,))).view(d).astype(half)
        put(m, pair.view(np.uint32))

    return run


def conversion(ins: Instr, to: str, source: str) -> Fn:
    """Return the function of a conversion between two types."""
    mods = ins.mods
    how = next((x for x in mods if _ROUNDING.match(x)), "")
    if source in FLOATS and to not in FLOATS:
        f = _to_integer(to, source, how)
    elif to in FLOATS:
        f = _to_float(to, source, how)
        if to == "bf16" and source in ("s64", "u64"):
            raise unknown(ins)
        if "relu" in mods:
            f = _after(f, lambda v: np.where(v > 0, v, np.where(np.isnan(v), v, v.dtype.type(0))))
        if "sat" in mods:
            f = _after(f, lambda v: np.clip(np.where(np.isnan(v), v.dtype.type(0), v), 0, 1))
        if "satfinite" in mods:
            top = TYPES[to].type(np.finfo(np.float16).max if to == "f16" else 3.3895314e38)
            f = _after(f, lambda v: np.clip(v, -top, top).astype(v.dtype))
    else:
        f = _between_integers(to, source, "sat" in mods)
    if "ftz" in mods and source == "f32":
        f = _after(flushed, f)
    if "ftz" in mods and to == "f32":
        f = _after(f, flushed)
    return _after(f, canonical) if to in FLOATS else f


def _after(f: Fn, g: Callable[[Array], Array]) -> Fn:
    return lambda v: g(f(v))


def _to_integer(to: str, source: str, how: str) -> Fn:
    d = TYPES[to]
    info = np.iinfo(d)
    top, bottom = float(info.max) + (info.bits < 64), float(info.min)
    wide = source == "f64" or info.bits == 64
    nan = d.type(info.min if d.kind == "i" else 1 << (info.bits - 1)) if wide else d.type(0)
    integral = _INTEGRAL.get(how, np.trunc)

    def run(v: Any) -> Array:
        w = integral(np.asarray(v).astype(np.float64))
        inside = (w >= bottom) & (w < top)
        r = np.where(inside, w, 0).astype(d)
        r = np.where(w >= top, d.type(info.max), np.where(w < bottom, d.type(info.min), r))
        return np.asarray(np.where(np.isnan(w), nan, r))

    return run


def _to_float(to: str, source: str, how: str) -> Fn:
    d, integral = TYPES[to], _INTEGRAL.get(how)

    def run(v: Any) -> Array:
        v = np.asarray(v)
        if integral is not None:
            v = integral(v.astype(np.float64)).astype(v.dtype)
        if to == "tf32":
            u = v.astype(np.float32).view(np.uint32)
            return np.asarray((u + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
        exact = v.astype(np.float64)
        if to == "f32" and source not in FLOATS:
            return directed(v.astype(d), exact, np.float64(0), how)
        return directed(narrow(exact, d), exact, np.float64(0), how if how in DIRECTED else "")

    return run


def _between_integers(to: str, source: str, saturate: bool) -> Fn:
    d, s = TYPES[to], TYPES[source]
    if not saturate:
        return lambda v: np.asarray(v).astype(d)
    low = max(np.iinfo(d).min, np.iinfo(s).min)
    top = min(np.iinfo(d).max, np.iinfo(s).max)
    return lambda v: np.clip(v, s.type(low), s.type(top)).astype(d)
