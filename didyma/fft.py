"""Discrete Fourier transforms: the ``fft`` extension of the Python Array API standard.

Complex numbers are a last axis of two reals, which ``axis`` does not count; real arrays have none.
A length must be known before the program runs, by the type or by ``n``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from didyma.complex import conj
from didyma.functions import asarray
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ops import fourier
from didyma.tensor import Tensor, apply, common, within
from didyma.types import Element, f32

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
_OTHER: dict[str, Norm] = {"backward": "forward", "forward": "backward"}


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Transform complex numbers."""
    return _transform(x, n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Invert ``fft``."""
    return _transform(x, n, axis, norm, inverse=True)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Transform real numbers; the half of the result that is the other's conjugate is left out."""
    return _transform(_reshaped(x, *x.shape, 1), n, axis, norm, onesided=True)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Invert ``rfft``: ``n`` real numbers, an even number if it is not given."""
    y = _transform(x, n, axis, norm, inverse=True, onesided=True)
    return _reshaped(y, *y.shape[:-1])


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Transform numbers whose other half is conjugate, to ``n`` real ones."""
    return irfft(conj(x), n=n, axis=axis, norm=_OTHER.get(norm, norm))


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Invert ``hfft``."""
    return conj(rfft(x, n=n, axis=axis, norm=_OTHER.get(norm, norm)))


def fftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:  # fmt: skip
    """Transform along several axes, or all, to lengths ``s``."""
    for axis, n in _axes(x, len(x.shape) - 1, s, axes):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:  # fmt: skip
    """Invert ``fftn``."""
    for axis, n in _axes(x, len(x.shape) - 1, s, axes):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:  # fmt: skip
    """Transform real numbers along several axes, or all; the last one's result is halved."""
    *others, (last, n) = _axes(x, len(x.shape), s, axes)
    y = rfft(x, n=n, axis=last, norm=norm)
    for axis, n in others:
        y = fft(y, n=n, axis=axis, norm=norm)
    return y


def irfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:  # fmt: skip
    """Invert ``rfftn``."""
    *others, (last, n) = _axes(x, len(x.shape) - 1, s, axes)
    for axis, m in others:
        x = ifft(x, n=m, axis=axis, norm=norm)
    return irfft(x, n=n, axis=last, norm=norm)


def fftfreq(like: Tensor, n: int, /, *, d: float = 1.0, dtype: Element = f32) -> Tensor:
    """Frequencies of a transform of ``n`` samples ``d`` apart, in the graph of ``like``."""
    return asarray(like, np.fft.fftfreq(n, d).astype(dtype.dtype.numpy))


def rfftfreq(like: Tensor, n: int, /, *, d: float = 1.0, dtype: Element = f32) -> Tensor:
    """Frequencies of ``rfft``, in the graph of ``like``."""
    return asarray(like, np.fft.rfftfreq(n, d).astype(dtype.dtype.numpy))


def fftshift(
    x: Tensor, /, *, axes: int | Sequence[int] | None = None, real: bool = False
) -> Tensor:
    """Move frequency 0 to the middle of axes, or of all; ``real`` says that ``x`` is."""
    return _shifted(x, axes, real, inverse=False)


def ifftshift(
    x: Tensor, /, *, axes: int | Sequence[int] | None = None, real: bool = False
) -> Tensor:
    """Invert ``fftshift``."""
    return _shifted(x, axes, real, inverse=True)


def _transform(
    x: Tensor, n: int | None, axis: int, norm: str, inverse: bool = False, onesided: bool = False
) -> Tensor:
    b = common(x)
    at = _axis(x, axis, len(x.shape) - 1)
    return Tensor(b, fourier.dft(b, within(b, x), n, at, inverse, onesided, norm))


def _reshaped(x: Tensor, *shape: Dim) -> Tensor:
    return apply("reshape", x, shape=shape)


def _axis(x: Tensor, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        want = f"{-rank} <= axis < {rank}, not counting the parts of complex numbers"
        raise DidymaError("bad-axis", repr(x), got=f"axis {axis}", want=want)
    return axis % rank


def _axes(
    x: Tensor, rank: int, s: Sequence[int] | None, axes: Sequence[int] | None
) -> list[tuple[int, int | None]]:
    """Axes with their lengths; without axes the last ones, or all."""
    if axes is None:
        axes = range(rank) if s is None else range(-len(s), 0)
    lengths = [None] * len(axes) if s is None else list(s)
    if len(lengths) != len(axes) or not axes:
        got, want = (
            f"{len(lengths)} lengths, {len(axes)} axes",
            "one axis or more, a length of each",
        )
        raise DidymaError("bad-axis", repr(x), got=got, want=want)
    return [(_axis(x, a, rank), n) for a, n in zip(axes, lengths, strict=True)]


def _shifted(x: Tensor, axes: int | Sequence[int] | None, real: bool, inverse: bool) -> Tensor:
    rank = len(x.shape) - (0 if real else 1)
    if axes is None:
        axes = range(rank)
    for axis in (axes,) if isinstance(axes, int) else axes:
        at = _axis(x, axis, rank)
        n = x.shape[at]
        half = dims.floordiv(n, 2)
        first = half if inverse else dims.sub(n, half)
        x = apply("concat", _part(x, at, first, n), _part(x, at, 0, first), axis=at)
    return x


def _part(x: Tensor, axis: int, start: Dim, stop: Dim) -> Tensor:
    starts = tuple(start if i == axis else 0 for i in range(len(x.shape)))
    stops = tuple(stop if i == axis else d for i, d in enumerate(x.shape))
    return apply("slice", x, starts=starts, stops=stops, steps=(1,) * len(starts))


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip
