"""What PTX's instructions on integers mean, as the ISA's manual defines them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.runtime.ptx.kinds import BITS, bits, choose
from didyma.refimpl.ir.types import Array

Fn: TypeAlias = Callable[..., Any]


def by_halves(f: Fn, kind: str, relu: bool) -> Fn:
    """Return a function on each of the two 16-bit integers in a register; ``kind``: s16x2, u16x2.

    ``relu`` makes negative results zero.
    """
    half = np.dtype(np.int16 if kind[0] == "s" else np.uint16)

    def on_halves(a: Any, b: Any) -> Any:
        a, b = np.broadcast_arrays(a, b)
        pair = (np.ascontiguousarray(x).view(half) for x in (a, b))
        out = f(*pair)
        return (np.maximum(out, half.type(0)) if relu else out).view(a.dtype).reshape(a.shape)

    return on_halves


def by_parts(f: Fn, count: int, kinds: Sequence[str], saturate: bool, total: bool) -> Fn:
    """Return a function on the 2 or 4 integers in a register, as ``vadd4`` has it.

    ``kinds`` are the types of the result and of the operands, of which the first letter counts.
    With ``total`` the results are added to the third operand.
    """
    size = 4 // count
    out, *given = (np.dtype(f"{'i' if k[0] == 's' else 'u'}{size}") for k in kinds)
    info = np.iinfo(out)

    def on_parts(a: Any, b: Any, c: Any) -> Any:
        flat = [np.ascontiguousarray(x, np.uint32) for x in np.broadcast_arrays(a, b, c)]
        x, y = (v.view(d).astype(np.int64) for v, d in zip(flat, given, strict=False))
        r = f(x, y)
        if total:
            return flat[2] + r.reshape(-1, count).sum(1).astype(np.uint32)
        r = np.clip(r, info.min, info.max) if saturate else r
        return r.astype(out).view(np.uint32)

    return on_parts


def _average(a: Any, b: Any) -> Any:
    return (a + b + 1) >> 1


def _absolute_difference(a: Any, b: Any) -> Any:
    return np.abs(a - b)


BY_PARTS: Mapping[str, Fn] = {
    "vadd": np.add, "vsub": np.subtract, "vavrg": _average, "vabsdiff": _absolute_difference,
    "vmin": np.minimum, "vmax": np.maximum,
}  # fmt: skip


_ENDS = -(2**31), 2**31 - 1  # of what sums of s32 are clamped to


def divide(a: Any, b: Any) -> Any:
    """Divide, rounding towards zero; all ones where the divisor is 0."""
    t = np.result_type(a, b)
    zero = np.equal(b, 0)
    by = choose(zero, t.type(1), b)
    q = np.floor_divide(a, by)
    if t.kind == "i":
        q = q + ((q < 0) & (q * by != a)).astype(t)
    return choose(zero, ~t.type(0), q)


def remainder(a: Any, b: Any) -> Any:
    """Return what ``divide`` leaves; the dividend where the divisor is 0."""
    t = np.result_type(a, b)
    zero = np.equal(b, 0)
    return choose(zero, a, np.fmod(a, choose(zero, t.type(1), b)))


def high(a: Any, b: Any) -> Any:
    """Return the upper half of a product of twice the width."""
    t = np.result_type(a, b)
    if t.itemsize < 8:
        w = np.dtype(f"{t.kind}{t.itemsize * 2}")
        return ((np.asarray(a, w) * np.asarray(b, w)) >> w.type(8 * t.itemsize)).astype(t)
    ua, ub = bits(np.asarray(a, t)), bits(np.asarray(b, t))
    low, by = np.uint64(0xFFFFFFFF), np.uint64(32)
    mid = (ua & low) * (ub & low) >> by
    one, two = (ua >> by) * (ub & low), (ua & low) * (ub >> by)
    mid = mid + (one & low) + (two & low)
    h = (ua >> by) * (ub >> by) + (one >> by) + (two >> by) + (mid >> by)
    if t.kind == "i":
        h = h - choose(np.less(a, 0), ub, np.uint64(0)) - choose(np.less(b, 0), ua, np.uint64(0))
    return np.asarray(h).view(t)


def shift_left(a: Any, n: Any) -> Any:
    """Shift; 0 where the amount is the width or more."""
    w = 8 * a.dtype.itemsize
    by = np.minimum(n, w - 1).astype(BITS[a.dtype.itemsize]).view(a.dtype)
    return choose(n >= w, a.dtype.type(0), np.left_shift(a, by))


def shift_right(a: Any, n: Any) -> Any:
    """Shift; signed numbers keep their sign."""
    w = 8 * a.dtype.itemsize
    by = np.minimum(n, w - 1).astype(BITS[a.dtype.itemsize]).view(a.dtype)
    shifted = np.right_shift(a, by)
    return shifted if a.dtype.kind == "i" else choose(n >= w, a.dtype.type(0), shifted)


def ones(a: Any) -> Any:
    """Count the bits that are set."""
    return np.bitwise_count(a).astype(np.uint32)


def leading_zeros(a: Any) -> Any:
    """Count the zeros above the highest bit that is set."""
    w = 8 * a.dtype.itemsize
    upper = a >> a.dtype.type(32) if w == 64 else a
    lower = a & a.dtype.type(0xFFFFFFFF) if w == 64 else a
    top: Any = np.frexp(upper.astype(np.float64))[1]
    if w == 64:
        top = choose(upper != 0, top + 32, np.frexp(lower.astype(np.float64))[1])
    return (w - top).astype(np.uint32)


def reversed_bits(a: Any) -> Any:
    """Turn the order of bits around."""
    w = 8 * a.dtype.itemsize
    wide = a.astype(np.uint64)
    step = 1
    for mask in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF,
                 0x0000FFFF0000FFFF, 0x00000000FFFFFFFF):  # fmt: skip
        m, by = np.uint64(mask), np.uint64(step)
        wide = ((wide >> by) & m) | ((wide & m) << by)
        step *= 2
    return (wide >> np.uint64(64 - w)).astype(a.dtype)


def highest(a: Any) -> Any:
    """Find the highest bit unlike the sign; -1 for none."""
    far = distance(a)
    return choose(far < 0, far, np.int32(8 * a.dtype.itemsize - 1) - far)


def distance(a: Any) -> Any:
    """Find how far the highest bit unlike the sign is from the top; -1 for none."""
    u = bits(choose(a < 0, ~a, a)) if a.dtype.kind == "i" else a
    lead = leading_zeros(u).astype(np.int32)
    return choose(lead == 8 * a.dtype.itemsize, np.int32(-1), lead)


def _mask(n: Any, d: Any) -> Any:
    """Return the lowest ``n`` bits, which may be all."""
    w = 8 * d.itemsize
    some = np.minimum(n, w - 1).astype(d)
    return choose(n >= w, ~d.type(0), (d.type(1) << some) - d.type(1))


def extract(a: Any, start: Any, length: Any) -> Any:
    """Extract bits; of a signed number, the highest of them is the sign."""
    u = bits(np.asarray(a))
    d, w = u.dtype, 8 * a.dtype.itemsize
    pos, n = np.asarray(start & 0xFF, np.int64), np.asarray(length & 0xFF, np.int64)
    mask = _mask(n, d)
    x = choose(pos >= w, d.type(0), u >> np.minimum(pos, w - 1).astype(d)) & mask
    if a.dtype.kind == "i":
        at = np.clip(np.minimum(pos + n - 1, w - 1), 0, w - 1).astype(d)
        negative = ((u >> at) & d.type(1)) == 1
        x = choose(negative & (n > 0), x | ~mask, x)
    return choose(n == 0, d.type(0), x).view(a.dtype)


def insert(a: Any, b: Any, start: Any, length: Any) -> Any:
    """Put the lowest bits of ``a`` into ``b``."""
    d, w = b.dtype, 8 * b.dtype.itemsize
    pos, n = np.asarray(start & 0xFF, np.int64), np.asarray(length & 0xFF, np.int64)
    mask = _mask(np.clip(np.minimum(n, w - pos), 0, w), d)
    by = np.minimum(pos, w - 1).astype(d)
    return (b & ~(mask << by)) | ((a & mask) << by)


def permute(a: Any, b: Any, selector: Any) -> Any:
    """Choose four bytes of the eight in two registers."""
    both = np.asarray(a, np.uint64) | (np.asarray(b, np.uint64) << np.uint64(32))
    out: Any = np.uint32(0)
    for k in range(4):
        s = (selector >> np.uint32(4 * k)) & np.uint32(15)
        byte = (both >> ((s & 7).astype(np.uint64) << np.uint64(3))).astype(np.uint32) & np.uint32(
            255
        )
        sign = choose(byte & 128, np.uint32(255), np.uint32(0))
        out = out | (choose(s & 8, sign, byte) << np.uint32(8 * k))
    return out


# Which byte of eight goes to each of four, for the two lower bits of the selector.
_PERMUTED: Mapping[str, tuple[int, ...]] = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543), "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333), "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210), "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}  # fmt: skip


def permuted(mode: str) -> Fn:
    """Return a function that chooses bytes in one of the ways that have a name; KeyError if none.

    >>> hex(permuted("f4e")(np.uint32(0x44332211), np.uint32(0x88776655), np.uint32(1)))
    '0x55443322'
    """
    selectors = np.array(_PERMUTED[mode], np.uint32)

    def run(a: Any, b: Any, c: Any) -> Any:
        return permute(a, b, selectors[np.asarray(c & np.uint32(3))])

    return run


def of_24_bits(op: str, upper: bool, saturate: bool) -> Fn:
    """Return a product of the lower 24 bits of two registers, plus a third for ``mad24``.

    The product has 48 bits, of which the 32 lower or the 32 upper ones count.
    """

    def cut(v: Any) -> Any:
        wide = np.asarray(v).astype(np.int64)
        low = wide & 0xFFFFFF
        return low - ((low >> 23) << 24) if np.asarray(v).dtype.kind == "i" else low

    def run(a: Any, b: Any, *more: Any) -> Any:
        product = cut(a) * cut(b) >> (16 if upper else 0)
        d = np.asarray(a).dtype
        out = product.astype(np.uint32).view(d)
        if saturate:
            return np.clip(np.int64(out) + more[0], *_ENDS).astype(d)
        return np.add(out, more[0]) if op == "mad24" else out

    return run


def by_table(table: int) -> Fn:
    """Return what combines three registers bit by bit: bit 4a + 2b + c of the table."""

    def run(a: Any, b: Any, c: Any) -> Any:
        out: Any = np.uint32(0)
        for k in range(8):
            if table >> k & 1:
                out = out | ((a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c))
        return out

    return run


def funnel(left: bool, clamp: bool) -> Fn:
    """Return the shift of two registers as one of 64 bits."""

    def run(a: Any, b: Any, c: Any) -> Any:
        n = (np.minimum(c, 32) if clamp else c & 31).astype(np.uint64)
        both = np.asarray(a, np.uint64) | (np.asarray(b, np.uint64) << np.uint64(32))
        return ((both << n) >> np.uint64(32) if left else both >> n).astype(np.uint32)

    return run


def dot(parts: int, kinds: tuple[str, str]) -> Fn:
    """Return the sum of products of four bytes (``parts`` 4) and a number."""
    wide = {"s32": np.int8, "u32": np.uint8}

    def run(a: Any, b: Any, c: Any) -> Any:
        out = c
        for k in range(parts):
            x = (a >> np.uint32(8 * k)).astype(wide[kinds[0]]).astype(np.int32)
            y = (b >> np.uint32(8 * k)).astype(wide[kinds[1]]).astype(np.int32)
            out = out + x * y
        return out

    return run


def dot_of_two(upper: bool, kinds: tuple[str, str]) -> Fn:
    """Return the sum of two products, of 16 bits and of the lower or upper bytes, and a number."""
    wide, narrow = {"s32": np.int16, "u32": np.uint16}, {"s32": np.int8, "u32": np.uint8}

    def run(a: Any, b: Any, c: Any) -> Any:
        out = c
        for k in range(2):
            x = (a >> np.uint32(16 * k)).astype(wide[kinds[0]]).astype(np.int32)
            by = np.uint32(8 * (k + 2 * upper))
            out = out + x * (b >> by).astype(narrow[kinds[1]]).astype(np.int32)
        return out

    return run


def sign_extended(clamp: bool) -> Fn:
    """Return what extends the lowest bits of a number by their sign, or by zeros."""

    def run(a: Any, width: Any) -> Any:
        n = np.minimum(width, 32) if clamp else width & 31
        return extract(a, np.uint32(0), n)

    return run


def nth_set(mask_: Any, base: Any, offset: Any) -> Any:
    """Find the n-th bit that is set from a base, upwards or downwards; all ones for none."""

    def one(m: int, b: int, n: int) -> int:
        if n == 0:
            return b if m >> b & 1 else -1
        where = range(b, 32) if n > 0 else range(b, -1, -1)
        found = [k for k in where if m >> k & 1]
        return found[abs(n) - 1] if len(found) >= abs(n) else -1

    found = np.frompyfunc(one, 3, 1)(mask_, base & np.uint32(31), offset)
    return np.asarray(found).astype(np.int64).astype(np.uint32)


def add_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """Return a + b + carry and what is carried out."""
    s = a + b
    r = s + carry
    return r, (s < a) | (r < s)


def subtract_borrow(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    """Return a - b - borrow and what is borrowed."""
    return a - b - borrow, (a < b) | ((a == b) & (borrow != 0))


def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, which wraps."""
    return a * b + c


def multiply_add_high(a: Any, b: Any, c: Any) -> Any:
    """Return the upper half of a * b, and c."""
    return high(a, b) + c


def wide(d: Any) -> tuple[Fn, Fn]:
    """Return the product, and the product and sum, of operands that are made wider first."""

    def product(a: Any, b: Any) -> Any:
        return a.astype(d) * b.astype(d)

    def and_sum(a: Any, b: Any, c: Any) -> Any:
        return a.astype(d) * b.astype(d) + c

    return product, and_sum


def mask(start: Any, length: Any) -> Any:
    """Return a mask of some bits from a start."""
    return shift_left(_mask(np.asarray(length), np.dtype(np.uint32)), start)


def _is_zero(a: Any) -> Any:
    return (a == 0).astype(a.dtype)


def _difference(a: Any, b: Any, c: Any) -> Any:
    return c + choose(a > b, a - b, b - a).astype(c.dtype)


# Functions of operands of the instruction's own type.
SAME: Mapping[str, Fn] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": divide, "rem": remainder,
    "min": np.minimum, "max": np.maximum, "abs": np.abs, "neg": np.negative,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "brev": reversed_bits, "mad": multiply_add, "cnot": _is_zero, "sad": _difference,
}  # fmt: skip
