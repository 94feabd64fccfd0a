"""Boxes that come through tensor maps, against slices of the array."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.launch import Launch, Pointer, Region, launch
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.text import parse
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

ROWS, COLUMNS, TALL = 9, 40, 8


def field(name: str, value: str, index: str = "", bits: int = 32) -> str:
    space = "shared::cta.b1024"
    return f"tensormap.replace.tile.{name}.{space}.b{bits} [map], {index}{value};\n  "


def described(base: str, size: int, wide: int, mode: int, kind: int) -> str:
    """Return the statements that write a tensor map of memory at a register."""
    return "".join((
        field("global_address", base, bits=64), field("rank", "1"),
        field("box_dim", str(wide), "0, "), field("box_dim", str(TALL), "1, "),
        field("global_dim", str(COLUMNS), "0, "), field("global_dim", str(ROWS), "1, "),
        field("global_stride", str(COLUMNS * size), "0, ", 64),
        field("element_stride", "1", "0, "), field("element_stride", "1", "1, "),
        field("elemtype", str(kind)), field("interleave_layout", "0"),
        field("swizzle_mode", str(mode)), field("fill_mode", "0"),
    ))  # fmt: skip


def text(size: int, wide: int, mode: int, start: tuple[int, int], kind: int) -> str:
    fields = described("%x", size, wide, mode, kind)
    nbytes = size * wide * TALL
    return f"""
.visible .entry k(.param .u64 px, .param .u64 pm, .param .u64 py) {{
  .reg .pred %p; .reg .b32 %t, %v; .reg .b64 %x, %m, %y, %i;
  .shared .align 1024 .b8 box[2048]; .shared .align 128 .b8 map[128]; .shared .align 8 .b8 bar[8];
  ld.param.u64 %x, [px]; ld.param.u64 %m, [pm]; ld.param.u64 %y, [py]; mov.u32 %t, %tid.x;
  shl.b32 %v, %t, 2; cvt.u64.u32 %i, %v;
  mov.u32 %v, map; mad.lo.u32 %v, %t, 4, %v; st.shared.u32 [%v], 0; bar.warp.sync 0xffffffff;
  setp.ne.u32 %p, %t, 0; @%p bra SET;
  {fields}
  mbarrier.init.shared.b64 [bar], 1;
  fence.proxy.async;
SET:
  bar.warp.sync 0xffffffff;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned \
[%m], [map], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%m], 128;
  bar.sync 0;
  @%p bra WAIT;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], {nbytes};
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
[box], [%m, {{{start[0]}, {start[1]}}}], [bar];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
  @!%p bra WAIT;
  mov.u32 %v, box; mad.lo.u32 %v, %t, 4, %v; add.u64 %y, %y, %i;
  mov.u32 %t, 0;
COPY:
  ld.shared.u32 %v, [%v]; st.global.u32 [%y], %v;
  add.u32 %t, %t, 128; mov.u32 %v, %tid.x; shl.b32 %v, %v, 2; add.u32 %v, %v, %t;
  .reg .b32 %b; mov.u32 %b, box; add.u32 %v, %v, %b; add.u64 %y, %y, 128;
  setp.lt.u32 %p, %t, {nbytes}; @%p bra COPY;
  ret;
}}"""


def ran(
    x: Array, wide: int, mode: int, start: tuple[int, int], kind: int, change: tuple[str, str]
) -> tuple[Launch, Array]:
    arrays = [x, np.zeros(128, np.uint8), np.zeros(wide * TALL, x.dtype)]
    regions = [
        Region(f"r{k}", np.frombuffer(a.tobytes(), np.uint8).copy(), np.full(a.nbytes, k == 0))
        for k, a in enumerate(arrays)
    ]
    source = text(x.itemsize, wide, mode, start, kind)
    assert change[0] in source
    done = launch(
        Kernel(parse(source.replace(*change)), "k"), Shape((1, 1, 1), (32, 1, 1)), regions,
        [Pointer(k) for k in range(3)],
    )  # fmt: skip
    return done, regions[2].data.view(x.dtype).reshape(TALL, wide)


@pytest.mark.parametrize("start", [(0, 0), (3, 1), (-2, -1), (30, 5)])
@pytest.mark.parametrize(
    ("dtype", "kind", "wide", "mode"),
    [("u2", 1, 64, 3), ("u2", 1, 16, 1), ("f4", 7, 16, 2), ("u1", 0, 32, 0), ("f8", 9, 4, 1)],
)
def test_a_box_is_a_slice(
    dtype: str, kind: int, wide: int, mode: int, start: tuple[int, int]
) -> None:
    x = (np.arange(ROWS * COLUMNS) % 251 + 1).astype(dtype).reshape(ROWS, COLUMNS)
    done, got = ran(x, wide, mode, start, kind, ("", ""))
    assert not done.reports
    padded = np.zeros((60, 200), dtype)
    padded[20 : 20 + ROWS, 20 : 20 + COLUMNS] = x
    want = padded[20 + start[1] :, 20 + start[0] :][:TALL, :wide]
    line = (16, 32, 64, 128)[mode]
    pieces = want.copy().view(np.uint8).reshape(-1, 16)
    lines, each = np.divmod(np.arange(len(pieces)) * 16, 128)
    swapped = lines * 128 + each // line * line + each % line  # where a piece is before the swap
    swapped = (swapped ^ (swapped // 128 % (line // 16) * 16)) // 16
    laid = np.zeros_like(pieces)
    laid[swapped] = pieces
    np.testing.assert_array_equal(got.view(np.uint8).reshape(-1, 16), laid)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n  @!%p bra WAIT;", "", "unwaited"),
        (f"b32 [map], 1, {ROWS}", f"b32 [map], 1, {ROWS + 1}", "out-of-bounds"),
        (
            "arrive.expect_tx.shared.b64 _, [bar]",
            "arrive.expect_tx.shared.b64 _, [box]",
            "uninitialised",
        ),
    ],
)
def test_what_a_copy_lacks_is_found(old: str, new: str, kind: str) -> None:
    x = np.ones((ROWS, COLUMNS), np.uint16)
    done, _ = ran(x, 64, 3, (0, 2), 1, (old, new))
    assert kind in {r.kind for r in done.reports.values()}, done.reports


def test_what_the_engine_cannot_copy_is_named() -> None:
    x = np.ones((ROWS, COLUMNS), np.uint16)
    with pytest.raises(DidymaError, match="another rank, layout, mode or step"):
        ran(x, 64, 3, (0, 0), 1, ("element_stride.shared::cta.b1024.b32 [map], 1, 1",
                                  "element_stride.shared::cta.b1024.b32 [map], 1, 2"))  # fmt: skip
    with pytest.raises(DidymaError, match="gather4"):
        ran(x, 64, 3, (0, 0), 1, (".tile.mbarrier", ".tile::gather4.mbarrier"))
