"""Complex numbers, transforms and windows in the face: NumPy's results, within the bars."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pytest

import didyma as dd
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array
from didyma.tracer.tracing import Program

F = np.fft
# What is traced, what NumPy says, and whether the operand is real.
TRANSFORMS: dict[str, tuple[Callable[[dd.Tensor], dd.Tensor], Callable[[Any], Any], bool]] = {
    "fft": (lambda x: dd.fft.fft(x, n=5, axis=0), lambda x: F.fft(x, 5, 0), False),
    "ifft": (lambda x: dd.fft.ifft(x, norm="ortho"), lambda x: F.ifft(x, norm="ortho"), False),
    "rfft": (lambda x: dd.fft.rfft(x, norm="forward"), lambda x: F.rfft(x, norm="forward"), True),
    "irfft": (lambda x: dd.fft.irfft(x), F.irfft, False),
    "irfft odd": (lambda x: dd.fft.irfft(x, n=7, axis=-2), lambda x: F.irfft(x, 7, -2), False),
    "hfft": (lambda x: dd.fft.hfft(x, n=9), lambda x: F.hfft(x, 9), False),
    "hfft ortho": (lambda x: dd.fft.hfft(x, norm="ortho"),
                   lambda x: F.hfft(x, norm="ortho"), False),
    "ihfft": (lambda x: dd.fft.ihfft(x, axis=0), lambda x: F.ihfft(x, axis=0), True),
    "fftn": (lambda x: dd.fft.fftn(x), F.fftn, False),
    "fftn s": (lambda x: dd.fft.fftn(x, s=(3, 8)), lambda x: F.fftn(x, (3, 8), (-2, -1)), False),
    "ifftn": (lambda x: dd.fft.ifftn(x, axes=(1, 0)), lambda x: F.ifftn(x, axes=(1, 0)), False),
    "rfftn": (lambda x: dd.fft.rfftn(x), F.rfftn, True),
    "irfftn": (lambda x: dd.fft.irfftn(x), F.irfftn, False),
    "fftshift": (lambda x: dd.fft.fftshift(dd.complex.view(x)), F.fftshift, False),
    "fftshift axis": (lambda x: dd.fft.fftshift(x, axes=-1),
                      lambda x: F.fftshift(x, axes=-1), True),
    "ifftshift": (lambda x: dd.fft.ifftshift(x, axes=(0, 1), real=False), F.ifftshift, False),
    "abs": (lambda x: dd.complex.abs(x), np.abs, False),
    "angle": (lambda x: dd.complex.angle(x), np.angle, False),
    "exp": (lambda x: dd.complex.exp(x), np.exp, False),
    "pair": (lambda x: dd.complex.pair(dd.complex.imag(x), dd.complex.real(x)),
             lambda x: x.imag + 1j * x.real, False),
    "divide": (lambda x: dd.complex.divide(dd.complex.conj(x), x),
               lambda x: x.conj() / x, False),
    "matmul": (lambda x: dd.complex.matmul(x, dd.permute_dims(x, (1, 0, 2))),
               lambda x: x @ x.T, False),
    "multiply": (lambda x: dd.complex.multiply(x, x), lambda x: x * x, False),
}  # fmt: skip


def traced(f: Callable[[dd.Tensor], dd.Tensor], real: bool, *shape: int) -> Program:
    @dd.trace(dd.f32[shape] if real else dd.f32[(*shape, 2)])
    def program(x: dd.Tensor) -> dd.Tensor:
        return f(x)

    return program


def numbers(real: bool, *shape: int) -> Array:
    r = np.random.default_rng(len(shape))
    x = r.standard_normal(shape)
    return (
        x.astype(np.float32) if real else (x + 1j * r.standard_normal(shape)).astype(np.complex64)
    )


@pytest.mark.parametrize("name", TRANSFORMS)
def test_functions_are_numpys(name: str) -> None:
    f, theirs, real = TRANSFORMS[name]
    program, x = traced(f, real, 4, 6), numbers(real, 4, 6)
    want = theirs(x.astype(np.float64 if real else np.complex128))
    truth = dd.interpret(program, x)
    bar = truth.bars[0]
    for got in (truth.values[0], dd.compile(program, engine="host")(x)):
        assert isinstance(got, np.ndarray)
        there = want if want.dtype.kind != "c" else np.stack([want.real, want.imag], -1)
        assert got.shape == there.shape
        assert (np.abs(there - bar.c) <= bar.e).all()
        assert (np.abs(got - bar.c) <= bar.e).all()


def test_frequencies() -> None:
    @dd.trace(dd.f64[1])
    def frequencies(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        del x
        return dd.fft.fftfreq(6, d=0.5, dtype=dd.f64), dd.fft.rfftfreq(7)

    full, half = dd.interpret(frequencies, np.zeros(1)).values
    assert np.array_equal(full, F.fftfreq(6, 0.5))
    assert np.array_equal(half, F.rfftfreq(7).astype(np.float32))


LEVELS = ("fft", "irfft odd", "rfftn", "fftshift", "divide", "abs", "matmul")


@pytest.mark.parametrize("name", LEVELS)
def test_every_level_agrees(name: str) -> None:
    f, _, real = TRANSFORMS[name]
    report = dd.check(traced(f, real, 4, 6), engines=("host", "simt"))
    assert report.agree, report.findings


@pytest.mark.parametrize("n", [131, 360, 521])
def test_long_transforms_at_every_level(n: int) -> None:
    both = traced(lambda x: dd.fft.irfft(dd.fft.rfft(x), n=n), True, 2, n)
    report = dd.check(both)
    assert report.agree, report.findings


@pytest.mark.parametrize("onesided", [True, False])
def test_frames(onesided: bool) -> None:
    window = dd.signal.hann(8)

    @dd.trace(dd.f32[2, 3, 30])
    def frames(x: dd.Tensor) -> dd.Tensor:
        return dd.signal.stft(x, n=8, step=5, window=window, onesided=onesided)

    x = numbers(True, 2, 3, 30)
    cut = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), 8, -1)[..., ::5, :]
    want = (F.rfft if onesided else F.fft)(cut * window)
    truth = dd.interpret(frames, x)
    got = dd.as_complex(dd.compile(frames)(x))
    assert got.shape == want.shape == (2, 3, 5, 5 if onesided else 8)
    bar = truth.bars[0]
    assert (np.abs(np.stack([want.real, want.imag], -1) - bar.c) <= bar.e).all()
    assert dd.check(frames).agree


def test_filters_cover_what_lies_between_their_ends() -> None:
    mel = dd.signal.mel_weights(10, 256, 16000, 0.0, 8000.0)
    assert mel.shape == (129, 10)
    assert (mel.max(0) == 1).all()
    assert (np.diff(mel.argmax(0)) > 0).all()
    assert (mel[5:100].sum(1) > 0).all()


SAME = traced(lambda x: x * 1.0, False, 3)


@pytest.mark.parametrize("layout", ["C", "strided", "read-only"])
def test_complex_arrays_are_pairs(layout: str) -> None:
    z = np.arange(6).astype(np.complex64) * (1 - 2j)
    z = z[::2] if layout == "strided" else z[:3]
    z.flags.writeable = layout != "read-only"
    for pairs in (dd.compile(SAME)(z), dd.interpret(SAME, z).values[0]):
        assert isinstance(pairs, np.ndarray)
        assert pairs.tolist() == [[v.real, v.imag] for v in z]
        again = dd.as_complex(pairs)
        assert again.dtype == np.complex64
        assert again.tolist() == z.tolist()


def test_a_complex_number_alone() -> None:
    conj = traced(lambda z: dd.complex.conj(z), False)
    y = dd.compile(conj)(np.complex64(1 + 2j))
    assert dd.as_complex(y).shape == ()
    assert dd.as_complex(y) == 1 - 2j


BAD_INPUT = [
    (SAME, np.zeros(3, np.complex128), "complex128 for f32"),
    (traced(lambda x: x * 1.0, True, 3), np.zeros(3, np.complex64), r"complex64 for f32\[3\]"),
    (traced(lambda x: x * 1.0, True), np.complex64(1), r"complex64 for f32\[\]"),
]


@pytest.mark.parametrize(("program", "z", "says"), BAD_INPUT)
def test_complex_arrays_that_do_not_fit(program: Program, z: Array, says: str) -> None:
    with pytest.raises(DidymaError, match=says) as e:
        dd.compile(program)(z)
    assert e.value.code == "complex-input"
    with pytest.raises(DidymaError, match=says):
        dd.interpret(program, z)


@pytest.mark.parametrize("a", [np.zeros(3), np.zeros((3, 2), np.int32), np.float64(0)])
def test_what_is_no_pair(a: Array) -> None:
    with pytest.raises(DidymaError, match="last axis") as e:
        dd.as_complex(a)
    assert e.value.code == "complex-output"


BAD_USE: list[tuple[str, Callable[[dd.Tensor], dd.Tensor]]] = [
    ("bad-axis", lambda x: dd.fft.fft(x, axis=2)),
    ("bad-axis", lambda x: dd.fft.fftn(x, s=(2, 2), axes=(0,))),
    ("bad-axis", lambda x: dd.fft.fftn(x, axes=())),
    ("bad-axis", lambda x: dd.fft.fftshift(x, axes=2, real=False)),
    ("bad-call", lambda x: dd.fft.fftshift(x)),
    ("bad-attr", lambda x: dd.fft.fft(x, n=0)),
    ("bad-call", lambda x: dd.fft.fft(x, norm="other")),  # type: ignore[arg-type]  # a user's
    ("shape-mismatch", lambda x: dd.fft.irfft(dd.fft.irfft(x))),
    ("complex-operand", lambda x: dd.fft.rfft(dd.fft.fft(x))),
    ("shape-mismatch", lambda x: dd.complex.pair(x, dd.complex.abs(x))),
]


@pytest.mark.parametrize("case", range(len(BAD_USE)))
def test_what_is_no_transform(case: int) -> None:
    code, f = BAD_USE[case]
    with pytest.raises(DidymaError) as e:
        traced(f, False, 4, 6)
    assert e.value.code == code


OneTensor: TypeAlias = Callable[[dd.Tensor], dd.Tensor]
READ_AS_REAL: dict[str, OneTensor] = {
    "abs": lambda x: dd.abs(x),
    "square after a reshape": lambda x: dd.square(dd.reshape(x, (3, 1, 2))),
    "product of pairs": lambda x: x * x,
    "sum of the parts": lambda x: dd.sum(x, -1),
    "largest": lambda x: dd.max(x, 0),
    "quotient": lambda x: 1.0 / x,
    "product over the parts": lambda x: x @ dd.ones((2, 4), dtype=dd.f32),
}
READ_AS_COMPLEX: dict[str, OneTensor] = {
    "view": lambda x: dd.abs(dd.complex.view(x)),
    "modulus": lambda x: dd.complex.abs(x),
    "product": lambda x: dd.complex.multiply(x, x),
    "transform": lambda x: dd.fft.fft(x),
    "halves": lambda x: -(x + x)[1:] * 0.5,
    "sum over others": lambda x: dd.mean(x, 0),
    "scaled by reals": lambda x: x * dd.ones((3, 1), dtype=dd.f32),
}


@pytest.mark.parametrize("name", READ_AS_REAL)
def test_complex_numbers_whose_parts_are_read_as_real_ones_are_refused(name: str) -> None:
    program = dd.trace(dd.f32[3, 2])(READ_AS_REAL[name])
    z = np.array([1 + 2j, 3, -1j], np.complex64)
    runs: list[Callable[..., object]] = [dd.compile(program), partial(dd.interpret, program)]
    for run in runs:
        with pytest.raises(dd.DidymaError, match=r"complex\.view") as e:
            run(z)
        assert e.value.code == "complex-input"
        run(z.view(np.float32).reshape(3, 2))


@pytest.mark.parametrize("name", READ_AS_COMPLEX)
def test_complex_numbers_are_given_to_programs_of_complex_numbers(name: str) -> None:
    program = dd.trace(dd.f32[3, 2])(READ_AS_COMPLEX[name])
    dd.interpret(program, np.array([1 + 2j, 3, -1j], np.complex64))
