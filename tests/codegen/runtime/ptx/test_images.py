"""Tensor maps of images, ``im2col``: a box is the rows of a convolution's matrix."""

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

# One box of `in`, moved by the filter's position, goes to `out` as it lies in shared memory.
COPY = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry copy(.param .align 64 .b8 in[128], .param .u64 out) {
  .reg .pred %p; .reg .b64 %in, %out; .reg .b16 %x, %y, %z;
  .shared .align 1024 .b8 box[BYTES]; .shared .align 8 .b8 bar[8];
  mov.b64 %in, in; cvta.param.u64 %in, %in; ld.param.u64 %out, [out];
  mov.b16 %x, MOVEX; mov.b16 %y, MOVEY; mov.b16 %z, MOVEZ;
  mbarrier.init.shared.b64 [bar], 1;
  fence.proxy.async;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], BYTES;
  cp.async.bulk.tensor.RANKd.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
[box], [%in, {START}], [bar], {MOVES};
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
  @!%p bra WAIT;
  cp.async.bulk.global.shared::cta.bulk_group [%out], [box], BYTES;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
"""


def copied(x: Array, box: Box, start: tuple[int, ...], moves: tuple[int, ...]) -> Array:
    """Return a box of pixels from ``start``, of which both name the innermost axis first."""
    count = box.extents[0] * box.extents[1]
    text = COPY.replace("BYTES", str(count * x.itemsize)).replace("RANK", str(x.ndim))
    text = text.replace("START", ", ".join(map(str, start)))
    text = text.replace("MOVES", ", ".join(("%x", "%y", "%z")[: len(moves)]))
    for axis, n in zip("XYZ", (*moves, 0, 0), strict=False):
        text = text.replace(f"MOVE{axis}", str(n))
    args = [tensor_map(Argument("in", x), box), Argument("out", np.zeros(count, x.dtype))]
    one = Shape((1, 1, 1), (1, 1, 1))
    found = sanitize(Source(text, "copy.ptx"), Kernel(parse(text), "copy"), one, args)
    assert not found.findings
    return found.outputs[1].reshape(box.extents)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(
    ("pad", "filter_", "move"),
    [(1, 3, (0, 0)), (1, 3, (2, 1)), (0, 1, (0, 0)), (2, 3, (1, 2))],
)
@pytest.mark.parametrize("fill", ["zero", "nan"])
def test_boxes_are_what_a_convolution_multiplies(
    step: int, pad: int, filter_: int, move: tuple[int, int], fill: str
) -> None:
    """Output pixels in order, with the channels of the input pixel under one filter element."""
    n, h, w, c = 2, 5, 6, 8
    x = np.arange(1, 1 + n * h * w * c, dtype=np.float32).reshape(n, h, w, c)
    outside = np.nan if fill == "nan" else 0
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)), constant_values=outside)
    (i, j) = move
    rows = padded[:, i : i + h + 2 * pad - filter_ + 1 : step, :, :]
    want = rows[:, :, j : j + w + 2 * pad - filter_ + 1 : step, 4:].reshape(-1, 4)
    count = len(want) + 3  # behind the last image there is nothing
    want = np.concatenate([want, np.full((3, 4), outside, np.float32)])
    upper = pad - filter_ + 1
    box = Box((count, 4), 0, fill, (-pad,) * 2, (upper,) * 2, (step,) * 2)
    got = copied(x, box, (4, -pad, -pad, 0), (j, i))
    np.testing.assert_array_equal(got, want)


def test_rows_and_volumes_are_walked_too() -> None:
    row = np.arange(2 * 7 * 8, dtype=np.float32).reshape(2, 7, 8)
    got = copied(row, Box((5, 8), lower=(1,), upper=(-1,)), (0, 4, 0), (1,))
    np.testing.assert_array_equal(got, [row[0, 5], row[0, 6], row[1, 2], row[1, 3], row[1, 4]])
    deep = np.arange(2 * 3 * 4 * 8, dtype=np.float32).reshape(1, 2, 3, 4, 8)
    got = copied(deep, Box((24, 8), lower=(0, 0, 0), upper=(0, 0, 0)), (0, 0, 0, 0, 0), (0, 0, 0))
    np.testing.assert_array_equal(got, deep.reshape(-1, 8))


@pytest.mark.parametrize(
    ("shape", "text", "want"),
    [
        ((2, 8), "box=4x8, lower=0, upper=0", "three to five axes"),
        ((2, 4, 4, 8), "box=2x4x8, lower=0x0, upper=0x0", "pixels and channels"),
        ((2, 4, 4, 8), "box=1025x8, lower=0x0, upper=0x0", "1 to 1024 pixels"),
        ((2, 4, 4, 8), "box=4x8, lower=0, upper=0x0", "of 2 numbers"),
        ((2, 4, 4, 8), "box=4x8, lower=0x0", "of 2 numbers"),
        ((2, 4, 4, 8), "box=4x8, lower=0x-129, upper=0x0", "from -128 to 127"),
        ((2, 4, 4, 8), "box=4x8, lower=0x0, upper=0x0, steps=9x1", "1 to 8"),
        ((2, 4, 4, 8), "box=4x8, lower=a, upper=0x0", "PIXELSxCHANNELS"),
    ],
)
def test_images_that_the_driver_refuses_are_refused(
    shape: tuple[int, ...], text: str, want: str
) -> None:
    with pytest.raises(DidymaError, match=want):
        tensor_map(Argument("in", np.zeros(shape, np.float32)), read(f"map(x, {text})", "")[1])
