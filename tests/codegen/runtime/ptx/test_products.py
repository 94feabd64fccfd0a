"""Products of four warps: layouts against the manual's, and what is deleted from a right kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.launch import Launch, Pointer, Region, launch
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.text import parse
from didyma.codegen.runtime.registry import engine, probe
from didyma.fuzz.conform import Runner, suite
from didyma.oracle.conformance import conform
from didyma.refimpl.ir.types import Array

TYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8,
    "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
SUMS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "s32": np.int32}


@dataclass(frozen=True)
class Product:
    """A product of 64 by ``columns``; ``mode`` is the bytes of a swizzled line, or 16."""

    kind: str = "f16"
    to: str = "f32"
    mode: int = 128
    columns: int = 24
    held: bool = False
    across: bool = False

    @property
    def depth(self) -> int:
        return 32 // int(np.dtype(TYPES[self.kind]).itemsize)

    def image(self, matrix: Array) -> tuple[Array, int, int]:
        """Return a matrix as it lies in shared memory, and its leading and other stride."""
        size, mode = matrix.itemsize, self.mode
        raw = np.zeros(16384, np.uint8)
        lead, stride = (2048, 4096) if self.across else (2048, 8 * mode)
        if mode == 16 and not self.across:
            lead, stride = 4096, 128
        for (row, term), v in np.ndenumerate(matrix):
            line, byte = (term, row * size) if self.across else (row, term * size)
            chunk, inside = divmod(byte, 16)
            panel, chunk = divmod(chunk, mode // 16)
            # The 16-byte pieces of a line are exchanged by the number of the line, of 128 bytes.
            swapped = chunk ^ (line % 8 * mode // 128 % (mode // 16))
            if mode == 16 and self.across:
                lead_of = line // 8 * lead + panel * stride
            else:
                lead_of = panel * lead + line // 8 * stride
            at = lead_of + line % 8 * mode + swapped * 16 + inside
            raw[at : at + size] = np.frombuffer(np.asarray(v).tobytes(), np.uint8)
        return raw, lead, stride

    def text(self, strides: tuple[int, int]) -> str:
        count = self.columns // 2 // (2 if self.to == "f16" else 1)
        d = ", ".join(f"%d{k}" for k in range(count))
        sets = "".join(f"mov.b32 %d{k}, 0;" for k in range(count))
        puts = "".join(f"st.global.b32 [%out+{4 * k}], %d{k};" for k in range(count))
        a = "{%f0, %f1, %f2, %f3}" if self.held else "%desc"
        loads = "".join(f"ld.global.b32 %f{k}, [%held+{4 * k}];" for k in range(4))
        signs = "" if self.to == "s32" else ", 1, 1"
        turn = int(self.across)
        wide = self.kind in ("f16", "bf16")
        signs += (f", {turn}" if self.held else f", {turn}, {turn}") if wide else ""
        mode = {16: 0, 128: 1, 64: 2, 32: 3}[self.mode]
        upper = mode << 62 | strides[1] >> 4 << 32 | strides[0] >> 4 << 16
        name = f"m64n{self.columns}k{self.depth}.{self.to}.{self.kind}.{self.kind}"
        return f"""
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 ph, .param .u64 po) {{
  .reg .pred %p; .reg .b32 %t, %v, %s, %d<{count}>, %f<4>;
  .reg .b64 %a, %b, %i, %held, %out, %desc, %bdesc;
  .shared .align 1024 .b8 s[32768];
  mov.u32 %t, %tid.x; cvt.u64.u32 %i, %t;
  ld.param.u64 %a, [pa]; ld.param.u64 %b, [pb]; ld.param.u64 %held, [ph]; ld.param.u64 %out, [po];
  mad.lo.u64 %held, %i, 16, %held; mad.lo.u64 %out, %i, {4 * count}, %out;
  mad.lo.u64 %a, %i, 4, %a; mad.lo.u64 %b, %i, 4, %b;
  mov.u32 %s, s; mad.lo.u32 %t, %t, 4, %s; add.u32 %v, %s, 16384;
LOOP:
  ld.global.b32 %f0, [%a]; st.shared.b32 [%t], %f0;
  ld.global.b32 %f1, [%b]; st.shared.b32 [%t+16384], %f1;
  add.u32 %t, %t, 512; add.u64 %a, %a, 512; add.u64 %b, %b, 512;
  setp.lt.u32 %p, %t, %v; @%p bra LOOP;
  shr.u32 %s, %s, 4; cvt.u64.u32 %desc, %s; or.b64 %desc, %desc, {upper};
  add.u64 %bdesc, %desc, 1024;
  {loads} {sets}
  fence.proxy.async;
  bar.sync 0;
  wgmma.fence.sync.aligned;
  setp.ne.u32 %p, 0, 0;
  wgmma.mma_async.sync.aligned.{name} {{{d}}}, {a}, %bdesc, %p{signs};
  wgmma.mma_async.sync.aligned.{name} {{{d}}}, {a}, %bdesc, 1{signs};
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  {puts}
  ret;
}}"""


def ran(p: Product, change: tuple[str, str] = ("", "")) -> tuple[Launch, Array, Array]:
    """Return the launch, what the kernel computes, and twice the product of the matrices."""
    rng = np.random.default_rng(5)
    low = 0 if p.kind == "u8" else -3
    a, b = (rng.integers(low, 4, (n, p.depth)).astype(TYPES[p.kind]) for n in (64, p.columns))
    (raw_a, *strides), (raw_b, *_) = p.image(a), p.image(b)
    held = np.zeros((128, 4, 4 // a.itemsize), a.dtype)
    for thread, k, j in np.ndindex(*held.shape):
        row = thread // 32 * 16 + thread % 32 // 4 + 8 * (k % 2)
        held[thread, k, j] = a[row, (thread % 4 + 4 * (k // 2)) * held.shape[2] + j]
    out = np.zeros((128, p.columns // 2), SUMS[p.to])
    arrays = [raw_a, raw_b, held, out]
    regions = [
        Region(f"r{k}", np.frombuffer(x.tobytes(), np.uint8).copy(), np.ones(x.nbytes, np.bool_))
        for k, x in enumerate(arrays)
    ]
    text = p.text((strides[0], strides[1]))
    assert change[0] in text
    done = launch(
        Kernel(parse(text.replace(*change)), "k"), Shape((1, 1, 1), (128, 1, 1)), regions,
        [Pointer(k) for k in range(4)],
    )  # fmt: skip
    got = np.zeros((64, p.columns))
    for (thread, k), v in np.ndenumerate(regions[3].data.view(SUMS[p.to]).reshape(out.shape)):
        row = thread // 32 * 16 + thread % 32 // 4 + 8 * (k // 2 % 2)
        got[row, k // 4 * 8 + thread % 4 * 2 + k % 2] = v
    return done, got, 2 * a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize(
    "p",
    [
        *(Product(mode=m) for m in (16, 32, 64, 128)),
        *(Product(mode=m, columns=64, across=True) for m in (64, 128)),
        *(Product(k, "s32" if k in ("s8", "u8") else "f32", mode=32, columns=8) for k in TYPES),
        *(Product(k, "s32" if k == "s8" else "f32", held=True) for k in ("bf16", "tf32", "s8")),
        Product(to="f16", mode=64),
    ],
    ids=str,
)
def test_a_product_is_right(p: Product) -> None:
    done, got, want = ran(p)
    assert not done.reports
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("wgmma.fence.sync.aligned;", "", "unfenced"),
        ("setp.ne.u32 %p, 0, 0;", "add.u32 %d3, %d3, 1; setp.ne.u32 %p, 0, 0;", "unfenced"),
        ("fence.proxy.async;", "", "unfenced"),
        ("wgmma.wait_group.sync.aligned 0;", "", "unwaited"),
        ("wgmma.commit_group.sync.aligned;", "", "unwaited"),
        ("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;", "unwaited"),
        ("bar.sync 0;", "", "race"),
        ("  wgmma.wait", "  st.shared.b32 [s+16384], %t; wgmma.wait", "overwritten"),
    ],
)  # fmt: skip
def test_what_a_product_lacks_is_found(old: str, new: str, kind: str) -> None:
    done, _, _ = ran(Product(), (old, new))
    assert kind in {r.kind for r in done.reports.values()}, done.reports


@pytest.mark.parametrize("case", ["f16 by 32", "bf16 by 96"])
def test_parts_of_registers_may_come_together_behind_a_fence(case: str) -> None:
    """NVRTC packs some of the 16-bit operands only there."""
    if not probe("ptx").runs:
        pytest.skip("needs NVRTC")
    cases = [c for c in suite() if c.name == f"products of four warps {case}"]
    assert cases
    assert [o.wrong for o in conform(cases, Runner(engine("ptx"))) if o.wrong] == []
