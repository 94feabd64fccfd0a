"""Short-time Fourier transforms, and the windows and filters that go with them."""

from __future__ import annotations

from didyma.functions import axis_of
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import fourier
from didyma.refimpl.ops.fourier import blackman, hamming, hann, mel_weights
from didyma.tensor import Tensor, common, within


def stft(
    x: Tensor, /, *, n: int, step: int, window: Array | None = None, onesided: bool = True
) -> Tensor:
    """Transforms of frames of ``n`` real numbers, one each ``step``, times a window.

    Of [..., length] it makes [..., frames, n // 2 + 1, 2], all n where it is not ``onesided``.
    """
    axis_of(x, -1)
    b = common(x)
    v = within(b, x)
    *lead, length = v.type.shape
    rows = b("reshape", (v,), shape=(dims.mul(*lead), length, 1))
    weights = None if window is None else b.constant(window.astype(x.dtype.numpy))
    y = fourier.stft(b, rows, n, step, weights, onesided)
    return Tensor(b, b("reshape", (y,), shape=(*lead, *y.type.shape[1:])))


__all__ = ["blackman", "hamming", "hann", "mel_weights", "stft"]
