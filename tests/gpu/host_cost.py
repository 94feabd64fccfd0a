"""What a call with PyTorch's arrays costs the host on a machine with a GPU.

    python3 -m tests.gpu.host_cost

Wall time, in microseconds, of bursts of calls that are too short to fill the queue of the GPU: the
programs of ``tests.bench.calls``, started launch by launch and replayed as graphs; PyTorch's own
allocation of a result, by its Python function and as each call makes it; and the driver's
functions that start a kernel and the graph.  The last rows are what a launch costs beyond that,
from the fifty launches and the one, and what a replay costs beyond the driver's start and the
allocation.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, cast

import didyma as dd
from didyma.codegen.runtime import driver
from didyma.codegen.runtime.cuda import Cuda
from didyma.codegen.runtime.libraries import Torch
from didyma.codegen.runtime.prepared import Prepared
from didyma.refimpl.ir.types import DType
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


def prepared() -> Iterator[Any]:
    """Yield what each stream has seen of each call that has been prepared."""
    for x in gc.get_objects():
        if isinstance(x, Prepared):
            yield from vars(x)["_streams"].values()


def launch() -> Callable[[], Any]:
    """Return a call of the driver's own function, with a launch that a call has prepared."""
    start, arguments = driver.launcher(), next(prepared()).starts[0]
    return lambda: start(*arguments)


def replay() -> Callable[[], Any]:
    """Return a call of the driver's own function that starts the graph of a call."""
    graph, stream = next((g, on.handle) for on in prepared() for g in on.graphs.values())
    start, runs = driver.library()["cuGraphLaunch"], cast("object", vars(graph)["_runs"])
    return lambda: start(runs, stream)


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
    replayed = spent(fifty, 32, graphs=True)
    started = microseconds(torch, replay())
    empty = microseconds(torch, lambda: torch.empty((64, 64), dtype=torch.float32, device="cuda"))
    make = Torch(0).maker(DType.F32, (32, 32))
    assert make is not None
    made = microseconds(torch, make)
    each = (many - single) / 49
    print(f"PyTorch's allocation: {empty:.2f} us, as a call makes it {made:.2f}")
    print(f"the driver's launch: {driven:.2f} us, of a graph of fifty {started:.2f}")
    print(f"a launch beyond the driver's: {each - driven:.2f} us")
    print(f"a replay beyond the driver's and the result: {replayed - started - made:.2f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
