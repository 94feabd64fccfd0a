"""``python -m didyma.fuzz.allocator``: a campaign on memory planning."""

from __future__ import annotations

import argparse
import json
import sys

from didyma.fuzz.allocator.domains import DOMAINS
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.plans import HANG_SECONDS, Plans, counts
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.records import record
from didyma.fuzz.result import Result
from didyma.fuzz.seeds import fresh_seed


def report(r: Result) -> str:
    """Return what a campaign saw, in lines."""
    rate = f"{r.all.a_minute:,.0f} a minute of a core"
    lines = [
        f"{r.all.cases:,} schedules in {r.seconds:.1f} s, {rate}, "
        f"{len(r.findings)} findings; seed {r.seed}",
        "  " + ", ".join(f"{d} {n:,}" for d, n in counts(r.all.covered, "domain").items()),
    ]
    for e in r.findings:
        lines.append(f"{e.finding.level}, seed {e.case}, planner {e.finding.where}:")
        lines += [f"  {f.kind}: {f.message}" for f in (e.finding, *e.others)]
    return "\n".join(lines)


def main() -> None:
    """Judge memory plans of random programs; exit code 1 if a check finds fault with one.

    Ctrl-C and SIGTERM end it with what was found so far: exit code 130 or 143.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, help="how long; 60 without --count")
    parser.add_argument("--count", type=int, help="how many schedules")
    parser.add_argument("--seed", type=int, help="seed of the first case; drawn without")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0: judge in this one")
    parser.add_argument("--run-every", type=int, default=50, help="run each n-th program; 0: none")
    parser.add_argument("--stop-after", type=int, default=0, help="end after so many findings")
    parser.add_argument("--domain", action="append", choices=DOMAINS, help="may be repeated")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    seconds = 60.0 if a.seconds is None and a.count is None else a.seconds
    domains = tuple(a.domain or DOMAINS)
    seed = fresh_seed() if a.seed is None else a.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    plans = Plans(domains, a.run_every)
    plan = Plan(
        (plans,), seconds, a.count, seed, jobs=max(1, a.jobs),
        hang_seconds=HANG_SECONDS, stop_after=a.stop_after,
    )  # fmt: skip
    result = run(plan, executor=None if a.jobs else InlineExecutor())
    print(json.dumps(record(result, [plans]), indent=2) if a.json else report(result))
    sys.exit(128 + result.stopped_by if result.stopped_by else bool(result.findings))


if __name__ == "__main__":
    main()
