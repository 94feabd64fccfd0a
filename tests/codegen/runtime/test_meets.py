"""Barriers in shared memory and of some warps, and copies of boxes, on engines without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.registry import engine
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import Array, DType

HEAD = 'extern "C" __global__ void f(const bf16 *x, bf16 *y, u64 *map) {\n'
BOX = """\
  __shared__ __align__(1024) bf16 s[512];
  __shared__ __align__(8) u64 full[1];
  if (threadIdx.x == 0) mbarrier_init(&full[0], 1);
  __syncthreads();
  if (threadIdx.x < 32) tensor_map3_bf16(&map[0], &x[8], 24, 5, 2, 40, 240, 8);
  if (threadIdx.x == 0) {
    mbarrier_expect(&full[0], 1024);
    tma_load3_bf16(&s[0], &map[0], 8, 1, 1, &full[0]);
  }
  mbarrier_wait(&full[0], 0);
  for (u32 n = threadIdx.x; n < 512; n = n + 32) {
    y[n] = s[n / 64 * 64 + (n % 64 / 8 ^ n / 64 % 8) * 8 + n % 8];
  }
}
"""


def text(body: str, threads: int = 32, cluster: int = 1) -> KernelText:
    """A kernel f of one cluster of blocks."""
    buffers = (("x", DType.BF16), ("y", DType.BF16), ("map", DType.U64))
    sizes, grid = (index(512), index(512), index(16)), (index(cluster), index(1), index(1))
    s = Signature("f", buffers, sizes, ("y", "map"), (), grid, (threads, 1, 1), (), cluster)
    return KernelText(HEAD + body, (s,))


def run(name: str, body: str, threads: int = 32, cluster: int = 1) -> Array:
    """What the kernel makes of the bits 0 to 511."""
    e = engine(name)
    x = e.upload(np.arange(512, dtype=np.uint16).view(DType.BF16.numpy))
    y, maps = e.allocate(1024), e.allocate(128)
    e.load(text(body, threads, cluster)).launch("f", (x, y, maps), {})
    return np.asarray(e.download(y, "bf16", (8, 64))).view(np.uint16)


@pytest.mark.parametrize("name", ["simt", "host"])
def test_a_box_has_zeros_where_the_array_has_ended(name: str) -> None:
    got = run(name, BOX)
    row, column = np.ogrid[1:9, 8:72]
    inside = (row < 5) & (column < 24)
    assert (got == np.where(inside, 8 + 240 + 40 * row + column, 0)).all()


@pytest.mark.parametrize("name", ["simt", "host"])
@pytest.mark.parametrize(
    ("old", "new"),
    [("1024);", "1040);"), ("mbarrier_init(&full[0], 1)", "mbarrier_init(&full[0], 2)")],
)
def test_who_waits_for_what_never_comes_is_told_so(name: str, old: str, new: str) -> None:
    with pytest.raises(KernelFault, match="hang"):
        run(name, BOX.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  mbarrier_wait(&full[0], 0);\n", "", "unwaited"),
        ("mbarrier_wait(&full[0], 0)", "mbarrier_wait(&full[0], 1)", "hang"),
        ("&x[8]", "&x[4]", "misaligned"),
        ("40, 240", "36, 240", "misaligned"),
        ("&s[0]", "&s[8]", "misaligned"),
        (
            "load3_bf16(&s[0], &map[0], 8, 1",
            "im2col_bf16(&s[0], &map[0], 8, 1, 1, 0, 0",
            "6 coordinates",
        ),
        ("&s[0]", "&s[512]", "out-of-bounds"),
        ("24, 5, 2, 40, 240", "24, 5, 2, 40, 480", "out-of-bounds"),
        ("&map[0], 8, 1", "&map[8], 8, 1", "uninitialised"),
        ("(threadIdx.x < 32) tensor", "(threadIdx.x < 31) tensor", "barrier-divergence"),
        ("    mbarrier_expect", "    mbarrier_arrive(&full[0]);\n    mbarrier_expect", "hang"),
        ("if (threadIdx.x == 0) mbarrier_init", "mbarrier_init", "race"),
    ],
)
def test_a_mistake_is_found(old: str, new: str, said: str) -> None:
    assert old in BOX
    with pytest.raises(KernelFault, match=said):
        run("simt", BOX.replace(old, new))


MEET = """\
  __shared__ bf16 s[128];
  s[threadIdx.x] = x[threadIdx.x];
  named_barrier(1 + threadIdx.x / 64, 64);
  y[threadIdx.x] = s[threadIdx.x / 64 * 64 + 63 - threadIdx.x % 64];
}
"""


@pytest.mark.parametrize("name", ["simt", "host"])
def test_some_warps_wait_for_each_other(name: str) -> None:
    at = np.arange(128)
    got = run(name, MEET, 128).reshape(-1)[:128]
    assert (got == at // 64 * 64 + 63 - at % 64).all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("/ 64 * 64 + 63", "/ 64 % 1 + 127", "race"),
        ("/ 64, 64);", "/ 64, 96);", "hang"),
        ("named_barrier(1", "if (threadIdx.x % 64 < 40) named_barrier(1", "barrier-divergence"),
        ("named_barrier(1 +", "named_barrier(15 +", "out-of-bounds"),
        ("  y[", "  if (threadIdx.x > 8) any_b8(0);\n  y[", "barrier-divergence"),
    ],
)
def test_barriers_of_some_warps_order_those_alone(old: str, new: str, said: str) -> None:
    assert old in MEET
    with pytest.raises(KernelFault, match=said):
        run("simt", MEET.replace(old, new), 128)


# Each of two blocks takes what the other's second four warps have written, once all have met.
CLUSTER = """\
  __shared__ __align__(1024) bf16 s[128];
  __shared__ __align__(8) u64 full[1];
  const u32 rank = blockIdx.x % 2;
  if (threadIdx.x == 0) mbarrier_init(&full[0], 128);
  __syncthreads();
  if (threadIdx.x < 128) {
    mbarrier_wait(&full[0], 0);
  } else {
    s[threadIdx.x - 128] = x[blockIdx.x * 128 + threadIdx.x - 128];
    mbarrier_arrive(&full[0]);
  }
  cluster_barrier();
  if (threadIdx.x < 128) {
    y[blockIdx.x * 128 + threadIdx.x] = cluster_load_bf16(&s[threadIdx.x], 1 - rank);
  }
  cluster_barrier();
}
"""


def test_blocks_of_a_cluster_meet_whose_warps_go_their_own_ways() -> None:
    got = run("simt", CLUSTER, 256, 2).reshape(-1)
    assert (got[:256] == np.arange(256).reshape(2, 128)[::-1].reshape(-1)).all()


LAST = "  cluster_barrier();\n}\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  }\n  cluster_barrier();\n", "  }\n", "may not have begun"),
        (LAST, "}\n", "may have ended"),
        (LAST, "  s[threadIdx.x % 128] = x[0];\n" + LAST, "another block of the cluster touches"),
        ("cluster_load_bf16(&s[threadIdx.x], 1 - rank);\n",
         "s[threadIdx.x];\n    cluster_store_bf16(&s[threadIdx.x], 1 - rank, x[0]);\n",
         "another block of the cluster touches"),
        (LAST, "  if (threadIdx.x < 128) cluster_barrier();\n}\n", "hang"),
    ],
)  # fmt: skip
def test_what_blocks_of_a_cluster_race_for_is_found(old: str, new: str, said: str) -> None:
    assert old in CLUSTER
    with pytest.raises(KernelFault, match=said):
        run("simt", CLUSTER.replace(old, new), 256, 2)


# One block fetches each box for both, once both have read the one before; each stores half of it.
SHARED = """\
  __shared__ __align__(1024) bf16 s[256];
  __shared__ __align__(8) u64 full[1];
  __shared__ __align__(8) u64 empty[1];
  const u32 rank = blockIdx.x % 2;
  if (threadIdx.x == 0) {
    mbarrier_init(&full[0], 1);
    mbarrier_init(&empty[0], 2);
  }
  if (rank == 0) tensor_map3_bf16(&map[0], &x[0], 64, 8, 1, 64, 512, 4);
  cluster_barrier();
  for (u32 turn = 0; turn < 2; ++turn) {
    if (threadIdx.x == 0) {
      mbarrier_expect(&full[0], 512);
      if (rank == 0) {
        mbarrier_wait(&empty[0], turn ^ 1);
        tma_share3_bf16(&s[0], &map[0], 0, turn * 4, 0, &full[0], 3);
      }
    }
    mbarrier_wait(&full[0], turn);
    for (u32 n = rank * 128 + threadIdx.x; n < rank * 128 + 128; n = n + 32) {
      y[turn * 256 + n] = s[n / 64 * 64 + (n % 64 / 8 ^ n / 64) * 8 + n % 8];
    }
    if (threadIdx.x == 0) mbarrier_arrive_at(&empty[0], 0);
  }
  cluster_barrier();
}
"""
ARRIVES = "mbarrier_arrive_at(&empty[0], 0);"


@pytest.mark.parametrize("name", ["simt", "host"])
def test_a_box_comes_to_the_blocks_of_a_mask(name: str) -> None:
    assert (run(name, SHARED, 32, 2).reshape(-1) == np.arange(512)).all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  cluster_barrier();\n  for", "  __syncthreads();\n  for", "may not have begun"),
        ("  cluster_barrier();\n}\n", "}\n", "may have ended"),
        ("    mbarrier_wait(&full[0], turn);\n", "", "unwaited"),
        ("&full[0], 3)", "&full[0], 1)", "hang"),
        ("&full[0], 3)", "&full[0], 7)", "block 2 of a cluster of 2"),
        (ARRIVES, ARRIVES.replace("0);", "2);"), "block 2 of a cluster of 2"),
        (ARRIVES, "mbarrier_arrive(&empty[0]);", "hang"),
        (ARRIVES, f"{{ {2 * ARRIVES.replace('0);', 'rank);')} }}", "race|before a wait"),
        ("        mbarrier_wait(&empty[0], turn ^ 1);\n", "", "race|before a wait"),
    ],
)
def test_a_mistake_among_blocks_that_share_a_box_is_found(old: str, new: str, said: str) -> None:
    assert old in SHARED
    with pytest.raises(KernelFault, match=said):
        run("simt", SHARED.replace(old, new), 32, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [("&full[0], 3)", "&full[0], 7)"), (ARRIVES, "mbarrier_arrive_at(&empty[0], 2);")],
)
def test_the_host_knows_the_blocks_of_a_cluster(old: str, new: str) -> None:
    with pytest.raises(KernelFault, match="touches block 2 of a cluster of 2"):
        run("host", SHARED.replace(old, new), 32, 2)


# Two blocks give each other a number in each of four turns, which all their threads read.
GIVEN = """\
  __shared__ __align__(8) f32 s[4];
  __shared__ __align__(8) u64 full[2];
  const u32 rank = blockIdx.x % 2;
  if (threadIdx.x == 0) {
    mbarrier_init(&full[0], 3);
    mbarrier_init(&full[1], 3);
  }
  cluster_barrier();
  for (u32 turn = 0; turn < 4; ++turn) {
    const u32 now = turn % 2;
    __syncthreads();
    if (threadIdx.x == 0) mbarrier_expect(&full[now], 8);
    if (threadIdx.x < 2) {
      mbarrier_give_f32(&s[now * 2 + rank], threadIdx.x, turn * 10.0f + rank, &full[now]);
      mbarrier_arrive_at(&full[now], threadIdx.x);
    }
    mbarrier_wait(&full[now], turn / 2 % 2);
    const f32 told = s[now * 2] * 100.0f + s[now * 2 + 1];
    y[(turn * 2 + rank) * 64 + threadIdx.x] = cast_f32_u16(told);
  }
  cluster_barrier();
}
"""


@pytest.mark.parametrize("name", ["simt", "host"])
def test_numbers_are_given_to_the_blocks_of_a_cluster(name: str) -> None:
    got = run(name, GIVEN, 64, 2).reshape(4, 2, 64)
    turn = np.arange(4)[:, None, None]
    assert (got == turn * 1000 + turn * 10 + 1).all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  cluster_barrier();\n  for", "  __syncthreads();\n  for", "may not have begun"),
        ("  cluster_barrier();\n}\n", "}\n", "may have ended"),
        ("    mbarrier_wait(&full[now], turn / 2 % 2);\n", "", "unwaited"),
        ("turn / 2 % 2);", "turn / 2 % 2 ^ 1);", "unwaited|race|hang"),
        ("&full[now], 8)", "&full[now], 4)", "unwaited|race|hang"),
        ("&full[now], 8)", "&full[now], 12)", "hang"),
        ("      mbarrier_arrive_at(&full[now], threadIdx.x);\n", "", "hang"),
        ("mbarrier_arrive_at(&full[now], threadIdx.x)", "mbarrier_arrive(&full[now])", "race"),
        ("threadIdx.x < 2) {", "threadIdx.x < 3) {", "block 2 of a cluster of 2"),
        ("    __syncthreads();\n", "", "race"),
        ("now = turn % 2", "now = 0", "unwaited|race|hang"),
    ],
)
def test_a_mistake_among_blocks_that_give_is_found(old: str, new: str, said: str) -> None:
    assert old in GIVEN
    with pytest.raises(KernelFault, match=said):
        run("simt", GIVEN.replace(old, new), 64, 2)


def test_the_host_knows_to_whom_numbers_are_given() -> None:
    wrong = GIVEN.replace("threadIdx.x < 2) {", "threadIdx.x < 3) {")
    with pytest.raises(KernelFault, match="touches block 2 of a cluster of 2"):
        run("host", wrong, 64, 2)
