"""Short-time Fourier transforms, and the windows and filters that go with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from didyma.composites import fourier
from didyma.composites.fourier import blackman, hamming, hann, mel_weights
from didyma.functions.axes import axis_of
from didyma.functions.complex_pairs import Complex, mark
from didyma.functions.public import public, wrong
from didyma.functions.suggestions import refuser
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array
from didyma.tracer.tensor import Tensor, common, within


@public
def stft(
    x: Tensor, /, *, n: int, step: int, window: Array | None = None, onesided: bool = True
) -> Complex:
    """Transforms of frames of ``n`` real numbers, one each ``step``, times a window.

    Of [..., length] it makes [..., frames, n // 2 + 1, 2], all n where it is not ``onesided``.
    Example: ``dd.signal.stft(x, n=64, step=16, window=dd.signal.hann(64))``.
    Errors: ``bad-axis``, ``bad-call``.
    """
    if n < 1 or step < 1 or (window is not None and window.shape != (n,)):
        got = f"n = {n}, step = {step}, window {None if window is None else window.shape}"
        raise wrong("dd.signal.stft", got, "n and step of at least 1, a window of n numbers")
    axis_of(x, -1)
    b = common(x)
    v = within(b, x)
    *lead, length = v.type.shape
    rows = b("reshape", (v,), shape=(dims.mul(*lead), length, 1))
    weights = None if window is None else b.constant(window.astype(x.dtype.numpy))
    y = fourier.stft(b, rows, n, step, weights, onesided)
    return mark(Tensor(b, b("reshape", (y,), shape=(*lead, *y.type.shape[1:]))))


__all__ = ["blackman", "hamming", "hann", "mel_weights", "stft"]

if not TYPE_CHECKING:
    __getattr__ = refuser("dd.signal", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
