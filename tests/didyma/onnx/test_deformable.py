"""RoiAlign and DeformConv over sizes that only the run tells, judged by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from didyma.onnx.load import load_model
from didyma.refimpl.errors import DidymaError
from tests.didyma.onnx.models import agrees, free, model, value


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
        agrees(m, {"x": x, "shift": shift}, levels=h == 4 and stride == 2, atol=1e-5)


def regions(**attrs: str | int) -> onnx.ModelProto:
    made = helper.make_node("RoiAlign", ["x", "rois", "at"], ["y"], sampling_ratio=2)
    made.attribute.extend(helper.make_attribute(k, v) for k, v in attrs.items())
    at = value("at", "r", type=onnx.TensorProto.INT64)
    return model([made], [value("x", "n", 2, "h", "w"), value("rois", "r", 4), at], [free("y")])


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode: str) -> None:
    rng = np.random.default_rng(6)
    m = regions(mode=mode, output_height=2, output_width=3)
    for n, r, h, w in ((1, 1, 1, 1), (2, 3, 5, 4), (1, 2, 4, 7)):
        x = rng.standard_normal((n, 2, h, w)).astype(np.float32)
        corners = np.sort(rng.uniform(-1, 6, (r, 2, 2)), 1).reshape(r, 4).astype(np.float32)
        at = rng.integers(0, n, r)
        agrees(m, {"x": x, "rois": corners, "at": at}, levels=h == 5, atol=1e-5)


@pytest.mark.parametrize("name", ["output_height", "output_width"])
def test_regions_that_nobody_could_hold_are_refused(name: str) -> None:
    with pytest.raises(DidymaError) as caught:
        load_model(regions(**{name: 1 << 40}))
    assert caught.value.code == "onnx-too-large"
