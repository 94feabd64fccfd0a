"""Tensor maps that a launch passes: boxes of an array, and what the driver refuses."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.maps import Box, read, tensor_map
from didyma.codegen.runtime.ptx.sanitize import Argument, sanitize
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.ptx.text import parse
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

# The box at (x, y, z) of `in` goes to the same place of `out`.
COPY = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry copy(.param .align 64 .b8 in[128], .param .align 64 .b8 out[128]) {
  .reg .pred %p; .reg .b64 %in, %out;
  .shared .align 1024 .b8 box[BYTES]; .shared .align 8 .b8 bar[8];
  mov.b64 %in, in; cvta.param.u64 %in, %in; mov.b64 %out, out; cvta.param.u64 %out, %out;
  mbarrier.init.shared.b64 [bar], 1;
  fence.proxy.async;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], BYTES;
  cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes \
[box], [%in, {X, Y, Z}], [bar];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
  @!%p bra WAIT;
  cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%out, {X, Y, Z}], [box];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
"""
SHAPE = (3, 5, 24)


def copied(x: Array, y: Array, box: Box, at: tuple[int, int, int]) -> Array:
    """Return what is in ``y`` after the box at a place, outermost axis first, came from ``x``."""
    nbytes = int(np.prod(box.extents)) * x.itemsize
    text = COPY.replace("BYTES", str(nbytes))
    for axis, place in zip("ZYX", at, strict=True):
        text = text.replace(axis, str(place))
    source = Source(text, "copy.ptx")
    maps = [tensor_map(Argument(n, a), box) for n, a in (("in", x), ("out", y))]
    found = sanitize(source, Kernel(parse(text), "copy"), Shape((1, 1, 1), (1, 1, 1)), maps)
    assert not found.findings
    return found.outputs[1]


@pytest.mark.parametrize("at", [(0, 0, 0), (1, 2, 8), (2, 4, 20), (-1, -1, -4)])
@pytest.mark.parametrize("swizzle", [0, 64])
@pytest.mark.parametrize("dtype", ["f4", "i8", "u2"])
def test_a_box_is_a_slice(at: tuple[int, int, int], swizzle: int, dtype: str) -> None:
    x = np.arange(1, 1 + np.prod(SHAPE)).reshape(SHAPE).astype(dtype)
    box = Box((2, 4, 8), swizzle)
    want = np.zeros_like(x)
    inside = tuple(slice(max(0, a), max(0, a + n)) for a, n in zip(at, box.extents, strict=True))
    want[inside] = x[inside]
    np.testing.assert_array_equal(copied(x, np.zeros_like(x), box, at), want)


@pytest.mark.parametrize(
    ("shape", "dtype", "box", "want"),
    [
        ((4, 6), "f4", Box((4, 4)), "multiple of 16 bytes in the array"),
        ((4, 8), "f4", Box((4, 2)), "multiple of 16 bytes in the box"),
        ((4, 64), "f4", Box((4, 16), 32), "at most 32 bytes in the box"),
        ((4, 512), "f4", Box((4, 512)), "1 to 256 elements"),
        ((4, 8), "f4", Box((4,)), "a box of 2 axes"),
        ((2,) * 5 + (8,), "f4", Box((1,) * 6), "one to five axes"),
        ((0, 8), "f4", Box((4, 8)), "an array with elements"),
        ((4, 16), "i1", Box((4, 16)), "elements of u8"),
        ((4, 8), "i4", Box((4, 8), fill="nan"), "floats"),
    ],
)
def test_what_the_driver_refuses_is_refused(
    shape: tuple[int, ...], dtype: str, box: Box, want: str
) -> None:
    with pytest.raises(DidymaError, match=want):
        tensor_map(Argument("in", np.zeros(shape, dtype)), box)


@pytest.mark.parametrize(
    "text",
    ["map()", "map(f32[8,8])", "map(x, box=8xy)", "map(x, box=8, swizzle=7)", "map(x, bx=8)"],
)
def test_a_map_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(DidymaError, match="bad-option"):
        read(text, f"in={text}")
