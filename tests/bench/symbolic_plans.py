"""Measure plans for symbolic sizes; ``python -m tests.bench.symbolic_plans`` prints the table."""

from __future__ import annotations

import time
import timeit
from collections.abc import Sequence
from statistics import mean

from codegen.memory.symbolic import SymbolicBuffer, SymbolicPlan, plan
from refimpl.ir.dims import Dim, DimVar
from tests.codegen.memory.symbolic.cases import B, decoder, random_trace

ALIGNMENT = 64
LENGTH = DimVar("S", 16, 8192)
HEADER = "| trace | orientations | worst | at | proven | terms | evaluation µs | plan s |"


def measure(bs: Sequence[SymbolicBuffer], declared: Sequence[DimVar]) -> tuple[SymbolicPlan, float]:
    """Return the plan and the seconds it took."""
    start = time.perf_counter()
    p = plan(bs, declared, ALIGNMENT)
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


def main() -> None:
    """Print the table."""
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
    worst: list[float] = []
    for seed in range(30):
        p, seconds = measure(random_trace(seed), [LENGTH])
        worst.append(p.certificate.worst)
        print(row(f"random {seed}", p, seconds), flush=True)
    print(f"\nMean worst of the random traces: {mean(worst):.4f}; greatest {max(worst):.4f}.")


if __name__ == "__main__":
    main()
