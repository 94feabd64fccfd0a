"""Input values: every kind of number a kernel may meet, from one seed a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from didyma.fuzz.floats import limits_of
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.spec import Domain

FOCUSED = 1 << 24  # from this seed on, values suit the ops that read them
CORE = 13  # a prime, so that two cycles of corners with different steps meet in every pair

_FLOAT_CORNERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, 2.5, -3.5, 3.0, 1e-3, 100.0, 255.0,
    65504.0, 1e10, -1e10, np.inf, -np.inf, np.nan, np.pi,
)  # fmt: skip
_INT_CORNERS = (0, 1, -1, 2, -2, 3, 5, 7, 8, 16, 31, 32, 63, 64, 100, 127, 128, 255, 2**15, 2**31)
_POWERS = (7, 8, 15, 16, 24, 31, 32, 53, 63, 64)  # of two: integers and exact floats end there
# Of ten, from 1e-40: NumPy's own powers differ in the last bit from one processor to another.
_TENS = np.array([float(f"1e{k}") for k in range(-40, 40)], np.float64)
_DIGITS = (1, 2, 3, 7, 10, 23)  # of the mantissas that a float may be rounded to
# Half a unit above the largest number of a narrower float: what lies there rounds to infinity.
_OVERFLOWS = (
    7.0,
    256.0,
    464.0,
    61440.0,
    65520.0,
    (2 - 2.0**-8) * 2.0**127,
    (2 - 2.0**-24) * 2.0**127,
)
_UNDERFLOWS = tuple(2.0**-n for n in (2, 10, 11, 17, 18, 25, 128, 134, 150))


class Distribution(StrEnum):
    """A distribution that random values are drawn from; each exists for every dtype."""

    RAMP = "ramp"
    SMALL = "small"
    NORMAL = "normal"
    UNIT = "unit"
    SPARSE = "mostly normal"
    NEUTRAL = "neutral"
    SCALES = "all scales"
    CORNERS = "corners"
    BITS = "random bits"
    MIXED = "mixed"
    SWEEP = "every corner in turn"
    READ = "corners of the readers"


def corners(dtype: DType) -> Array:
    """Every value of a dtype at which implementations differ: the first is 0.

    Besides the ends of the dtype they are where conversions change course: the limits of every
    integer, ties and overflow in every narrower float, integers that no float holds.

    >>> corners(DType.I8)[:6].tolist()
    [0, 1, -1, 2, -2, 3]
    """
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.is_int:
        least, most = dtype.limits
        numbers = [*_INT_CORNERS, least, least + 1, most, most - 1, *_inexact(dtype.bits)]
        return np.array(list(dict.fromkeys(v for v in numbers if least <= v <= most)), dtype.numpy)
    with np.errstate(all="ignore"):
        tiny, normal, largest, eps = limits_of(dtype)
        edges = [tiny, -tiny, normal, -normal, largest, -largest, 1 + eps, 1 - eps / 2]
        powers = [v for k in _POWERS for v in _near(2.0**k, eps)]
        turns = [v for x in (*_OVERFLOWS, *_UNDERFLOWS, 0.5, 1.5) for v in _near(x, eps)]
        ties = _ties(eps)
        known = [*_FLOAT_CORNERS, *edges, *powers, *turns, *ties]
        signed = [*known, *(-v for v in (*powers, *_OVERFLOWS, *ties))]
        return np.concatenate([_different(signed, dtype), _nans(dtype)])


def _nans(dtype: DType) -> Array:
    """NaN of the least payload, which a narrower float cannot hold, with each sign."""
    if dtype not in _INFINITIES:
        return np.array([], dtype.numpy)
    word = np.dtype(f"u{dtype.nbytes}")
    top = 1 << (dtype.bits - 1)
    raw = np.array([_INFINITIES[dtype] + 1, top + _INFINITIES[dtype] + 1], word)
    return np.asarray(raw.view(dtype.numpy))


_INFINITIES = {
    DType.F64: 0x7FF0000000000000, DType.F32: 0x7F800000, DType.F16: 0x7C00, DType.BF16: 0x7F80,
}  # fmt: skip


def _near(x: float, eps: float) -> tuple[float, float, float]:
    return x, x * (1 - eps / 2), x * (1 + eps)


def _different(numbers: Iterable[float], dtype: DType) -> Array:
    """Numbers in a dtype, each once."""
    x = _stored(np.array(list(numbers), np.float64), dtype)
    raw = x.view(np.uint8).reshape(x.size, -1)
    first = {raw[i].tobytes(): i for i in reversed(range(x.size))}
    return np.asarray(x[sorted(first.values())])


def _ties(eps: float) -> list[float]:
    """Halfway between numbers of narrower mantissas: to even downwards, to even upwards."""
    halves = [2.0 ** -(m + 1) for m in _DIGITS if 2.0 ** -(m + 1) >= eps]
    ties = [v for h in halves for v in (1 + h, 1 + 3 * h, 1 + h + eps)]
    return [*ties, 1 / eps - 0.5, 1 / eps + 1, 2 / eps + 2]


def _inexact(bits: int) -> list[int]:
    """Integers at the limits of narrower integers, and those that floats must round."""
    limits = [2**k + d for k in _POWERS for d in (-1, 0, 1) if k < bits]
    ties = [
        2**top + d
        for digits in (8, 11, 24, 53)
        for top in {digits, bits - 2, bits - 1}
        if top >= digits
        for unit in (2 ** (top - digits),)
        for d in (unit, 3 * unit, unit + 1, unit - 1)
    ]
    return [*limits, 65519, 65520, *ties, *(-v for v in (*limits, *ties))]


def core(dtype: DType) -> Array:
    """Return ``CORE`` corners, those that decide most: each is worth meeting every other.

    >>> core(DType.F32)[:7].tolist()
    [0.0, -0.0, nan, 1.0, inf, -1.0, -inf]
    """
    if dtype is DType.BOOL:
        return np.asarray(np.arange(CORE) % 2 == 1)
    if dtype.is_int:
        least, most = dtype.limits
        half = 2 ** (dtype.bits - 1)
        signed = (-1, -2, -dtype.bits, least + 1, 5)
        some = signed if dtype.is_signed else (5, half, half - 1, half + 1, most - 1)
        near = (dtype.bits - 1, dtype.bits, dtype.bits + 1)
        return np.array(
            [v if least <= v <= most else v % 8 for v in (0, 1, least, most, 2, *some, *near)],
            dtype.numpy,
        )
    tiny, _, largest, _ = limits_of(dtype)
    ends = (0.0, -0.0, np.nan, 1.0, np.inf, -1.0, -np.inf, 2.0, -3.0, 0.5, largest, -largest, tiny)
    with np.errstate(all="ignore"):
        return np.array(ends).astype(dtype.numpy)


def _ramp(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    del rng
    return np.arange(n) % 5 - (2 if dtype.is_signed else 0)


def _small(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    return rng.integers(-4 if dtype.is_signed else 0, 5, n)


def _normal(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    x = rng.standard_normal(n) * (1.0 if dtype.is_float else 20.0)
    return x if dtype.is_signed else np.abs(x)


def _scales(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    if dtype.is_float:
        reach = 40 if dtype is DType.F64 else 4 if dtype is DType.F16 or dtype.bits < 16 else 12
        return rng.standard_normal(n) * _TENS[rng.integers(-reach, reach, n) + 40]
    return _bits(rng, n, dtype)


def _unit(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    return rng.random(n) if dtype.is_float else rng.integers(0, 2, n)


def _neutral(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    """Numbers that an op may leave alone: zeros of both signs, ones."""
    return rng.choice(np.array([0.0, -0.0, 1.0, -1.0] if dtype.is_signed else [0, 1]), n)


def _stored(x: Array, dtype: DType) -> Array:
    """Return drawn numbers as a dtype; integers of few bits keep the low bits of what is drawn."""
    whole = dtype.is_packed and dtype.is_int and x.dtype.kind == "f"
    return (x.astype(np.int64) if whole else x).astype(dtype.numpy)


def _corners(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    """Half of them such as decide most."""
    some: Array = rng.choice(core(dtype), n)
    return np.asarray(np.where(rng.random(n) < 0.5, some, rng.choice(corners(dtype), n)))


def _mostly_normal(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    plain = _stored(_normal(rng, n, dtype), dtype)
    return np.where(rng.random(n) < 0.1, _corners(rng, n, dtype), plain)


def _bits(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    if dtype is DType.BOOL:
        return rng.integers(0, 2, n)
    if dtype.is_packed:
        return rng.integers(0, 1 << dtype.bits, n, np.uint8).view(dtype.numpy)
    return np.frombuffer(rng.bytes(n * dtype.nbytes), dtype.numpy)


def _mixed(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    """Every element of a kind of its own."""
    many = [_stored(np.asarray(k(rng, n, dtype)), dtype) for k in _MIXED]
    return np.asarray(np.stack(many)[rng.integers(0, len(many), n), np.arange(n)])


def _every(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    """All corners in a random order, over and over; the ones that decide most come first."""
    have = np.concatenate([core(dtype), rng.permutation(corners(dtype))])
    return np.asarray(rng.permutation(np.resize(have, n)))


_Draw: TypeAlias = Callable[[np.random.Generator, int, DType], Array]
_MIXED: tuple[_Draw, ...] = (_small, _normal, _neutral, _scales, _corners, _bits)
_DRAWS: Mapping[Distribution, _Draw] = MappingProxyType(
    {
        Distribution.RAMP: _ramp,
        Distribution.SMALL: _small,
        Distribution.NORMAL: _normal,
        Distribution.UNIT: _unit,
        Distribution.SPARSE: _mostly_normal,
        Distribution.NEUTRAL: _neutral,
        Distribution.SCALES: _scales,
        Distribution.CORNERS: _corners,
        Distribution.BITS: _bits,
        Distribution.MIXED: _mixed,
        Distribution.SWEEP: _every,
        Distribution.READ: _mostly_normal,
    }
)
# Distributions that keep results decidable are listed more than once.
_USUAL = (
    Distribution.RAMP, Distribution.SMALL, Distribution.NORMAL, Distribution.NORMAL,
    Distribution.UNIT, Distribution.SPARSE, Distribution.NEUTRAL, Distribution.SCALES,
    Distribution.CORNERS, Distribution.BITS,
)  # fmt: skip
_FOCUSED = (
    Distribution.SWEEP, Distribution.SWEEP, Distribution.READ, Distribution.READ,
    Distribution.READ, Distribution.NORMAL, Distribution.NORMAL, Distribution.SPARSE,
    Distribution.SMALL, Distribution.NEUTRAL, Distribution.SCALES, Distribution.BITS,
    Distribution.MIXED,
)  # fmt: skip
# One corner may decide a whole sum or product, and hide every other term.
_SUMMED = (
    Distribution.NORMAL, Distribution.NORMAL, Distribution.SMALL, Distribution.RAMP,
    Distribution.UNIT, Distribution.READ, Distribution.SPARSE, Distribution.SCALES,
)  # fmt: skip


def distribution_of(seed: int) -> Distribution:
    """Return the distribution that a seed stands for; those of neighbouring seeds are unrelated.

    >>> distribution_of(0)
    <Distribution.RAMP: 'ramp'>
    """
    if seed == 0:
        return Distribution.RAMP
    return _one_of(_USUAL, seed)


def _one_of(kinds: Sequence[Distribution], seed: int) -> Distribution:
    (word,) = np.random.SeedSequence(seed).generate_state(1)
    return kinds[int(word) % len(kinds)]


@dataclass(frozen=True, slots=True)
class Readers:
    """What the ops that read a value ask of it: their corners, and whether one sums it up.

    ``ruled``: of what is made of its elements, one alone may decide a fold of truth values.
    """

    corners: tuple[float, ...] = ()
    summed: bool = False
    ruled: bool = False


def focused(
    seed: int, dtype: DType, shape: tuple[int, ...], readers: Readers, domain: Domain | None = None
) -> Array:
    """Values of a tensor that suit the ops that read it.

    ``domain`` bounds about half of the integers, and of the floats unless corners are drawn.
    """
    rng = np.random.Generator(np.random.SFC64(seed))
    n = int(np.prod(shape, dtype=np.int64))
    kind = _one_of(_SUMMED if readers.summed else _FOCUSED, seed)
    with np.errstate(all="ignore"):
        x = _stored(np.asarray(_DRAWS[kind](rng, n, dtype)), dtype)
        bounded = dtype.is_int or kind not in (Distribution.SWEEP, Distribution.READ)
        if domain is not None and bounded:
            x = _within(rng, x, dtype, domain, 0.6)
        if readers.corners and kind in (Distribution.READ, Distribution.SWEEP, Distribution.MIXED):
            there = rng.random(n) < (0.5 if kind is Distribution.READ else 0.2)
            x = np.where(there, _chosen(rng, n, dtype, readers.corners), x)
        if readers.ruled and n:
            x = _ruled(rng, x, dtype)
    return np.asarray(x.reshape(shape), order="C")


def _ruled(rng: np.random.Generator, x: Array, dtype: DType) -> Array:
    """Return the values, or zeros or ones but for about two of them."""
    n, rule = x.size, rng.integers(0, 4)
    rare = rng.random(n) < 2 / n
    if rule > 1:
        return x
    others = ~np.full(n, rule, np.bool_) if dtype is DType.BOOL else x
    return np.asarray(np.where(rare, others, np.full(n, rule).astype(dtype.numpy)))


def mixed_in(x: Array, dtype: DType, corners: Sequence[float], share: float, seed: int) -> Array:
    """Return an array of a dtype in which some corners take the place of a share of the numbers."""
    rng = np.random.Generator(np.random.SFC64(seed))
    with np.errstate(all="ignore"):
        chosen = _chosen(rng, x.size, dtype, corners).reshape(x.shape)
    return np.where(rng.random(x.shape) < share, chosen, x)


def _chosen(rng: np.random.Generator, n: int, dtype: DType, corners: Sequence[float]) -> Array:
    """Numbers among some corners that a dtype has, integers exactly; a quarter are negated."""
    if not dtype.is_int:
        x = np.array(corners, np.float64)[rng.integers(0, len(corners), n)]
        return np.where(rng.random(n) < 0.25, -x, x).astype(dtype.numpy)
    least, most = dtype.limits
    whole = [int(v) for v in corners if math.isfinite(v)]
    fitting = [v for v in (*whole * 3, *(-v for v in whole)) if least <= v <= most] or [0]
    return np.asarray(np.array(fitting, dtype.numpy)[rng.integers(0, len(fitting), n)])


def array(
    seed: int,
    dtype: DType,
    shape: tuple[int, ...],
    domain: Domain | None = None,
    kind: Distribution | None = None,
) -> Array:
    """Values of a tensor, of the given kind or else of the seed's; seed 0 is a short ramp.

    ``domain`` bounds nine values in ten.

    >>> array(0, DType.F32, (2, 3))
    array([[-2., -1.,  0.],
           [ 1.,  2., -2.]], dtype=float32)
    """
    rng = np.random.Generator(np.random.SFC64(seed))
    n = int(np.prod(shape, dtype=np.int64))
    draw = _DRAWS[distribution_of(seed) if kind is None else kind]
    with np.errstate(all="ignore"):
        x = _stored(np.asarray(draw(rng, n, dtype)), dtype)
        if domain is not None:
            x = _within(rng, x, dtype, domain, 0.9)
    return np.asarray(x.reshape(shape), order="C")


def _within(
    rng: np.random.Generator, x: Array, dtype: DType, domain: Domain, share: float
) -> Array:
    if dtype.is_int:
        least, most = dtype.limits
        lo, hi = max(int(domain.lo), least), min(int(domain.hi), most)
        inside: Array = rng.integers(lo, max(lo, hi), x.shape, np.int64, endpoint=True)
    else:
        inside = rng.uniform(domain.lo, domain.hi, x.shape)
    return np.where(rng.random(x.shape) < share, inside.astype(dtype.numpy), x)
