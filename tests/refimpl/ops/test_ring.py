"""The ring: its arithmetic against Python's integers, and the identities that it promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from didyma.refimpl.interp import scalar
from didyma.refimpl.ir.loop import BINARY_OPS, BITCASTS, INTRINSICS, UNARY_OPS
from didyma.refimpl.ir.types import ALL, BYTES, Array, DType
from didyma.refimpl.ops import ring, ring_rules
from didyma.refimpl.ops.ring import UNKNOWN, P, Q

N = 500
RNG = np.random.default_rng(12)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def payloads(n: int = N) -> Array:
    """Return random units, with a part of e."""
    high, middle = RNG.integers(1, P, n, np.uint64), RNG.integers(1, Q, n, np.uint64)
    low = RNG.integers(0, Q, n, np.uint64)
    return np.asarray((high << np.uint64(42)) | (middle << np.uint64(21)) | low)


def floats(n: int = N) -> Array:
    return np.asarray(RNG.standard_normal(n) * 2.0 ** RNG.integers(-40, 40, n), np.float32)


Parts = tuple[int, int, int]


def split(p: int) -> Parts:
    return p >> 42, p >> 21 & (2**21 - 1), p & (2**21 - 1)


def joined(*p: int) -> int:
    return p[0] % P << 42 | p[1] % Q << 21 | p[2] % Q


DEFINITIONS: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Parts, Parts], Parts]]] = {
    "add": (ring.add, lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2])),
    "subtract": (ring.subtract, lambda a, b: (a[0] - b[0], a[1] - b[1], a[2] - b[2])),
    "negate": (lambda a, _: ring.negate(a), lambda a, _: (-a[0], -a[1], -a[2])),
    "multiply": (
        ring.multiply,
        lambda a, b: (a[0] * b[0], a[1] * b[1], a[1] * b[2] + a[2] * b[1]),
    ),
    "reciprocal": (
        lambda a, _: ring.reciprocal(a),
        lambda a, _: (pow(a[0], -1, P), pow(a[1], -1, Q), -a[2] * pow(a[1], -2, Q)),
    ),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_arithmetic_is_that_of_integers_modulo_two_primes(name: str) -> None:
    ours, definition = DEFINITIONS[name]
    p, q = payloads(), payloads()
    p[:3] = joined(P - 1, Q - 1, Q - 1)
    q[:2] = joined(1, 1, 1), joined(P - 1, Q - 1, Q - 1)
    want = [
        joined(*definition(split(a), split(b))) for a, b in zip(to_ints(p), to_ints(q), strict=True)
    ]
    assert to_ints(ours(p, q)) == want


def to_ints(p: Array) -> list[int]:
    return [int(x) for x in p]


@pytest.mark.parametrize("dtype", ALL)
def test_a_number_is_embedded_exactly(dtype: DType) -> None:
    raw = RNG.integers(0, 256, (N, dtype.nbytes), np.uint8)
    if dtype.is_float and not dtype.is_packed:
        values = raw.view(dtype.numpy)[:, 0]
    else:
        low, high = dtype.limits if dtype.is_int else (0, 2)
        values = RNG.integers(low, high, N, np.uint64 if dtype is DType.U64 else np.int64)
        values = values.astype(dtype.numpy)
    for value, got in zip(values, ring.embed(values), strict=True):
        number = float(value) if dtype.is_float else int(value)
        if number != number or abs(number) == float("inf"):
            assert got == UNKNOWN
            continue
        f = Fraction(number)
        n, d = f.numerator, f.denominator
        assert int(got) == joined(n * pow(d, -1, P), n * pow(d, -1, Q), 0)


def on_the_right(f: Callable[[Any, Any], Any], q: Any, p: Any) -> Any:
    return f(p, q)


def test_unknown_is_absorbing() -> None:
    p = payloads(4)
    p[1] = UNKNOWN
    want = np.array([False, True, False, False])
    others: list[Callable[[Any], Any]] = [*ring_rules.SMOOTH.values(), ring.reciprocal]
    for f in (*ring_rules.BINARY.values(), ring.subtract):
        others += [partial(f, payloads(4)), partial(on_the_right, f, payloads(4))]
    for one in others:
        assert np.array_equal(one(p) == UNKNOWN, want), one
    assert np.array_equal(ring.running_sum(p, 0) == UNKNOWN, [False, True, True, True])
    assert ring.sum_of(p) == UNKNOWN
    assert ring.product_of(p, 0) == UNKNOWN
    square = np.stack([p] * 4)
    assert np.array_equal((ring.matmul(square, payloads(4)[:, None]) == UNKNOWN)[:, 0], [True] * 4)
    got = ring.matmul(p[:, None], payloads(1)[None]) == UNKNOWN
    assert np.array_equal(got[:, 0], want)


def test_what_has_no_inverse_is_unknown() -> None:
    none = np.array([0, joined(0, 3, 1), joined(3, 0, 1)], np.uint64)
    assert np.all(ring.reciprocal(none) == UNKNOWN)


def test_folds_agree_with_one_operation_at_a_time() -> None:
    p = payloads(60).reshape(5, 12)
    total, product = p[:, 0], p[:, 0]
    for i in range(1, 12):
        assert np.array_equal(ring.running_sum(p, 1)[:, i - 1], total)
        assert np.array_equal(ring.running_product(p, 1)[:, i - 1], product)
        total, product = ring.add(p[:, i], total), ring.multiply(p[:, i], product)
    assert np.array_equal(ring.sum_of(p, 1), total)
    assert np.array_equal(ring.sum_of(p, (1,), keepdims=True)[:, 0], total)
    assert np.array_equal(ring.product_of(p, 1), product)
    assert ring.sum_of(p[:0]) == ring.ZERO
    assert np.array_equal(ring.product_of(p[:, :0], 1), [ring.UNIT] * 5)
    q = payloads(36).reshape(12, 3)
    want = ring.sum_of(ring.multiply(p[:, :, None], q[None]), 1)
    assert np.array_equal(ring.matmul(p, q), want)


def test_a_long_product_of_matrices_is_exact() -> None:
    n = 2 * ring.MOST_TERMS + 1
    p = np.full((1, n), joined(P - 1, Q - 1, Q - 1), np.uint64)
    assert int(ring.matmul(p, p.T)[0, 0]) == joined(n, n, 2 * n)


def unary(name: str, p: Array) -> Any:
    one = np.ones(p.shape)
    return ring_rules.unary(name, p, one, one)


ONE, ZERO = ring.fraction(1), ring.fraction(0)
OF_ONE: dict[str, Callable[[Array, Array], tuple[Any, Any]]] = {
    "exp(x + y) = exp(x) exp(y)": lambda x, y: (
        unary("exp", ring.add(x, y)),
        ring.multiply(unary("exp", x), unary("exp", y)),
    ),
    "exp(-x) = 1 / exp(x)": lambda x, _: (
        unary("exp", ring.negate(x)),
        ring.reciprocal(unary("exp", x)),
    ),
    "exp2(x + y) = exp2(x) exp2(y)": lambda x, y: (
        unary("exp2", ring.add(x, y)),
        ring.multiply(unary("exp2", x), unary("exp2", y)),
    ),
    "tanh = sinh / cosh": lambda x, _: (
        unary("tanh", x),
        ring.divide(unary("sinh", x), unary("cosh", x)),
    ),
    "tan = sin / cos": lambda x, _: (
        unary("tan", x),
        ring.divide(unary("sin", x), unary("cos", x)),
    ),
    "x rsqrt(y) = x / sqrt(y)": lambda x, y: (
        ring.multiply(x, unary("rsqrt", y)),
        ring.divide(x, unary("sqrt", y)),
    ),
    "log1p(x) = log(1 + x)": lambda x, _: (unary("log1p", x), unary("log", ring.add(ONE, x))),
    "exp2(x log2(e)) = exp(x)": lambda x, _: (
        unary("exp2", ring.multiply(x, ring.embed(np.float32(1 / np.log(2))))),
        unary("exp", x),
    ),
    "log2(x) / log2(y) = log(x) / log(y)": lambda x, y: (
        ring.divide(unary("log2", x), unary("log2", y)),
        ring.divide(unary("log", x), unary("log", y)),
    ),
    "log10(10) = log2(2)": lambda x, _: (
        unary("log10", ring.embed(0 * x + np.uint64(10))),
        unary("log2", ring.embed(0 * x + np.uint64(2))),
    ),
    "expm1(x) + 1 = exp(x)": lambda x, _: (ring.add(unary("expm1", x), ONE), unary("exp", x)),
    "(x - y) / y = x / y - 1": lambda x, y: (
        ring.divide(ring.subtract(x, y), y),
        ring.subtract(ring.divide(x, y), ONE),
    ),
}


@pytest.mark.parametrize("name", OF_ONE)
def test_an_identity_holds(name: str) -> None:
    left, right = OF_ONE[name](payloads(), payloads())
    assert np.array_equal(left, right)
    assert len(np.unique(left)) > N - 5 or name.startswith("log10")


@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "asinh", "atanh", "erf", "tanh"])
def test_an_odd_function_is_odd(name: str) -> None:
    x = payloads()
    assert np.array_equal(unary(name, ring.negate(x)), ring.negate(unary(name, x)))
    assert unary(name, np.array([ZERO]))[0] == ZERO


@pytest.mark.parametrize("name", ["cos", "cosh"])
def test_an_even_function_is_even(name: str) -> None:
    x = payloads()
    assert np.array_equal(unary(name, ring.negate(x)), unary(name, x))
    assert unary(name, np.array([ZERO]))[0] == ONE


def test_tags_differ_by_function_and_by_operand() -> None:
    x = payloads()
    names = [n for n in ring_rules.SMOOTH if n not in ("neg", "log1p")]
    found = np.concatenate([unary(n, x) for n in names])
    assert len(np.unique(found)) > len(found) - 5


def test_a_power_is_a_product() -> None:
    x, one = payloads(), np.ones(N)
    for n in -3, -1, 0, 1, 2, 7, 1024:
        want = np.full(N, ONE)
        for _ in range(abs(n)):
            want = ring.multiply(want, x if n > 0 else ring.reciprocal(x))
        got = ring_rules.binary("pow", x, ring.embed(float(n)), one, one, one)
        assert np.array_equal(got, want)
    got = ring_rules.binary("pow", x, ring.embed(0.5), one, one, one)
    assert np.array_equal(got, unary("sqrt", x))
    y, z = payloads(), payloads()
    both = ring_rules.binary("pow", x, ring.add(y, z), one, one, one)
    each = [ring_rules.binary("pow", x, e, one, one, one) for e in (y, z)]
    assert np.array_equal(both, ring.multiply(*each))


@pytest.mark.parametrize("name", BINARY_OPS)
def test_every_binary_operation_on_floats_has_a_rule(name: Any) -> None:
    a, b = floats(), floats()
    try:
        f = scalar.binary_fn(name, DType.F32)
    except KeyError:
        return
    got = ring_rules.binary(name, ring.embed(a), ring.embed(b), a, b, f(a, b))
    assert got.dtype == np.uint64
    assert np.count_nonzero(got == UNKNOWN) < N / 10 or name.endswith("mod")


@pytest.mark.parametrize("name", UNARY_OPS)
def test_every_unary_operation_on_floats_has_a_rule(name: Any) -> None:
    a = floats()
    try:
        f = scalar.unary_fn(name, DType.F32)
    except KeyError:
        return
    assert not (ring_rules.unary(name, ring.embed(a), a, f(a)) == UNKNOWN).any()


@pytest.mark.parametrize("name", [*INTRINSICS, "as_f32", "as_f16", "as_u32"])
def test_every_intrinsic_has_a_rule(name: str) -> None:
    count = INTRINSICS[name].operands if name in INTRINSICS else 1
    operands = [floats() for _ in range(count)]
    if name in BITCASTS and BITCASTS[name].is_float:
        narrow, bits = (np.float16, np.uint16) if name == "as_f16" else (np.float32, np.uint32)
        operands = [np.clip(operands[0], -1, 1).astype(narrow).view(bits)]
    result = scalar.intrinsic_fn(name, DType.of(operands[0]))(*operands)
    found = ring_rules.intrinsic(name, [ring.embed(x) for x in operands], operands, result)
    if name in ("isnan", "isinf", "signbit", "as_u32"):
        assert found is None
    else:
        assert found is not None
        assert np.count_nonzero(found == UNKNOWN) < N / 10


@pytest.mark.parametrize("target", BYTES)
@pytest.mark.parametrize("source", BYTES)
def test_casts_keep_payloads_between_floats_alone(source: DType, target: DType) -> None:
    value = np.array([3, 1]).astype(source.numpy)
    found = ring_rules.cast(payloads(2) if source.is_float else None, value, source, target)
    assert (found is None) is not target.is_float
    if target.is_float and not source.is_float:
        assert found is not None
        assert np.array_equal(found, ring.embed(value))


def test_exact_ieee_arithmetic_agrees_with_the_ring() -> None:
    a, b = (RNG.integers(-999, 999, N).astype(np.float32) / 8 for _ in range(2))
    names: list[Any] = ["add", "sub", "mul", "floordiv", "floormod", "truncmod", "min", "max"]
    for name in [*names, "copysign"]:
        f: Any = scalar.intrinsic_fn if name == "copysign" else scalar.binary_fn
        r = f(name, DType.F32)(a, b)
        found = ring_rules.binary(name, ring.embed(a), ring.embed(b), a, b, r)
        good = (b != 0) & (found != UNKNOWN)
        assert good.mean() > 0.95
        assert np.array_equal(found[good], ring.embed(r)[good]), name


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [("exp", -np.inf, 0.0), ("tanh", np.inf, 1.0), ("tanh", -np.inf, -1.0), ("erf", np.inf, 1.0)],
)
def test_the_limit_of_a_function_is_known(name: str, value: float, result: float) -> None:
    x, y = np.array([value, 0.5], np.float32), np.array([result, 0.25], np.float32)
    assert ring_rules.unary(name, ring.embed(x), x, y)[0] == ring.embed(result)
    assert ring_rules.binary("div", ring.embed(1), UNKNOWN, 1.0, np.inf, 0.0) == ring.ZERO


def test_equal_numbers_of_two_payloads_leave_their_maximum_unknown() -> None:
    p, q = payloads(2)
    assert ring_rules.binary("max", p, q, 1.0, 1.0, 1.0) == UNKNOWN
    assert ring_rules.binary("max", p, p, 1.0, 1.0, 1.0) == p
    assert ring_rules.binary("max", p, q, 1.0, 2.0, 2.0) == q
    assert ring_rules.binary("min", p, q, 1.0, 2.0, 1.0) == p
    assert ring_rules.binary("min", p, q, 1.0, np.nan, np.nan) == UNKNOWN


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5,), (5,)),
        ((1, 2), (1, 2)),
        ((7, 2, 1), (7, 1, 1)),
        ((4, 2, 3), (4, 2, 3)),
        ((5, 3, 1, 4), (5, 1, 2, 4)),
        ((4, 2, 1, 3, 1), (4, 1, 5, 1, 1)),
        ((ring.MOST_TERMS + 1, 2), (ring.MOST_TERMS + 1, 1)),
    ],
)
@pytest.mark.parametrize("unknown", [0.0, 0.1])
def test_dot_is_the_sum_of_products(
    left: tuple[int, ...], right: tuple[int, ...], unknown: float
) -> None:
    p, q = (payloads(int(np.prod(s))).reshape(s) for s in (left, right))
    p[RNG.random(left) < unknown] = UNKNOWN
    want = np.zeros(np.broadcast_shapes(left[1:], right[1:]), np.uint64)
    for x, y in zip(p, q, strict=True):
        want = np.asarray(ring.add(want, np.asarray(ring.multiply(np.asarray(x), np.asarray(y)))))
    got = np.asarray(ring.dot(p, q))
    assert got.shape == want.shape
    assert np.array_equal(got, want)
