"""A launch that reaches its time limit is a hang, wherever its threads are then."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.ptx import sanitize as judging
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.sanitize import Argument, sanitize
from didyma.codegen.runtime.ptx.sources import Source, compiled
from didyma.codegen.runtime.registry import probe

LOOP = """
__global__ void k(int* y, int n) {
  for (int i = 0; i < n; ++i) { __syncthreads(); y[threadIdx.x] = i; __syncthreads(); }
}
"""


@pytest.mark.parametrize("n", [1, 100_000_000])
def test_a_time_limit_of_nothing_is_reached(n: int) -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    source = Source(LOOP, "k.cu")
    args = [Argument("y", np.zeros(32, np.int32)), Argument("n", np.array(n, np.int32))]
    done = sanitize(source, compiled(source, "k"), Shape((1, 1, 1), (32, 1, 1)), args,
                    schedules=3, seconds=1e-9)  # fmt: skip
    assert {f.kind for f in done.faults} <= {"hang"}
    assert done.faults or n == 1


def test_a_block_may_wait_for_all_others_of_a_grid() -> None:
    """The grid has more threads than run together at first; a count that nobody reaches hangs."""
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    source = Source(
        "__global__ void k(unsigned* c, unsigned n) {\n"
        "  if (threadIdx.x) return;\n"
        "  atomicAdd(c, 1);\n"
        "  while (!blockIdx.x && atomicAdd(c, 0) < n);\n"
        "}\n",
        "k.cu",
    )
    for n, kinds in ((20, set[str]()), (21, {"hang"})):
        args = [Argument("c", np.zeros(1, np.uint32)), Argument("n", np.array(n, np.uint32))]
        done = sanitize(
            source, compiled(source, "k"), Shape((20, 1, 1), (1024, 1, 1)), args, schedules=1
        )
        assert {f.kind for f in done.faults} == kinds
        assert done.outputs[0].tolist() == [20]


def test_a_launch_that_has_left_its_memory_is_stopped_where_it_runs_on() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    source = Source(
        "__global__ void k(const int* x, int* y) {\n"
        "  int i = 0, sum = 0;\n"
        "  while (x[i] < 7) sum += x[i--];\n"
        "  y[threadIdx.x] = sum;\n"
        "}\n",
        "k.cu",
    )
    args = [Argument("x", np.zeros(32, np.int32)), Argument("y", np.zeros(32, np.int32), True)]
    done = sanitize(source, compiled(source, "k"), Shape((1, 1, 1), (32, 1, 1)), args)
    assert [(f.kind, f.line) for f in done.faults] == [("out-of-bounds", 3)]
    assert done.instructions < 32 << 20


def test_once_a_fault_is_known_a_launch_that_takes_far_longer_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last block comes first in the second order; then the kernel counts for ever."""
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    monkeypatch.setattr(judging, "_PATIENT", 0.1)
    source = Source(
        "__global__ void k(int* y, unsigned* first) {\n"
        "  y[threadIdx.x] = blockIdx.x;\n"
        "  if (atomicMax(first, blockIdx.x + 1) == 0 && blockIdx.x)\n"
        "    while (true) atomicAdd(first, 1);\n"
        "}\n",
        "k.cu",
    )
    args = [Argument("y", np.zeros(32, np.int32)), Argument("first", np.zeros(1, np.uint32))]
    done = sanitize(source, compiled(source, "k"), Shape((2, 1, 1), (32, 1, 1)), args, schedules=2)
    assert {f.kind for f in done.faults} == {"race"}
