"""Instructions in the ring: what each does to the payloads of its operands.

The values, and all that is decided by them, are computed as without the ring; a rule looks at the
operands before, and sets the units of the results after.  Moves of bits, whole or by units of two
bytes, move payloads; a flipped or cleared sign negates them.  What else instructions on integers
make of a float is opaque, and so is what a rule does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx import units
from didyma.codegen.runtime.ptx.code import Imm, Operand, Reg, registers
from didyma.codegen.runtime.ptx.in_ring_memory import memory_rule
from didyma.codegen.runtime.ptx.in_ring_operands import (
    Finish,
    Rule,
    cleared,
    finished,
    floats,
    held,
    put,
    target,
)
from didyma.codegen.runtime.ptx.kinds import FLOATS, PACKED, TYPES, kind_of
from didyma.codegen.runtime.ptx.meaning import Meaning, exponential
from didyma.codegen.runtime.ptx.memory import UNIT
from didyma.codegen.runtime.ptx.operands import Action, Operands
from didyma.codegen.runtime.ptx.units import CLEAN, OPAQUE
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import ring, ring_rules
from didyma.refimpl.ops.ring import UNKNOWN

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

# What makes the payloads of results of those of operands, of their values, and of the results'.
Combine: TypeAlias = Callable[[Sequence[Array], Sequence[Array], Array], Array]
_FULL, _SIGN, _REST = 0xFFFF, 0x8000, 0x7FFF  # of the bits of a unit


def watched(action: Action, ops: Operands, meaning: Meaning) -> Action:
    """Let an instruction on registers or memory do to payloads what it does to values."""
    rule = _rule(ops, meaning)

    def run(m: Machine) -> None:
        finish = rule(m)
        action(m)
        finish()

    return run


def _rule(ops: Operands, meaning: Meaning) -> Rule:
    ins = ops.ins
    op, t = ins.op, kind_of(ins.mods)
    if (found := memory_rule(ops)) is not None:
        return found
    match op:
        case "extern":
            return _nothing
        case "mov" if t is not None:
            return _move(ops, t, meaning)
        case "selp" if t is not None:
            return _choice(ops, t, meaning)
        case "cvt":
            return _conversion(ops, meaning)
        case "and" | "or" | "xor" if t not in (None, "pred"):
            return _bitwise(ops, str(t))
        case "shl" | "shr" if isinstance(ins.args[2], Imm):
            return _shift(ops, str(t))
        case "prmt" if len(ins.mods) == 1 and isinstance(ins.args[3], Imm):
            return _permutation(ops)
        case _ if t is not None and PACKED.get(t, t) in FLOATS and op in _ARITHMETIC:
            return _arithmetic(ops, t, meaning)
        case "setp" | "set" | "testp":
            return cleared(ops)
        case _:
            return _mixed(ops)


def _nothing(m: Machine) -> Finish:
    return lambda: None


def _mixed(ops: Operands) -> Rule:
    """What is made of the bits of a float tells nothing."""
    sources, to = sorted(registers(ops.ins.args[1:])), sorted(registers(ops.ins.args[:1]))

    def rule(m: Machine) -> Finish:
        lost = np.zeros(m.ids.size, np.bool_)
        for r in sources:
            found = held(m, ops, Reg(r), 4)
            if found is not None:
                lost |= (found["part"] != CLEAN).any(1)
        some = lost.any()

        def finish() -> None:
            for r in to:
                width = units.count(ops.regs[r])
                found = np.zeros((m.ids.size, width), UNIT) if some else None
                if found is not None:
                    found[lost] = units.opaque(1, width)
                put(m, ops, Reg(r), found)

        return finish

    return rule


def _move(ops: Operands, t: str, meaning: Meaning) -> Rule:
    o, width = ops.at(1), units.count(t)
    if isinstance(o, Imm) and meaning.known is not None:
        kind = {"0f": "f32", "0d": "f64"}.get(o.text[:2].lower(), t)
        if kind in FLOATS and units.count(kind) == width:
            read = floats(ops, o, kind, meaning)
            return lambda m: finished(m, ops, units.made(read(m)[1], kind))
    return lambda m: finished(m, ops, held(m, ops, o, width))


def _choice(ops: Operands, t: str, meaning: Meaning) -> Rule:
    a, b, width, test = ops.at(1), ops.at(2), units.count(t), ops.source(3, "pred")

    def either(m: Machine, o: Operand) -> Array | None:
        if isinstance(o, Imm) and t in FLOATS:
            return units.made(floats(ops, o, t, meaning)(m)[1], t)
        return held(m, ops, o, width)

    def rule(m: Machine) -> Finish:
        x, y = either(m, a), either(m, b)
        if x is None and y is None:
            return finished(m, ops, None)
        blank = np.zeros((m.ids.size, width), UNIT)
        x, y = (blank if z is None else z for z in (x, y))
        return finished(m, ops, np.where(m.active(test(m))[:, None], x, y))

    return rule


def _limited(p: Array, r: Array, mods: Sequence[str]) -> Array:
    """Return payloads of results that are clamped: those of the bound where it is reached."""
    if "sat" in mods:
        p = np.where((r > 0) & (r < 1), p, ring.embed(r))
    if "relu" in mods:
        p = np.where(r == 0, ring.ZERO, p)
    return p


def _divided(p: Sequence[Array], v: Sequence[Array], r: Array) -> Array:
    return np.asarray(ring_rules.binary("div", p[0], p[1], v[0], v[1], r))


def _inverse(p: Sequence[Array], v: Sequence[Array], r: Array) -> Array:
    one = np.ones_like(v[0])
    return np.asarray(ring_rules.binary("div", ring.embed(one), p[0], one, v[0], r))


def _extreme(largest: bool) -> Combine:
    def run(p: Sequence[Array], v: Sequence[Array], r: Array) -> Array:
        best, value = p[0], v[0]
        for q, w in zip(p[1:], v[1:], strict=True):
            best = np.asarray(ring_rules.extreme(largest, best, q, value, w))
            value = np.maximum(value, w) if largest else np.minimum(value, w)
        return best

    return run


def _plain(f: Callable[..., Any]) -> Combine:
    """Return what combines payloads alone."""

    def run(p: Sequence[Array], v: Sequence[Array], r: Array) -> Array:
        return np.asarray(f(*p))

    return run


def _unary(name: str) -> Combine:
    def run(p: Sequence[Array], v: Sequence[Array], r: Array) -> Array:
        return np.asarray(ring_rules.unary(name, p[0], v[0], r))

    return run


def _power(p: Sequence[Array], v: Sequence[Array], r: Array) -> Array:
    return np.asarray(exponential("exp2", p[0], v[0], r))


def _signed(p: Sequence[Array], v: Sequence[Array], r: Array) -> Array:
    return np.asarray(ring_rules.binary("copysign", p[1], p[0], v[1], v[0], r))


_ARITHMETIC: dict[str, Combine] = {
    "add": _plain(ring.add), "sub": _plain(ring.subtract), "mul": _plain(ring.multiply),
    "fma": _plain(ring.fma), "mad": _plain(ring.fma), "div": _divided, "rcp": _inverse,
    "min": _extreme(False), "max": _extreme(True), "copysign": _signed, "ex2": _power,
    "lg2": _unary("log2"),
    **{n: _unary(n) for n in ("neg", "abs", "sqrt", "rsqrt", "sin", "cos", "tanh")},
}  # fmt: skip


def _arithmetic(ops: Operands, t: str, meaning: Meaning) -> Rule:
    ins = ops.ins
    f = _ARITHMETIC[ins.op]
    if "xorsign" in ins.mods:
        return _mixed(ops)
    sources = [floats(ops, o, t, meaning) for o in ins.args[1:]]
    to, kind = target(ops), PACKED.get(t, t)
    result = floats(ops, to, t, meaning) if isinstance(to, Reg) else None

    def rule(m: Machine) -> Finish:
        read = [g(m) for g in sources]
        values, payloads = [v for v, _ in read], [p for _, p in read]

        def finish() -> None:
            if result is None:
                return
            put(m, ops, to, None)
            r = result(m)[0]
            found = _limited(np.asarray(f(payloads, values, r)), r, ins.mods)
            put(m, ops, to, units.made(found, kind))

        return finish

    return rule


def _conversion(ops: Operands, meaning: Meaning) -> Rule:
    """Between floats the payload stays; a whole number has its own, and so has a tf32.

    Rounding to tf32 cuts bits, which ``dd.tf32`` does with integers.
    """
    mods = ops.ins.mods
    kinds = [x for x in mods if x in TYPES]
    whole = any(x in mods for x in ("rni", "rzi", "rmi", "rpi"))
    if len(kinds) == 2 and kinds[0] in PACKED and kinds[1] == "f32":
        high, low = (floats(ops, o, "f32", meaning) for o in ops.ins.args[1:3])

        def pair(m: Machine) -> Finish:
            p = np.concatenate([low(m)[1], high(m)[1]], axis=1)
            if "relu" in mods:
                v = np.concatenate([low(m)[0], high(m)[0]], axis=1)
                p = np.where(v <= 0, ring.ZERO, p)
            return finished(m, ops, units.made(p, PACKED[kinds[0]]))

        return pair
    if len(kinds) != 2 or any("x" in k for k in kinds):
        return _mixed(ops)
    to, source = kinds
    if to == "tf32":
        return cleared(ops)
    if to not in FLOATS:
        if source in FLOATS:
            return cleared(ops)
        width = min(units.count(to), units.count(source))
        return lambda m: finished(m, ops, held(m, ops, ops.at(1), width))
    o = target(ops)
    if source not in FLOATS:
        get = ops.source(1, source)

        def number(m: Machine) -> Finish:
            p = np.asarray(ring.embed(m.active(get(m))))
            return finished(m, ops, units.made(p[:, None], to))

        return number
    read = floats(ops, ops.at(1), source, meaning)

    def between(m: Machine) -> Finish:
        p = read(m)[1]

        def finish() -> None:
            if isinstance(o, Reg):
                put(m, ops, o, None)
                r = floats(ops, o, to, meaning)(m)[0]
                found = np.asarray(ring.embed(r)) if whole else _limited(p, r, mods)
                put(m, ops, o, units.made(found, to))

        return finish

    return between


def _bits(m: Machine, get: Callable[[Machine], Any], width: int) -> Array:
    """Return an operand's bits by units."""
    v = np.ascontiguousarray(m.active(get(m)))
    return v.view(np.uint16).reshape(m.ids.size, width)


