"""What planners reach, and how fast.

``python -m tests.bench.planners [--long] [-o PAGE] [TRACE.csv ...]`` measures on one core, in
seconds of its time: what else the machine does is not counted.  Limits are in seconds of the
clock; ``--long`` gives the hard traces 600 instead of 60.  Traces too large for this repository
are given by path.  With ``-o`` the tables replace those of the page.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from didyma.codegen.memory import trace
from didyma.codegen.memory.arena import ARENA, Placement, Problem, lower_bound, solve
from didyma.oracle.placement_check import check
from didyma.refimpl.errors import DidymaError
from tests.bench.traces import KINDS

DATA = Path(__file__).parent.parent / "data" / "planner"
START, END = "<!-- bench -->", "<!-- end of bench -->"
CAPACITY = 1 << 20
ABSENT = ("pangu_2.6B", "Y_1")


@dataclass(frozen=True, slots=True)
class Run:
    """One placement, judged."""

    placed: Placement
    ratio: float
    seconds: float
    checked: float  # seconds that the checker took


def run(p: Problem, planner: str, limit: float | None) -> Run:
    """Ask a planner and judge its answer."""
    began = time.process_time()
    placed = solve(p, planner, limit)
    planned = time.process_time()
    lists = [a.tolist() for a in (p.lower, p.upper, p.size, placed.offsets)]
    begun = time.process_time()
    faults = check(*lists, peak=placed.peak, capacity=p.capacity)
    checked = time.process_time()
    assert not faults, faults[0]
    return Run(placed, placed.peak / lower_bound(p), planned - began, checked - begun)


def read(file: Path, capacity: int | None = None) -> Problem:
    return trace.parse(file.read_text(), file.name, capacity)


def nets() -> Iterator[str]:
    yield "| net | buffers | lower bound | ratio | ms |"
    yield "| :-- | --: | --: | --: | --: |"
    for file in sorted((DATA / "nets").glob("*.csv")):
        p = read(file)
        r = run(p, "didyma", None)
        bound = f"{lower_bound(p):,}"
        yield f"| {file.stem} | {p.count} | {bound} | {r.ratio:.4f} | {r.seconds * 1e3:.1f} |"


def compared() -> Iterator[str]:
    problems = [read(f) for f in sorted((DATA / "nets").glob("*.csv"))]
    yield "| planner | geometric mean | worst | ms for all |"
    yield "| :-- | --: | --: | --: |"
    for name in ARENA:
        try:
            runs = [run(p, name, 10.0) for p in problems]
        except DidymaError as e:
            yield f"| {name} | {e.got} | | |"
            continue
        ratios = [r.ratio for r in runs]
        mean, spent = np.exp(np.mean(np.log(ratios))), sum(r.seconds for r in runs) * 1e3
        yield f"| {name} | {mean:.4f} | {max(ratios):.4f} | {spent:.1f} |"


def large(files: list[Path]) -> Iterator[str]:
    yield "| trace | buffers | lower bound | ratio | s |"
    yield "| :-- | --: | --: | --: | --: |"
    for file in (DATA / "somas" / "resnet50.csv", *files):
        p = read(file)
        r = run(p, "didyma", 18.0)
        bound = f"{lower_bound(p):,}"
        yield f"| {file.stem} | {p.count} | {bound} | {r.ratio:.6f} | {r.seconds:.2f} |"
    for name in ABSENT:
        if name not in {f.stem for f in files}:
            yield f"| {name} | skipped: its file was not given (cappadokes/idealloc) | | | |"


def hard(limit: float) -> Iterator[str]:
    """minimalloc's traces; where none is found, what ``didyma`` comes to in as much time."""
    yield f"| trace | buffers | lower bound | within {CAPACITY} | s |"
    yield "| :-- | --: | --: | :-- | --: |"
    missed: list[float] = []
    for file in sorted((DATA / "minimalloc").glob("?.*.csv")):
        p = read(file, CAPACITY)
        began = time.process_time()
        try:
            run(p, "canonical", limit)
            verdict = "yes"
        except DidymaError as e:
            verdict = f"not found ({e.code})"
        spent = time.process_time() - began
        if verdict != "yes":
            missed.append(run(read(file), "didyma", limit).ratio)
            verdict += f", ratio {missed[-1]:.4f}"
        yield f"| {file.name[0]} | {p.count} | {lower_bound(p):,} | {verdict} | {spent:.2f} |"
    if missed:
        yield f"| missed | {len(missed)} | | ratio {np.exp(np.mean(np.log(missed))):.4f} | |"


def growth() -> Iterator[str]:
    yield "| trace | buffers | ratio | s | checker s |"
    yield "| :-- | --: | --: | --: | --: |"
    for kind, make in KINDS.items():
        for n in (1_000, 10_000, 100_000):
            r = run(make(n), "didyma", 9.0 if kind == "training" else 0.5)
            yield f"| {kind} | {n} | {r.ratio:.5f} | {r.seconds:.3f} | {r.checked:.3f} |"


def table(title: str, rows: Callable[[], Iterator[str]]) -> str:
    """Return a section, and print it as it grows."""
    lines = [f"### {title}", ""]
    print(f"\n{lines[0]}\n")
    for row in rows():
        print(row, flush=True)
        lines.append(row)
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    options = argparse.ArgumentParser(prog="planners")
    options.add_argument("-o", type=Path, help="page whose tables to replace")
    options.add_argument("traces", nargs="*", type=Path)
    options.add_argument("--long", action="store_true", help="give the hard traces 600 s each")
    given = options.parse_args(arguments)
    limit = 600.0 if given.long else 60.0
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    solve(read(DATA / "nets" / "pl_mobilenetv1.csv"))  # NumPy's first calls are slow
    text = "\n\n".join(
        (
            table("Networks, `didyma`", nets),
            table("The same networks, every planner", compared),
            table("Large traces, `didyma`, at most 18 s", lambda: large(given.traces)),
            table(f"minimalloc's traces, `canonical`, at most {limit:.0f} s", lambda: hard(limit)),
            table("Growth, `didyma`", growth),
        )
    )
    if given.o is not None:
        page = given.o.read_text()
        head, tail = page.split(START)[0], page.split(END)[1]
        given.o.write_text(f"{head}{START}\n\n{text}\n\n{END}{tail}")


if __name__ == "__main__":
    main(sys.argv[1:])
