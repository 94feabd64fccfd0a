"""Blocks of a cluster, in the loop language, in the text of kernels and in the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen.emit.cuda import emit
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.host import Host, Order
from didyma.codegen.runtime.nvrtc import Nvrtc
from didyma.codegen.runtime.registry import engine, probe
from didyma.codegen.runtime.simt.access import Traffic
from didyma.codegen.runtime.simt.engine import Simt
from didyma.oracle import lanes
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.interp import loop as definition
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.verify import loop as laws

# Each block of a cluster of four sums up 32 elements of a row, and gives the sum to every block.
SUMS = """
kernel @sums(x: f32[n, 128], y: f32[n, 128]) writes (y) dims n in [0, 40] {
  for b in n bound blockIdx.x {
    alloc parts: f32[4, 4] cluster
    for r in 4 bound clusterRank {
      alloc tile: f32[32] shared
      for t in 32 bound threadIdx.x {
        cluster_barrier
        tile[t] = x[b, r * 32 + t]
        barrier
        if t < 4 {
          alloc sum: f32[] local
          sum[] = 0.0:f32
          for k in 32 {
            sum[] = sum[] + tile[k]
          }
          parts[t, r] = sum[]
        }
        cluster_barrier
        alloc all: f32[] local
        all[] = 0.0:f32
        for m in 4 {
          all[] = all[] + parts[r, m]
        }
        y[b, r * 32 + t] = tile[t] / all[]
      }
    }
  }
}
"""
# Each block sums up what all have left in memory of their own; nobody ends before all are done.
TAKEN = """
kernel @taken(x: f32[n, 8], y: f32[n, 8]) writes (y) dims n in [0, 40] {
  for b in n bound blockIdx.x {
    alloc part: f32[2, 4] cluster
    for r in 2 bound clusterRank {
      for t in 4 bound threadIdx.x {
        part[r, t] = x[b, r * 4 + t]
        cluster_barrier
        y[b, r * 4 + t] = part[0, t] + part[1, 3 - t]
        cluster_barrier
        part[r, 3 - t] = x[b, r * 4 + t]
        cluster_barrier
        y[b, r * 4 + t] = y[b, r * 4 + t] * part[1 - r, t]
        cluster_barrier
      }
    }
  }
}
"""
# Two clusters take rows in turn; blocks give each other their first element, in two places.
TOLD = """
kernel @told(x: f32[n, 64], y: f32[n, 64]) writes (y) dims n in [0, 40] {
  for b in 2 bound blockIdx.x {
    alloc parts: f32[2, 2, 2] cluster
    for r in 2 bound clusterRank {
      for t in 32 bound threadIdx.x {
        cluster_barrier
        for turn in (n + 1) // 2 {
          let row = min(turn * 2 + b, n - 1)
          barrier
          attr waits = "stores" {
            if t < 2 {
              parts[t, turn % 2, r] = x[row, r * 32]
            }
            cluster_barrier
          }
          if turn * 2 + b < n {
            y[row, r * 32 + t] = x[row, r * 32 + t] + parts[r, turn % 2, 0] * parts[r, turn % 2, 1]
          }
        }
      }
    }
  }
}
"""


def function(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    assert parse_loop(show(f)) == (f,)
    return f


def given(f: PrimFunc, n: int) -> Array:
    width = f.params[0].shape[1]
    assert isinstance(width, int)
    return np.random.default_rng(1).integers(1, 9, (n, width)).astype(np.float32)


def simulated(f: PrimFunc, x: Array, on: Engine | None = None) -> Array:
    on, text = on or Simt(), emit([f])
    buffers = [on.upload(x), on.allocate(x.nbytes)]
    on.load(text).launch(text.kernels[0].name, buffers, {"n": len(x)})
    return np.asarray(on.download(buffers[1], DType.F32, x.shape))


@pytest.mark.parametrize("text", [SUMS, TAKEN])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_interpreters_and_the_simulator_agree(text: str, n: int) -> None:
    f = function(text)
    laws.verify(f, SM_90A)
    x = given(f, n)
    slow, fast = np.full_like(x, 7), np.full_like(x, 9)
    definition.run(f, {"x": x, "y": slow}, {"n": n})
    lanes.run(f, {"x": x, "y": fast}, {"n": n})
    assert np.array_equal(slow, fast)
    assert np.array_equal(slow, simulated(f, x))
    if text == SUMS:
        assert np.array_equal(slow, x / x.sum(1, keepdims=True))


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_of_many_blocks_whole_clusters_run(most: int) -> None:
    f = function(TAKEN)
    want, x = np.zeros((9, 8), np.float32), given(f, 9)
    definition.run(f, {"x": x, "y": want}, {"n": 9})
    got = simulated(f, x, Simt(blocks=most))
    ran = (got == want).all(1)
    assert ran[0]
    assert ran.sum() == 9 if most == 100 else ran.sum() < 9


def test_memory_of_a_cluster_is_no_traffic() -> None:
    f, counted = function(TAKEN), Traffic()
    x = given(f, 3)
    simulated(f, x, Simt(traffic=counted))
    assert counted.read["taken", "x"] == 2 * x.nbytes
    assert counted.read["taken", "y"] == x.nbytes
    assert sum(counted.written.values()) == 2 * x.nbytes


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_barrier_may_wait_for_stores_alone(n: int) -> None:
    f = function(TOLD)
    laws.verify(f, SM_90A)
    x = given(f, n)
    slow, fast = np.full_like(x, 7), np.full_like(x, 9)
    definition.run(f, {"x": x, "y": slow}, {"n": n})
    lanes.run(f, {"x": x, "y": fast}, {"n": n})
    assert np.array_equal(slow, x + x[:, :1] * x[:, 32:33])
    for found in (fast, simulated(f, x), simulated(f, x, Host())):
        assert np.array_equal(slow, found)


def test_stores_that_a_barrier_waits_for_are_counted() -> None:
    source = emit([function(TOLD)]).source
    order = [
        "mbarrier_init(&given[1], 3);", "cluster_barrier();",
        "mbarrier_expect(&given[met % 2], 8);", "mbarrier_give_f32(&parts[turn % 2 * 2 + r], t, ",
        "mbarrier_arrive_at(&given[met % 2], t);",
        "mbarrier_wait(&given[met % 2], met / 2 % 2);", "cluster_barrier();",
    ]  # fmt: skip
    places = [source.index(x) for x in order[:-1]] + [source.rindex(order[-1])]
    assert places == sorted(places)


def test_a_place_that_others_may_still_read_is_found() -> None:
    f = function(TOLD.replace("turn % 2", "0"))
    x = given(f, 7)
    with pytest.raises(KernelFault, match="race"):
        simulated(f, x)
    with pytest.raises(LoopFault, match="race"):
        lanes.run(f, {"x": x, "y": np.zeros_like(x)}, {"n": 7})


@pytest.mark.parametrize(
    ("old", "new", "got"),
    [
        ("parts[t, turn % 2, r] = x[row, r * 32]", "y[row, t] = x[row, r * 32]", r"y\[row"),
        ("if t < 2 {\n", "for k in 1 {\n", "block"),
        ('waits = "stores"', 'waits = "loads"', "'loads'"),
    ],
)
def test_nothing_but_stores_to_blocks_comes_before_such_a_barrier(
    old: str, new: str, got: str
) -> None:
    with pytest.raises(DidymaError, match=got) as e:
        laws.verify(function(TOLD.replace(old, new)), SM_90A)
    assert e.value.code == "L-attr"


def test_such_a_barrier_needs_a_target_that_counts_bytes() -> None:
    lacks = replace(SM_90A, families=("cp_async",))
    with pytest.raises(DidymaError, match="barriers that count the bytes") as e:
        laws.verify(function(TOLD), lacks)
    assert e.value.code == "L-attr"


BARRIER = "        cluster_barrier\n"
FAULTS = r"race|uninitialised"


def without(text: str, which: int) -> str:
    parts = text.split(BARRIER)
    return BARRIER.join(parts[:which]) + BARRIER.join(["", *parts[which:]])[len(BARRIER) :]


@pytest.mark.parametrize(
    ("text", "which"), [(SUMS, 1), (SUMS, 2), *((TAKEN, n) for n in range(1, 5))]
)
def test_a_barrier_that_is_left_out_is_found(text: str, which: int) -> None:
    """By the simulator always; by the laws where it is the first or the last, else by lanes."""
    f = function(without(text, which))
    x = given(f, 3)
    with pytest.raises(KernelFault, match=FAULTS):
        simulated(f, x)
    if which in (1, text.count(BARRIER)):
        with pytest.raises(DidymaError, match="L-alone"):
            laws.verify(f, SM_90A)
    else:
        laws.verify(f, SM_90A)
        with pytest.raises(LoopFault, match=FAULTS):
            lanes.run(f, {"x": x, "y": np.zeros_like(x)}, {"n": 3})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("parts[t, r] = sum[]", "parts[t, 0] = sum[]"),
        ("parts[t, r] = sum[]", "parts[0, r] = sum[]"),
        ("y[b, r * 32 + t]", "y[b, t]"),
    ],
)
def test_a_wrong_rank_is_found(old: str, new: str) -> None:
    f = function(SUMS.replace(old, new))
    x = given(f, 2)
    with pytest.raises(LoopFault):
        lanes.run(f, {"x": x, "y": np.zeros_like(x)}, {"n": 2})
    with pytest.raises(KernelFault):
        simulated(f, x)


def test_a_rank_outside_the_cluster_is_found() -> None:
    f = function(TAKEN.replace("part[1 - r, t]", "part[2 - r, t]"))
    x = given(f, 2)
    with pytest.raises(LoopFault, match="outside"):
        lanes.run(f, {"x": x, "y": np.zeros_like(x)}, {"n": 2})
    with pytest.raises(KernelFault, match="block 2 of a cluster of 2"):
        simulated(f, x)


def test_a_barrier_that_a_block_misses_is_found() -> None:
    text = TAKEN.replace(f"{BARRIER}        part[r, 3 - t]", "        if r == 0 {\n  "
                         f"{BARRIER}        }}\n        part[r, 3 - t]")  # fmt: skip
    f = function(text)
    x = given(f, 2)
    with pytest.raises(DidymaError) as e:
        laws.verify(f, SM_90A)
    assert e.value.code == "L-barrier"
    for run in (definition.run, lanes.run):
        with pytest.raises(LoopFault, match="barrier-divergence"):
            run(f, {"x": x, "y": np.zeros_like(x)}, {"n": 2})
    with pytest.raises(KernelFault, match="4 of 8 threads of a cluster"):
        simulated(f, x)


def test_blocks_may_wait_for_their_own_threads_alone() -> None:
    f = function(SUMS.replace("        barrier\n", "        if r != 1 {\n  barrier\n}\n"))
    x = given(f, 2)
    with pytest.raises(KernelFault, match="race"):  # but then one reads its own tile too early
        simulated(f, x)
    f = function(SUMS.replace(BARRIER, "        if r == 2 {\n  barrier\n}\n" + BARRIER))
    laws.verify(f, SM_90A)
    slow = np.zeros_like(x)
    definition.run(f, {"x": x, "y": slow}, {"n": 2})
    assert np.array_equal(slow, simulated(f, x))
    assert np.array_equal(slow, simulated(function(SUMS), x))


ALONE = """
kernel @alone(x: f32[n, 16], y: f32[n, 16]) writes (y) dims n in [0, 40] {
  for b in n bound blockIdx.x {
    for r in 4 bound clusterRank {
      for t in 4 bound threadIdx.x {
        y[b, r * 4 + t] = x[b, r * 4 + t]
      }
    }
  }
}
"""


@pytest.mark.parametrize("order", ["forward", "reverse", 5])
@pytest.mark.parametrize("text", [SUMS, TAKEN, ALONE])
def test_the_host_runs_the_blocks_of_a_cluster_together(text: str, order: Order) -> None:
    f = function(text)
    x = given(f, 7)
    assert np.array_equal(simulated(f, x, Host(order=order)), simulated(f, x))


def test_the_host_finds_what_blocks_of_a_cluster_may_not_do() -> None:
    f = function(TAKEN.replace("part[1 - r, t]", "part[2 - r, t]"))
    with pytest.raises(KernelFault, match="block 2 of a cluster of 2"):
        simulated(f, given(f, 2), Host())
    text = TAKEN.replace(f"{BARRIER}        part[r, 3 - t]", "        if r == 0 {\n  "
                         f"{BARRIER}        }}\n        part[r, 3 - t]")  # fmt: skip
    f = function(text)
    with pytest.raises(KernelFault, match="barrier-divergence"):
        simulated(f, given(f, 2), Host())


def test_the_optimising_host_runs_clusters() -> None:
    fast, f = probe("host-fast"), function(TAKEN)
    if not fast.runs:
        pytest.skip(f"host-fast: {fast.why}")
    x = given(f, 7)
    assert np.array_equal(simulated(f, x, engine("host-fast")), simulated(f, x))


@pytest.mark.parametrize("text", [SUMS, TAKEN])
def test_the_text_compiles(text: str) -> None:
    try:
        compiler = Nvrtc()
    except EngineMissing:
        pytest.skip("no NVRTC")
    (found,) = compiler.load(emit([function(text)])).cubin.resources
    assert found.spills == 0
