"""Run the loop programs of random programs by both interpreters: they must yield the same bits.

    python -m tests.bench.interpreters --count 20000 [--start N] [--save FILE]

Program ``i`` is drawn from seed ``i`` and compiled.  Each Primitive runs on the inputs that reach
it, as lowered and as scheduled, by ``refimpl.interp.loop`` (the definition) and by
``oracle.lanes`` (the fast one).  With a file, a range that ran is not run again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz.graphs import Case
from didyma.oracle import lanes
from didyma.oracle.kernels import run_primfuncs
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.graph import CALL, COMPILER, RESHAPE_ONLY, Function, Node
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array
from tests.bench.page import Shards
from tests.bench.programs import case_of
from tests.oracle.lanes.both import differences

SHARD = 100
USES = 2  # of each function of a program: more would repeat what a loop of the graph runs
MOST_ELEMENTS = 1 << 16  # of all arrays of a function that the definition runs in reasonable time


@dataclass
class Comparison:
    """How many functions ran by both interpreters, by level, and what was found.

    ``skipped`` counts those that were too large for the definition.
    """

    compared: Counter[str] = field(default_factory=Counter[str])
    skipped: int = 0
    different: list[str] = field(default_factory=list[str])

    def launch(self, f: PrimFunc, buffers: dict[str, Array], env: Mapping[str, int]) -> None:
        """Run a function in place by both interpreters and record how they differ."""
        if sum(a.size for a in buffers.values()) > MOST_ELEMENTS:
            self.skipped += 1
            lanes.run(f, buffers, env)
            return
        found, fault = differences(f, buffers, env)
        self.compared["kernels" if "schedule" in dict(f.attrs) else "loops"] += 1
        if found or fault is not None:
            self.different.append(f"{f.name}: {found or fault}")


def compare(case: Case, seen: Comparison) -> None:
    """Run every Primitive of a program by both interpreters, on the inputs that reach it."""
    compiled = compile(case.module, case.options(Options()))
    functions = {f.name: f for f in compiled.fused.functions}
    uses = Counter[str]()

    def visit(
        f: Function, n: Node, args: list[Array], env: Mapping[str, int], by_reference: graph.Run
    ) -> Sequence[Array]:
        del f
        if n.op != CALL or {RESHAPE_ONLY, COMPILER} & functions[n.callee].attr.keys():
            return by_reference()
        uses[n.callee] += 1
        if uses[n.callee] > USES:
            return by_reference()
        whole, types = compiled.loops[n.callee], functions[n.callee].result_types()
        run_primfuncs([whole], whole, args, env, types, seen.launch)
        kernels = compiled.kernels[n.callee]
        return run_primfuncs(kernels, whole, args, env, types, seen.launch)

    try:
        graph.walk(compiled.fused, case.inputs(), visit)
    except DidymaError as e:  # the program's inputs bind a size out of its range
        if e.code != "dim-out-of-range":
            raise


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 1 if the interpreters differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--save", type=Path, help="file of outcomes, one line a range")
    args = parser.parse_args(words)
    shards = Shards(args.save)
    for part in shards.missing(args.start, args.count, SHARD):
        began = time.perf_counter()
        seen = Comparison()
        for seed in part:
            before = len(seen.different)
            compare(case_of(seed), seen)
            for difference in seen.different[before:]:
                print(f"seed {seed}: {difference}", flush=True)
        shards.keep(
            part,
            {
                **seen.compared,
                "skipped": seen.skipped,
                "different": seen.different,
                "seconds": time.perf_counter() - began,
            },
        )
    figures = [f"{shards.total(k):.0f} {k}" for k in ("count", "loops", "kernels", "skipped")]
    different = sum(len(d["different"]) for d in shards.done)
    print(f"{', '.join(figures)}, {different} different, {shards.total('seconds'):.0f} s")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
