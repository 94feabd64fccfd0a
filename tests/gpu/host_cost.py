"""What a call with PyTorch's arrays costs the host on a machine with a GPU.

    python3 -m tests.gpu.host_cost

Wall time, in microseconds, of bursts of calls that are too short to fill the queue of the GPU: the
programs of ``tests.bench.calls``, started launch by launch and replayed as graphs; PyTorch's own
allocation of a result, which each call makes; and the driver's function that starts a kernel.  The
last row is what a launch costs beyond that, from the fifty launches and the one.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import didyma as dd
from didyma.codegen.runtime import driver
from didyma.codegen.runtime.cuda import Cuda
from didyma.codegen.runtime.prepared import Prepared
from tests.bench.calls import fifty, one

BURST, TURNS = 40, 50


def microseconds(torch: Any, call: Callable[[], Any]) -> float:
    """Return the least time of a call, of several bursts that the GPU has finished."""
    times = list[float]()
    for _ in range(TURNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(BURST):
            call()
        times.append((time.perf_counter() - start) / BURST * 1e6)
    return min(times)


def launch() -> Callable[[], Any]:
    """Return a call of the driver's own function, with a launch that a call has prepared."""
    prepared = next(x for x in gc.get_objects() if isinstance(x, Prepared))
    on = next(iter(vars(prepared)["_streams"].values()))
    start, arguments = driver.launcher(), on.starts[0]
    return lambda: start(*arguments)


def main() -> int:
    """Print a row for each."""
    torch, programs = import_module("torch"), list[Any]()

    def spent(program: dd.Program, n: int, *, graphs: bool) -> float:
        exe: Any = dd.compile(program, engine=Cuda(checked=False, graphs=graphs))
        programs.append(exe)  # so that its launches stay prepared
        x = torch.randn(n, n, device="cuda")
        found = microseconds(torch, partial(exe, x))
        print(f"{program.module.entry.name}, graphs {graphs}: {found:.2f} us a call", flush=True)
        return found

    single = spent(one, 64, graphs=False)
    driven = microseconds(torch, launch())
    many = spent(fifty, 32, graphs=False)
    spent(fifty, 32, graphs=True)
    empty = microseconds(torch, lambda: torch.empty((64, 64), dtype=torch.float32, device="cuda"))
    each = (many - single) / 49
    print(f"PyTorch's allocation: {empty:.2f} us")
    print(f"the driver's launch: {driven:.2f} us")
    print(f"a launch beyond the driver's: {each - driven:.2f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
