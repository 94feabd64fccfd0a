"""Sums by one thread: where its neighbours read what is near, and with short chains."""

from __future__ import annotations

import math

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.composites.builder import Builder
from didyma.fuzz.levels import check
from didyma.fuzz.values import array
from didyma.oracle.chains import longest
from didyma.refimpl.ir.graph import Attr, Module
from didyma.refimpl.ir.types import DType, Tensor, TensorType

PLACED: dict[str, Attr] = {"strides": (1, 1), "dilations": (1, 1), "low": (1, 1), "high": (1, 1)}


def pool(*x: int, window: int) -> Module:
    """Return means of square windows."""
    b = Builder()
    p = b.param("x", TensorType(DType.F32, x))
    attrs: dict[str, Attr] = {**PLACED, "window": (window, window), "count_include_pad": True}
    return Module((b.function("main", [b.node("avg_pool", [p], attrs)]),))


def conv(*x: int, outputs: int, window: int) -> Module:
    """Convolution with one number for all weights: it reads nothing but its operand."""
    b = Builder()
    p = b.param("x", TensorType(DType.F32, x))
    one = b.node("constant", [], {"value": Tensor.of(np.full((), 0.25, np.float32))})
    size = (outputs, x[1], window, window)
    w = b.node("broadcast_to", [one], {"shape": size})
    y = b.node("conv", [p, w], {**PLACED, "groups": 1})
    return Module((b.function("main", [b("tanh", [y])]),))


def rows(count: int, length: int) -> Module:
    b = Builder()
    p = b.param("x", TensorType(DType.F32, (count, length)))
    return Module((b.function("main", [b.node("sum", [p], {"axes": (1,), "keepdims": False})]),))


CASES = {
    "windows": (pool(1, 8, 28, 28, window=7), "fold", 49),
    "channels that cut well": (conv(1, 16, 20, 20, outputs=12, window=3), "fold", 144),
    "channels beyond that": (conv(1, 72, 12, 12, outputs=32, window=1), "fold", 72),
    "a prime number of channels": (conv(1, 7, 20, 20, outputs=13, window=5), "fold", 175),
    "few results": (conv(1, 16, 9, 9, outputs=2, window=3), "reduce_row", 144),
    "neighbours far apart": (rows(5000, 70), "reduce_row", 70),
}


@pytest.mark.parametrize("name", CASES)
def test_where_a_thread_adds_up_alone(name: str) -> None:
    m, schedule, terms = CASES[name]
    compiled = compile(m, Options())
    (kernel,) = compiled.program.kernels
    assert dict(kernel.attrs)["schedule"] == schedule
    chain = longest([kernel], {})
    assert chain is not None
    assert chain <= max(64, 3 * math.sqrt(terms))
    inputs = [array(4, DType.F32, p.type.shape) for p in m.entry.params]  # type: ignore[arg-type]  # ints
    report = check(m, inputs, [engine("host")])
    assert report.agree, report.findings
    assert report.checked_share == 1
