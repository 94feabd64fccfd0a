"""A clock of the GPU, for pytest-benchmark's option ``timer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def gpu_timer(stream: Any = None) -> Callable[[], float]:
    """Return a clock that reads the time of the GPU, in seconds since this call.

    Each reading puts a CUDA event into ``stream``, a stream of PyCUDA (default: the usual one), and
    waits for it, so that the difference of two readings is what the work between them took there.
    A context must be current.  Use it as ``@pytest.mark.benchmark(timer=gpu_timer())``.
    """
    from pycuda import driver

    start = driver.Event()
    start.record(stream)

    def now() -> float:
        event = driver.Event()
        event.record(stream)
        event.synchronize()
        return float(start.time_till(event)) / 1e3

    return now