def _bitwise(ops: Operands, t: str) -> Rule:
    """``and``, ``or`` and ``xor``: units that stay, go, or change their sign."""
    op, width = ops.ins.op, units.count(t)
    a, b = ops.at(1), ops.at(2)
    gets = [ops.source(k, f"u{16 * width}") for k in (1, 2)]

    def rule(m: Machine) -> Finish:
        given = [held(m, ops, o, width) for o in (a, b)]
        if all(x is None for x in given):
            return finished(m, ops, None)
        bits = [_bits(m, g, width) for g in gets]
        found = units.opaque(m.ids.size, width)
        blank = np.zeros((m.ids.size, width), UNIT)
        rows = [blank if x is None else x for x in given]
        clean = [x["part"] == CLEAN for x in rows]
        found[clean[0] & clean[1]] = 0
        for k in (0, 1):
            mine, mask = rows[k], bits[1 - k]
            plain = clean[1 - k]  # the other one is a number, or zeros
            if op == "and":
                gone, stays = plain & (mask == 0), plain & (mask == _FULL)
                found[gone] = 0
                found[stays] = mine[stays]
                _signs(found, mine, plain & (mask == _REST), bits[k] >= _SIGN)
                if width == 2:  # fewer digits of an f32: a rounding
                    cut = (mine["part"][:, 0] == 2) & stays[:, 1] & plain[:, 0] & (mask[:, 0] > 0)
                    found[cut, 0] = mine[cut, 0]
            else:
                stays = plain & (mask == 0)
                found[stays] = mine[stays]
                if op == "xor":
                    _signs(found, mine, plain & (mask == _SIGN), np.ones(mask.shape, np.bool_))
        return finished(m, ops, found)

    return rule


