"""Values with error bars: how far a correct implementation may be from the exact result.

Running error analysis.  A bar says that every correct implementation yields, before it stores,
a number in ``[c - e, c + e]``.  Each op propagates the bars of its operands and adds its own
rounding.  ``e == 0`` says more: the value is ``c`` to the bit, the sign of a zero included.

Four rules carry the rest.

* *Exactness.*  A correctly rounded op on exact operands whose result is a number of the compute
  dtype yields that number; whatever else is rounded keeps its unrounded centre, so that fusing a
  product with a sum stays inside.
* *Overflow.*  A value that surely rounds beyond the largest number is an infinity; one that may is
  undecided.  A product whose sum may be fused keeps its finite centre until it is settled.
* *Specials.*  NaN and infinities are centres with ``e == 0``; the sign of a NaN is unspecified.
* *Undecided.*  ``e == inf`` where no finite bar contains all correct answers.

Functions here, and every ``Op.bar``, are to be called under ``np.errstate(all="ignore")``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir.intrinsic import ULP
from didyma.refimpl.ir.narrow import narrow
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.pieces import elementwise, of_each


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its error bar: any correct result is within ``e`` of the centre ``c``.

    ``c`` is float64 for floats but longdouble for f64, and the compute dtype for integers and
    bool.  ``e`` is float64, nonnegative; inf marks an undecided element.
    """

    c: Array
    e: Array


Looser: TypeAlias = Callable[[Sequence[Bar], Bar], Array]  # of operands and the op's own bar


def sequential(n: int) -> int:
    """Return the longest chain of additions when n terms are added one after another."""
    return n


def never(n: int) -> int:
    """Return the roundings of corrections in a fold of n terms where no part is corrected."""
    del n
    return 0


