"""Arithmetic in a finite ring, in which every legal order of sums and products agrees exactly.

A *payload* is an element of the ring ``R = F_P x F_Q[e]/(e*e)``, with the primes Q = 2**20 - 5 and
P = 2Q + 1 = 2**21 - 9.  It is one uint64: a number modulo P in the high 22 bits, then, in 21 bits
each, the constant part and the part of ``e`` of a number over F_Q.  The integers, the powers of two
and the quotients of counts embed as themselves, for neither P nor Q divides them.  So a float,
which is a dyadic fraction, has a payload of its own, and an IEEE operation that does not round
agrees with the ring's.  Operations here round nowhere: what an implementation computes in another
order, split or factored otherwise, has the same payload, and what drops, doubles or swaps a term
has another with a probability of 1 - 2**-20 or more.

``exp`` is a homomorphism from sums to products: Q divides P - 1, so powers of an element ``G`` of
order Q are defined for exponents modulo Q, and ``1 + t*e`` is another homomorphism.  Other
functions are *tags*: a hash of their operand's payload.

``UNKNOWN`` stands for what the ring does not model: infinities, NaN, quotients by what has no
inverse, and choices that bars leave undecided.  It is absorbing, and is counted, never compared.

The idea of a payload in a ring is that of FpSan, Triton's sanitizer of floating-point programs,
which takes the integers modulo 2**64.  There even counts have no inverse, so that neither a mean
nor a half is exact.

Functions here are to be called under ``np.errstate(all="ignore")``.

>>> x, y, z = embed(np.float32([0.5, 1e30, -3.25]))
>>> bool(add(add(x, y), z) == add(x, add(y, z))), bool(divide(x, x) == embed(np.float32(1)))
(True, True)
>>> bool(multiply(exp(x), exp(y)) == exp(add(x, y))), bool(add(x, y) == add(x, z))
(True, False)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, cast

import numpy as np

from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import blas

Payload: TypeAlias = Any  # an array of uint64, or one: NumPy's types cannot say "either"
Axes: TypeAlias = int | tuple[int, ...] | None

Q = (1 << 20) - 5
P = 2 * Q + 1
UNKNOWN = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
UNCOUNTED = 1 << 60  # a modulus above any number of terms
MOST_TERMS = 1 << 11  # products of two parts, of which float64 adds up so many exactly

_where = cast("Callable[..., Array]", np.where)  # whose stubs take operands of no type for axes
_U = np.uint64
_P, _Q, _ONE, _SIGN = _U(P), _U(Q), _U(1), _U(63)
_HIGH, _MIDDLE, _PART, _REST = _U(42), _U(21), _U((1 << 21) - 1), _U(20)
_MODULI = _U((P << 42) | (Q << 21) | Q)
# Added to a sum of two elements, it sets the top bit of each part that is not below its modulus.
_CARRY = _U((((1 << 21) - P) << 42) | (((1 << 20) - Q) << 21) | ((1 << 20) - Q))
_LOW = _U((1 << 21) | 1)
_TOP = _U(P << 42)


def where(condition: Any, p: Payload, q: Payload) -> Payload:
    """Return ``p`` where the condition holds, elsewhere ``q``; a scalar of scalars."""
    return _where(condition, p, q)[()]


def _pack(high: Payload, middle: Payload, low: Payload) -> Payload:
    return (high << _HIGH) | (middle << _MIDDLE) | low


def parts(p: Payload) -> tuple[Payload, Payload, Payload]:
    """Return the number modulo P, and the two modulo Q, of elements that are not UNKNOWN."""
    return p >> _HIGH, (p >> _MIDDLE) & _PART, p & _PART


def _bits(p: Payload) -> Payload:
    """Return the bits that any of the payloads has."""
    found: Payload = np.bitwise_or.reduce(p, axis=None)
    return found


def _either(result: Payload, *operands: Payload) -> Payload:
    """Return results, UNKNOWN where an operand has its top bit set, as UNKNOWN alone has."""
    for p in operands:
        if _bits(p) >> _SIGN:
            result = result | np.subtract(_U(0), p >> _SIGN)
    return result


def _dense(p: Payload) -> Payload:
    """Return payloads in one piece of memory, where operations on them are several times faster."""
    return p if p.flags.c_contiguous else p.copy()


def _powers(generator: int, modulus: int) -> Array:
    """Return the powers of a number modulo a prime below 2**21, up to the order of the field."""
    found = np.ones(modulus - 1, _U)
    n = 1
    while n < modulus - 1:
        more = min(n, modulus - 1 - n)
        found[n : n + more] = found[:more] * _U(pow(generator, n, modulus)) % _U(modulus)
        n += more
    return found


@cache
def _inverses(modulus: int) -> Array:
    """Return a table of inverses modulo P or Q; that of 0 is 0."""
    powers = _powers(5 if modulus == P else 2, modulus)
    found = np.zeros(modulus, _U)
    found[powers.astype(np.int64)] = np.roll(powers[::-1], 1)  # unsigned indices are slow
    return found


@cache
def _exponentials() -> Array:
    """Return the powers of ``G``, the square of a generator of the units modulo P."""
    return np.ascontiguousarray(_powers(5, P)[::2])


@cache
def _last_places() -> Array:
    """Return payloads of one unit in the last place, by the sign and exponent bits of a float64."""
    exponents = np.maximum(np.arange(2048), 1) - 1075  # those of subnormal numbers are all the same
    units = np.array([_pack(_U(pow(2, k, P)), _U(pow(2, k, Q)), _U(0)) for k in exponents.tolist()])
    units = np.concatenate([units, negate(units)])
    units[[2047, 4095]] = UNKNOWN
    return units


def embed(values: Any) -> Payload:
    """Return the payloads of numbers of any float, integer or bool dtype.

    A finite number is taken exactly, zeros of either sign as 0; infinities and NaN are UNKNOWN.

    >>> int(embed(np.int8(1))) == int(embed(np.float32(1.0))), bool(embed(np.inf) == UNKNOWN)
    (True, True)
    """
    v = np.asarray(values)
    if v.dtype.kind in "iub" or v.dtype.name.startswith(("int", "uint")):
        whole = v.astype(np.uint64 if v.dtype.kind == "u" else np.int64)
        kind = whole.dtype.type
        high, middle = whole % kind(P), whole % kind(Q)
        return _pack(high.astype(_U), middle.astype(_U), _U(0))[()]
    bits = v.astype(np.float64, order="C").view(_U)
    unit = _last_places()[(bits >> _U(52)).view(np.int64)]  # unsigned indices are slow
    digits = bits & _U((1 << 52) - 1)
    digits |= np.where(bits & _U(2047 << 52), _U(1 << 52), _U(0))
    middle = _modulo(_modulo(digits.copy(), _Q) * ((unit >> _MIDDLE) & _PART), _Q)
    high = _modulo(_modulo(digits, _P) * (unit >> _HIGH), _P)
    return _either(_pack(high, middle, _U(0)), unit)[()]


def fraction(numerator: int, denominator: int = 1) -> Payload:
    """Return the payload of a quotient of whole numbers.

    >>> bool(fraction(1, 2) == embed(0.5))
    True
    """
    high, middle = (numerator * pow(denominator, -1, m) % m for m in (P, Q))
    return _pack(_U(high), _U(middle), _U(0))


ZERO, UNIT = fraction(0), fraction(1)


def _reduced(total: Payload) -> Payload:
    """Subtract its modulus, in place, from each part of a sum of two that is not below it."""
    carried = total + _CARRY
    top = carried >> _SIGN
    top *= _TOP
    total -= top
    carried >>= _REST
    carried &= _LOW
    carried *= _Q
    total -= carried
    return total


def add(p: Payload, q: Payload) -> Payload:
    """Return sums."""
    p, q = _dense(p), _dense(q)
    return _either(_reduced(p + q), p, q)


def subtract(p: Payload, q: Payload) -> Payload:
    """Return differences."""
    p, q = _dense(p), _dense(q)
    return _either(_reduced(p + (_MODULI - q)), p, q)


def negate(p: Payload) -> Payload:
    """Return elements with the opposite sign.

    >>> bool(negate(embed(3)) == embed(-3)), bool(negate(ZERO) == ZERO)
    (True, True)
    """
    return _either(_reduced(_MODULI - p), p)


def _modulo(numbers: Payload, modulus: Any) -> Payload:
    """Return remainders in the place of numbers; NumPy has vectors for quotients alone."""
    quotients = numbers // modulus
    quotients *= modulus
    numbers -= quotients
    return numbers


def multiply(p: Payload, q: Payload) -> Payload:
    """Return products."""
    p, q = _dense(p), _dense(q)
    b, y = p >> _MIDDLE, q >> _MIDDLE
    b &= _PART
    y &= _PART
    middle = _modulo(b * y, _Q)
    middle <<= _MIDDLE
    product = _modulo((p >> _HIGH) * (q >> _HIGH), _P)
    product <<= _HIGH
    product |= middle
    seen = [(x, z, _bits(z)) for x, z in ((b, q), (y, p))]
    lows = [x * (z & _PART) for x, z, bits in seen if bits & _PART]
    if lows:
        product |= _modulo(sum(lows[1:], lows[0]), _Q)
    return _either(product, *(z for _, z, bits in seen if bits >> _SIGN))


def fma(p: Payload, q: Payload, r: Payload) -> Payload:
    """Return ``p * q + r``."""
    return add(multiply(p, q), r)


def reciprocal(p: Payload) -> Payload:
    """Return inverses; UNKNOWN of zero and whatever else has none.

    >>> bool(multiply(reciprocal(embed(6)), embed(3)) == embed(0.5))
    True
    >>> bool(reciprocal(ZERO) == UNKNOWN)
    True
    """
    known = p != UNKNOWN
    a, b, c = parts(where(known, p, ZERO))
    x, y = _inverses(P)[a.astype(np.int64)], _inverses(Q)[b.astype(np.int64)]
    inverse = _pack(x, y, (_Q - c) * (y * y % _Q) % _Q)
    return where((x != 0) & (y != 0), inverse, UNKNOWN)


def divide(p: Payload, q: Payload) -> Payload:
    """Return ``p`` times the inverse of ``q``: UNKNOWN where ``q`` has none."""
    return multiply(p, reciprocal(q))


def exp(p: Payload) -> Payload:
    """Return exponentials: units, such that exp(p + q) = exp(p) * exp(q) and exp(0) = 1.

    Of an element ``(a, b + c*e)`` it keeps b and c, in two independent ways, and forgets a.
    """
    known = p != UNKNOWN
    _, b, c = parts(where(known, p, ZERO))
    power = _exponentials()[((b + c * _U(611953)) % _Q).astype(np.int64)]
    return where(known, _pack(power, _ONE, (b * _U(786433) + c) % _Q), UNKNOWN)


def power(p: Payload, exponents: Array) -> Payload:
    """Return powers with integer exponents, of size at most 1024; exponent 0 gives 1."""
    size = np.abs(exponents)
    base = where(exponents < 0, reciprocal(p), p)
    found = where(p == UNKNOWN, UNKNOWN, UNIT)
    while size.any():
        found = where(size & 1, multiply(found, base), found)
        size = size >> 1
        base = multiply(base, base)
    return found


@cache
def _key(name: str) -> np.uint64:
    return _U(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()))


def _mixed(z: Payload) -> Payload:
    """Mix 64 bits invertibly: the finalizer of splitmix64 (Steele, Lea and Flood, 2014)."""
    z = (z ^ (z >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> _U(27))) * _U(0x94D049BB133111EB)
    return z ^ (z >> _U(31))


def tag(name: str, *payloads: Payload) -> Payload:
    """Return elements that hang on every bit of the payloads, in a way that differs by name."""
    z = np.full((), _key(name))
    unknown: Payload = ZERO
    for p in payloads:
        unknown = unknown | p
        z = _mixed(z + p)
    high, middle, low = z >> _U(43), (z >> _MIDDLE) & (_PART >> _ONE), z & (_PART >> _ONE)
    lanes = (np.minimum(x, x - m) for x, m in ((high, _P), (middle, _Q), (low, _Q)))
    return _either(_pack(*lanes), unknown)


def odd_tag(name: str, p: Payload) -> Payload:
    """Return a tag ``f`` with f(-p) = -f(p) and f(0) = 0."""
    opposite = negate(p)
    smaller = np.minimum(p, opposite)
    found = tag(name, smaller)
    return where(p == opposite, p, np.where(p == smaller, found, negate(found)))


def even_tag(name: str, p: Payload) -> Payload:
    """Return a tag ``f`` with f(-p) = f(p)."""
    return tag(name, np.minimum(p, negate(p)))


def _folded(fold: Callable[[Array, Any], Array], p: Payload) -> Payload:
    """Return a fold of sums of each part; UNKNOWN where it meets one."""
    known = p != UNKNOWN
    if known.all():
        totals = [fold(x, m) for x, m in zip(parts(p), (_P, _Q, _Q), strict=True)]
        return _pack(*totals)
    found = _folded(fold, where(known, p, ZERO))
    return where(fold((~known).astype(_U), None) > 0, UNKNOWN, found)


def sum_of(p: Payload, axis: Axes = None, *, keepdims: bool = False) -> Payload:
    """Return sums over axes of at most 2**42 elements; 0 where there are none."""

    def fold(x: Array, modulus: Any) -> Array:
        total = np.asarray(np.sum(x, axis=axis, keepdims=keepdims, dtype=_U))
        return total if modulus is None else total % modulus

    return _folded(fold, p)


def running_sum(p: Payload, axis: int) -> Payload:
    """Return the sum of each element and those before it along an axis."""

    def fold(x: Array, modulus: Any) -> Array:
        total = np.cumsum(x, axis=axis, dtype=_U)
        return total if modulus is None else total % modulus

    return _folded(fold, p)


def product_of(p: Payload, axis: int) -> Payload:
    """Return products along an axis; 1 where it has no elements."""
    line = np.moveaxis(p, axis, 0)
    while len(line) > 1:
        half = len(line) // 2
        rest = line[2 * half :]
        line = np.concatenate([multiply(line[:half], line[half : 2 * half]), rest])
    return line[0] if len(line) else np.full(line.shape[1:], UNIT)


def running_product(p: Payload, axis: int) -> Payload:
    """Return the product of each element and those before it along an axis."""
    line = np.array(np.moveaxis(p, axis, 0))
    step = 1
    while step < len(line):
        line = np.concatenate([line[:step], multiply(line[step:], line[:-step])])
        step *= 2
    return np.moveaxis(line, 0, axis)


def matmul(p: Payload, q: Payload) -> Payload:
    """Return matrix products, as ``np.matmul`` does of operands of two axes or more."""
    return sums_of_products(p, q, remainders)


def remainders(a: Array, b: Array, modulus: int) -> Array:
    """Return matrix products of whole float64 numbers from 0 to P - 1, modulo a number, as uint64.

    A sum of ``MOST_TERMS`` products is below 2**53, so that float64 holds it exactly.
    """

    def part(k: int) -> Array:
        found = blas.matmul(a[..., k : k + MOST_TERMS], b[..., k : k + MOST_TERMS, :])
        return np.asarray(_modulo(found.astype(_U), _U(modulus)))

    total = part(0)
    for k in range(MOST_TERMS, a.shape[-1], MOST_TERMS):
        total = _modulo(total + part(k), _U(modulus))
    return total


def dot(p: Payload, q: Payload) -> Payload:
    """Return sums along the first axis of products of arrays of as many axes, which broadcast.

    Axes along which one of them is repeated are the rows or the columns of a matrix product.
    """
    shape = np.broadcast_shapes(p.shape[1:], q.shape[1:])
    axes = range(1, 1 + len(shape))
    rows = [a for a in axes if q.shape[a] == 1]
    columns = [a for a in axes if a not in rows and p.shape[a] == 1]
    if all(shape[a - 1] == 1 for a in (*rows, *columns)):
        return sum_of(multiply(p, q), axis=0)
    stack = [a for a in axes if a not in rows and a not in columns]
    heads = [shape[a - 1] for a in stack]
    left = p.transpose(*stack, *rows, 0, *columns).reshape(*heads, -1, len(p))
    right = q.transpose(*stack, *rows, 0, *columns).reshape(*heads, len(q), -1)
    order = [*stack, *rows, *columns]
    found = matmul(left, right).reshape([shape[a - 1] for a in order])
    return found.transpose([order.index(a) for a in axes])[()]


def sums_of_products(
    p: Payload, q: Payload, multiply: Callable[[Array, Array, int], Array]
) -> Payload:
    """Return sums of products of elements of ``p`` and ``q``, such as convolutions.

    ``multiply`` computes the same sums of whole numbers in float64 modulo a number, as
    ``remainders`` does.
    """
    if _bits(p) >> _SIGN or _bits(q) >> _SIGN:
        lost = [np.where(x == UNKNOWN, 1.0, 0.0) for x in (p, q)]
        ones = [np.ones(x.shape) for x in (p, q)]
        bad = multiply(lost[0], ones[1], UNCOUNTED) + multiply(ones[0], lost[1], UNCOUNTED)
        left, right = (where(x == UNKNOWN, ZERO, x) for x in (p, q))
        return where(bad > 0, UNKNOWN, sums_of_products(left, right, multiply))
    a, b, c = (x.astype(np.float64) for x in parts(p))
    x, y, z = (x.astype(np.float64) for x in parts(q))
    high, middle = (multiply(*f).astype(_U) for f in ((a, x, P), (b, y, Q)))
    found = _pack(high, middle, _U(0))
    low = [multiply(*f, Q).astype(_U) for f in ((b, z), (c, y)) if all(x.any() for x in f)]
    return found | (sum(low, _U(0)) % _Q) if low else found
