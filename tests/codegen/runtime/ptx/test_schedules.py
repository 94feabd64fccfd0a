"""Orders of warps show what one order hides, and loops that nothing can end are found at once."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.sanitize import Argument, Sanitized, sanitize
from didyma.codegen.runtime.ptx.shape import RANDOM, Shape, order
from didyma.codegen.runtime.ptx.sources import Source, compiled, unoptimised
from didyma.codegen.runtime.registry import probe

LATE_LOCK = """
__global__ void k(int* lock, int* x) {
  if (threadIdx.x % 32) return;
  int warp = threadIdx.x / 32;
  int early = warp == EARLY ? x[blockIdx.x] : 0;
  while (atomicCAS(&lock[blockIdx.x], 0, 1)) { }
  __threadfence();
  x[blockIdx.x] += 1 + early;
  __threadfence();
  atomicExch(&lock[blockIdx.x], 0);
}
"""
QUEUE = """
__global__ void k(int* lock, int* x) {
  __shared__ int slots[2], put, got;
  if (threadIdx.x == 0) put = got = 0;
  __syncthreads();
  for (int i = 0; i < 12; ++i) {
    if (threadIdx.x == 0) {
      while (i - atomicAdd(&got, 0) MORE 2) { }
      __threadfence_block();
      slots[i % 2] = i;
      __threadfence_block();
      atomicExch(&put, i + 1);
    } else if (threadIdx.x == 32) {
      while (atomicAdd(&put, 0) <= i) { }
      __threadfence_block();
      int v = slots[i % 2];
      __threadfence_block();
      atomicExch(&got, i + 1);
      if (v < 0) x[blockIdx.x] = v;
    }
  }
}
"""
SPINS = {
    "a count that is stored": "int n = 0; while (!atomicCAS(lock, 1, 2)) ++n; x[0] = n;",
    "a pause that grows": "for (int ns = 8; atomicAdd(lock, 0) == 0; ns *= 2) __nanosleep(ns);",
    "a clock": "for (long t = clock64(); !atomicAdd(lock, 0);) if (clock64() - t > 999) t += 9;",
    "lanes that meet": "while (__any_sync(~0u, atomicAdd(lock, 0) == 0)) __syncwarp();",
}


def judged(text: str, schedules: int, first: int = 0, warps: int = 1) -> Sanitized:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    source = Source(text, "k.cu")
    zeros = [Argument(n, np.zeros(4, np.int32)) for n in ("lock", "x")]
    shape = Shape((4, 1, 1), (32 * warps, 1, 1))
    return sanitize(source, compiled(source, "k"), shape, zeros, 0, schedules, first=first)


@pytest.mark.parametrize("early", [0, 7])
def test_a_read_before_a_lock_races_in_some_order(early: int) -> None:
    done = judged(LATE_LOCK.replace("EARLY", str(early)), 3, warps=8)
    assert {f.kind for f in done.faults} == {"race"}
    assert judged(LATE_LOCK.replace("EARLY", "-1"), 3, warps=8).findings == ()


@pytest.mark.parametrize("more", [">", ">="])
def test_a_queue_with_one_item_too_many_races_in_a_random_order(more: str) -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    source = Source(QUEUE.replace("MORE", more), "k.cu")
    zeros = [Argument(n, np.zeros(4, np.int32)) for n in ("lock", "x")]
    kernel, also = compiled(source, "k"), unoptimised(source, "k")
    done = sanitize(source, kernel, Shape((4, 1, 1), (64, 1, 1)), zeros, 0, 3, also=also)
    assert {f.kind for f in done.faults} == ({"race"} if more == ">" else set())
    assert all(f.schedule >= RANDOM for f in done.faults)


def test_the_first_orders_have_each_pair_of_warps_both_ways() -> None:
    forward, backward = order(2, 512, 128), order(1, 512, 128)
    assert (forward + backward == forward[0] + backward[0]).all()
    assert [k >> 24 for k in forward[::32]] == [0, 0, 1, 1] * 2 + [2, 2, 3, 3] * 2
    ranks = np.arange(512) // 128 % 2
    assert [k >> 24 for k in order(2, 512, 128, ranks)[::64]] == [0, 1, 2, 3] * 2
    starved = order(3, 512, 128)[::32].reshape(4, 4)
    assert (starved[:, 0] > starved[:, 1:].max(1)).all()


@pytest.mark.parametrize("what", SPINS)
def test_a_loop_that_nothing_ends_is_found_by_what_does_not_change(what: str) -> None:
    done = judged(f"__global__ void k(int* lock, int* x) {{ {SPINS[what]} }}", 1)
    assert [f.kind for f in done.faults] == ["hang"]
    assert "nothing changes" in done.faults[0].detail
    assert done.instructions < 2 * 10**7


def test_a_wait_for_a_time_ends() -> None:
    wait = "for (long long t = clock64(); clock64() - t < 1ll << 40;) { }"
    done = judged(
        f"__global__ void k(int* lock, int* x) {{ {wait} lock[threadIdx.x / 8] = 1; }}", 2
    )
    assert done.faults == ()
    assert done.instructions < 2 * 10**7
