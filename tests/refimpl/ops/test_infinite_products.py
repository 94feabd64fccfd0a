"""Products of matrices with infinities are sums of every single product, in any layout."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import check
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.tracer.types import Element

FLOATS = (DType.F16, DType.BF16, DType.F32, DType.F64)
VALUES = (0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan)
SIZES = ((1, 1, 1), (1, 4, 1), (3, 4, 2), (2, 1, 3), (2, 0, 3), (5, 17, 9))  # rows, terms, columns

LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": np.ascontiguousarray,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "strided": lambda x: np.repeat(np.repeat(x, 2, -1), 3, -2)[..., ::3, ::2],
    "reversed": lambda x: x[..., ::-1, ::-1].copy()[..., ::-1, ::-1],
    "repeated": lambda x: np.broadcast_to(x[..., :1, :1].copy(), x.shape),
    "repeated row": lambda x: np.broadcast_to(x[..., :1, :].copy(), x.shape),
    "repeated column": lambda x: np.broadcast_to(x[..., :1].copy(), x.shape),
}


def matmul(a: Array, b: Array) -> Array:
    types = [TensorType(DType.of(x), x.shape) for x in (a, b)]
    return OPS["matmul"].apply({}).eval([a, b], OPS["matmul"].infer(types, {}))


def each_product(a: Array, b: Array) -> Array:
    """Return the sums of all products, each made on its own."""
    a, b = (x.astype(np.float64) for x in (a, b))
    with np.errstate(invalid="ignore"):
        return np.asarray((a[..., np.newaxis] * b[..., np.newaxis, :, :]).sum(-2))


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, special: bool) -> Array:
    values = VALUES if special else VALUES[:5]
    return rng.choice(values, shape).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("batches", [((), ()), ((3,), ()), ((), (2,)), ((2, 1), (3,))], ids=str)
def test_every_product_counts(dtype: DType, batches: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(0)
    for (m, k, n), left, right in product(SIZES, LAYOUTS.values(), LAYOUTS.values()):
        for wild in ((True, False), (False, True), (True, True)):
            a = left(drawn(rng, (*batches[0], m, k), dtype, wild[0]))
            b = right(drawn(rng, (*batches[1], k, n), dtype, wild[1]))
            want = each_product(a, b)
            np.testing.assert_array_equal(matmul(a, b).astype(np.float64), want)


def test_partial_sums_are_not_of_one_operand() -> None:
    """An infinity in another row does not make products overflow that need not."""
    a = np.array([[1e308, 1e308], [np.inf, 1]])
    got = matmul(a, np.broadcast_to(0.25, (2, 1)))
    np.testing.assert_array_equal(got, [[5e307], [np.inf]])
    got = matmul(a, np.broadcast_to(0.0, (2, 1)))
    np.testing.assert_array_equal(got, [[0], [np.nan]])


@pytest.mark.parametrize("dtype", [dd.f16, dd.bf16, dd.f32, dd.f64], ids=str)
@pytest.mark.parametrize("shape", [(2, 2), (3, 8, 4), (1, 5)], ids=str)
@pytest.mark.parametrize("fill", [-np.inf, np.inf])
def test_every_level_agrees_on_a_repeated_infinity(
    dtype: Element, shape: tuple[int, ...], fill: float
) -> None:
    @dd.trace(dtype[shape], dtype[()])
    def both(x: dd.Tensor, s: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return x @ dd.broadcast_to(s, (shape[-1], 3)), dd.broadcast_to(s, (3, shape[-2])) @ x

    (numpy,) = {p.type.dtype.numpy for p in both.module.entry.params}
    x = np.resize([0, 1, 2, -1, 3], shape).astype(numpy)
    report = check(
        both.module, [x, np.array(fill, numpy)], [engine("simt"), engine("host")], details=False
    )
    assert not report.findings


def test_convolutions_of_a_repeated_infinity() -> None:
    x = np.broadcast_to(np.inf, (2, 4, 5, 5))
    w = np.resize(np.array([0.0, 1, 2, 1, 3]), (6, 4, 3, 2))
    ones, zeros = (1, 1), (0, 0)
    attrs: dict[str, Attr] = {
        "strides": ones, "dilations": ones, "low": zeros, "high": zeros, "groups": 1
    }  # fmt: skip
    conv = OPS["conv"].apply(attrs)
    t = conv.infer([TensorType(DType.F64, a.shape) for a in (x, w)])
    assert np.isnan(conv.eval([x, w], t)).all()
