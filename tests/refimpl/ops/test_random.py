"""Random bits against published answers, and random numbers against their distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from didyma.codegen.runtime.registry import engine
from didyma.composites import distributions
from didyma.composites.builder import Builder, Value
from didyma.fuzz.levels import check
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Attr, Module
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.random import bits, philox

# Random123's kat_vectors, philox4x32 of 10 rounds: counter, key, answer.
KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
SEED = np.array(0x299F31D0_A4093822, np.uint64)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], answer: tuple[int, ...]
) -> None:
    words = philox([np.array(w, np.uint32) for w in counter], key)
    assert tuple(int(w) for w in words) == answer


def test_an_element_is_its_counters() -> None:
    stream = 0x03707344_13198A2E
    got = bits(int(SEED), stream, (3, 5), DType.U64)
    for i, value in enumerate(got.reshape(-1).tolist()):
        counter = [np.array(w, np.uint32) for w in (i, 0, stream & 0xFFFFFFFF, stream >> 32)]
        w = philox(counter, (0xA4093822, 0x299F31D0))
        assert value == int(w[0]) | int(w[1]) << 32
    assert np.array_equal(bits(int(SEED), stream, (15,), DType.U32), got.reshape(-1) & 0xFFFFFFFF)


def seeded() -> tuple[Builder, Value]:
    b = Builder()
    return b, b.param("seed", TensorType(DType.U64))


def run(b: Builder, out: Value, *more: Array) -> Array:
    with np.errstate(all="ignore"):
        return graph.run(Module((b.function("main", [out]),)), [SEED, *more])[0]


def test_every_level_draws_the_same() -> None:
    b, s = seeded()
    p = b.param("p", TensorType(DType.F32, (3, 7)))
    made = [
        b("random_bits", [s], dtype=DType.U32, shape=(2, 3, 5), stream=1),
        b("random_bits", [s], dtype=DType.U64, shape=(33,), stream=1 << 40),
        distributions.uniform(b, s, (40,), DType.F32, -1.0, 3.0),
        distributions.bernoulli(b, p, s, stream=4),
    ]
    m = Module((b.function("main", made),))
    report = check(m, [SEED, np.full((3, 7), 0.5, np.float32)], [engine("host"), engine("simt")])
    assert report.agree, [f.message for level in report.levels for f in level.findings]


def test_a_size_known_late_changes_nothing() -> None:
    b, s = seeded()
    x = b.param("x", TensorType(DType.F32, (symbol("n"),)))
    drawn = b("random_bits", [s], dtype=DType.U32, shape=(symbol("n"), 4), stream=7)
    m = Module((b.function("main", [drawn, x]),), (DimVar("n", 1, 100),))
    got = graph.run(m, [SEED, np.zeros(9, np.float32)])[0]
    assert np.array_equal(got, bits(int(SEED), 7, (9, 4), DType.U32))
    assert check(m, [SEED, np.zeros(9, np.float32)], [engine("host")]).agree


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_uniform_is_flat(dtype: DType) -> None:
    b, s = seeded()
    x = run(b, distributions.uniform(b, s, (20_000,), dtype)).astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    counts, _ = np.histogram(x, 20, (0, 1))
    assert ((counts - 1000) ** 2 / 1000).sum() < 44  # chi squared of 19, one in a thousand
    assert np.array_equal(x * 2**53, np.rint(x * 2**53))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16])
def test_normal_has_its_moments(dtype: DType) -> None:
    b, s = seeded()
    z = run(b, distributions.normal(b, s, (20_000,), dtype, 1.0, 2.0)).astype(np.float64)
    z = (z - 1) / 2
    assert abs(z.mean()) < 4 / math.sqrt(20_000)
    assert abs(z.var() - 1) < 4 * math.sqrt(2 / 20_000)
    assert abs((z**4).mean() - 3) < 4 * math.sqrt(96 / 20_000)
    assert abs(np.mean(np.abs(z) < 1) - 0.682689) < 0.014


def test_multinomial_follows_its_weights() -> None:
    b, s = seeded()
    logits = b.param("x", TensorType(DType.F32, (2, 4)))
    weights = np.array([[1, 2, 3, 4], [0, 5, 0, 5]], np.float32)
    with np.errstate(divide="ignore"):
        got = run(b, distributions.multinomial(b, logits, s, 10_000), np.log(weights))
    for row, w in zip(got, weights, strict=True):
        share = np.bincount(row, minlength=4) / 10_000
        assert np.abs(share - w / 10).max() < 0.02
        assert not share[w == 0].any()


def test_dropout_keeps_the_mean() -> None:
    b, s = seeded()
    x = b.param("x", TensorType(DType.F32, (10_000,)))
    kept, mask = distributions.dropout(b, x, 0.25, s)
    m = Module((b.function("main", [kept, mask]),))
    y, on = graph.run(m, [SEED, np.ones(10_000, np.float32)])
    assert np.array_equal(y != 0, on)
    assert abs(float(y.mean()) - 1) < 0.02
    assert set(y.tolist()) == {0.0, float(np.float32(1 / 0.75))}


def test_wrong_uses_are_refused() -> None:
    op = OPS["random_bits"]
    attrs: dict[str, Attr] = {"dtype": DType.U32, "shape": (2,), "stream": 0}
    wrong: tuple[tuple[TensorType, dict[str, Attr], str], ...] = (
        (TensorType(DType.U64, (1,)), {}, "shape-mismatch"),
        (TensorType(DType.I64), {}, "dtype-mismatch"),
        (TensorType(DType.U64), {"stream": -1}, "bad-attr"),
        (TensorType(DType.U64), {"dtype": DType.F32}, "bad-attr"),
    )
    for t, more, code in wrong:
        with pytest.raises(DidymaError) as caught:
            op.infer([t], {**attrs, **more})
        assert caught.value.code == code
