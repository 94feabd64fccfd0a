"""Operations on records of values and payloads: the values of ``scalar``, the payloads of rules."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.refimpl.interp import scalar, scalar_ring
from didyma.refimpl.interp.scalar_ring import embedded, fold, joined
from didyma.refimpl.ir.loop import ATOMIC_OPS, AtomicOp, BinaryOp
from didyma.refimpl.ir.types import FLOATS, Array, DType
from didyma.refimpl.ops import ring, ring_rules
from tests.oracle.lanes.both import same_bytes

RNG = np.random.default_rng(3)


def records(n: int, dtype: DType = DType.F32) -> Array:
    """Return floats with payloads that are not their own."""
    values = RNG.integers(-4, 5, n).astype(np.float32).astype(dtype.numpy)
    return np.asarray(joined(values, ring.embed(RNG.integers(1, 10**6, n))))


def test_a_sum_has_the_sum_of_the_values_and_that_of_the_payloads() -> None:
    a, b = records(50), records(50)
    c = scalar_ring.binary_fn("add", DType.F32)(a, b)
    assert (c["value"] == a["value"] + b["value"]).all()
    assert (c["payload"] == ring.add(a["payload"], b["payload"])).all()


def test_comparisons_follow_the_values() -> None:
    a, b = records(50), records(50)
    assert (scalar_ring.compare_fn("lt", DType.F32)(a, b) == (a["value"] < b["value"])).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_keeps_the_payload(dtype: DType) -> None:
    a = records(50)
    there = scalar_ring.cast_fn(DType.F32, dtype)(a)
    back = scalar_ring.cast_fn(dtype, DType.F32)(there)
    assert there["value"].dtype == dtype.numpy
    assert (back["payload"] == a["payload"]).all()


def test_bits_are_numbers_and_a_float_made_of_bits_is_as_if_it_were_given() -> None:
    a = records(50)
    bits = scalar_ring.intrinsic_fn("as_u32", DType.F32)(a)
    assert (bits == a["value"].copy().view(np.uint32)).all()
    again = scalar_ring.intrinsic_fn("as_f32", DType.U32)(bits)
    assert (again == embedded(a["value"].copy())).all()


def test_integers_are_no_records() -> None:
    n = np.arange(3, dtype=np.int32)
    assert (scalar_ring.binary_fn("mul", DType.I32)(n, n) == n * n).all()
    assert (scalar_ring.cast_fn(DType.I32, DType.F32)(n)["payload"] == ring.embed(n)).all()
    assert scalar_ring.constant(2, DType.I32) == 2
    assert scalar_ring.constant(0.5, DType.F16)["payload"] == ring.embed(0.5)


@pytest.mark.parametrize("op", ATOMIC_OPS)
def test_atomics_fold_payloads_as_one_after_another_would(op: AtomicOp) -> None:
    memory, given = records(5), records(64)
    at = RNG.integers(0, 5, 64)
    want = memory.copy()
    combine = scalar_ring.binary_fn(op, DType.F32)
    for i, x in zip(at, given, strict=True):
        want[i] = combine(want[i].copy(), x)
    got, before = memory.copy(), memory[at]
    got["value"] = want["value"]
    fold(op, got["payload"], at, before, given, want["value"][at])
    if op in ("add", "mul"):
        assert (got["payload"] == want["payload"]).all()
        return
    for i in range(5):  # of several that are extreme, any; unless they differ
        extreme = [memory[i], *given[at == i]]
        found = {int(x["payload"]) for x in extreme if x["value"] == want["value"][i]}
        assert int(got["payload"][i]) == (found.pop() if len(found) == 1 else int(ring.UNKNOWN))


def test_a_power_of_a_record_has_the_payload_of_the_rules() -> None:
    a, two = records(20), embedded(np.float32(2.0))
    c = scalar_ring.binary_fn("pow", DType.F32)(a, two)
    assert (c["payload"] == ring.multiply(a["payload"], a["payload"])).all()
    assert (c["value"] == scalar.binary("pow", a["value"], np.float32(2.0))).all()
    assert ring_rules.BINARY["add"] is ring.add


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "min", "max"])
def test_folds_are_one_operation_after_another(op: BinaryOp) -> None:
    before, terms, factors = records(5), records(40).reshape(8, 5), records(40).reshape(8, 5)
    combine, plus, times = (scalar_ring.binary_fn(o, DType.F32) for o in (op, "add", "mul"))
    want, products = before, before
    with np.errstate(all="ignore"):
        for x, y in zip(terms, factors, strict=True):
            want, products = combine(want, x), plus(products, times(x, y))
        got = scalar_ring.fold_fn(op, DType.F32)(before, terms)
        sums = scalar_ring.products_fn(DType.F32)(before, terms, factors)
    assert same_bytes(np.asarray(got), np.asarray(want))
    assert same_bytes(np.asarray(sums), np.asarray(products))
