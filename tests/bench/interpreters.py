"""Run the loop programs of random programs by both interpreters: they must yield the same bits.

    python -m tests.bench.interpreters --count 20000 [--start N] [--jobs N] [--save FILE]

Program ``i`` is drawn from seed ``i`` and compiled.  Each Primitive runs, as lowered and as
scheduled, by ``refimpl.interp.loop`` (the definition) and by ``oracle.lanes`` (the fast one), on
the inputs that reach it, or on drawn ones if none do.  Processes share the seeds.  Progress and
differences are printed on stderr, and at the end one JSON object on stdout:

    programs   how many programs were drawn
    kernels    how many loop programs they have, lowered or scheduled
    compared   how many of them ran by both interpreters
    skipped    how many did not, by reason
    different  seed, name and difference of each that differed, and of each program that failed

With a file, a range that ran is not run again.  The exit code is 1 if anything is different, and
5 if nothing was compared.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Scheduled, compile
from didyma.fuzz import values
from didyma.fuzz.graphs import Case, domains
from didyma.oracle import lanes
from didyma.oracle.kernels import run_primfuncs
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.interp.program import LaunchFn
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import CALL, Function, Node
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array
from tests.bench.page import Shards
from tests.bench.programs import case_of
from tests.oracle.lanes.both import differences

SHARD = 50
USES = 2  # of each function of a program: more would repeat what a loop of the graph runs
MOST_ELEMENTS = 1 << 16  # of all arrays of a function that the definition runs in reasonable time

SIZE = 3  # of a symbol where inputs are drawn for a Primitive alone, if its range has it

NOT_REACHED = "no inputs reach it"
TOO_LARGE = f"its arrays have more than {MOST_ELEMENTS} elements"


@dataclass
class Comparison:
    """Which loop programs of one program ran by both interpreters, and how they differ.

    ``skipped`` has the reason for each that did not run by both, first for all of them.
    """

    skipped: dict[str, str]
    compared: set[str] = field(default_factory=set[str])
    different: list[str] = field(default_factory=list[str])

    def launch(
        self, f: PrimFunc, buffers: dict[str, Array], env: Mapping[str, int], *, drawn: bool = False
    ) -> None:
        """Run a function in place by both interpreters and record how they differ.

        On inputs that reach it no function may fault; on ``drawn`` ones both may, with one kind.
        """
        key = _key(f)
        if sum(a.size for a in buffers.values()) > MOST_ELEMENTS:
            if key not in self.compared:
                self.skipped[key] = TOO_LARGE
            lanes.run(f, buffers, env)
            return
        bits, fault = differences(f, buffers, env)
        self.skipped.pop(key, None)
        self.compared.add(key)
        if bits or (fault is not None and not drawn):
            self.different.append(f"{key}: {bits or fault}")


def _key(f: PrimFunc) -> str:
    level = "kernel" if "schedule" in dict(f.attrs) else "loop"
    return f"{level} @{f.name}"


def compare(case: Case) -> Comparison:
    """Run every Primitive of a program by both interpreters."""
    compiled: Scheduled = compile(case.module, case.options(Options()), until="schedule")
    functions = {f.name: f for f in compiled.fused.functions}
    kernels = (loops(k) for ks in compiled.kernels.values() for k in ks)
    seen = Comparison({_key(f): NOT_REACHED for f in (*compiled.loops.values(), *kernels)})
    uses = Counter[str]()

    def run(
        name: str, args: Sequence[Array], env: Mapping[str, int], launch: LaunchFn
    ) -> Sequence[Array]:
        loops, types = compiled.loops[name], functions[name].result_types()
        run_primfuncs([loops], loops, args, env, types, launch)
        return run_primfuncs(compiled.kernels[name], loops, args, env, types, launch)

    def visit(
        f: Function, n: Node, args: list[Array], env: Mapping[str, int], by_reference: graph.Run
    ) -> Sequence[Array]:
        del f
        if n.op != CALL or n.callee not in compiled.loops:
            return by_reference()
        uses[n.callee] += 1
        return by_reference() if uses[n.callee] > USES else run(n.callee, args, env, seen.launch)

    try:
        graph.walk(compiled.fused, case.inputs(), visit)
    except DidymaError as e:  # the program's inputs bind a size out of its range
        if e.code != "dim-out-of-range":
            raise
    env = {v.name: min(max(SIZE, v.lo), v.hi) for v in compiled.fused.dims}
    for name in compiled.loops.keys() - uses.keys():
        run(name, _drawn(functions[name], env), env, partial(seen.launch, drawn=True))
    return seen


def _drawn(f: Function, env: Mapping[str, int]) -> list[Array]:
    """Random inputs of a function, within the domains that its ops state."""
    near = domains(f)
    return [
        values.array(k, p.type.dtype, dims.values(p.type.shape, env), near.get(p.name))
        for k, p in enumerate(f.params)
    ]


def outcome(part: range) -> dict[str, Any]:
    """Compare the interpreters on the programs of a range of seeds; how long it took, besides."""
    began = time.perf_counter()
    compared: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    different: list[str] = []
    for seed in part:
        try:
            seen = compare(case_of(seed))
        except Exception as e:  # one program that fails must not end the run
            different.append(f"seed {seed}: {type(e).__name__}: {e}")
            continue
        compared.update(key.split()[0] for key in seen.compared)
        skipped.update(seen.skipped.values())
        different += [f"seed {seed}: {d}" for d in seen.different]
    return {
        "compared": dict(compared),
        "skipped": dict(skipped),
        "different": different,
        "seconds": time.perf_counter() - began,
    }


def outcomes(parts: Sequence[range], jobs: int) -> Iterator[tuple[range, dict[str, Any]]]:
    """Outcomes of ranges as they come, from processes that have imported all that they need."""
    if jobs == 1:
        yield from ((part, outcome(part)) for part in parts)
        return
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        running = {pool.submit(outcome, part): part for part in parts}
        for done in as_completed(running):
            yield running[done], done.result()


def summary(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add the outcomes of ranges up."""
    compared, skipped = Counter[str](), Counter[str]()
    for d in done:
        compared.update(d["compared"])
        skipped.update(d["skipped"])
    return {
        "programs": sum(d["count"] for d in done),
        "kernels": compared.total() + skipped.total(),
        "compared": compared.total(),
        "skipped": dict(skipped),
        "different": [x for d in done for x in d["different"]],
    }


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 1 if the interpreters differ, 5 if nothing was compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--save", type=Path, help="file of outcomes, one line a range")
    args = parser.parse_args(words)
    shards = Shards(args.save)
    parts = list(shards.missing(args.start, args.count, SHARD))
    began = time.perf_counter()
    for part, got in outcomes(parts, args.jobs):
        shards.keep(part, got)
        for difference in got["different"]:
            print(difference, file=sys.stderr, flush=True)
        so_far, seconds = summary(shards.done), time.perf_counter() - began
        figures = f"{so_far['programs']} programs, {so_far['compared']} kernels compared"
        print(f"{figures}, {seconds:.0f} s", file=sys.stderr, flush=True)
    totals = summary(shards.done)
    print(json.dumps(totals))
    return 1 if totals["different"] else 0 if totals["compared"] else 5


if __name__ == "__main__":
    sys.exit(main())
