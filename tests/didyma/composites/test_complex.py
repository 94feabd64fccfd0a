"""Complex numbers and Fourier transforms against NumPy, within the bars of the reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from didyma.composites import complex as cx
from didyma.composites import fourier
from didyma.composites.builder import Builder, Value
from didyma.composites.recipes import Body, start
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import bars

Z = NDArray[np.complex128]


def pairs(z: Z) -> Array:
    return np.stack([z.real, z.imag], -1)


def joined(a: Array) -> Z:
    return np.asarray(a[..., 0].astype(np.float64) + 1j * a[..., 1].astype(np.float64))


def evaluate(body: Body, args: Sequence[Array]) -> tuple[Array, bars.Bar]:
    """Value and bar of a function of parameters."""
    b, params = start([TensorType(DType.of(a), a.shape) for a in args])
    m = Module((b.function("f", [body(b, params)]),))
    exact = [bars.exact(a, DType.of(a)) for a in args]
    (bar,) = graph.bars(m.entry, m, exact, {}, stored=True)
    (value,) = graph.run(m, args)
    assert bars.judge(bar, value, DType.of(value)).ok.all()
    return value, bar


def within(body: Body, args: Sequence[Array], want: Array) -> None:
    """What NumPy finds from the same numbers lies inside the bars, which are finite.

    Its transforms are wrong by last places of the sum of all terms (N. Higham, 2002, 24.1), and
    are made in extended precision, where there is one.
    """
    value, bar = evaluate(body, args)
    assert value.shape == want.shape
    assert np.isfinite(bar.e).all()
    own = 0.0
    if want.dtype == np.longdouble:
        own = 8 * np.finfo(np.longdouble).eps * np.abs(args[0].astype(np.longdouble)).sum()
    off = np.abs(want - bar.c) - bar.e
    assert (off <= own).all(), off.max()


def numbers(seed: int, dtype: type[np.floating[Any]], *shape: int) -> Array:
    r = np.random.default_rng(seed)
    return (r.standard_normal(shape) * 2.0 ** r.integers(-8, 8, shape)).astype(dtype)


ARITHMETIC: list[tuple[Body, Callable[[Z, Z], Array]]] = [
    (lambda b, p: cx.multiply(b, p[0], p[1]), lambda x, y: pairs(x * y)),
    (lambda b, p: cx.divide(b, p[0], p[1]), lambda x, y: pairs(x / y)),
    (lambda b, p: cx.conjugate(b, p[0]), lambda x, y: pairs(np.conj(x))),
    (lambda b, p: cx.absolute(b, p[0]), lambda x, y: np.abs(x)),
    (lambda b, p: cx.angle(b, p[0]), lambda x, y: np.angle(x)),
    (lambda b, p: cx.real(b, p[0]), lambda x, y: x.real),
    (lambda b, p: cx.imag(b, p[0]), lambda x, y: x.imag),
    (
        lambda b, p: cx.pair(b, cx.imag(b, p[0]), cx.real(b, p[1])),
        lambda x, y: pairs(x.imag + 1j * y.real),
    ),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", range(len(ARITHMETIC)))
def test_arithmetic(case: int, dtype: type[np.floating[Any]]) -> None:
    body, want = ARITHMETIC[case]
    x, y = numbers(1, dtype, 50, 2), numbers(2, dtype, 50, 2)
    within(body, [x, y], want(joined(x), joined(y)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_and_matmul(dtype: type[np.floating[Any]]) -> None:
    x, y = numbers(3, dtype, 2, 3, 4, 2) / 64, numbers(4, dtype, 2, 4, 5, 2)
    within(lambda b, p: cx.exp(b, p[0]), [x], pairs(np.exp(joined(x))))
    within(lambda b, p: cx.matmul(b, *p), [x, y], pairs(joined(x) @ joined(y)))


def test_ends_of_the_range() -> None:
    """Nothing overflows or vanishes on the way to a result that is in range."""
    big, small = 2.0**127, 2.0**-126
    x = np.array([[big, big], [small, small], [big, 0], [0, small]], np.float32)
    value, _ = evaluate(lambda b, p: cx.divide(b, p[0], p[0]), [x / 2])
    assert value.tolist() == [[1, 0]] * 4
    value, _ = evaluate(lambda b, p: cx.absolute(b, p[0]), [x])
    np.testing.assert_array_max_ulp(value, np.abs(joined(x)).astype(np.float32), 2)


def test_distances_of_what_is_not_finite_and_of_zero() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[inf, inf], [-inf, 1], [0, -0.0], [nan, 1], [1e-45, 0]], np.float32)
    value, _ = evaluate(lambda b, p: cx.absolute(b, p[0]), [x])
    assert np.array_equal(value, np.array([inf, inf, 0, nan, 1e-45], np.float32), equal_nan=True)


def sizes(seed: int) -> tuple[int, int, int, int]:
    """Lengths given and wanted: any, long ones with and without factors, and a batch."""
    r = random.Random(seed)
    have = r.choice([r.randrange(1, 40), r.randrange(100, 400), r.choice((131, 257, 521, 1024))])
    want = r.choice([have, have, r.randrange(1, 40), r.randrange(120, 300)])
    return have, want, r.randrange(1, 4), r.randrange(3)


@pytest.mark.parametrize("seed", range(40))
def test_transforms(seed: int) -> None:
    dtype = (np.float64, np.float32)[seed % 2]
    have, n, batch, axis = sizes(seed)
    shape = [batch, 2]
    shape.insert(axis, have)
    z, x = numbers(seed, dtype, *shape, 2), numbers(seed, dtype, *shape, 1)
    full, real = joined(z).astype(np.clongdouble), x[..., 0].astype(np.longdouble)
    dft = fourier.dft
    within(lambda b, p: dft(b, p[0], n, axis), [z], pairs(np.fft.fft(full, n, axis)))
    within(lambda b, p: dft(b, p[0], n, axis), [x], pairs(np.fft.fft(real, n, axis)))
    within(lambda b, p: dft(b, p[0], n, axis, True), [z], pairs(np.fft.ifft(full, n, axis)))
    half = pairs(np.fft.rfft(real, n, axis))
    within(lambda b, p: dft(b, p[0], n, axis, onesided=True), [x], half)
    back = np.fft.irfft(full, n, axis)[..., None]
    within(lambda b, p: dft(b, p[0], n, axis, True, True), [z], back)


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize(
    ("length", "n", "step"), [(64, 16, 4), (50, 50, 7), (41, 10, 10), (9, 1, 3)]
)
def test_transforms_of_frames(length: int, n: int, step: int, onesided: bool) -> None:
    x, window = numbers(5, np.float64, 2, length, 1), fourier.hann(n)
    wide = x[..., 0].astype(np.longdouble)
    frames = np.lib.stride_tricks.sliding_window_view(wide, n, 1)[:, ::step] * window
    want = pairs((np.fft.rfft if onesided else np.fft.fft)(frames))
    within(lambda b, p: fourier.stft(b, p[0], n, step, p[1], onesided), [x, window], want)


def test_frames_of_a_length_known_late() -> None:
    b = Builder()
    x = b.param("x", TensorType(DType.F64, (1, symbol("s"), 1)))
    f = b.function("f", [fourier.stft(b, x, 8, 3)])
    m = Module((f,), (DimVar("s", 8, 100),))
    assert [graph.run(m, [np.ones((1, s, 1))])[0].shape[1] for s in (8, 10, 11, 50)] == [
        1,
        1,
        2,
        15,
    ]


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_windows(n: int) -> None:
    """Those of NumPy; a periodic one is one longer, less its end."""
    for mine, theirs in ((fourier.hann, np.hanning), (fourier.blackman, np.blackman)):
        np.testing.assert_allclose(mine(n, periodic=False), theirs(n), atol=1e-15)
        np.testing.assert_allclose(mine(n), theirs(n + 1)[:-1], atol=1e-15)
    ends = fourier.hamming(n, periodic=False)[[0, -1]]
    np.testing.assert_allclose(ends, 4 / 46 if n > 1 else 1)


def value(*shape: int) -> tuple[Builder, Value]:
    b = Builder()
    return b, b.param("x", TensorType(DType.F32, shape))


BAD: list[tuple[str, Sequence[int], Callable[[Builder, Value], Value]]] = [
    ("last axis", (3,), lambda b, x: cx.absolute(b, x)),
    ("last axis", (), lambda b, x: cx.conjugate(b, x)),
    ("axis 1", (3, 2), lambda b, x: fourier.dft(b, x, axis=1)),
    ("last axis", (3, 5), lambda b, x: fourier.dft(b, x)),
    ("at least 1", (0, 2), lambda b, x: fourier.dft(b, x)),
    ("at least one frame", (1, 3, 2), lambda b, x: fourier.stft(b, x, 4, 1)),
    ("at least 1", (1, 3, 2), lambda b, x: fourier.stft(b, x, 2, 0)),
    ("batch", (3, 2), lambda b, x: fourier.stft(b, x, 2, 1)),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_what_is_no_complex_number_or_transform(case: int) -> None:
    says, shape, use = BAD[case]
    with pytest.raises(DidymaError, match=says):
        use(*value(*shape))


def test_a_length_known_late_must_be_given() -> None:
    b = Builder()
    x = b.param("x", TensorType(DType.F32, (symbol("n"), 2)))
    with pytest.raises(DidymaError, match="known before the program runs"):
        fourier.dft(b, x)
