"""What fusion makes of the building blocks of networks: a kernel more is a loss of speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from didyma.codegen.passes.fuse import fuse
from didyma.codegen.passes.simplify import simplify
from didyma.composites import composite
from didyma.composites.builder import Builder, Value
from didyma.composites.recipes import start
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import RESHAPE_ONLY, Module
from didyma.refimpl.ir.types import DType, Shape, TensorType

n = symbol("n")


def softmax(b: Builder, p: Sequence[Value]) -> Value:
    return composite.softmax(b, p[0])


def layer_norm(b: Builder, p: Sequence[Value]) -> Value:
    return composite.layer_norm(b, p[0], (-1,), p[1], p[2])


def gelu(b: Builder, p: Sequence[Value]) -> Value:
    return composite.gelu(b, p[0])


def dense(b: Builder, p: Sequence[Value]) -> Value:
    return composite.gelu(b, composite.linear(b, p[0], p[1], p[2]))


def attention(b: Builder, p: Sequence[Value]) -> Value:
    return composite.attention(b, p[0], p[1], p[2])


def convolution(b: Builder, p: Sequence[Value]) -> Value:
    ones, zeros = (1, 1), (0, 0)
    y = b("conv", p[:2], strides=ones, dilations=ones, low=zeros, high=zeros, groups=1)
    return composite.relu(b, composite.batch_norm(b, y, p[2], p[3], p[4], p[5]))


ROWS: Shape = (n, 16)
HEADS: Shape = (2, n, 8, 16)


@pytest.mark.parametrize(
    ("make", "shapes", "kernels"),
    [
        (softmax, [ROWS], 1),
        (layer_norm, [ROWS, (16,), (16,)], 1),
        (gelu, [ROWS], 1),
        (dense, [ROWS, (16, 4), (4,)], 1),
        (attention, [HEADS] * 3, 1),
        (convolution, [(n, 3, 9, 9), (4, 3, 3, 3), *[(4,)] * 4], 2),
    ],
)
def test_kernels_of(
    make: Callable[[Builder, Sequence[Value]], Value], shapes: list[Shape], kernels: int
) -> None:
    b, params = start([TensorType(DType.F32, s) for s in shapes])
    m = Module((b.function("f", [make(b, params)]),), (DimVar("n", 1, 64),))
    found = [f for f in fuse(simplify(m)).functions[:-1] if RESHAPE_ONLY not in f.attr]
    assert len(found) == kernels
