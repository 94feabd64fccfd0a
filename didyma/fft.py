"""Discrete Fourier transforms: the ``fft`` extension of the Python Array API standard.

Complex numbers are a last axis of two reals, which ``axis`` does not count; real arrays have none.
A length must be known before the program runs, by the type or by ``n``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from didyma.complex import conj, pair
from didyma.composites import fourier
from didyma.functions.axes import composed, rank, shape
from didyma.functions.complex_pairs import Complex, mark, refusal
from didyma.functions.creation import numbers
from didyma.functions.public import public, wrong
from didyma.functions.suggestions import refuser
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import Array
from didyma.tracer.tensor import Tensor, apply
from didyma.tracer.types import Element, f32

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
_OTHER: dict[str, Norm] = {"backward": "forward", "forward": "backward"}


@public
def fft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Complex:
    """Transform complex numbers [..., 2], or real ones, along an axis, to complex ones.

    ``axis`` does not count the parts; a plain tensor with a last axis of 2 holds pairs.  ``n`` cuts
    or pads the axis.  Example: ``dd.fft.fft(x)``.  Errors: ``bad-axis``, ``bad-call``.
    """
    return _transform(_complex(x), n, axis, norm)


@public
def ifft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Complex:
    """Invert ``fft``.  Example: ``dd.fft.ifft(z)``.  Errors: those of ``fft``."""
    return _transform(_complex(x), n, axis, norm, inverse=True)


@public
def rfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Complex:
    """Transform real numbers; the half of the result that is the other's conjugate is left out.

    Example: ``dd.fft.rfft(x)``.  Errors: those of ``fft``, ``complex-operand``.
    """
    if isinstance(x, Complex):
        raise refusal("complex numbers given to dd.fft.rfft", "dd.fft.fft transforms them")
    return _transform(_reshaped(x, *shape(x), 1), n, axis, norm, onesided=True)


@public
def irfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Invert ``rfft``: ``n`` real numbers, an even number if it is not given.

    Example: ``dd.fft.irfft(z, n=400)``.  Errors: those of ``fft``.
    """
    y = _transform(x, n, axis, norm, inverse=True, onesided=True)
    return _reshaped(y, *shape(y)[:-1])


