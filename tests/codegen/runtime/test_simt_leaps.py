"""Long loops of which ``simt`` runs the first and last rounds: which, and what it still sees."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.simt import Simt
from didyma.refimpl.ir.types import DType
from tests.codegen.runtime.texts import kernel

SIZE = 400


def rounds(text: str, threads: int = 1, blocks: int = 1, *, ends: bool = True) -> list[int]:
    """Run a kernel; which elements of ``y`` it has set to one."""
    engine = Simt(ends=ends)
    x, y = (engine.upload(np.zeros(SIZE, np.int64)) for _ in "xy")
    made = kernel(text, threads=threads, blocks=blocks, size=SIZE, dtype=DType.I64)
    engine.load(made).launch("k", [x, y], {})
    return [int(i) for i in np.flatnonzero(engine.download(y, DType.I64, (SIZE,)))]


def ring(stages: int, last: int = 100) -> str:
    return f"""
for (i32 n = 0; n < {last}; n = n + 1) {{
  __syncthreads();
  y[n] = n % {stages} < 9 ? 1 : 0;
}}"""


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5, 6])
def test_a_leap_is_over_whole_turns_of_a_ring(stages: int) -> None:
    found = rounds(ring(stages))
    left_out = [n for n in range(100) if n not in found]
    assert found[: stages + 1] == [*range(stages + 1)]
    assert found[-stages - 1 :] == [*range(99 - stages, 100)]
    assert left_out == [*range(left_out[0], left_out[-1] + 1)]
    assert len(left_out) % (2 * stages) == 0
    assert len(found) <= 4 * stages + 4


def test_all_rounds_run_where_nothing_else_is_asked_for() -> None:
    assert rounds(ring(3), ends=False) == [*range(100)]


@pytest.mark.parametrize(
    "text",
    [
        "for (i32 n = 0; n < 100; n = n + 1) { y[n] = 1; }",  # no thread waits
        "for (i32 n = 0; n < 100; n = n + 1) { __syncthreads(); y[n] = 1; n = n + 0; }",
        "for (i32 n = 0; n < 100; n = n + 1 + x[0]) { __syncthreads(); y[n] = 1; }",
        "for (i32 n = 99; n > -1; n = n - 1) { __syncthreads(); y[n] = 1; }",
        ring(3, last=8),
    ],
)
def test_other_loops_and_short_ones_run_as_they_are(text: str) -> None:
    expected = 8 if "n < 8" in text else 100
    assert rounds(text) == [*range(expected)]


def test_blocks_keep_their_first_and_last_two_turns_at_what_they_share() -> None:
    text = """
for (i64 n = blockIdx.x; n < 31; n = n + gridDim.x) {
  __syncthreads();
  y[n] = 1;
}"""
    assert rounds(text, blocks=3) == [0, 1, 2, 3, 4, 5, 24, 25, 26, 27, 28, 29, 30]


PAIR = """
__shared__ __align__(8) u64 full[2];
__shared__ __align__(8) u64 empty[2];
__shared__ i64 tile[2];
if (threadIdx.x < 2) {
  mbarrier_init(&full[threadIdx.x], 32);
  mbarrier_init(&empty[threadIdx.x], 32);
}
__syncthreads();
if (threadIdx.x < 32) {
  u32 stage = 0;
  u32 phase = 1;
  for (i32 n = 0; n < 101; n = n + 1) {
    mbarrier_wait(&empty[stage], phase);
    if (threadIdx.x == 0) {
      tile[stage] = n;
    }
    mbarrier_arrive(&full[stage]);
    stage = stage + 1;
    if (stage == 2) {
      stage = 0;
      phase = phase ^ 1;
    }
  }
} else {
  u32 stage = 0;
  u32 phase = 0;
  for (i32 n = FIRST; n < 101; n = n + 1) {
    mbarrier_wait(&full[stage], phase);
    if (threadIdx.x == 32) {
      y[n] = tile[stage] + 1;
    }
    mbarrier_arrive(&empty[stage]);
    stage = stage + 1;
    if (stage == 2) {
      stage = 0;
      phase = phase ^ 1;
    }
  }
}"""


def test_groups_of_threads_leap_over_the_same_rounds() -> None:
    found = rounds(PAIR.replace("FIRST", "0"), threads=64)
    assert 6 <= len(found) <= 12
    assert found[0] == 0
    assert found[-1] == 100


@pytest.mark.parametrize(
    "left_out", ["mbarrier_arrive(&empty[stage]);", "mbarrier_wait(&full[stage], phase);"]
)
def test_a_missing_wait_is_seen_as_where_all_rounds_run(left_out: str) -> None:
    broken = PAIR.replace("FIRST", "0").replace(left_out, "")
    found: list[set[str]] = []
    for ends in (True, False):
        with pytest.raises(KernelFault) as caught:
            rounds(broken, threads=64, ends=ends)
        found.append({f.kind for f in caught.value.faults})
    assert found[0] == found[1]


def test_the_last_round_is_seen_to_leave_an_array() -> None:
    with pytest.raises(KernelFault, match="out-of-bounds"):
        rounds(ring(3, last=SIZE + 1))
