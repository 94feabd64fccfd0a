"""Loops of kernel text that do not end, and those that only take long."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.engine import Fault, KernelFault
from didyma.codegen.runtime.simt import Simt
from didyma.refimpl.ir.types import DType
from tests.codegen.runtime.texts import kernel


def run(e: str, rounds: int = 1 << 24, threads: int = 4) -> list[int]:
    """Run a kernel on ``x`` of zeros."""
    engine = Simt(rounds=rounds)
    buffers = [engine.upload(np.zeros(4, np.int64)) for _ in "xy"]
    text = kernel(f"const i64 i = threadIdx.x;\n{e}", threads=threads, size=4, dtype=DType.I64)
    engine.load(text).launch("k", buffers, {})
    return [int(v) for v in engine.download(buffers[1], DType.I64, (4,))]


def hang(e: str, rounds: int = 1 << 24, threads: int = 4) -> Fault:
    with pytest.raises(KernelFault) as caught:
        run(e, rounds, threads)
    (found,) = caught.value.faults
    assert found.kind == "hang"
    return found


@pytest.mark.parametrize(
    ("e", "threads"),
    [
        ("while (x[i] == 0) { y[i] = 1; }", 4),
        ("i64 n = 0; while (n < 3 || i == 2) { n = (n + 1) % 7; }", 1),
        ("for (i64 n = 0; n < 3; n = n * 2) { y[i] = n; }", 4),
        ("if (i == 1) { while (y[3] != 5) { y[0] = 1 - y[0]; } }", 1),
    ],
)
def test_a_loop_whose_state_comes_again_never_ends(e: str, threads: int) -> None:
    found = hang(e)
    assert "a loop does not end: nothing changes any more" in found.detail
    assert f"({threads} threads)" in found.detail
    assert found.line == 4


def test_a_loop_that_changes_something_for_ever_is_stopped_at_the_limit() -> None:
    found = hang("for (i64 n = 1; n != 0; n = n + 2) { y[i] = n; }", rounds=2000)
    assert "a loop has more than 2000 rounds" in found.detail


def test_a_loop_that_ends_is_no_hang() -> None:
    e = "i64 n = 0; while (n < 900 + i) { n = n + 1; } if (i < 4) { y[i] = n; }"
    assert run(e, rounds=903) == [900, 901, 902, 903]
    assert "more than 902 rounds" in hang(e, rounds=902).detail


SPIN = """
__shared__ __align__(8) u64 full[1];
__shared__ i32 s[1];
if (i == 0) { mbarrier_init(&full[0], 1); s[0] = 0; }
__syncthreads();
if (i == 0) { while (atomic_fetch_add_i32(&s[0], 0) == 0) { y[1] = 1; } y[0] = 7; }
if (i == 128) { WRITES }
"""


def test_a_loop_may_wait_for_what_another_group_of_threads_writes() -> None:
    assert run(SPIN.replace("WRITES", "atomic_fetch_add_i32(&s[0], 1);"), threads=256)[0] == 7
    assert hang(SPIN.replace("WRITES", ""), threads=256).line == 9
