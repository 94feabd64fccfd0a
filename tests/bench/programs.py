"""Random programs, judged at every level, engines last: nothing correct may be accused.

    python -m tests.bench.programs --count 100000 [--engine host cuda] [--save FILE] [--docs]

Program ``i``, from ``--start`` on, is decoded from the bytes that seed ``i`` gives.  With a file, a
range that was judged is not judged again; ``--docs`` writes what is in the file to
``docs/bars.md``.  A program that kills or hangs its process is a finding like any other.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from didyma.codegen.options import Options
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.coverage import of_dtypes, possible
from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.levels import check
from didyma.fuzz.watchdog import Died, Raised, guarded
from didyma.refimpl.ir.types import DType
from tests.bench.page import Shards, put, table

SHARD = 250
SECONDS = 60.0  # that one program may take


def case_of(seed: int) -> Case:
    """Program of a seed."""
    return decode(random.Random(seed).randbytes(BYTES))


def judge(
    first: int, last: int, names: Sequence[str], progress: Callable[[str], None]
) -> dict[str, Any]:
    """Judge the programs of a range of seeds."""
    chosen = [engine(name) for name in names]
    programs = nodes = checked = total = 0
    findings: list[tuple[int, str]] = []
    covered: Counter[str] = Counter()
    for seed in range(first, last):
        progress(str(seed))
        case = case_of(seed)
        report = check(case.module, case.inputs(), chosen, case.options(Options()))
        compared = [c for level in report.levels for c in level.comparisons]
        programs += 1
        nodes += len(case.module.entry.nodes)
        checked += sum(c.checked for c in compared)
        total += sum(c.total for c in compared)
        findings += [(seed, str(f)) for f in report.findings[:1]]
        covered.update(f"{op} {dtype}" for op, dtype in of_dtypes(case))
    return {
        "programs": programs,
        "nodes": nodes,
        "checked": checked,
        "elements": total,
        "findings": findings,
        "covered": dict(covered),
    }


def shard(part: range, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Judge a range in a process of its own; go on behind a program that ended it."""
    at = part.start
    while at < part.stop:
        seen = [at]

        def progress(seed: str, seen: list[int] = seen) -> None:
            seen[0] = int(seed)

        got = guarded(judge, (at, part.stop, names), SECONDS * len(part), progress)
        if isinstance(got, (Died, Raised)):
            why = got.trace if isinstance(got, Raised) else f"{got.kind}: {got.reason}"
            if seen[0] > at:
                yield from shard(range(at, seen[0]), names)
            yield {"programs": 1, "nodes": 0, "checked": 0, "elements": 0, "covered": {},
                   "findings": [(seen[0], why)]}  # fmt: skip
            at = seen[0] + 1
        else:
            yield got
            return


def added(many: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum of outcomes."""
    covered: Counter[str] = Counter()
    for x in many:
        covered.update(x["covered"])
    numbers = {k: sum(x[k] for x in many) for k in ("programs", "nodes", "checked", "elements")}
    return {**numbers, "findings": [f for x in many for f in x["findings"]], "covered": covered}


def lines(shards: Shards, names: Sequence[str]) -> Iterator[str]:
    """Table of all ranges judged."""
    whole = added(shards.done)
    by_dtype = Counter[str]()
    for pair, n in whole["covered"].items():
        by_dtype[pair.split()[1]] += n
    seconds = shards.total("seconds")
    yield (
        f"`python -m tests.bench.programs --count {whole['programs']} --engine {' '.join(names)}`:"
        f" {shards.commits()}."
    )
    yield ""
    rows: list[tuple[str, object]] = [
        ("programs", whole["programs"]),
        ("ops a program, mean", f"{whole['nodes'] / max(1, whole['programs']):.1f}"),
        ("pairs of op and dtype seen", f"{len(whole['covered'])} of {possible()}"),
        ("elements judged, all levels", whole["elements"]),
        ("checked share", f"{whole['checked'] / max(1, whole['elements']):.6f}"),
        ("findings", len(whole["findings"])),
        ("programs a minute", f"{60 * whole['programs'] / max(seconds, 1e-9):.0f}"),
    ]
    yield from table((f"every level, then {', '.join(f'`{n}`' for n in names)}", ""), rows)
    yield ""
    yield "Programs in which an op of the dtype stood:"
    yield ""
    yield from table(("dtype", "ops"), ((d, by_dtype[str(d)]) for d in DType))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--engine", nargs="+", default=["host"], metavar="NAME")
    parser.add_argument("--save", type=Path, help="file of outcomes, one line a range")
    parser.add_argument("--docs", action="store_true", help="write docs/bars.md")
    args = parser.parse_args(argv)
    shards = Shards(args.save)
    for part in shards.missing(args.start, args.count, SHARD):
        began = time.perf_counter()
        outcome = added(list(shard(part, args.engine)))
        shards.keep(part, {**outcome, "seconds": time.perf_counter() - began})
        for seed, what in outcome["findings"]:
            print(f"seed {seed}: {what}", flush=True)
    print("\n".join(lines(shards, args.engine)))
    if args.docs:
        put("programs", lines(shards, args.engine))
    return 1 if any(d["findings"] for d in shards.done) else 0


if __name__ == "__main__":
    sys.exit(main())
