"""The scalar operations against exact integers and fractions, on corners of every dtype."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from didyma.refimpl.interp import scalar
from didyma.refimpl.ir.loop import (
    BINARY_OPS,
    COMPARE_OPS,
    INTRINSICS,
    UNARY_OPS,
    BinaryOp,
    CompareOp,
    UnaryOp,
)
from didyma.refimpl.ir.types import BYTES, INTS, SIGNED, Array, DType

REAL = (DType.F32, DType.F64)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def compare(op: CompareOp, a: Any, b: Any) -> Any:
    return scalar.compare_fn(op, DType.of(a))(a, b)


def unary(op: UnaryOp, x: Any) -> Any:
    return scalar.unary_fn(op, DType.of(x))(x)


def intrinsic(name: str, args: Sequence[Any]) -> Any:
    return scalar.intrinsic_fn(name, DType.of(args[0]))(*args)


def cast(x: Any, source: DType, to: DType) -> Any:
    return scalar.cast_fn(source, to)(x)


def corners(dtype: DType) -> Array:
    if dtype == DType.BOOL:
        return np.array([False, True])
    if dtype.is_int:
        info = np.iinfo(dtype.numpy)
        near = [info.min, info.min + 1, info.max, info.max - 1, info.bits, info.bits - 1]
        values = {
            *near,
            0,
            1,
            2,
            3,
            5,
            7,
            100,
            *((-1, -2, -3, -7, -100) if dtype in SIGNED else ()),
        }
        return np.array(sorted(values), dtype.numpy)
    floats = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -7, 1e-30, 1e30, math.pi]
    wide = [127.5, 128, 255.5, 256, -128.5, -129, 32767.9, 65535.5, 2.0**31, 2.0**32, -(2.0**31)]
    huge = [2.0**62, 2.0**63, -(2.0**63), 2.0**64, 2.0**64 * 1.5, math.inf, -math.inf, math.nan]
    return np.asarray(cast(np.array(floats + wide + huge), DType.F64, dtype))


def wrap(value: int, dtype: DType) -> int:
    bits = 8 * dtype.nbytes
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype in SIGNED and value >> (bits - 1) else value


def exact_int(op: str, a: int, b: int, bits: int) -> int:
    """The written rules of integer arithmetic, on unbounded integers."""
    match op:
        case "add" | "sub" | "mul":
            return {"add": a + b, "sub": a - b, "mul": a * b}[op]
        case "floordiv":
            return math.floor(Fraction(a, b)) if b else 0
        case "truncdiv":
            return math.trunc(Fraction(a, b)) if b else 0
        case "floormod":
            return a - b * math.floor(Fraction(a, b)) if b else 0
        case "truncmod":
            return a - b * math.trunc(Fraction(a, b)) if b else 0
        case "min" | "max":
            return sorted((a, b))[op == "max"]
        case "and" | "or" | "xor":
            return {"and": a & b, "or": a | b, "xor": a ^ b}[op]
        case "shl":
            return a << b if 0 <= b < bits else 0
        case "shr":
            return a >> b if 0 <= b < bits else -(a < 0)
        case "pow" if b >= 0:
            return pow(a, b, 1 << bits)
        case "pow":
            return 1 if a == 1 else 0 if a != -1 else -1 if b % 2 else 1
        case _:
            raise AssertionError(op)


INT_OPS: tuple[BinaryOp, ...] = tuple(op for op in BINARY_OPS if op not in ("div", "atan2"))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", INT_OPS)
def test_integer_operations_are_exact_and_wrap(op: BinaryOp, dtype: DType) -> None:
    xs = corners(dtype)
    pairs = list(itertools.product(xs, xs))
    got = scalar.binary(op, np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
    assert got.dtype == dtype.numpy
    for (a, b), g in zip(pairs, got, strict=True):
        want = wrap(exact_int(op, int(a), int(b), 8 * dtype.nbytes), dtype)
        assert int(g) == want, f"{op}({a}, {b})"
        alone = scalar.binary(op, a, b)
        assert (alone.dtype, int(alone)) == (dtype.numpy, want), f"{op}({a}, {b}) of scalars"


@pytest.mark.parametrize("dtype", INTS)
def test_integer_unary(dtype: DType) -> None:
    xs = corners(dtype)
    for op in UNARY_OPS:
        exact = [{"neg": -int(x), "not": ~int(x), "abs": abs(int(x))}[op] for x in xs]
        want = [wrap(v, dtype) for v in exact]
        assert [int(v) for v in unary(op, xs)] == want
        assert [int(unary(op, x)) for x in xs] == want


def test_bool_operations() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    table: dict[BinaryOp, list[int]] = {
        "and": [0, 0, 0, 1],
        "or": [0, 1, 1, 1],
        "xor": [0, 1, 1, 0],
        "min": [0, 0, 0, 1],
    }
    for op, want in table.items():
        got = scalar.binary(op, a, b)
        assert got.dtype == np.bool_
        assert got.tolist() == [bool(w) for w in want]
    assert scalar.binary("max", a, b).tolist() == [False, True, True, True]
    assert unary("not", a).tolist() == [True, True, False, False]


def same(a: Any, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (
        float(a) == b and math.copysign(1, a) == math.copysign(1, b)
    )


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_of_floats_know_nan_and_the_sign_of_zero(op: BinaryOp, dtype: DType) -> None:
    xs = corners(dtype)
    pairs = list(itertools.product(xs, xs))
    got = scalar.binary(op, np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
    assert got.dtype == dtype.numpy
    for (a, b), g in zip(pairs, got, strict=True):
        if math.isnan(a) or math.isnan(b):
            want = math.nan
        else:
            order = sorted((float(a), float(b)), key=lambda v: (v, math.copysign(1, v)))
            want = order[op == "max"]
        assert same(g, want), f"{op}({a}, {b}) = {g}"
        assert same(scalar.binary(op, a, b), want)


@pytest.mark.parametrize("dtype", REAL)
def test_float_division_and_remainders(dtype: DType) -> None:
    one, zero, inf = dtype.numpy.type(1), dtype.numpy.type(0), dtype.numpy.type(math.inf)
    assert scalar.binary("div", one, zero) == math.inf
    assert math.isnan(scalar.binary("floormod", one, zero))
    assert math.isnan(scalar.binary("truncmod", one, zero))
    assert scalar.binary("truncmod", -one, inf) == -1
    for a, b in itertools.product((5.5, -5.5, 7.0, -7.0, 0.25), (2.0, -2.0, 0.75, -3.0)):
        x, y, q = dtype.numpy.type(a), dtype.numpy.type(b), Fraction(a) / Fraction(b)
        assert scalar.binary("floormod", x, y) == float(Fraction(a) - Fraction(b) * math.floor(q))
        assert scalar.binary("truncmod", x, y) == float(Fraction(a) - Fraction(b) * math.trunc(q))
        assert scalar.binary("floordiv", x, y) == math.floor(q)


@pytest.mark.parametrize("dtype", [*INTS, *REAL])
def test_comparisons(dtype: DType) -> None:
    xs = corners(dtype)
    for a, b in itertools.product(xs, xs):
        x, y = (int(a), int(b)) if dtype.is_int else (float(a), float(b))
        want = [x == y, x != y, x < y, x <= y, x > y, x >= y]
        assert [bool(compare(op, a, b)) for op in COMPARE_OPS] == want


def exact_cast(x: Any, src: DType, dst: DType) -> int:
    """Conversion to an integer or bool by the written rules."""
    if src.is_int or src == DType.BOOL:
        value = int(x)
        return int(value != 0) if dst == DType.BOOL else wrap(value, dst)
    v = float(x)
    if dst == DType.BOOL:
        return int(v != 0)
    if math.isnan(v):
        return 0
    info = np.iinfo(dst.numpy)
    if math.isinf(v):
        return int(info.max if v > 0 else info.min)
    return min(max(math.trunc(v), int(info.min)), int(info.max))


def nearest(x: Any, dst: DType) -> float:
    """The float of a dtype next to an integer or float, found by search with ties to even."""
    if isinstance(x, float) and not math.isfinite(x):
        return x
    with np.errstate(all="ignore"):
        guess = dst.numpy.type(float(np.float32(x)) if dst != DType.F64 else x)
        around = [guess, np.nextafter(guess, dst.numpy.type(math.inf)),
                  np.nextafter(guess, dst.numpy.type(-math.inf))]  # fmt: skip
    finite = [g for g in around if math.isfinite(float(g))]
    unsigned = {2: np.uint16, 4: np.uint32, 8: np.uint64}[dst.nbytes]
    return float(
        min(
            finite, key=lambda g: (abs(Fraction(float(g)) - Fraction(x)), int(g.view(unsigned)) & 1)
        )
    )


@pytest.mark.parametrize("dst", [*INTS, DType.BOOL])
@pytest.mark.parametrize("src", BYTES)
def test_casts_to_integers(src: DType, dst: DType) -> None:
    xs = corners(src)
    want = [exact_cast(x, src, dst) for x in xs]
    got = cast(xs, src, dst)
    assert got.dtype == dst.numpy
    assert [int(g) for g in got] == want
    assert [int(cast(x, src, dst)) for x in xs] == want


@pytest.mark.parametrize("dst", REAL)
@pytest.mark.parametrize("src", [*INTS, DType.BOOL])
def test_casts_of_integers_to_floats_round_to_nearest_even(src: DType, dst: DType) -> None:
    xs = corners(src)
    if src.nbytes == 8:
        ties = [2**53 + 1, 2**53 + 3, 2**62 + 2**38, 2**62 + 3 * 2**38, 2**62 + 2**38 + 1]
        xs = np.concatenate([xs, np.array(ties, src.numpy)])
    for x, g in zip(xs, cast(xs, src, dst), strict=True):
        assert float(g) == nearest(int(x), dst), f"{x}"


def test_casts_to_small_floats_go_through_f32() -> None:
    # Just above the middle of two f16 numbers, but exactly there once it is f32.
    x = np.array([1 + 2.0**-11 + 2.0**-40])
    assert cast(x, DType.F64, DType.F16)[0] == 1
    near = np.array([1 + 2.0**-8 + 2.0**-40])
    assert float(cast(near, DType.F64, DType.BF16)[0]) == 1
    tie = np.array([2**24 + 2**13 + 1], np.int64)
    assert float(cast(tie, DType.I64, DType.BF16)[0]) == 2.0**24
    assert float(cast(np.array([70000]), DType.I64, DType.F16)[0]) == math.inf
    back = cast(np.array([math.nan, -0.0], np.float32), DType.F32, DType.BF16)
    assert math.isnan(float(back[0]))
    assert math.copysign(1, float(back[1])) == -1


@pytest.mark.parametrize("dtype", REAL)
def test_every_intrinsic_has_a_meaning(dtype: DType) -> None:
    x = np.array([0.25, 0.5], dtype.numpy)
    for name, record in INTRINSICS.items():
        arity, yields_bool = record.operands, name in ("isnan", "isinf", "signbit")
        args = [x + 1 if name == "acosh" else x] * arity
        got = intrinsic(name, args)
        assert got.dtype == (np.bool_ if yields_bool else dtype.numpy), name
        assert got.shape == x.shape
        if hasattr(math, name) and not yields_bool and arity == 1:
            want = [getattr(math, name)(float(a)) for a in args[0]]
            assert np.allclose(got, want, rtol=1e-6, atol=0), name


def test_intrinsics_with_written_rules() -> None:
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    assert intrinsic("round", [halves]).tolist() == [0, 2, 2, 0, -2]
    assert math.copysign(1, intrinsic("round", [halves])[3]) == -1
    assert intrinsic("rsqrt", [np.float64(4)]) == 0.5
    assert intrinsic("erf", [np.array([math.inf, -math.inf])]).tolist() == [1, -1]
    assert math.isnan(intrinsic("erf", [np.float32(math.nan)]))
    odd = np.array([math.nan, math.inf, -0.0])
    assert intrinsic("isnan", [odd]).tolist() == [True, False, False]
    assert intrinsic("isinf", [odd]).tolist() == [False, True, False]
    assert intrinsic("signbit", [odd[1:]]).tolist() == [False, True]
    assert intrinsic("copysign", [np.float32(3), np.float32(-0.0)]) == -3


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(5)
    for dtype, unit in ((DType.F32, 2.0**-23), (DType.F64, 2.0**-52)):
        a = 1 + unit * rng.integers(1, 1000, 400)
        b = 1 - unit * rng.integers(1, 1000, 400)
        c = -1 + unit * rng.integers(-1000, 1000, 400)
        cases = [[v.astype(dtype.numpy) for v in (a, b, c)]]
        cases.append([cases[0][0], cases[0][1], (c * unit**1.5).astype(dtype.numpy)])
        for x, y, z in cases:
            got = intrinsic("fma", [x, y, z])
            assert got.dtype == dtype.numpy
            for p, q, r, g in zip(x, y, z, got, strict=True):
                exact = Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r))
                below, above = np.nextafter(g, -np.inf), np.nextafter(g, np.inf)
                error = abs(Fraction(float(g)) - exact)
                others = [abs(Fraction(float(v)) - exact) for v in (below, above)]
                assert error <= min(others)


def test_fma_at_the_edges() -> None:
    big = np.float64(1e308)
    assert intrinsic("fma", [big, np.float64(10), np.float64(-math.inf)]) == -math.inf
    assert intrinsic("fma", [big, np.float64(10), -big]) == math.inf
    assert math.isnan(intrinsic("fma", [np.float64(math.inf), np.float64(0), big]))
    zero = intrinsic("fma", [np.float64(-0.0), np.float64(1), np.float64(-0.0)])
    assert math.copysign(1, zero) == -1
    third = np.float64(1 / 3)
    assert math.copysign(1, intrinsic("fma", [third, np.float64(0), np.float64(-0.0)])) == 1


def test_tables_cover_the_language() -> None:
    assert all(scalar.cast_fn(a, b) for a in BYTES for b in BYTES)
    for op in UNARY_OPS:
        assert scalar.unary_fn(op, DType.I32)(np.int32(0)).dtype == np.int32
    for name in BINARY_OPS:
        dtype = DType.F32 if name in ("div", "atan2") else DType.I32
        one = dtype.numpy.type(1)
        assert scalar.binary_fn(name, dtype)(one, one).dtype == dtype.numpy
    with pytest.raises(KeyError):
        scalar.binary_fn("div", DType.I32)
