"""The long runs of docs/memory-fuzzing.md: clean plans, and ``didyma plan`` on damaged traces.

``python -m tests.bench.memory_fuzzing`` takes a minute; ``--plans 100000 --traces 10000`` is the
full size.  ``--write`` keeps what was measured on the page.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from didyma import plan_command
from fuzz.allocator import traces
from fuzz.allocator.campaign import Plan, Result, run
from refimpl.errors import DidymaError
from tests.mutants.memory.page import write


def clean(r: Result) -> str:
    """Write the table of a campaign."""
    rows = ["| domain | plans |", "|---|---|"]
    rows += [f"| {d} | {n:,} |" for d, n in sorted(r.by_domain.items())]
    return "\n".join(
        [
            *rows,
            f"| all | {r.schedules:,} |",
            "",
            f"{len(r.findings)} false alarms; {r.a_minute:,.0f} schedules a minute of one core, "
            "generated, planned and judged.",
        ]
    )


def damaged(count: int) -> tuple[Counter[str], float]:
    """Give random traces to ``didyma plan``; anything but a coded error is raised."""
    said: Counter[str] = Counter()
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.csv"
        for seed in range(count):
            text = traces.text(seed)
            file.write_bytes(text.text.encode("utf-8"))
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    code = plan_command.plan(file, "greedy_by_size", None, (), 1.0, None, True)
                said["planned" if code == 0 else f"exit code {code}"] += 1
            except DidymaError as e:
                said[e.code] += 1
    return said, time.process_time() - began


def main() -> None:
    """Run both; exit code 1 if there was a false alarm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=2000)
    parser.add_argument("--traces", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    a = parser.parse_args()
    said, seconds = damaged(a.traces)
    lines = [
        "| outcome | traces |",
        "|---|---|",
        *(f"| {k} | {n:,} |" for k, n in said.most_common()),
    ]
    told = "\n".join([*lines, f"| all | {a.traces:,} |"])
    print(f"{told}\n{seconds:.1f} s", flush=True)
    if a.write:
        write("traces", told)
    result = run(Plan(limit=a.plans, jobs=a.jobs)) if a.plans else Result()
    print(clean(result))
    if a.write and a.plans:
        write("clean", clean(result))
    sys.exit(1 if result.findings else 0)


if __name__ == "__main__":
    main()
