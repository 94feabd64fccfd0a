"""Random operators, which draw from ``random_bits``, since ONNX does not define the generator.

The seed is the bits of the attribute ``seed`` as f32, or the integer itself for Dropout.  A node
without one draws from seed 0, in a stream that is the hash of its output's name, so that a model
yields the same numbers in every run and at every level.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from didyma.composites import distributions
from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.tensors import dtype_of
from didyma.onnx.values import Operand
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType


def source(c: Context) -> tuple[Value, int]:
    """Return the seed and the stream that a node draws from."""
    seed, stream = 0, 0
    if "seed" not in c.attrs:
        stream = zlib.crc32(c.outputs[0].encode()) + 1
    elif isinstance(c.attrs["seed"], int):
        seed = c.integer("seed") % (1 << 64)
    else:
        (seed,) = struct.unpack("<I", struct.pack("<f", c.real("seed")))
    return c.constant(np.array(seed, np.uint64)), stream


def _dtype(c: Context, default: DType) -> DType:
    code = c.integer("dtype")
    return dtype_of(code, c.where) if code else default


def _shape(c: Context) -> tuple[Dim, ...]:
    return tuple(int(n) for n in c.attrs["shape"])


def _uniform(c: Context, shape: tuple[Dim, ...], dtype: DType) -> Sequence[Operand]:
    seed, stream = source(c)
    low, high = c.real("low", 0.0), c.real("high", 1.0)
    return [distributions.uniform(c, seed, shape, dtype, low, high, stream)]


def _normal(c: Context, shape: tuple[Dim, ...], dtype: DType) -> Sequence[Operand]:
    seed, stream = source(c)
    mean, scale = c.real("mean", 0.0), c.real("scale", 1.0)
    return [distributions.normal(c, seed, shape, dtype, mean, scale, stream)]


Draw: TypeAlias = Callable[[Context, tuple[Dim, ...], DType], Sequence[Operand]]


def _of_shape(draw: Draw) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        del x
        return draw(c, _shape(c), _dtype(c, DType.F32))

    return run


def _like(draw: Draw) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        t = c.input(x, 0).type
        return draw(c, t.shape, _dtype(c, t.dtype))

    return run


def _bernoulli(c: Context, x: Inputs) -> Sequence[Operand]:
    p, (seed, stream) = c.operand(x, 0), source(c)
    return [distributions.bernoulli(c, p, seed, _dtype(c, p.type.dtype), stream)]


def _multinomial(c: Context, x: Inputs) -> Sequence[Operand]:
    v, (seed, stream) = c.operand(x, 0), source(c)
    if v.type.rank != 2 or v.type.shape[1] == 0:
        raise c.broken(str(v.type), "rows of at least one class")
    count, dtype = c.integer("sample_size", 1), _dtype(c, DType.I32)
    return [distributions.multinomial(c, v, seed, count, dtype, stream)]


def dropout(c: Context, v: Value, ratio: float) -> Sequence[Operand]:
    """Return dropout in training mode and its mask, a bool only from opset 10 on."""
    seed, stream = source(c)
    kept, mask = distributions.dropout(c, v, ratio, seed, stream)
    return [kept, mask if c.opset >= 10 else c.cast(mask, v.type.dtype)]


HANDLERS: dict[str, Handler] = {
    "RandomUniform": _of_shape(_uniform),
    "RandomUniformLike": _like(_uniform),
    "RandomNormal": _of_shape(_normal),
    "RandomNormalLike": _like(_normal),
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
}
