"""Bars of folds from both sides: correct evaluations in other orders stay inside, faults do not."""

from collections.abc import Callable

import numpy as np
import pytest

from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.bars import Contract

FLOATS = (DType.F64, DType.F32, DType.F16, DType.BF16)
Terms = Callable[[Array], Array]


def tree_depth(n: int) -> int:
    return int(np.ceil(np.log2(max(n, 1)))) + 1


def sequential(x: Array) -> Array:
    """Sum along the last axis, one after another, in the array's own dtype."""
    return np.asarray(np.add.accumulate(x, -1, dtype=x.dtype)[..., -1])


def backwards(x: Array) -> Array:
    return sequential(x[..., ::-1])


def shuffled(x: Array) -> Array:
    return sequential(x[..., np.random.default_rng(0).permutation(x.shape[-1])])


def tree(x: Array) -> Array:
    while x.shape[-1] > 1:
        if x.shape[-1] % 2:
            x = np.concatenate([x, np.zeros_like(x[..., :1])], -1)
        x = x[..., 0::2] + x[..., 1::2]
    return np.asarray(x[..., 0])


ROWS: dict[str, Attr] = {"axes": (1,), "keepdims": False}
ORDERS = (sequential, backwards, shuffled, tree)


def draw(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3, shape)
    return x.astype(np.float32).astype(dtype.numpy)


def wide(x: Array) -> Array:
    return x.astype(DType.of(x).compute.numpy)


def verdict(
    op: str,
    args: list[Array],
    out: Array,
    attrs: dict[str, Attr],
    contract: Contract | None = None,
) -> Array:
    """Whether each element of a result, given in the compute dtype, is inside its bar."""
    types = [TensorType(DType.of(a), a.shape) for a in args]
    result = OPS[op].infer(types, attrs)
    with np.errstate(all="ignore"):
        exact = [bars.exact(a, DType.of(a)) for a in args]
        bar = OPS[op].apply(attrs).bar(exact, types, result, contract or Contract())
        stored = bars.store(bar, result.dtype)
        v = bars.judge(stored, out.astype(result.dtype.numpy), result.dtype)
    assert not np.any(v.undecided)
    return v.ok


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000])
def test_sums_in_any_order_are_inside(dtype: DType, n: int) -> None:
    x = draw((20, n), dtype, n)
    for order in ORDERS:
        total = order(wide(x))
        assert np.all(verdict("sum", [x], total, ROWS))
        mean = total / total.dtype.type(n)
        assert np.all(verdict("mean", [x], mean, ROWS))
    short = Contract(chain=tree_depth)
    assert np.all(verdict("sum", [x], tree(wide(x)), ROWS, short))


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_with_a_fault_are_outside(dtype: DType) -> None:
    x = np.abs(draw((20, 60), dtype, 3)) + np.array(1, dtype.numpy)
    dropped = wide(x)
    dropped[:, -1] = 0
    doubled = wide(x)
    doubled[:, 7] *= 2
    named: dict[str, Attr] = {"axes": (1,), "keepdims": False}
    caught = [~verdict("sum", [x], sequential(y), named) for y in (dropped, doubled)]
    # f16 and bf16 keep so few digits that a small term may not show
    assert np.mean(caught) >= (1 if dtype in (DType.F32, DType.F64) else 0.3)


def test_a_sum_rounded_at_every_step_is_outside() -> None:
    x = draw((50, 200), DType.F16, 5)
    narrow = sequential(x)  # accumulated in f16
    inside = verdict("sum", [x], narrow.astype(np.float32), ROWS)
    assert np.mean(inside) < 0.5