def _signs(found: Array, mine: Array, where: Array, turned: Array) -> None:
    """Set elements whose sign, in their last unit, may change; their payloads are negated then."""
    width = found.shape[1]
    for k in range(width):
        part = mine["part"][:, k]
        for lane_width, code in ((1, 1), (2, 3), (4, 7), (1, units.FIRST["bf16"])):
            rows = np.flatnonzero(where[:, k] & (part == code))
            first = k - lane_width + 1
            if first < 0 or not rows.size:
                continue
            for j in range(first, k + 1):
                found[rows, j] = mine[rows, j]
                p = mine["payload"][rows, j]
                found["payload"][rows, j] = np.where(turned[rows, k], ring.negate(p), p)


def _shift(ops: Operands, t: str) -> Rule:
    """Shifts by whole units move them."""
    amount, width = ops.integer(2), units.count(t)
    by, rest = divmod(amount, 8 * units.WIDTH)
    if rest or by >= width:
        return _mixed(ops)
    left = ops.ins.op == "shl"

    def rule(m: Machine) -> Finish:
        given = held(m, ops, ops.at(1), width)
        if given is None:
            return finished(m, ops, None)
        out = np.zeros_like(given)
        if left:
            out[:, by:] = given[:, : width - by]
        else:
            out[:, : width - by] = given[:, by:]
        return finished(m, ops, out)

    return rule


def _permutation(ops: Operands) -> Rule:
    """``prmt`` of whole units, by a selector of four digits."""
    digits = [ops.integer(3) >> 4 * k & 15 for k in range(4)]
    pairs = [(digits[0], digits[1]), (digits[2], digits[3])]

    def rule(m: Machine) -> Finish:
        given = [held(m, ops, o, 2) for o in ops.ins.args[1:3]]
        if all(x is None for x in given):
            return finished(m, ops, None)
        blank = np.zeros((m.ids.size, 2), UNIT)
        four = np.concatenate([blank if x is None else x for x in given], axis=1)
        out = np.zeros((m.ids.size, 2), UNIT)
        for k, (low, high) in enumerate(pairs):
            if high == low + 1 and low % 2 == 0 and high < 8:
                out[:, k] = four[:, low // 2]
            else:
                marked = np.zeros(m.ids.size, np.bool_)
                for d in (low, high):
                    marked |= four["part"][:, (d & 7) // 2] != CLEAN
                out["part"][marked, k], out["payload"][marked, k] = OPAQUE, UNKNOWN
        return finished(m, ops, out)

    return rule
