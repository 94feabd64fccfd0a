"""Plans for symbolic sizes: traces, and decoders through a full compile.

    python -m tests.bench.symbolic_plans [--compiled [LAYERS ...]] [--write]

Without ``--compiled`` it prints the table of traces, which takes minutes.  ``--write`` keeps the
table of compiled decoders on the page.
"""

from __future__ import annotations

import argparse
import time
import timeit
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import mean

import numpy as np

from didyma.codegen.emit import wrapper
from didyma.codegen.memory import peak
from didyma.codegen.memory.symbolic import SymbolicBuffer, SymbolicPlan, plan
from didyma.codegen.memory.values import values_of
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.registry import engine
from didyma.oracle.placement_check import most_alive
from didyma.oracle.plan_check import check
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.program import ALIGNMENT, Arena, Carry, Free, Launch, Place, Program
from didyma.refimpl.ir.types import Array
from tests.bench.decoder import decoder as model
from tests.bench.page import put, table
from tests.codegen.memory.symbolic.cases import B, decoder, random_trace

TRACES = 64  # alignment of the buffers of traces
LENGTH = DimVar("S", 16, 8192)
HEADER = "| trace | orientations | worst | at | proven | terms | evaluation µs | plan s |"


def measure(bs: Sequence[SymbolicBuffer], declared: Sequence[DimVar]) -> tuple[SymbolicPlan, float]:
    """Return the plan and the seconds it took."""
    start = time.perf_counter()
    p = plan(bs, declared, TRACES)
    return p, time.perf_counter() - start


def row(name: str, p: SymbolicPlan, seconds: float) -> str:
    """Return a line of the table."""
    c = p.certificate
    at = ", ".join(f"{k} = {v}" for k, v in c.at.items())
    call = timeit.Timer(lambda: p.function(*c.at.values()))
    micros = min(call.repeat(5, 50)) / 50 * 1e6
    assert c.proven is not None
    cells = (name, len(p.orientations), f"{c.worst:.4f}", at, f"{c.proven:.4f}", p.most_terms)
    return f"| {' | '.join(map(str, cells))} | {micros:.0f} | {seconds:.1f} |"


PAGE = Path(__file__).parents[2] / "docs/symbolic-memory.md"
BATCH, TOKENS = (1, 64), (1, 2048)


def least(p: Program, env: Mapping[str, int]) -> int:
    """Most bytes alive at once in a planned program, each size rounded up as all are."""
    work = tuple(
        x
        for x in p.lines
        if not isinstance(x, Arena | Place | Free) and not (isinstance(x, Carry) and not x.values)
    )
    buffers = values_of(replace(p, lines=work)).buffers
    sizes = [-(-dims.evaluate(b.type.nbytes, env) // ALIGNMENT) * ALIGNMENT for b in buffers]
    return most_alive([b.live.start for b in buffers], [b.live.end + 1 for b in buffers], sizes)


def bindings(count: int) -> Iterator[dict[str, int]]:
    """Both ends, mixed ends, and log-uniform bindings of B and S."""
    r = Random(0)
    yield from ({"B": b, "S": s} for b in BATCH for s in TOKENS)
    for _ in range(count):
        b, s = (round(hi ** r.random()) for hi in (BATCH[1], TOKENS[1]))
        yield {"B": b, "S": s}


@dataclass(frozen=True, slots=True)
class Made:
    """A compiled decoder: seconds of the whole compile and of the planning in it."""

    compiled: Compiled
    seconds: float
    planning: float


def made(m: Module) -> Made:
    """Compile, and take the time of the processor."""
    began: dict[str, float] = {}

    def hear(stage: str) -> None:
        began[stage] = time.process_time()

    start = time.process_time()
    c = compile(m, Options(verify=False), hear)
    return Made(c, time.process_time() - start, began["emit"] - began["plan"])


def worst(p: Program, count: int = 200) -> tuple[float, dict[str, int]]:
    """Greatest ratio of the peak to the bytes alive at once, and where."""
    return max(
        ((peak(p, env) / least(p, env), env) for env in bindings(count)), key=lambda found: found[0]
    )


def agree(c: Compiled, env: Mapping[str, int], seed: int = 0) -> bool:
    """Tell whether plan and program without one give the same bits on the engine ``host``."""
    r = np.random.default_rng(seed)
    inputs: list[Array] = [
        (r.normal(size=dims.values(p.type.shape, env)) / 8).astype(np.float32)
        for p in c.source.entry.params
    ]
    texts = (c.wrapper, wrapper.emit(c.unplanned, c.text))
    host = engine("host")
    kernels = host.load(c.text)
    ours, plain = (modules.load(t)(host, inputs, kernels) for t in texts)
    same = all(a.tobytes() == b.tobytes() for a, b in zip(ours, plain, strict=True))
    return same and check(c.program, env) == []


def compiled(layers: Sequence[int]) -> Iterator[tuple[object, ...]]:
    """Rows of the table of compiled decoders."""
    for n in layers:
        m = made(model(n, 16, 2, BATCH, TOKENS))
        p = m.compiled.program
        ratio, env = worst(p)
        right = [agree(m.compiled, {"B": b, "S": s}) for b, s in ((1, 1), (2, 5), (3, 16))]
        yield (
            f"{n} layers", sum(isinstance(x, Launch) for x in p.lines),
            sum(isinstance(x, Place) for x in p.lines), f"{ratio:.4f}",
            ", ".join(f"{k} = {v}" for k, v in env.items()), f"{m.planning:.1f}",
            f"{m.seconds:.1f}", f"{sum(right)} of {len(right)}",
        )  # fmt: skip


COMPILED = (
    "decoder", "launches", "buffers", "worst ratio", "at", "plan s", "compile s", "same bits",
)  # fmt: skip


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", nargs="*", type=int, help="layers of decoders to compile")
    parser.add_argument("--write", action="store_true", help="keep that table on the page")
    a = parser.parse_args()
    if a.compiled is not None:
        lines = list(table(COMPILED, compiled(a.compiled or (1, 6, 12, 24))))
        print("\n".join(lines))
        if a.write:
            put("compiled", lines, PAGE)
        return
    traces()


def traces() -> None:
    """Print the table of traces."""
    batch = DimVar("B", 1, 64)
    decoders: list[tuple[str, Dim, int, list[DimVar]]] = [
        ("decoder, S", 4, 1, [LENGTH]),
        ("decoder with vocabulary, S", 4, 50257, [LENGTH]),
        ("decoder, B × S", B, 1, [batch, LENGTH]),
        ("decoder with vocabulary, B × S", B, 50257, [batch, LENGTH]),
    ]
    print(HEADER)
    print("|---" * HEADER[1:].count("|") + "|")
    for name, size, vocabulary, declared in decoders:
        bs = decoder(size, vocabulary=vocabulary)
        print(row(name, *measure(bs, declared)), flush=True)
    ratios: list[float] = []
    for seed in range(30):
        p, seconds = measure(random_trace(seed), [LENGTH])
        ratios.append(p.certificate.worst)
        print(row(f"random {seed}", p, seconds), flush=True)
    print(f"\nMean worst of the random traces: {mean(ratios):.4f}; greatest {max(ratios):.4f}.")


if __name__ == "__main__":
    main()
