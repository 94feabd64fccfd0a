"""What it costs to compile for a GPU: NVRTC, a look into its cache, and the first call.

    python3 -m tests.gpu.compile_cost

In processes of their own, a compile of a softmax and its first two calls, without and with its
machine code in the cache, once PyTorch and the engine are up.  Then, for each workload at its large
size: kernels, milliseconds of NVRTC by the clock and of processor time, milliseconds to load the
machine code from the cache, and the bytes that the picked kernels spill.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import didyma as dd
from didyma.bench.workloads import WORKLOADS
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.cuda import Cuda
from didyma.codegen.runtime.nvrtc import NvrtcCompiler, processor_time
from didyma.tuning import suited

PROCESSES = 3


@dd.trace(dd.f32[4096, 1000])
def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=-1)


def workloads(cache: Path) -> None:
    """Print a row for each workload, and the medians."""
    on, compiler = Cuda(cache=cache), NvrtcCompiler()
    cold, spent, warm = list[float](), list[float](), list[float]()
    print(f"NVRTC {compiler.version}")
    print(f"{'workload':28}{'kernels':>8}{'ms':>8}{'processor':>11}{'cached':>8}{'spills':>8}")
    for w in WORKLOADS.values():
        text = compile(w.program(large=True).module, suited(Options(), on)).text
        start, before = time.perf_counter(), processor_time()
        cubin = compiler.compile(text)
        built = (time.perf_counter() - start) * 1e3
        used = (processor_time() - before) * 1e3
        on.load(text)
        start = time.perf_counter()
        on.load(text)
        cached = (time.perf_counter() - start) * 1e3
        count, spills = len(text.kernels), sum(r.spills for r in cubin.resources)
        cold.append(built / count)
        spent.append(used / count)
        warm.append(cached / count)
        print(f"{w.name:28}{count:8}{built:8.1f}{used:11.1f}{cached:8.2f}{spills:8}", flush=True)
    for name, times in (("NVRTC", cold), ("its processor time", spent), ("cached", warm)):
        middle, most = statistics.median(times), max(times)
        print(f"{name}: {middle:.2f} ms a kernel in the median, {most:.2f} at most")


def first_call(cache: Path) -> None:
    """Print the milliseconds of a compile and of its first and second call in this process."""
    torch = import_module("torch")
    x = torch.randn(4096, 1000, device="cuda")
    on = Cuda(checked=False, cache=cache)
    torch.cuda.synchronize()
    times = [time.perf_counter()]
    exe = dd.compile(softmax, engine=on)
    times.append(time.perf_counter())
    for _ in range(2):
        exe(x)
        torch.cuda.synchronize()
        times.append(time.perf_counter())
    print(*(f"{(b - a) * 1e3:.2f}" for a, b in pairwise(times)))


def main(argv: Sequence[str] | None = None) -> int:
    """Print all."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--first-call", type=Path, metavar="CACHE", help="one process of the last part")
    args = p.parse_args(argv)
    if args.first_call:
        first_call(args.first_call)
        return 0
    with TemporaryDirectory() as folder:
        command = (sys.executable, "-m", "tests.gpu.compile_cost", "--first-call", f"{folder}/one")
        for i in range(PROCESSES):
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            cached = "cached" if i else "cold"
            row = f"compile, first call, second call, {cached}: {done.stdout.strip()} ms"
            print(row, flush=True)
        workloads(Path(folder) / "workloads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
