"""GridSample over sizes that only the run tells, judged by ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.didyma.onnx.models import agrees, free, model, value


@pytest.mark.parametrize("beyond", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("kind", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample(beyond: str, kind: str, corners: int) -> None:
    attrs: dict[str, Any] = {"mode": kind, "padding_mode": beyond, "align_corners": corners}
    nodes = [helper.make_node("GridSample", ["x", "grid"], ["y"], **attrs)]
    inputs = [value("x", "n", 2, "h", "w"), value("grid", "n", "p", "q", 2)]
    m = model(nodes, inputs, [free("y")], 20)
    rng = np.random.default_rng(4)
    for n, h, w, p, q in ((1, 1, 4, 2, 2), (2, 3, 5, 4, 3), (1, 6, 2, 1, 7)):
        x = rng.standard_normal((n, 2, h, w)).astype(np.float32)
        grid = rng.uniform(-1.6, 1.6, (n, p, q, 2)).astype(np.float32)
        feeds = {"x": x, "grid": grid}
        agrees(m, feeds, levels=h == 3 and kind == "linear", atol=1e-5)
