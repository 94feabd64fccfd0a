"""What threads may touch that another has written, once it has fenced that and told of it."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.simt import Simt
from didyma.refimpl.ir.types import DType
from tests.codegen.runtime.test_simt_hangs import run
from tests.codegen.runtime.texts import kernel

TOLD = """
__shared__ __align__(8) u64 full[1];
__shared__ i32 s[1];
if (i == 0) { mbarrier_init(&full[0], 1); s[0] = 0; }
__syncthreads();
if (i == 0) { while (atomic_fetch_add_i32(&s[0], 0) == 0) { y[1] = 1; } y[0] = 7; }
if (i == 128) { y[0] = 5; FENCE atomic_fetch_add_i32(&s[0], 1); }
"""


def test_a_thread_may_write_over_what_another_has_fenced() -> None:
    assert run(TOLD.replace("FENCE", "device_fence();"), threads=256)[0] == 7


def test_it_may_not_without_a_fence_or_if_more_is_written_after_it() -> None:
    for wrong in ("", "device_fence(); y[0] = 6;"):
        with pytest.raises(KernelFault) as caught:
            run(TOLD.replace("FENCE", wrong), threads=256)
        (found,) = caught.value.faults
        assert found.kind == "race"
        assert "global y is written while another thread writes it" in found.detail


PARTS = "y[1 + blockIdx.x] = (i32)blockIdx.x + 1; device_fence(); "
SUM = "y[7] = y[1] + y[2] + y[3];"
LAST = "if (atomic_fetch_add_i32(&y[0], 1) == 2) "


def in_blocks(body: str) -> int:
    """Run a kernel of three blocks of one thread, and return the last of eight results."""
    engine = Simt()
    buffers = [engine.upload(np.zeros(8, np.int32)) for _ in "xy"]
    text = kernel(body, threads=1, blocks=3, dtype=DType.I32)
    engine.load(text).launch("k", buffers, {})
    return int(engine.download(buffers[1], DType.I32, (8,))[7])


@pytest.mark.parametrize(
    "body",
    [
        f"{PARTS}{LAST}{{ {SUM} }}",
        f"{PARTS}{LAST}{{ device_fence(); atomic_add_i32(&y[6], 1); }}"
        f"if (blockIdx.x == 0 && atomic_fetch_add_i32(&y[6], 0) == 1) {{ {SUM} }}",
    ],
)
def test_a_block_may_read_what_others_have_fenced_and_counted(body: str) -> None:
    assert in_blocks(body) == 6


@pytest.mark.parametrize(
    "body",
    [
        f"{PARTS}atomic_add_i32(&y[0], 1); if (blockIdx.x == 2) {{ {SUM} }}",
        f"{PARTS}if (atomic_fetch_add_i32(&y[4 + blockIdx.x], 1) == 0 && blockIdx.x == 2) "
        f"{{ {SUM} }}",
        f"{PARTS}{LAST}{{ atomic_add_i32(&y[6], 1); }}"
        f"if (blockIdx.x == 0 && atomic_fetch_add_i32(&y[6], 0) == 1) {{ {SUM} }}",
    ],
)
def test_it_may_not_where_it_reads_no_count_that_follows_their_fences(body: str) -> None:
    with pytest.raises(KernelFault) as caught:
        in_blocks(body)
    found = {f.detail for f in caught.value.faults if f.kind == "race"}
    assert any("read by a block that does not know of the fence" in x for x in found)
