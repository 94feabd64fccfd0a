"""What threads may touch that another has written, once it has fenced that and told of it."""

from __future__ import annotations

import pytest

from didyma.codegen.runtime.engine import KernelFault
from tests.codegen.runtime.test_simt_hangs import run

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
