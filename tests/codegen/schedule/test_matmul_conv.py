"""Convolutions as matrix products: which are, and that they are right."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.composites.builder import Builder
from didyma.fuzz.levels import check
from didyma.fuzz.values import array
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import DType, TensorType

N = symbol("n")


def conv(x: tuple[Dim, ...], w: tuple[Dim, ...], **attrs: object) -> Module:
    b = Builder()
    rank = len(x) - 2
    given = {
        "strides": (1,) * rank,
        "dilations": (1,) * rank,
        "low": (0,) * rank,
        "high": (0,) * rank,
        "groups": 1,
        **attrs,
    }
    args = [b.param("x", TensorType(DType.F32, x)), b.param("w", TensorType(DType.F32, w))]
    y = b.node("conv", args, given)  # type: ignore[arg-type]  # attributes by name
    return Module((b.function("main", [b("tanh", [y])]),), (DimVar("n", 1, 8),))


CASES = {
    "windows of one axis": (conv((N, 16, 20), (8, 16, 5)), "matmul"),
    "padding, strides, dilations": (
        conv(
            (N, 8, 12, 11),
            (16, 8, 3, 3),
            low=(1, 2),
            high=(2, 0),
            strides=(2, 1),
            dilations=(1, 2),
        ),
        "matmul",
    ),
    "rows and columns that tiles divide": (conv((N, 32, 4, 4), (16, 32, 1, 1)), "matmul"),
    "few channels": (conv((N, 3, 9), (2, 3, 3)), "fold"),
    "groups": (conv((N, 32, 12), (32, 1, 3), groups=32), "fold"),
}


@pytest.mark.parametrize("name", CASES)
def test_convolutions_are_scheduled_as_meant_and_right(name: str) -> None:
    m, schedule = CASES[name]
    kernels = compile(m, Options()).program.kernels
    assert [dict(k.attrs)["schedule"] for k in kernels] == [schedule]
    for n in (1, 3):
        shapes = [tuple(n if d == N else d for d in p.type.shape) for p in m.entry.params]
        inputs = [array(2, DType.F32, s) for s in shapes]  # type: ignore[arg-type]  # ints
        report = check(m, inputs, [])
        assert report.agree, report.findings
        assert np.isclose(report.checked_share, 1.0)
