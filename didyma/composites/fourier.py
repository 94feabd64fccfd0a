"""Discrete Fourier transforms, made of ops, and the windows and filters that go with them.

Complex numbers are a last axis of two reals.  A transform of n numbers is a product with a matrix
of roots of unity; a long one is split (J. Cooley and J. Tukey, Math. Comp. 19, 1965) until its
factors are short, and one of a long prime is a convolution (L. Bluestein, 1970).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from didyma.composites import complex as complexes
from didyma.composites.composite import Emit, like, scalar
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, DType, Tensor
from didyma.refimpl.ops.rules import at_least_zero, attr_error, shape_error

V = TypeVar("V")
SHORT = 32  # longer transforms are split, if they can be
PRIME = 512  # a matrix costs less than a convolution up to here
NORMS: Mapping[str, tuple[float, float]] = {  # powers of n that both ways divide by
    "backward": (0.0, 1.0), "ortho": (0.5, 0.5), "forward": (1.0, 0.0),
}  # fmt: skip


def dft(
    b: Emit[V],
    x: V,
    n: int | None = None,
    axis: int = -2,
    inverse: bool = False,
    onesided: bool = False,
    norm: str = "backward",
) -> V:
    """Transform along an axis that is cut, or filled up with zeros, to ``n``.

    The last axis holds complex numbers, or real ones where its size is 1.  ``onesided`` leaves out
    the half of a spectrum that is the other's conjugate: of the result, or of an inverse's operand,
    whose result is real.  What is divided by n is an inverse (``norm`` "backward") or its contrary
    ("forward"), or each by the root of n ("ortho").
    """
    t = b.type_of(x)
    axis = axis % t.rank if t.rank else 0
    if t.rank < 2 or axis == t.rank - 1 or t.shape[-1] not in (1, 2):
        want = "a last axis of 1 or 2, the parts of a number, and another to transform"
        raise shape_error("dft", [t], f"axis {axis} of {t}", want)
    length = t.shape[axis]
    if n is None:
        if not isinstance(length, int):
            want = "a length known before the program runs"
            raise shape_error("dft", [t], f"axis {axis} of {t}", want, "give the length n")
        n = 2 * (length - 1) if onesided and inverse else length
    if n < 1:
        raise attr_error("dft", "n", n, "a length of at least 1")
    if norm not in NORMS:
        raise attr_error("dft", "norm", norm, ", ".join(NORMS))
    scale = n ** -NORMS[norm][inverse]
    order = (*(i for i in range(t.rank) if i not in (axis, t.rank - 1)), axis, t.rank - 1)
    rows = b("permute_dims", (x,), axes=order)
    if onesided:
        y = (_inverse_half if inverse else _half)(b, rows, n, scale)
    else:
        y = _whole(b, rows, n, 1 if inverse else -1, scale)
    return b("permute_dims", (y,), axes=tuple(order.index(i) for i in range(t.rank)))


def stft(b: Emit[V], x: V, n: int, step: int, window: V | None = None, onesided: bool = True) -> V:
    """Transforms of frames of ``n``, one each ``step``, times a window [n].

    ``x`` is [batch, length, 1 or 2], the result [batch, frames, n or n // 2 + 1, 2].
    """
    t = b.type_of(x)
    if t.rank != 3:
        raise shape_error("stft", [t], str(t), "[batch, length, 1 or 2]")
    if step < 1 or n < 1:
        raise attr_error("stft", "step" if step < 1 else "n", min(n, step), "at least 1")
    length = t.shape[1]
    if isinstance(length, int) and length < n:
        raise shape_error("stft", [t], f"{length} samples", f"at least one frame of {n}")
    frames = at_least_zero(dims.add(dims.floordiv(dims.sub(length, n), step), 1))
    start = b("iota", (), dtype=DType.I64, shape=(frames, 1), axis=0)
    start = b("multiply", (start, scalar(b, step, DType.I64)))
    within = b("iota", (), dtype=DType.I64, shape=(1, n), axis=1)
    y = b("gather", (x, b("add", (start, within))), axis=1)
    if window is not None:
        y = b("multiply", (y, b("reshape", (window,), shape=(n, 1))))
    return dft(b, y, onesided=onesided)


def hann(n: int, periodic: bool = True) -> Array:
    """Window ``(1 - cos) / 2``, of one period or, not ``periodic``, from 0 to 0."""
    return _cosines(n, periodic, 0.5, 0.5)


def hamming(n: int, periodic: bool = True) -> Array:
    """Window ``25 / 46 - 21 / 46 cos``, as ONNX has it."""
    return _cosines(n, periodic, 25 / 46, 21 / 46)


def blackman(n: int, periodic: bool = True) -> Array:
    """Window ``0.42 - 0.5 cos + 0.08 cos`` of twice the angle."""
    return _cosines(n, periodic, 0.42, 0.5, 0.08)


def _cosines(n: int, periodic: bool, *weights: float) -> Array:
    turn = n if periodic else n - 1
    if turn < 1:
        return np.ones(n)  # as NumPy has it
    cosines = [_roots(turn, j * np.arange(n)).real for j in range(len(weights))]
    signs = (1.0, -1.0, 1.0)
    terms = [s * w * c for s, w, c in zip(signs, weights, cosines, strict=False)]
    return np.asarray(np.sum(terms, axis=0))


def mel_weights(bins: int, n: int, rate: float, low: float, high: float) -> Array:
    """Triangular filters [n // 2 + 1, bins] of a transform of ``n``, by ONNX's MelWeightMatrix.

    Their centres are spaced evenly from ``low`` to ``high`` hertz on the mel scale.
    """
    first, last = (2595 * math.log10(1 + edge / 700) for edge in (low, high))
    step = (last - first) / (bins + 2)
    hertz = [700 * (10 ** ((first + i * step) / 2595) - 1) for i in range(bins + 2)]
    marks = [math.floor((n + 1) * h / rate) for h in hertz]
    matrix = np.zeros((n // 2 + 1, bins))
    for i in range(bins):
        lower, centre, upper = marks[i : i + 3]
        if centre == lower:
            matrix[centre, i] = 1
        for j in range(lower, centre + 1):
            if centre > lower:
                matrix[j, i] = (j - lower) / (centre - lower)
        for j in range(centre, upper):
            matrix[j, i] = (upper - j) / (upper - centre)
    return matrix


# Transforms of [..., length, parts] by exp(sign 2 pi i j k / n) ---------------------------------


def _whole(b: Emit[V], x: V, n: int, sign: int, scale: float) -> V:
    """Return a whole transform."""
    x = _sized(b, x, n)
    rows = next((r for r in range(min(SHORT, math.isqrt(n)), 1, -1) if n % r == 0), 1)
    if n <= SHORT or (rows == 1 and n <= PRIME):
        return _product(b, x, _matrix(n, n, n, sign, scale))
    if rows == 1:
        return _convolved(b, x, n, sign, scale)
    columns = n // rows
    *lead, _, parts = b.type_of(x).shape
    y = _swapped(b, b("reshape", (x,), shape=(*lead, rows, columns, parts)))
    y = _product(b, y, _matrix(rows, rows, rows, sign, scale))
    turns = sign * np.arange(columns)[:, None] * np.arange(rows)
    y = _swapped(b, complexes.multiply(b, y, _constant(b, _roots(n, turns), y)))
    y = _swapped(b, _whole(b, y, columns, sign, 1.0))
    return b("reshape", (y,), shape=(*lead, n, 2))


def _half(b: Emit[V], x: V, n: int, scale: float) -> V:
    """Return the first ``n // 2 + 1`` results of a transform."""
    results = n // 2 + 1
    if n <= SHORT:
        return _product(b, _sized(b, x, n), _matrix(n, n, results, -1, scale))
    return _first(b, _whole(b, x, n, -1, scale), -2, results)


def _inverse_half(b: Emit[V], x: V, n: int, scale: float) -> V:
    """Return the real inverse transform of the first half of a spectrum: [..., n, 1]."""
    terms, twice = n // 2 + 1, (n + 1) // 2
    x = _sized(b, x, terms)
    if n <= SHORT:
        matrix = _matrix(n, terms, n, 1, scale)
        matrix[1:twice] *= 2
        return _product(b, x, matrix, parts=1)
    t = b.type_of(x)
    starts = (*[0] * (t.rank - 2), 1, 0)
    stops = (*t.shape[:-2], twice, t.shape[-1])
    tail = b("slice", (x,), starts=starts, stops=stops, steps=(1,) * t.rank)
    tail = b("flip", (tail,), axes=(t.rank - 2,))
    if t.shape[-1] == 2:
        tail = complexes.conjugate(b, tail)
    y = _whole(b, b("concat", (x, tail), axis=t.rank - 2), n, 1, scale)
    return _first(b, y, -1, 1)


def _convolved(b: Emit[V], x: V, n: int, sign: int, scale: float) -> V:
    """Return a whole transform by Bluestein: ``2 j k = j**2 + k**2 - (j - k)**2``."""
    chirp = _roots(2 * n, sign * np.arange(n) ** 2)
    size = 1 << (2 * n - 2).bit_length()
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = chirp.conj()
    kernel[size - n + 1 :] = chirp[:0:-1].conj()
    turn = complexes.multiply if b.type_of(x).shape[-1] == 2 else _times
    y = _whole(b, turn(b, x, _constant(b, chirp, x)), size, -1, 1.0)
    y = complexes.multiply(b, y, _constant(b, np.fft.fft(kernel) * (scale / size), y))
    y = _first(b, _whole(b, y, size, 1, 1.0), -2, n)
    return complexes.multiply(b, y, _constant(b, chirp, y))


def _product(b: Emit[V], x: V, matrix: NDArray[np.complex128], parts: int = 2) -> V:
    """Return the product with a matrix [terms, results], or its real part, by one real matmul."""
    *lead, terms, given = b.type_of(x).shape
    results = matrix.shape[1]
    turned = [_pairs(matrix), _pairs(1j * matrix)] if given == 2 else [_pairs(matrix)]
    width = dims.mul(terms, given)
    weights = np.stack(turned, 1)[..., :parts].reshape(-1, results * parts)
    constant = b("constant", (), value=Tensor.of(weights.astype(b.type_of(x).dtype.numpy)))
    flat = b("reshape", (x,), shape=(dims.mul(*lead), width))
    return b("reshape", (b("matmul", (flat, constant)),), shape=(*lead, results, parts))


def _matrix(n: int, terms: int, results: int, sign: int, scale: float) -> NDArray[np.complex128]:
    turns = sign * np.arange(terms)[:, None] * np.arange(results)
    return np.asarray(_roots(n, turns) * scale)


def _roots(n: int, turns: NDArray[np.int64]) -> NDArray[np.complex128]:
    """Return ``exp(2 pi i turns / n)`` from angles of at most 45 degrees: exact on the axes."""
    turns = turns % n
    quarters = (8 * turns + n) // (2 * n)
    angle = (4 * turns - quarters * n) * (np.pi / 2 / n)
    cosine, sine = np.cos(angle), np.sin(angle)
    odd, back = quarters % 2 == 1, np.where(quarters % 4 >= 2, -1.0, 1.0)
    return np.asarray(back * np.where(odd, -sine, cosine) + 1j * back * np.where(odd, cosine, sine))


def _pairs(z: NDArray[np.complex128]) -> Array:
    return np.stack([z.real, z.imag], -1)


def _constant(b: Emit[V], z: NDArray[np.complex128], x: V) -> V:
    """Return complex numbers as a constant of a value's dtype."""
    return b("constant", (), value=Tensor.of(_pairs(z).astype(b.type_of(x).dtype.numpy)))


def _times(b: Emit[V], x: V, y: V) -> V:
    return b("multiply", (x, y))


def _swapped(b: Emit[V], x: V) -> V:
    """Swap the two axes before the last."""
    k = b.type_of(x).rank
    return b("permute_dims", (x,), axes=(*range(k - 3), k - 2, k - 3, k - 1))


def _first(b: Emit[V], x: V, axis: int, n: int) -> V:
    t = b.type_of(x)
    stops = tuple(n if i == axis % t.rank else d for i, d in enumerate(t.shape))
    return b("slice", (x,), starts=(0,) * t.rank, stops=stops, steps=(1,) * t.rank)


def _sized(b: Emit[V], x: V, n: int) -> V:
    """Crop the axis before the last, or pad it with zeros, to ``n``."""
    t = b.type_of(x)
    have = t.shape[-2]
    if have == n:
        return x
    if not isinstance(have, int):
        want = "a length known before the program runs"
        raise shape_error("dft", [t], f"{dims.text(have)} numbers", want)
    if have > n:
        return _first(b, x, -2, n)
    high = (*[0] * (t.rank - 2), n - have, 0)
    return b("pad", (x, like(b, 0, x)), low=(0,) * t.rank, high=high, mode="constant")
