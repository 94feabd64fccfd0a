"""Workloads under several choices of a schedule, timed on a GPU in one run.

    python3 -m tests.gpu.variants WORKLOAD[=CHOICE] ...

Without a choice a workload is compiled as the model has it.  Prints a line for each: the median in
microseconds, the share of a copy's bandwidth, and how far the results are from PyTorch's, as a
share of their largest magnitude.  Ends with 1 if a choice is refused, or a result is far off.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import groupby

import didyma as dd
from didyma.bench import gpu
from didyma.bench.peers import TORCH
from didyma.bench.workloads import WORKLOADS, least_bytes
from didyma.codegen.options import Options
from didyma.codegen.runtime.cuda import Cuda
from didyma.codegen.runtime.registry import engine
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.tuning import suited


def timed(name: str, choices: Sequence[str], clock: gpu.Clock) -> Iterator[tuple[str, bool]]:
    """Time a workload under each choice; yield a line, and whether the result was right."""
    w, options = WORKLOADS[name], suited(Options(), engine("cuda"))
    program, moved = w.program(large=True), least_bytes(w, large=True)
    given = gpu.rotated(gpu.drawn(clock.torch, w), gpu.copies(moved))
    want = TORCH[name](clock.torch, *given[0])
    usual = dd.compile(program, engine=Cuda(checked=False), options=options)
    first = next(iter(usual.choices["choices"]))
    for choice in choices:
        try:
            exe = dd.compile(
                program, engine=Cuda(checked=False), options=options,
                choose={first: choice} if choice else {},
            )  # fmt: skip
            calls = gpu.bound(exe, given)
            off = gpu.distance(calls[0](), want)
            seconds = statistics.median(clock.seconds(calls))
        except DidymaError as e:
            yield f"{name} {choice}: {e}", False
            continue
        share = moved / seconds / clock.bandwidth
        made = exe.choices["choices"][first]["choice"]
        yield (
            f"{name} {made}: {1e6 * seconds:.1f} us, share {share:.3f}, off by {off:.1e}",
            off < gpu.SUSPECT,
        )


def main(argv: Sequence[str]) -> int:
    """Time what is asked for; 4 without a GPU."""
    try:
        gpu.require()
    except EngineMissing as e:
        print(e, file=sys.stderr)
        return e.exit_code
    clock, right = gpu.Clock(), True
    pairs = [(name, choice) for name, _, choice in (a.partition("=") for a in argv)]
    for name, group in groupby(pairs, key=lambda pair: pair[0]):
        for line, good in timed(name, [choice for _, choice in group], clock):
            print(line if good else f"WRONG {line}", flush=True)
            right &= good
        import_module("torch").cuda.empty_cache()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
