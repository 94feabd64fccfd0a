"""Random bits in ONNX: the rounds of the generator, computed in u64."""

from __future__ import annotations

from didyma.onnx.export.shapes import counted, reshaped
from didyma.onnx.export.writer import Rule, Use, Val, Writer
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.random import FACTORS, ROUNDS, STEPS


def _number(w: Writer, n: int) -> Val:
    return w.scalar(n, DType.U64)


def _low(w: Writer, v: Val) -> Val:
    return w.op("BitwiseAnd", v, _number(w, 0xFFFFFFFF))


def _high(w: Writer, v: Val) -> Val:
    return w.op("BitShift", v, _number(w, 32), direction="RIGHT")


def _mixed(w: Writer, product: Val, word: Val, key: Val) -> Val:
    return w.op("BitwiseXor", w.op("BitwiseXor", _high(w, product), word), key)


def _random_bits(u: Use) -> Val:
    """Express random bits; words of 32 bits are kept in u64, which also holds their products."""
    w, (seed,), stream = u.w, u.args, int(u.attr["stream"])
    index = w.cast(counted(w, dims.mul(*u.out.shape), 1, 0), DType.U64)
    a, b = _low(w, index), _high(w, index)
    c, d = _number(w, stream & 0xFFFFFFFF), _number(w, stream >> 32)
    keys = [_low(w, seed), _high(w, seed)]
    for _ in range(ROUNDS):
        p, q = (w.op("Mul", x, _number(w, f)) for x, f in zip((a, c), FACTORS, strict=True))
        a, c = _mixed(w, q, b, keys[0]), _mixed(w, p, d, keys[1])
        b, d = _low(w, q), _low(w, p)
        keys = [_low(w, w.op("Add", k, _number(w, s))) for k, s in zip(keys, STEPS, strict=True)]
    if u.out.dtype is DType.U64:
        a = w.op("BitwiseOr", a, w.op("BitShift", b, _number(w, 32), direction="LEFT"))
    return reshaped(w, w.cast(a, u.out.dtype), u.out.shape, u.wish)


RULES: dict[str, Rule] = {"random_bits": _random_bits}
