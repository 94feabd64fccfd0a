"""Choices that all lanes of a vector make alike are branches around vectors."""

from __future__ import annotations

import numpy as np

from didyma.codegen.options import Options
from didyma.codegen.schedule import schedule
from didyma.oracle import lanes
from didyma.refimpl.ir.text import parse_loop, show

NAMED = """primfunc @f(x: f32[8], w: f32[8], z: f32[16], y: f32[16], v: f32[16]) writes (y, v) {
  for i in 16 parallel {
    let at = i
    y[i] = select(i < 8, x[select(i < 8, i, 0)], w[select(i >= 8, i - 8, 0)])
    v[i] = z[at]
  }
}"""


def test_both_branches_load_wide_at_a_place_that_has_a_name() -> None:
    (f,) = parse_loop(NAMED)
    (kernel,) = schedule(f, Options())
    assert show(kernel).count("vectorized") == 2
    x, w, z = (np.arange(n, dtype=np.float32) + k for n, k in ((8, 0), (8, 100), (16, 200)))
    given = {"x": x, "w": w, "z": z, "y": np.empty(16, "f4"), "v": np.empty(16, "f4")}
    lanes.run(kernel, {b.name: given[b.name] for b in kernel.params}, {})
    assert given["y"].tolist() == [*x, *w]
    assert given["v"].tolist() == [*z]
