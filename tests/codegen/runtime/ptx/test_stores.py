"""Boxes that go to global memory through tensor maps, or are added there."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.launch import Launch, Pointer, Region, launch
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.text import parse
from didyma.refimpl.ir.types import Array
from tests.codegen.runtime.ptx.test_tensors import COLUMNS, ROWS, TALL, described

WAIT = "cp.async.bulk.wait_group 0;"
FENCE = "fence.proxy.async;"


def text(size: int, wide: int, mode: int, start: tuple[int, int], kind: int, how: str) -> str:
    fields = described("%y", size, wide, mode, kind)
    copy = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{how}" if how else (
        "cp.async.bulk.tensor.2d.global.shared::cta"
    )  # fmt: skip
    return f"""
.visible .entry k(.param .u64 px, .param .u64 pm, .param .u64 py) {{
  .reg .pred %p; .reg .b32 %t, %v, %w; .reg .b64 %x, %m, %y;
  .shared .align 1024 .b8 box[2048]; .shared .align 128 .b8 map[128];
  ld.param.u64 %x, [px]; ld.param.u64 %m, [pm]; ld.param.u64 %y, [py]; mov.u32 %t, %tid.x;
  mov.u32 %v, map; mad.lo.u32 %v, %t, 4, %v; st.shared.u32 [%v], 0; bar.warp.sync 0xffffffff;
  mov.u32 %v, box; mad.lo.u32 %v, %t, 4, %v; mad.wide.u32 %x, %t, 4, %x;
  add.u32 %w, %v, {size * wide * TALL};
COPY:
  ld.global.u32 %t, [%x]; st.shared.u32 [%v], %t; add.u64 %x, %x, 128; add.u32 %v, %v, 128;
  setp.lt.u32 %p, %v, %w; @%p bra COPY;
  {FENCE}
  mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p bra SET;
  {fields}
  fence.proxy.async;
SET:
  bar.warp.sync 0xffffffff;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned \
[%m], [map], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%m], 128;
  bar.sync 0;
  @%p bra END;
  {copy}.tile.bulk_group [%m, {{{start[0]}, {start[1]}}}], [box];
  cp.async.bulk.commit_group;
  {WAIT}
  st.shared.u32 [box], 0;
END:
  ret;
}}"""


def ran(
    x: Array, y: Array, mode: int, start: tuple[int, int], kind: int, how: str = "",
    change: tuple[str, str] = ("", ""),
) -> tuple[Launch, Array]:  # fmt: skip
    arrays = [x, np.zeros(128, np.uint8), y]
    regions = [
        Region(f"r{k}", np.frombuffer(a.tobytes(), np.uint8).copy(), np.full(a.nbytes, k != 1))
        for k, a in enumerate(arrays)
    ]
    source = text(x.itemsize, x.shape[1], mode, start, kind, how)
    assert change[0] in source
    done = launch(
        Kernel(parse(source.replace(*change)), "k"), Shape((1, 1, 1), (32, 1, 1)), regions,
        [Pointer(k) for k in range(3)],
    )  # fmt: skip
    return done, regions[2].data.view(y.dtype).reshape(y.shape)


def stored(x: Array, y: Array, start: tuple[int, int], adds: bool) -> Array:
    """Return ``y`` with ``x`` at a start, but for what is outside."""
    out = y.copy()
    for (i, j), v in np.ndenumerate(x):
        at = i + start[1], j + start[0]
        if 0 <= at[0] < ROWS and 0 <= at[1] < COLUMNS:
            out[at] = out[at] + v if adds else v
    return out


@pytest.mark.parametrize("start", [(0, 0), (-2, -1), (30, 5)])
@pytest.mark.parametrize(
    ("dtype", "kind", "wide", "how"),
    [("u2", 1, 16, ""), ("f4", 7, 16, ""), ("f4", 7, 16, "add"), ("i4", 3, 8, "max"),
     ("f2", 6, 16, "add")],
)  # fmt: skip
def test_a_box_is_stored(
    dtype: str, kind: int, wide: int, how: str, start: tuple[int, int]
) -> None:
    x = (np.arange(TALL * wide) % 251 + 1).astype(dtype).reshape(TALL, wide)
    y = np.full((ROWS, COLUMNS), 3, dtype)
    done, got = ran(x, y, 0, start, kind, how)
    assert not done.reports
    want = stored(x, y, start, how == "add")
    if how == "max":
        want = np.maximum(want, y)
    np.testing.assert_array_equal(got, want)


def test_lines_are_exchanged_as_a_load_exchanges_them() -> None:
    x = np.arange(TALL * 32, dtype=np.float32).reshape(TALL, 32)
    done, got = ran(x, np.zeros((ROWS, COLUMNS), np.float32), 3, (0, 0), 7)
    assert not done.reports
    pieces = x.reshape(TALL, 8, 4)
    for row in range(TALL):
        want = pieces[row, np.arange(8) ^ row].reshape(-1)
        np.testing.assert_array_equal(got[row, :32], want)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (WAIT, "", "overwritten"),
        (WAIT, "cp.async.bulk.wait_group.read 1;", "overwritten"),
        (FENCE, "", "unfenced"),
        (f"b32 [map], 1, {ROWS}", f"b32 [map], 1, {ROWS + 1}", "out-of-bounds"),
    ],
)
def test_what_a_store_lacks_is_found(old: str, new: str, kind: str) -> None:
    x = np.ones((TALL, 16), np.float32)
    done, _ = ran(x, np.zeros((ROWS, COLUMNS), np.float32), 0, (0, 2), 7, "", (old, new))
    assert kind in {r.kind for r in done.reports.values()}, done.reports
