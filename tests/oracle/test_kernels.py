"""Kernels of one function are run in order, and hand numbers on in scratch of their own."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.oracle import lanes
from didyma.oracle.kernels import run_primfuncs
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir.text import parse_module

TEXT = """\
module {
  func @main(%x: f32[3000]) -> (%y) {
    %y = max(%x, axes=(0,), keepdims=false) : f32[]
  }
}
"""


@pytest.mark.parametrize("in_ring", [False, True])
def test_kernels_hand_on_what_is_no_parameter_of_their_function(in_ring: bool) -> None:
    options = Options().changed({"kernels.split": 64})
    made = compile(parse_module(TEXT), options, until="schedule")
    ((name, kernels),) = made.kernels.items()
    loop = made.loops[name]
    known = {p.name for p in loop.params}
    assert any(p.name not in known for k in kernels for p in k.params), "there is scratch"
    x = np.random.default_rng(3).standard_normal(3000).astype(np.float32)
    types = made.fused.function(name).result_types()
    launch = partial(lanes.run, arithmetic=scalar_ring) if in_ring else lanes.run
    (y,) = run_primfuncs(kernels, loop, [x], {}, types, launch, in_ring=in_ring)
    assert scalar_ring.value_of(y) == x.max()
