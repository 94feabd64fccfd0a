"""Time of a compile by the number of nodes, with rows joined into one kernel and without.

    python -m tests.bench.compile_time [NODES ...] [--profile]

Each program is a chain of additions, products, exponentials, softmaxes and means over the last
axis of ``f32[16, 32]``, drawn from a seed.  A row is printed for each size and each setting of
``graph.rows``: the processor time of the compile, that of a node, how this compares with the
smallest size, the calls of Python functions a node, and the stages that took longest.  Calls are
counted in a second compile; they repeat exactly, so tests bound them.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time
from types import FrameType

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Step, compile
from didyma.refimpl.ir.graph import Module

SIZES = (1_000, 5_000, 10_000)
SHAPE = (16, 32)


def program(nodes: int, seed: int = 5) -> Module:
    """Return a module whose entry has about as many nodes, of which many fold rows."""
    drawn = random.Random(seed)

    def chain(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        values, count = [x, w, x + w], 1
        while count < nodes:
            a = values[-1 - drawn.randrange(min(6, len(values)))]
            b = values[-1 - drawn.randrange(min(3, len(values)))]
            made, more = _next(drawn.randrange(8), a, b)
            values.append(made)
            count += more
        return values[-1]

    return dd.trace(dd.f32[SHAPE], dd.f32[SHAPE])(chain).module


def _next(kind: int, a: dd.Tensor, b: dd.Tensor) -> tuple[dd.Tensor, int]:
    """Return a value of two others, and by how many nodes it is made."""
    match kind:
        case 0 | 1:
            return a + b, 1
        case 2 | 3:
            return a * b, 1
        case 4:
            return dd.tanh(a), 1
        case 5:
            return dd.exp(-dd.abs(a)), 3
        case 6:
            return dd.softmax(a, axis=-1), 5
        case _:
            return a - dd.mean(b, axis=-1, keepdims=True), 2


@dataclass(frozen=True, slots=True)
class Timed:
    """A compile: how many nodes and kernels, and the processor time of each stage in seconds."""

    nodes: int
    kernels: int
    stages: tuple[tuple[str, float], ...]

    @property
    def seconds(self) -> float:
        return sum(s for _, s in self.stages)

    @property
    def each(self) -> float:
        """Microseconds a node."""
        return self.seconds / self.nodes * 1e6


def timed(m: Module, options: Options) -> Timed:
    """Compile a module, and return the processor time of its stages."""
    stages = list[tuple[str, float]]()
    last = process_time()

    def listen(step: Step) -> None:
        nonlocal last
        now = process_time()
        stages.append((step.name, now - last))
        last = now

    done = compile(m, options, listen=listen)
    return Timed(len(m.entry.nodes), len(done.kernels), tuple(stages))


def calls(m: Module, options: Options) -> int:
    """Compile a module, and return how many Python functions were called."""
    count = 0

    def called(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        del frame, arg
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        compile(m, options)
    finally:
        sys.setprofile(before)
    return count


def measure(sizes: Sequence[int], rows: bool) -> None:
    """Print a row for each size."""
    options = Options().changed({"graph.rows": rows})
    first = 0.0
    timed(program(100), options)  # what is imported on the way
    for size in sizes:
        m = program(size)
        t, called = timed(m, options), calls(m, options)
        first = first or t.each
        most = sorted(t.stages, key=lambda s: -s[1])[:5]
        stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in most)
        print(
            f"rows={rows!s:5} {t.nodes:6} nodes {t.kernels:5} kernels {t.seconds:7.2f} s "
            f"{t.each:5.0f} µs a node {t.each / first:5.2f}x "
            f"{called / t.nodes:6.0f} calls  ({stages})",
            flush=True,
        )


def main(words: Sequence[str] | None = None) -> int:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("sizes", type=int, nargs="*", default=list(SIZES), metavar="NODES")
    p.add_argument("--profile", action="store_true", help="print where the time of one goes")
    a = p.parse_args(words)
    if a.profile:
        m = program(a.sizes[0])
        with cProfile.Profile() as profile:
            compile(m)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
        return 0
    for rows in (False, True):
        measure(a.sizes, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
