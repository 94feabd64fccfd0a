"""What blocks of a grid and of a cluster do to each other, and how a warp stores matrices."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.sanitize import Argument, Sanitized, sanitize
from didyma.codegen.runtime.ptx.shape import Shape
from didyma.codegen.runtime.ptx.sources import Source, compiled
from didyma.refimpl.ir.types import Array

pytestmark = pytest.mark.usefixtures("ptx")


def ran(text: str, blocks: int, threads: int, *arrays: Array, output: int = -1) -> Sanitized:
    """Launch the kernel of a text; the array of the number ``output`` is unwritten before."""
    source = Source(text, "k.cu")
    args = [Argument(f"a{k}", a, k == output) for k, a in enumerate(arrays)]
    shape = Shape((blocks, 1, 1), (threads, 1, 1))
    return sanitize(source, compiled(source, "k"), shape, args, schedules=2)


@pytest.mark.parametrize(("value", "kind"), [("1", "same-value"), ("blockIdx.x / 16", "race")])
def test_stores_of_batches_of_blocks_meet(value: str, kind: str) -> None:
    """32 blocks of 1,024 threads are two batches, of 16 blocks, each of which stores one value."""
    text = f"__global__ void k(int* found) {{ if (threadIdx.x == 5) *found = {value}; }}"
    done = ran(text, 32, 1024, np.zeros(1, np.int32))
    assert {(f.kind, f.line) for f in done.findings} | {("same-value", 1)} == (
        {(kind, 1), ("same-value", 1)}
    )


MULTICAST = r"""
__global__ void __cluster_dims__(4) k(const int* x, int* y) {
  __shared__ alignas(128) int box[32];
  __shared__ alignas(8) unsigned long long bar;
  unsigned to, arrived, rank;
  to = __cvta_generic_to_shared(box), arrived = __cvta_generic_to_shared(&bar);
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(arrived) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  if (threadIdx.x == 0 && MASK >> rank & 1)
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(arrived) : "memory");
  if (threadIdx.x == 0 && rank == 1)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], 128, [%2], %3;"
                 :: "r"(to), "l"(x), "r"(arrived), "h"((unsigned short)MASK) : "memory");
  y[blockIdx.x * 32 + threadIdx.x] = -1;
  if (MASK >> rank & 1) {
    WAIT
    y[blockIdx.x * 32 + threadIdx.x] = box[threadIdx.x];
  }
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
"""
WAIT = (
    'asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }"'
    ' :: "r"(arrived) : "memory");'
)


def test_a_copy_goes_to_the_blocks_of_its_mask() -> None:
    text = MULTICAST.replace("MASK", "0xbu").replace("WAIT", WAIT)
    x = np.arange(100, 132, dtype=np.int32)
    done = ran(text, 4, 32, x, np.zeros(128, np.int32), output=1)
    assert not done.findings
    want = np.concatenate([x, x, np.full(32, -1, np.int32), x])
    assert done.outputs[1].tolist() == want.tolist()


def test_a_copy_to_several_blocks_is_waited_for_in_each() -> None:
    text = MULTICAST.replace("MASK", "0xbu").replace("WAIT", "if (rank < 3) { " + WAIT + " }")
    done = ran(text, 4, 32, np.zeros(32, np.int32), np.zeros(128, np.int32), output=1)
    assert {"unwaited"} <= {f.kind for f in done.faults} <= {"unwaited", "uninitialised", "race"}


STORE = r"""
__global__ void k(const unsigned* x, unsigned short* y) {
  __shared__ alignas(16) unsigned short s[4 * 8 * 8];
  unsigned r[4];
  for (int j = 0; j < 4; ++j) r[j] = x[j * 32 + threadIdx.x];
  unsigned row = __cvta_generic_to_shared(s + threadIdx.x * 8 + OFF);
  asm volatile("stmatrix.sync.aligned.m8n8.x4HOW.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(row), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
  __syncwarp();
  for (int k = threadIdx.x; k < 256; k += 32) y[k] = s[k];
}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_a_warp_stores_matrices(turned: bool) -> None:
    """Lane i has of each matrix the elements 2 (i mod 4) and the next one of row i / 4."""
    m = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    held = m.reshape(4, 32, 2).copy().view(np.uint32)[..., 0]
    text = STORE.replace("HOW", ".trans" if turned else "").replace("OFF", "0")
    done = ran(text, 1, 32, held.reshape(-1), np.zeros(256, np.uint16), output=1)
    assert not done.findings
    want = m.transpose(0, 2, 1) if turned else m
    np.testing.assert_array_equal(done.outputs[1].reshape(4, 8, 8), want)


@pytest.mark.parametrize(("offset", "kind"), [("1", "misaligned"), ("8", "out-of-bounds")])
def test_rows_of_stored_matrices_are_checked(offset: str, kind: str) -> None:
    text = STORE.replace("HOW", "").replace("OFF", offset)
    done = ran(text, 1, 32, np.zeros(128, np.uint32), np.zeros(256, np.uint16), output=1)
    assert kind in {f.kind for f in done.faults}
