"""Fourier transforms, mel filters and cumulative products."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.composites import fourier
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.tensors import dtype_of
from didyma.onnx.values import Constant, Operand


def _dft(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    rank = v.type.rank
    third = c.optional_input(x, 2)
    if c.opset < 20:
        axis = c.axis(c.integer("axis", 1), rank)
    else:
        axis = c.axis(c.ints(third)[0] if third is not None else -2, rank)
    if axis == rank - 1:
        raise c.broken("the axis of real and imaginary parts", "another axis")
    inverse, half = c.flag("inverse"), c.flag("onesided")
    given = c.optional_input(x, 1)
    n = c.ints(given)[0] if given is not None else v.type.shape[axis]
    if not isinstance(n, int) or n < 1:
        raise c.error(f"a transform of length {n}", "a constant length")
    if given is None and half and inverse:
        n = 2 * (n - 1)
    return [fourier.dft(c, v, n, axis, inverse, half)]


def _stft(c: Context, x: Inputs) -> Sequence[Operand]:
    v, window = c.operand(x, 0), c.optional(x, 2)
    (step,) = c.ints(c.input(x, 1))
    if (fourth := c.optional_input(x, 3)) is not None:
        (n,) = c.ints(fourth)
    elif window is not None and isinstance(size := window.type.shape[0], int):
        n = size
    else:
        raise c.broken("neither a window nor a frame length", "one of them")
    if v.type.rank == 2:  # real numbers, which ONNX Runtime takes as well
        v = c.reshape(v, *v.type.shape, 1)
    if step < 1 or n < 1 or (isinstance(length := v.type.shape[1], int) and n > length):
        raise c.error(f"frames of {n} of {v.type} in steps of {step}", "frames that fit")
    return [fourier.stft(c, v, n, step, window, bool(c.integer("onesided", 1)))]


def _mel_weight_matrix(c: Context, x: Inputs) -> Sequence[Operand]:
    bins, n, rate, low, high = (c.number(c.input(x, i)) for i in range(5))
    matrix = fourier.mel_weights(int(bins), int(n), rate, low, high)
    dtype = dtype_of(c.integer("output_datatype", 1), c.where)
    return [Constant(matrix.astype(dtype.numpy), dtype)]


def _cumprod(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``CumProd``: the product of the elements up to each one."""
    v = c.operand(x, 0)
    axis = c.axis(c.ints(c.input(x, 1))[0], v.type.rank)
    rank, n = v.type.rank + 1, v.type.shape[axis]
    mine, other = c.iota(n, rank=rank, axis=axis), c.iota(n, rank=rank, axis=axis + 1)
    if c.flag("reverse"):
        mine, other = other, mine
    included = c.emit("less" if c.flag("exclusive") else "less_equal", other, mine)
    rows = c.reshape(v, *v.type.shape[:axis], 1, *v.type.shape[axis:])
    factors = c.emit("where", included, rows, c.scalar(1, v))
    return [c.emit("prod", factors, axes=(axis + 1,), keepdims=False)]


HANDLERS: dict[str, Handler] = {
    "DFT": _dft,
    "STFT": _stft,
    "MelWeightMatrix": _mel_weight_matrix,
    "CumProd": _cumprod,
}
