"""Tune products of matrices on a GPU: how long that takes, and how good the picks are.

    python3 -m tests.gpu.tuning [--candidates 12] [--seconds 12] [--rest 0] [SHAPE ...]

Each shape, such as 32x8192x8192, is tuned in an empty cache, with four algorithms of cuBLASLt.  A
line for each shape tells the seconds until the last verdict and until the end, and what a second
question costs.  Then all candidates and ``torch.matmul`` are timed as ``tests.gpu.products`` does,
which has no code in common with the tuner's clock, in a burst and after 0.1 s of load: the share of
the best one's speed that the pick has, among the candidates, and with ``torch.matmul``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import didyma as dd
from didyma.bench import gpu
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.cublaslt import CUBLASLT, algorithm
from didyma.codegen.runtime.cuda import Cuda
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.select.cache import Cache
from didyma.codegen.select.choice import Choice, build
from didyma.codegen.select.choosers import Request
from didyma.codegen.select.selector import Limits, Selection, Trial
from didyma.fuzz.watchdog import get_ready
from didyma.refimpl.cores import cores
from didyma.tuning import IMPORTS, Tuner
from tests.gpu.products import GPU, Bench, Built, Shape

SHAPES = ("4096x4096x4096", "32x8192x8192", "4096x4096x256")
LOAD = 0.1  # seconds before the sustained times
CLOSE = 1.3  # candidates that the tuner found slower by this factor are not timed again
ROUNDS = 3
PEER = "torch.matmul"
ALGORITHMS = 4  # of cuBLASLt that are candidates


@dataclass
class Progress:
    """When a tuner has heard verdicts, in seconds from its begin."""

    began: float = field(default_factory=time.monotonic)
    verdicts: list[float] = field(default_factory=list[float])

    def __call__(self, name: str, count: int, trial: Trial) -> None:
        """Note one, and say so if the candidate is out."""
        del name, count
        self.verdicts.append(time.monotonic() - self.began)
        if trial.reason:
            print(f"    out: {trial.choice}: {trial.reason:.200}", flush=True)


def tuned(shape: Shape, limits: Limits, cache: Cache) -> tuple[Request, Selection]:
    """Tune a product, and print how long that took."""
    progress = Progress()
    lowered = compile(shape.program().module, GPU, until="lower")
    ((name, loop),) = lowered.loops.items()
    source = lowered.fused.function(name)
    r = Request(name, loop, GPU, "cuda", "cuda: this one", {}, source)
    pick, found = Tuner(lowered.fused, cache, limits, progress).tune(r)
    took, began = time.monotonic() - progress.began, time.monotonic()
    assert cache.get(r.key.digest) == pick
    again = time.monotonic() - began
    first, last = min(progress.verdicts), max(progress.verdicts)
    print(f"{shape.name}: {len(found.trials)} candidates: first verdict after {first:.1f} s, last "
          f"{last:.1f} s, tuned in {took:.1f} s; asked again {again:.3f} s; picked {pick.choice} "
          f"of {1e6 * pick.seconds:.1f} us, where the model's takes {1e6 * pick.usual:.1f} us",
          flush=True)  # fmt: skip
    return r, found


def starts(bench: Bench, r: Request, found: Selection) -> dict[str, Callable[[], Any]]:
    """Return what runs each candidate that is near the pick, and the peer."""
    compiler, runs = NvrtcCompiler("sm_90a"), dict[str, Callable[[], Any]]()
    known = {t.choice: t.seconds for t in found.trials if t.seconds is not None}
    limit = CLOSE * min(known.values())
    for choice in (c for c, s in known.items() if s <= limit and not c.startswith(CUBLASLT.name)):
        c = build(r.loop, r.options, Choice.parse(choice), r.source)
        code = compiler.compile(c.text).code
        runs[choice] = bench.start(Built(bench.shape, choice, c.text, code, r.loop.inputs, 0.0))
    return {**runs, PEER: bench.peer()}


def compared(shape: Shape, r: Request, found: Selection, engine: Cuda) -> bool:
    """Print how near the pick is to the best; return whether every result is right."""
    bench = Bench(engine, shape)
    runs = starts(bench, r, found)
    wrong = [name for name, run in runs.items() if bench.error(run) > 1]
    burst = {name: bench.seconds(run) for name, run in runs.items()}
    for _ in range(ROUNDS - 1):
        burst = {name: min(burst[name], bench.seconds(run)) for name, run in runs.items()}
    loaded = {name: bench.seconds(run, LOAD) for name, run in runs.items()}
    for name in sorted(runs, key=lambda n: burst[n]):
        tuner = next((t.seconds for t in found.trials if t.choice == name), None) or 0.0
        print(f"    burst {1e6 * burst[name]:8.1f} us, sustained {1e6 * loaded[name]:8.1f} us, "
              f"tuner {1e6 * tuner:8.1f} us  {name}")  # fmt: skip
    for t in (t for t in found.trials if t.choice.startswith(CUBLASLT.name) and t.seconds):
        print(f"    {'':42}tuner {1e6 * (t.seconds or 0):8.1f} us  {t.choice}")
    pick = found.picked.choice
    if pick not in runs:
        print(f"  {shape.name}: {pick} was picked, which is timed by the tuner alone")
        return not wrong
    told: list[str] = []
    for word, times in (("burst", burst), ("sustained", loaded)):
        own = min(s for name, s in times.items() if name != PEER)
        told.append(f"{word} {own / times[pick]:.3f}, with {PEER} "
                    f"{min(times.values()) / times[pick]:.3f}")  # fmt: skip
    print(f"  {shape.name}: the pick has of the best one's speed: {'; '.join(told)}", flush=True)
    for name in wrong:
        print(f"WRONG {name}")
    return not wrong


def _shape(text: str) -> Shape:
    rows, columns, terms = map(int, text.split("x"))
    return Shape(rows, columns, terms)


def main(argv: Sequence[str]) -> int:
    """Tune, then compare; 1 if a result is wrong."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("shapes", nargs="*", default=SHAPES)
    p.add_argument("--candidates", type=int, default=12)
    p.add_argument("--seconds", type=float, default=12.0, help="of one selection")
    p.add_argument("--rest", type=float, default=0.0, help="seconds before each sample")
    a = p.parse_args(argv)
    gpu.require()
    get_ready(IMPORTS)
    for routine in (CUBLASLT, *map(algorithm, range(1, ALGORITHMS))):
        dd.register("routines", routine.name, routine)
    limits = Limits(a.seconds, candidates=a.candidates, jobs=cores(), rest=a.rest)
    shapes = [_shape(text) for text in a.shapes]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # no machine code of an earlier run
        cache = Cache(Path(folder) / "picks.sqlite")
        found = [tuned(shape, limits, cache) for shape in shapes]
        engine = Cuda(checked=False)
        right = [compared(s, *row, engine) for s, row in zip(shapes, found, strict=True)]
    return int(not all(right))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