def at_each_level(n: int) -> int:
    """Return the roundings of corrections where a tree of n terms corrects parts as it joins them.

    A correction is a product with an exponential of ``ULP``.
    """
    return (1 + math.ceil(2 * ULP)) * (n - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Contract:
    """What an implementation states about its own precision.

    ``chain`` gives the longest chain of additions in a fold of n terms; ``ulp`` the error of each
    intrinsic in units in the last place of the compute dtype (keys ``exp`` or ``exp_f32``);
    ``default_ulp`` where it is silent (and more for the few in ``STEEP``); ``contraction``
    whether a product and a sum may round once.  ``rescaled`` gives the most roundings that a part
    of a fold of n terms goes through beside its additions, where one pass takes two folds of which
    one needs the other, and corrects parts for what it learns later: a largest element and a sum of
    exponentials, or a mean and a sum of squares.  ``accumulate`` is the dtype in which sums are
    kept where that is narrower than the compute dtype.  ``+ - * /`` and ``sqrt`` are correctly
    rounded unless ``ulp`` names ``div`` or ``sqrt``.  ``looser`` gives, for ops that compute in
    f32, absolute errors beside those in ulp.  With ``flush`` each subnormal f32 may be a zero.
    With ``reordered``, products and sums may be formed in another order or kept in a wider dtype,
    so those near overflow are undecided, and so are products that overflow or are subnormal when
    multiplied in another order; a mean may be the sum of parts that were divided, and a
    softplus ``log1p(exp(x))``.  Factors of f32 in products of matrices and in convolutions may be
    rounded to the format that ``factors`` names, bf16 or f16, or rounded or cut to tf32.
    """

    chain: Callable[[int], int] = sequential
    ulp: Mapping[str, float] = field(default_factory=dict[str, float])
    default_ulp: float = ULP
    contraction: bool = True
    rescaled: Callable[[int], int] = never
    accumulate: DType | None = None
    looser: Mapping[str, Looser] = field(default_factory=dict[str, Looser])
    flush: bool = False
    reordered: bool = False
    factors: str = ""

    def kept(self, dtype: DType) -> DType:
        """Return the dtype in which a sum of numbers of a dtype is kept."""
        kept, usual = self.accumulate, dtype.compute
        return usual if kept is None or BITS[kept] >= BITS[usual] else kept

    def of(self, name: str, dtype: DType) -> float:
        """Return the ulps by which an intrinsic may be wrong in a compute dtype."""
        stated = self.ulp.get(f"{name}_{dtype}", self.ulp.get(name))
        if stated is not None:
            return stated
        if name in ("div", "sqrt"):
            return 0.5
        return max(self.default_ulp, STEEP.get((name, dtype), 0.0))


ANYONES = Contract(rescaled=at_each_level)  # of an implementation of which nothing is known

# Where common libraries need more than 4 ulp: powf of older CUDA releases.
STEEP: Mapping[tuple[str, DType], float] = {("pow", DType.F32): 9.0, ("pow", DType.F64): 5.0}


@dataclass(frozen=True)
class Verdict:
    """Which elements are ``ok`` (inside their bars, or undecided), and which are ``undecided``."""

    ok: Array
    undecided: Array


_CENTRE_EPS = float(np.finfo(np.longdouble).eps)
BITS: Mapping[DType, int] = {DType.F64: 53, DType.F32: 24, DType.F16: 11, DType.BF16: 8}
# Largest relative rounding error; for f64 with room for the centre's own last places.
UNIT: Mapping[DType, float] = {
    DType.F64: 2.0**-53 + 4 * _CENTRE_EPS,
    DType.F32: 2.0**-24 * (1 + 2.0**-20),
}
# Half the smallest subnormal, or the smallest float64 where that is larger.
TINY: Mapping[DType, float] = {DType.F64: 2.0**-1074, DType.F32: 2.0**-150}
# The least real number that rounds to infinity.
OVER: Mapping[DType, float | np.longdouble] = {
    DType.F64: np.longdouble(2.0**1023) * (2 - np.longdouble(2.0**-53)),
    DType.F32: 2.0**128 - 2.0**103,
}
LEAST = 5e-324  # an error that frees the sign of a zero and nothing else
_UP = 1 + 2.0**-50  # covers the roundings made while computing an error


def centre_dtype(dtype: DType) -> np.dtype[np.generic]:
    """Return the NumPy dtype of the centres of a dtype."""
    if dtype.is_float:
        return np.dtype(np.longdouble if dtype is DType.F64 else np.float64)
    return dtype.compute.numpy


def exact(array: Array, dtype: DType | None = None) -> Bar:
    """Return the bar of exact values; ``dtype`` is theirs if the array has a wider one."""
    a = np.asarray(array)
    to = centre_dtype(dtype or DType.of(a))
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN like any other
        return Bar(a.astype(to), np.zeros(a.shape))


def as_error(e: Array) -> Array:
    """Round an error to float64, upwards; NaN (of inf - inf, 0 * inf) becomes inf."""
    out = np.asarray(e, np.float64) * _UP
    if e.dtype != np.float64:
        out = out + np.where(e > 0, LEAST, 0.0)  # longdouble is finer than any subnormal
    return np.where(np.isnan(out), np.inf, out)


def certain(*bars: Bar) -> Array:
    """Return where all operands are exact."""
    mask: Array = bars[0].e == 0
    for b in bars[1:]:
        mask = mask & (b.e == 0)
    return mask


def representable(c: Array, dtype: DType) -> Array:
    """Return which centres are numbers of a dtype."""
    same: Array = c.astype(dtype.numpy).astype(c.dtype) == c
    return same


def binade(x: Array) -> Array:
    """Return the power of two at or below each number >= 0 (0 of a subnormal, inf of inf)."""
    x = np.asarray(x)
    if x.dtype == np.float64:
        exponent: Array = (x.view(np.int64) & 0x7FF0000000000000).view(np.float64)
        return exponent
    _, power = np.frexp(x)
    place: Array = np.ldexp(np.ones_like(x), power - 1)
    return place


def finish(
    c: Array,
    e: Array,
    dtype: DType,
    known: Array,
    k: float = 0.5,
    *,
    sharp: Array | None = None,
    pending: bool = False,
) -> Bar:
    """Return a bar widened by one rounding of ``k`` ulp of the compute dtype (0.5: correct).

    ``known`` marks elements with exact operands; ``sharp`` those among them whose result is exact
    (left out: the representable ones, if correctly rounded).  With ``pending`` an overflowing
    centre stays finite.
    """
    dt = dtype.compute
    e = np.where(known, 0.0, as_error(e))
    wide = np.abs(c) + e
    over = OVER[dt]
    if _near(wide * (1 + 4 * k * UNIT[dt]), dt):
        if pending:
            far = np.isfinite(c) & (wide > 16 * over)
            c = np.where(far, np.sign(c) * (16 * over), c).astype(c.dtype)
        else:
            slack = e if k == 0.5 else e + 2 * k * UNIT[dt] * wide
            settled = _overflow(Bar(c, e), slack, dt)
            c, e = settled.c, settled.e
        wide = np.abs(c) + e
    if sharp is None:
        sharp = representable(c, dt) if k == 0.5 else np.zeros((), np.bool_)
    # Just below a power of two an error of some ulp may be counted in the places above it.
    place = binade(wide if k == 0.5 else wide * (1 + 4 * k * UNIT[dt]))
    r = np.asarray(2 * k * (UNIT[dt] * place + TINY[dt]), np.float64)
    rounded_e = np.where(known & sharp, 0.0, e + r)
    finite = np.isfinite(c)
    if not finite.all():  # an infinity or NaN is decided, unless an operand was not
        rounded_e = np.where(finite, rounded_e, np.where(e == np.inf, np.inf, 0.0))
    return Bar(c, rounded_e)


def rounded_once(c: Array, native: Array | None, dtype: DType, known: Array) -> Array:
    """Return the centres of an op that never fuses, correctly rounded where operands are exact.

    A sum, quotient or root of f32 that was rounded to f64 may be rounded again as if it had not
    been (53 >= 2 * 24 + 2 bits: S. Figueroa, *When is double rounding innocuous?*, 1995); for f64
    ``native`` is the op done in f64.
    """
    short = c.astype(np.float32) if native is None else native
    return np.where(known, short.astype(c.dtype), c)


def _near(wide: Array, dt: DType) -> bool:
    """Return whether a finite value that is not undecided may overflow."""
    big = wide >= OVER[dt]
    return bool(big.any()) and bool((big & (wide < np.inf)).any())


def _overflow(b: Bar, slack: Array, dt: DType) -> Bar:
    size = np.abs(b.c)
    over = OVER[dt]
    finite = np.isfinite(b.c)
    surely = finite & (size - slack >= over)
    maybe = finite & ~surely & (size + slack >= over)
    c = np.where(surely, np.copysign(np.inf, b.c), b.c).astype(b.c.dtype)
    return Bar(c, np.where(surely, 0.0, np.where(maybe, np.inf, b.e)))


def settle(b: Bar, dtype: DType) -> Bar:
    """Return a bar in which the overflow of products is no longer pending."""
    if not dtype.is_float:
        return b
    dt = dtype.compute
    c, e = np.broadcast_arrays(_unrepeated(b.c), _unrepeated(b.e))
    if not any(of_each(lambda at: _near(np.abs(c[at]) + e[at], dt), c.shape)):
        return b
    return in_pieces(lambda bars: _overflow(bars[0], bars[0].e, dt), [b])


def _both(b: Bar) -> tuple[Array, Array]:
    return b.c, b.e


def _unrepeated(a: Array) -> Array:
    """Return one of the equal elements along each axis of stride 0, whose size becomes 1."""
    return a[tuple(slice(None if s else 1) for s in a.strides)]


def in_pieces(f: Callable[[Sequence[Bar]], Bar], bars: Sequence[Bar]) -> Bar:
    """Return ``f(bars)`` of an elementwise function, by pieces where the bars are large.

    Operands that are one bar are one bar in each piece, too: ``x * x`` is a square.
    """
    if not bars:
        return f(bars)
    once = {id(b): b for b in bars}

    def part(*arrays: Array) -> tuple[Array, Array]:
        pairs = zip(once, zip(arrays[::2], arrays[1::2], strict=True), strict=True)
        own = {key: Bar(*pair) for key, pair in pairs}
        return _both(f([own[id(b)] for b in bars]))

    return Bar(*elementwise(part, *(a for b in once.values() for a in _both(b))))


def close(c: Array, lo: Array, hi: Array, known: Array) -> Bar:
    """Return the bar of an exact op, from its values at the centre and ends of its operand's bar.

    Where an end is not finite but the centre is (or the other way round), the element is
    undecided.  A zero whose sign may differ gets the least error there is.
    """
    spread = np.fmax(np.abs(hi - c), np.abs(c - lo))
    same = (lo == hi) & (lo == c)  # of infinities, whose difference is NaN
    if c.dtype.kind == "f":
        same = same | (np.isnan(lo) & np.isnan(hi) & np.isnan(c))
        spread = np.where(np.isnan(lo) ^ np.isnan(hi), np.inf, spread)
    e = np.where(known | same, 0.0, as_error(spread))
    if c.dtype.kind == "f":
        e = np.where((c == 0) & (e == 0) & ~known, LEAST, e)
    return Bar(c, e)


def cast_float(x: Array, dtype: DType) -> Array:
    """Round centres to a float dtype as casts do: to storage floats by way of f32."""
    if dtype.compute is not dtype:
        return np.asarray(narrow(x.astype(np.float32), dtype))
    return x.astype(dtype.numpy)


def rounded(b: Bar, dtype: DType) -> Bar:
    """Return the bar after one rounding to a float dtype, which is monotone: its ends are rounded.

    Where both ends become NaN by overflowing on different sides, the values between them may not.
    """
    to = centre_dtype(dtype)
    low, high = b.c - b.e, b.c + b.e
    lo, hi, c = (cast_float(x, dtype).astype(to) for x in (low, high, b.c))
    out = close(c, lo, hi, b.e == 0)
    around = np.isnan(c) & (low <= 0) & (high > 0)
    return Bar(out.c, np.where((b.e == np.inf) | around, np.inf, out.e))


def store(b: Bar, dtype: DType) -> Bar:
    """Return the bar of a value after a store, which decides overflow and rounds storage floats."""
    if not dtype.is_float:
        return b
    b = settle(b, dtype)
    if dtype is dtype.compute:
        return b
    return in_pieces(lambda bars: rounded(bars[0], dtype), [b])


def perhaps_stored(b: Bar, dtype: DType) -> Bar:
    """Return a bar of a storage float that contains the value as computed and as stored."""
    if dtype is dtype.compute or not dtype.is_float:
        return b
    r = store(b, dtype)
    gap = as_error(np.abs(r.c - b.c) + r.e)
    same = (r.e == 0) & ((r.c == b.c) | (np.isnan(r.c) & np.isnan(b.c)))
    return Bar(b.c, np.where(same, b.e, np.maximum(b.e, gap)))


def perhaps_scaled(b: Bar, dtype: DType, *, cast: bool = False) -> Bar:
    """Return a bar that contains a value as computed, and as stored at any scale up to its own.

    A kernel of several stages may keep weights of a sum by the largest so far, round these to the
    storage float, and divide the sum in the end: each is then rounded as another number.  The
    centre of a ``cast`` has been rounded, perhaps to the other side of the value.
    """
    r = perhaps_stored(b, dtype)
    if dtype is dtype.compute or not dtype.is_float:
        return r
    tiny = float(np.nextafter(dtype.numpy.type(0), dtype.numpy.type(1))) / 2
    size = as_error(np.abs(b.c) + b.e)
    off = (1 + cast) * (2.0 ** -BITS[dtype] * size + tiny)
    scaled = np.where(size > 0, as_error(b.e + off), 0)
    return Bar(r.c, np.where(np.isfinite(size), np.maximum(r.e, scaled), r.e))


def judge(b: Bar, out: Array, dtype: DType) -> Verdict:
    """Compare a result in memory with its bar, which has passed through ``store``.

    NaN must match NaN and infinities infinities; integers and bool are exact where ``e == 0``,
    and so is the sign of a zero.
    """
    undecided = b.e == np.inf
    if not dtype.is_float:
        out = out.astype(dtype.compute.numpy, copy=False)
        same = out == b.c
        if b.e.any():
            if dtype is DType.BOOL:
                undecided = b.e > 0
            else:
                gap = np.abs(out.astype(np.longdouble) - b.c.astype(np.longdouble))
                same = same | (gap <= b.e)
        return Verdict(same | undecided, undecided)
    with np.errstate(all="ignore"):
        o = out.astype(centre_dtype(dtype))
        ok = same = o == b.c
        if not same.all():
            ok = same | (np.abs(o - b.c) <= b.e) | (np.isnan(o) & np.isnan(b.c))
        zero = same & (b.c == 0)
        if zero.any():
            ok = ok & ~(zero & (b.e == 0) & (np.signbit(o) != np.signbit(b.c)))
        return Verdict(ok | undecided, undecided)


def hull(decided: Array, chosen: Bar, other: Bar) -> Bar:
    """Return ``chosen`` where decided, elsewhere a bar with its centre that contains both."""
    if bool(np.all(decided)):
        return chosen
    a, b = chosen, other
    kind = a.c.dtype.kind
    if kind == "b":
        return Bar(a.c, np.where(decided | ((a.c == b.c) & (b.e == 0)), a.e, np.inf))
    wide = np.longdouble if kind in "iu" else a.c.dtype
    gap = as_error(np.abs(a.c.astype(wide) - b.c.astype(wide)) + b.e)
    twins = a.c == b.c
    if kind == "f":
        twins = (twins & (np.signbit(a.c) == np.signbit(b.c))) | (np.isnan(a.c) & np.isnan(b.c))
        gap = np.where((gap == 0) & ~twins, LEAST, gap)
    e = np.maximum(a.e, np.where(twins, b.e, gap))
    return Bar(a.c, np.where(decided, a.e, e))