@public
def hfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Transform numbers whose other half is conjugate, to ``n`` real ones.

    Example: ``dd.fft.hfft(z)``.  Errors: those of ``fft``.
    """
    return irfft(conj(x), n=n, axis=axis, norm=_OTHER.get(norm, norm))


@public
def ihfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Complex:
    """Invert ``hfft``.  Example: ``dd.fft.ihfft(x)``.  Errors: those of ``fft``."""
    return conj(rfft(x, n=n, axis=axis, norm=_OTHER.get(norm, norm)))


def _each(
    step: Callable[..., Complex], x: Complex, axes: Sequence[tuple[int, int | None]], norm: Norm
) -> Complex:
    for axis, n in axes:
        x = step(x, n=n, axis=axis, norm=norm)
    return x


@public
def fftn(
    x: Tensor,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Complex:
    """Transform along several axes, or all, to lengths ``s``.

    Example: ``dd.fft.fftn(z, axes=(0, 1))``.  Errors: those of ``fft``.
    """
    z = _complex(x)
    return _each(fft, z, _axes(z, rank(z) - 1, s, axes), norm)


@public
def ifftn(
    x: Tensor,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Complex:
    """Invert ``fftn``.  Example: ``dd.fft.ifftn(z)``.  Errors: those of ``fft``."""
    z = _complex(x)
    return _each(ifft, z, _axes(z, rank(z) - 1, s, axes), norm)


@public
def rfftn(
    x: Tensor,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Complex:
    """Transform real numbers along several axes, or all; the last one's result is halved.

    Example: ``dd.fft.rfftn(x)``.  Errors: those of ``fft``.
    """
    *others, (last, n) = _axes(x, rank(x), s, axes)
    return _each(fft, rfft(x, n=n, axis=last, norm=norm), others, norm)


@public
def irfftn(
    x: Tensor,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """Invert ``rfftn``.  Example: ``dd.fft.irfftn(z)``.  Errors: those of ``fft``."""
    *others, (last, n) = _axes(x, rank(x) - 1, s, axes)
    return irfft(_each(ifft, _complex(x), others, norm), n=n, axis=last, norm=norm)


@public
def fftfreq(n: int, /, *, d: float = 1.0, dtype: Element = f32) -> Tensor:
    """Frequencies of a transform of ``n`` samples ``d`` apart.

    Example: ``dd.fft.fftfreq(8, d=0.1)``.  Errors: ``bad-call``.
    """
    return _frequencies(np.fft.fftfreq, n, d, dtype)


@public
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Element = f32) -> Tensor:
    """Frequencies of ``rfft``.  Example: ``dd.fft.rfftfreq(8)``.  Errors: ``bad-call``."""
    return _frequencies(np.fft.rfftfreq, n, d, dtype)


def _frequencies(f: Callable[[int, float], Array], n: int, d: float, dtype: Element) -> Tensor:
    if n < 1 or d == 0:
        raise wrong(f"dd.fft.{f.__name__}", f"n = {n}, d = {d}", "n >= 1 and d other than 0")
    return numbers(f(n, d).astype(dtype.dtype.numpy))


@public
def fftshift(
    x: Tensor, /, *, axes: int | Sequence[int] | None = None, real: bool | None = None
) -> Tensor:
    """Move frequency 0 to the middle of axes, or of all but that of parts.

    ``real`` says whether a plain tensor is one of real numbers, where its last axis of 2 leaves
    that open.  Example: ``dd.fft.fftshift(z)``.  Errors: ``bad-axis``, ``bad-call``.
    """
    return _shifted(x, axes, real, inverse=False)


@public
def ifftshift(
    x: Tensor, /, *, axes: int | Sequence[int] | None = None, real: bool | None = None
) -> Tensor:
    """Invert ``fftshift``.  Example: ``dd.fft.ifftshift(z)``.  Errors: those of ``fftshift``."""
    return _shifted(x, axes, real, inverse=True)


def _complex(x: Tensor) -> Complex:
    """Return complex numbers as they are, real ones with imaginary parts of 0."""
    if shape(x)[-1:] == (2,):
        return mark(x)
    zeros = apply("broadcast_to", numbers(0, x.value.type.dtype), shape=shape(x))
    return pair(x, zeros)


def _transform(
    x: Tensor, n: int | None, axis: int, norm: str, inverse: bool = False, onesided: bool = False
) -> Complex:
    at = _axis(x, axis, rank(x) - 1)
    return mark(composed(fourier.dft, x, n, at, inverse, onesided, norm))


def _reshaped(x: Tensor, *sizes: Dim) -> Tensor:
    return apply("reshape", x, shape=sizes)


def _axis(x: Tensor, axis: int, count: int) -> int:
    if not -count <= axis < count:
        want = f"{-count} <= axis < {count}, not counting the parts of complex numbers"
        raise DidymaError("bad-axis", repr(x), got=f"axis {axis}", want=want)
    return axis % count


def _axes(
    x: Tensor, count: int, s: Sequence[int] | None, axes: Sequence[int] | None
) -> list[tuple[int, int | None]]:
    """Axes with their lengths; without axes the last ones, or all."""
    if axes is None:
        axes = range(count) if s is None else range(-len(s), 0)
    lengths = [None] * len(axes) if s is None else list(s)
    if len(lengths) != len(axes) or not axes:
        got = f"{len(lengths)} lengths, {len(axes)} axes"
        want = "one axis or more, a length of each"
        raise DidymaError("bad-axis", repr(x), got=got, want=want)
    return [(_axis(x, a, count), n) for a, n in zip(axes, lengths, strict=True)]


def _shifted(
    x: Tensor, axes: int | Sequence[int] | None, real: bool | None, inverse: bool
) -> Tensor:
    paired = isinstance(x, Complex)
    if real is None and not paired and shape(x)[-1:] == (2,):
        raise wrong("dd.fft.fftshift", f"{x.value.type}, of pairs or of real numbers",
                    "real=True or real=False", "dd.complex.view(x) says pairs, too")  # fmt: skip
    count = rank(x) - (1 if paired or real is False else 0)
    y = x
    for axis in range(count) if axes is None else (axes,) if isinstance(axes, int) else axes:
        at = _axis(y, axis, count)
        n = shape(y)[at]
        half = dims.floordiv(n, 2)
        first = half if inverse else dims.sub(n, half)
        y = apply("concat", _part(y, at, first, n), _part(y, at, 0, first), axis=at)
    return mark(y) if paired else y


def _part(x: Tensor, axis: int, start: Dim, stop: Dim) -> Tensor:
    starts = tuple(start if i == axis else 0 for i in range(rank(x)))
    stops = tuple(stop if i == axis else d for i, d in enumerate(shape(x)))
    return apply("slice", x, starts=starts, stops=stops, steps=(1,) * len(starts))


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = refuser("dd.fft", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