def test_a_short_chain_finds_a_dropped_term_that_a_long_one_hides() -> None:
    x = np.random.default_rng(2).uniform(0, 1, (40, 4096)).astype(np.float32)
    out = x.astype(np.float64)
    small = np.argmin(np.abs(out - 0.005), axis=1)
    np.put_along_axis(out, small[:, None], 0, 1)
    named: dict[str, Attr] = {"axes": (1,), "keepdims": False}
    total = out.sum(1).astype(np.float32)
    assert np.all(verdict("sum", [x], total, named))
    assert not np.any(verdict("sum", [x], total, named, Contract(chain=tree_depth)))


def products(a: Array, b: Array) -> Array:
    """Terms of a matrix product along the last axis."""
    return a[:, None, :] * b.T[None, :, :]


@pytest.mark.parametrize("dtype", FLOATS)
def test_matrix_products(dtype: DType) -> None:
    a, b = draw((6, 40), dtype, 1), draw((40, 5), dtype, 2)
    for order in ORDERS:
        assert np.all(verdict("matmul", [a, b], order(products(wide(a), wide(b))), {}))
    fused = np.zeros_like(wide(a[:, :5]))  # each product and sum rounded once
    for k in range(40):
        exact = np.multiply.outer(a[:, k].astype(np.longdouble), b[k].astype(np.longdouble))
        fused = np.asarray(fused + exact, fused.dtype)
    assert np.all(verdict("matmul", [a, b], fused, {}))
    if dtype in (DType.F32, DType.F64):
        a, b = np.abs(a) + np.array(1, a.dtype), np.abs(b) + np.array(1, a.dtype)
        wrong = sequential(products(a, b)[..., :-1])
        assert not np.any(verdict("matmul", [a, b], wrong, {}))


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolution_as_loops(dtype: DType) -> None:
    x, w = draw((2, 4, 9), dtype, 1), draw((6, 2, 3), dtype, 2)
    named: dict[str, Attr] = {
        "strides": (2,), "dilations": (2,), "low": (1,), "high": (2,), "groups": 2,
    }  # fmt: skip
    padded = np.pad(wide(x), [(0, 0), (0, 0), (1, 2)])
    terms = np.zeros((2, 6, 4, 6), padded.dtype)
    for o, t, c, k in np.ndindex(6, 4, 2, 3):
        terms[:, o, t, c * 3 + k] = padded[:, o // 3 * 2 + c, 2 * t + 2 * k] * wide(w)[o, c, k]
    for order in ORDERS:
        assert np.all(verdict("conv", [x, w], order(terms), named))
    if dtype in (DType.F32, DType.F64):
        assert (
            np.mean(verdict("conv", [x, w], sequential(terms[..., [0, 2, 3, 4, 5]]), named)) < 0.1
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_running_sums(dtype: DType) -> None:
    x = draw((4, 50), dtype, 9)
    named: dict[str, Attr] = {"axis": 1, "exclusive": False, "reverse": False}
    prefixes = [wide(x)[:, : i + 1] for i in range(50)]
    for order in ORDERS:
        out = np.stack([order(p) for p in prefixes], 1)
        assert np.all(verdict("cumulative_sum", [x], out, named))
    shifted = np.roll(np.stack([sequential(p) for p in prefixes], 1), 1, 1)
    assert np.mean(verdict("cumulative_sum", [x], shifted, named)) < 0.5


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_in_any_order(dtype: DType) -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(0.5, 2, (10, 12)).astype(np.float32).astype(dtype.numpy)
    for _ in range(5):
        line = wide(x)[:, rng.permutation(12)]
        out = np.multiply.accumulate(line, 1, dtype=line.dtype)[:, -1]
        assert np.all(verdict("prod", [x], out, ROWS))
    left_out = np.multiply.accumulate(wide(x)[:, 1:], 1)[:, -1]
    assert np.mean(verdict("prod", [x], left_out, ROWS)) < 0.2


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("counted", [True, False])
def test_means_over_windows(dtype: DType, counted: bool) -> None:
    x = draw((2, 3, 11), dtype, 6)
    named: dict[str, Attr] = {
        "window": (4,), "strides": (2,), "dilations": (1,), "low": (1,), "high": (2,),
        "count_include_pad": counted,
    }  # fmt: skip
    padded = np.pad(wide(x), [(0, 0), (0, 0), (1, 2)])
    places = np.stack([padded[..., k : k + 11 : 2] for k in range(4)], -1)
    inside = np.pad(np.ones(11), (1, 2))
    count = 4 if counted else np.array([inside[2 * i : 2 * i + 4].sum() for i in range(6)])
    divisor = np.asarray(count, places.dtype)
    for order in ORDERS:
        assert np.all(verdict("avg_pool", [x], order(places) / divisor, named))
    if dtype in (DType.F32, DType.F64):
        lost = sequential(places[..., :-1]) / divisor
        assert np.mean(verdict("avg_pool", [x], lost, named)) < 0.4  # some lose a padding zero
        del named["count_include_pad"]
        padded = np.pad(wide(x), [(0, 0), (0, 0), (1, 2)], constant_values=-np.inf)
        top = np.stack([padded[..., k : k + 11 : 2] for k in range(4)], -1).max(-1)
        assert np.all(verdict("max_pool", [x], top, named))
        assert not np.any(
            verdict("max_pool", [x], np.nextafter(top, np.inf, dtype=top.dtype), named)
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_running_products_in_any_order(dtype: DType) -> None:
    rng = np.random.default_rng(11)
    x = rng.uniform(0.5, 2, (4, 12)).astype(np.float32).astype(dtype.numpy)
    named: dict[str, Attr] = {"axis": 1, "exclusive": False, "reverse": False}
    for _ in range(4):
        parts = [wide(x)[:, rng.permutation(i + 1)] for i in range(12)]
        out = np.stack([np.multiply.accumulate(p, 1, dtype=p.dtype)[:, -1] for p in parts], 1)
        assert np.all(verdict("cumulative_prod", [x], out, named))
    wrong = np.multiply.accumulate(np.roll(wide(x), 1, 1), 1)
    assert np.mean(verdict("cumulative_prod", [x], wrong, named)) < 0.4


def test_products_may_lose_bits_to_underflow_on_the_way() -> None:
    x = np.array([[1e-30, 1e-12, 1e20, 1e13]], np.float32)
    for line in (x, x[:, ::-1]):
        out = np.multiply.accumulate(line, 1)[:, -1]
        assert np.all(verdict("prod", [x], out, ROWS))
        assert not np.any(verdict("prod", [x], 1.01 * out, ROWS))


def test_products_that_may_overflow_on_the_way_are_undecided() -> None:
    x = bars.exact(np.array([[1e-30, 1e-12, 1e30, 1e13], [1e10, 1e20, 1e20, 2]]), DType.F32)
    out = bar_of("prod", [x], [DType.F32], **ROWS)
    assert out.e.tolist() == [np.inf, 0]
    assert out.c[1] == np.inf  # no factor is below 1: it overflows in every order


@pytest.mark.parametrize("dtype", FLOATS)
def test_scattered_sums_stored_at_every_step_or_once(dtype: DType) -> None:
    rng = np.random.default_rng(8)
    base, new = draw((6,), dtype, 1), draw((40,), dtype, 2)
    at = rng.integers(0, 5, 40)
    named: dict[str, Attr] = {"axis": 0, "reduction": "add"}
    once, often = wide(base), base.copy()
    for k in rng.permutation(40):
        once[at[k]] += wide(new)[k]
        often[at[k]] = (wide(often[at[k]]) + wide(new)[k]).astype(dtype.numpy)
    for out in (once, wide(often)):
        assert np.all(verdict("scatter", [base, at, new], out, named))
    lost = wide(base)
    np.add.at(lost, at[1:], wide(new)[1:])
    assert not np.all(verdict("scatter", [base, at, new], lost, named)[at[0]]) or dtype in (
        DType.F16,
        DType.BF16,
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_scattered_sum_frees_the_sign_of_a_zero_that_an_update_meets_alone(dtype: DType) -> None:
    base, new = (np.array(x, dtype.numpy) for x in ([-0.0, -0.0, 1.0], [-0.0]))
    at = np.array([0])
    named: dict[str, Attr] = {"axis": 0, "reduction": "add"}
    for zero, right in ((-0.0, [True, True, True]), (0.0, [True, False, True])):
        out = np.array([zero, zero, 1.0])
        assert verdict("scatter", [base, at, new], out, named).tolist() == right


def uncertain(c: list[float], e: list[float]) -> bars.Bar:
    return bars.Bar(np.array(c), np.array(e))


def bar_of(op: str, b: list[bars.Bar], dtypes: list[DType], **attrs: Attr) -> bars.Bar:
    types = [TensorType(d, x.c.shape) for d, x in zip(dtypes, b, strict=True)]
    with np.errstate(all="ignore"):
        return OPS[op].apply(attrs).bar(b, types, OPS[op].infer(types, attrs), Contract())


def test_extremes_take_the_ends_of_bars() -> None:
    b = uncertain([1.0, 3.0, 2.9], [0.0, 0.1, 0.5])
    top = bar_of("max", [b], [DType.F32], axes=(0,), keepdims=False)
    assert top.c == 3.0
    assert top.e == pytest.approx(0.4)  # up to 3.4, down to 2.9
    low = bar_of("min", [b], [DType.F32], axes=(0,), keepdims=False)
    assert (float(low.c), float(low.e)) == (1.0, 0.0)


@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_positions_are_undecided_where_bars_meet(op: str) -> None:
    sign = 1.0 if op == "argmax" else -1.0
    named: dict[str, Attr] = {"axis": 0, "keepdims": False}

    def error(c: list[float], e: list[float]) -> float:
        b = bars.Bar(sign * np.array(c), np.array(e))
        return float(bar_of(op, [b], [DType.F32], **named).e)

    assert error([1, 3, 2], [0, 0, 0]) == 0
    assert error([1, 3, 2], [0.1, 0.4, 0.4]) == 0
    assert error([1, 3, 2], [0.1, 0.6, 0.6]) == np.inf
    assert error([3, 3, 2], [0, 0, 0.5]) == 0  # first of equals
    assert error([3, 3], [0, 0.5]) == np.inf
    assert error([3, 2], [0.5, 0.5]) == 0  # even where they meet, the first wins
    assert error([2, 3], [0.5, 0.5]) == np.inf
    assert error([np.nan, 3], [0, 0.5]) == 0
    assert error([3, np.nan], [np.inf, 0]) == np.inf


def test_uncertain_indices_leave_elements_undecided() -> None:
    x = bars.exact(np.arange(6.0).reshape(2, 3), DType.F32)
    i = bars.Bar(np.array([0, 1]), np.array([0.0, 1.0]))
    picked = bar_of("gather", [x, i], [DType.F32, DType.I64], axis=1)
    assert picked.e.tolist() == [[0, np.inf], [0, np.inf]]
    i2 = bars.Bar(np.array([[0, 1], [1, 2]]), np.array([[0.0, 0.0], [0.0, 1.0]]))
    u = bars.exact(np.ones((2, 2)), DType.F32)
    put = bar_of("scatter", [x, i2, u], [DType.F32, DType.I64, DType.F32], axis=1, reduction="none")
    assert put.e.tolist() == [[0, 0, 0], [np.inf] * 3]


def test_quantifiers_are_settled_by_one_sure_element() -> None:
    b = bars.Bar(np.array([[True, False], [False, False]]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    some = bar_of("any", [b], [DType.BOOL], **ROWS)
    assert some.e.tolist() == [0, np.inf]
    every = bar_of("all", [b], [DType.BOOL], **ROWS)
    assert every.e.tolist() == [np.inf, 0]
