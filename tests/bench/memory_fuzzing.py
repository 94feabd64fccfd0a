"""The long runs of docs/memory-fuzzing.md: clean plans, and ``didyma plan`` on damaged traces.

``python -m tests.bench.memory_fuzzing`` takes a minute; ``--plans 100000 --traces 10000`` is the
full size.  ``--write`` keeps what was measured on the page.
"""

from __future__ import annotations

import argparse
import sys

from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.plans import HANG_SECONDS, Plans, counts
from didyma.fuzz.result import Result
from tests.bench import trace_mutants
from tests.mutants.memory.page import write


def clean(r: Result) -> str:
    """Write the table of a campaign."""
    rows = ["| domain | plans |", "|---|---|"]
    rows += [f"| {d} | {n:,} |" for d, n in counts(r.all.covered, "domain").items()]
    return "\n".join(
        [
            *rows,
            f"| all | {r.all.cases:,} |",
            "",
            f"{len(r.findings)} false alarms; {r.all.a_minute:,.0f} schedules a minute of one "
            "core, generated, planned and judged.",
        ]
    )


def main() -> None:
    """Run both; exit code 1 if there was a false alarm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=2000)
    parser.add_argument("--traces", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    a = parser.parse_args()
    report = trace_mutants.table(a.traces)
    print(report, flush=True)
    if a.write:
        write("traces", report)
    plan = Plan((Plans(),), count=a.plans, seed=0, jobs=a.jobs, hang_seconds=HANG_SECONDS)
    result = run(plan) if a.plans else Result()
    print(clean(result))
    if a.write and a.plans:
        write("clean", clean(result))
    sys.exit(1 if result.findings else 0)


if __name__ == "__main__":
    main()
