"""DeformConv over sizes that only the run tells, judged by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.refimpl.onnx.models import agrees, free, model, value


@pytest.mark.parametrize("stride", [1, 2])
def test_deform_conv(stride: int) -> None:
    rng = np.random.default_rng(5)
    w = rng.standard_normal((3, 2, 3, 2)).astype(np.float32)
    nodes = [
        helper.make_node(
            "DeformConv", ["x", "w", "shift"], ["y"], strides=[stride, 1], pads=[1, 0, 1, 0]
        )
    ]
    inputs = [value("x", "n", 2, "h", "w_"), value("shift", "n", 12, "p", "q")]
    m = model(nodes, inputs, [free("y")], 19, w=w)
    for n, h, wide in ((1, 3, 2), (2, 4, 5), (1, 7, 3)):
        x = rng.standard_normal((n, 2, h, wide)).astype(np.float32)
        p = (h - 1) // stride + 1
        shift = rng.uniform(-1.5, 1.5, (n, 12, p, wide - 1)).astype(np.float32)
        agrees(m, {"x": x, "shift": shift}, levels=h == 4, atol=1e-5)
