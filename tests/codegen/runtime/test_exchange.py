"""Exchanges of lanes that kernel text gets wrong: each engine that checks says what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.registry import engine
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import DType

HEAD = """\
extern "C" __global__ void k(const f32 *__restrict__ x, f32 *__restrict__ y) {
  const i64 i = (i64)threadIdx.x;
"""


def fault(body: str, on: str) -> str:
    """Return the kind of the fault of 12 threads."""
    ones, names = (index(1), index(1), index(1)), (("x", DType.F32), ("y", DType.F32))
    s = Signature("k", names, (index(12), index(12)), ("y",), (), ones, (12, 1, 1))
    e = engine(on)
    held = [e.upload(np.ones(12, np.float32)) for _ in range(2)]
    with pytest.raises(KernelFault) as caught:
        e.load(KernelText(f"{HEAD}{body}}}\n", (s,))).launch("k", held, {})
    return caught.value.faults[0].kind


@pytest.mark.parametrize("on", ["simt", "host"])
def test_a_lane_that_is_missing(on: str) -> None:
    body = "  if (i < 8) {\n    y[i] = shuffle_xor_f32(x[i], 1);\n  }\n"
    assert fault(body, on) == "barrier-divergence"


@pytest.mark.parametrize(
    ("on", "kind"), [("simt", "out-of-bounds"), ("host", "barrier-divergence")]
)
def test_a_lane_that_there_is_not(on: str, kind: str) -> None:
    assert fault("  y[i] = shuffle_xor_f32(x[i], 4);\n", on) == kind


def test_a_value_that_was_never_set() -> None:
    body = "  f32 v;\n  if (i < 6) {\n    v = x[i];\n  }\n  y[i] = shuffle_xor_f32(v, 1);\n"
    assert fault(body, "simt") == "uninitialised"
