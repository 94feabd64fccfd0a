"""A campaign on memory planning: seeds one after another, each a case of some domain."""

from __future__ import annotations

import json
import multiprocessing as mp
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count, islice

from didyma.fuzz.allocator.domains import DOMAINS, Case, judge_case
from didyma.fuzz.watchdog import stay_with_parent

BATCH = 50  # seeds a process takes at a time
KEPT = 20  # findings kept


@dataclass(slots=True)
class Result:
    """What a campaign saw; ``seconds`` are of the clock, ``cpu`` of the processors."""

    schedules: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    by_domain: Counter[str] = field(default_factory=Counter[str])
    by_planner: Counter[str] = field(default_factory=Counter[str])
    findings: list[Case] = field(default_factory=list[Case])
    interrupted: bool = False

    def add(self, cases: Sequence[Case], cpu: float) -> None:
        """Count judged cases."""
        self.schedules += len(cases)
        self.cpu += cpu
        for c in cases:
            self.by_domain[c.domain] += 1
            self.by_planner[c.planner] += 1
            if c.verdicts and len(self.findings) < KEPT:
                self.findings.append(c)

    @property
    def a_minute(self) -> float:
        """Schedules a minute of one core: generated, planned and judged."""
        return 60 * self.schedules / self.cpu if self.cpu else 0.0

    def json(self) -> str:
        """Return the result as one JSON document."""
        return json.dumps(
            {
                "schedules": self.schedules,
                "seconds": round(self.seconds, 3),
                "cpu_seconds": round(self.cpu, 3),
                "schedules_per_minute_per_core": round(self.a_minute, 1),
                "domains": dict(sorted(self.by_domain.items())),
                "planners": dict(sorted(self.by_planner.items())),
                "findings": [
                    {
                        "domain": c.domain,
                        "seed": c.seed,
                        "planner": c.planner,
                        "verdicts": [{"check": v.check, "message": v.message} for v in c.verdicts],
                    }
                    for c in self.findings
                ],
            },
            indent=2,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign is to do: for some seconds, or so many cases, whichever comes first.

    Every ``run_every``-th program is also run, none for 0; with ``stop_after`` the campaign ends
    after so many findings.  The same seed judges the same cases.
    """

    seconds: float | None = None
    limit: int | None = None
    seed: int = 0
    jobs: int = 1
    run_every: int = 50
    domains: tuple[str, ...] = tuple(DOMAINS)
    stop_after: int = 0


def batch(plan: Plan, first: int, seeds: int) -> tuple[list[Case], float]:
    """Judge some seeds; also says how long that took the processor."""
    began = time.process_time()
    cases = [judge_case(first + k, plan.domains, plan.run_every) for k in range(seeds)]
    return cases, time.process_time() - began


def _batches(plan: Plan) -> Iterator[tuple[int, int]]:
    """First seeds of batches, and how many seeds each has."""
    for done in count(0, BATCH):
        left = BATCH if plan.limit is None else min(BATCH, plan.limit - done)
        if left <= 0:
            return
        yield plan.seed + done, left


def run(plan: Plan, progress: Callable[[Result], None] = lambda _: None) -> Result:
    """Judge cases until the plan is done, or until Ctrl-C."""
    result = Result()
    began = time.perf_counter()

    def take(cases: Sequence[Case], cpu: float) -> bool:
        """Count judged cases; tell whether more are wanted."""
        result.add(cases, cpu)
        result.seconds = time.perf_counter() - began
        progress(result)
        late = plan.seconds is not None and result.seconds >= plan.seconds
        return not late and not 0 < plan.stop_after <= len(result.findings)

    try:
        if plan.jobs == 1:
            for first, seeds in _batches(plan):
                if not take(*batch(plan, first, seeds)):
                    break
        else:
            _spread(plan, take)
    except KeyboardInterrupt:
        result.interrupted = True
    return result


def _spread(plan: Plan, take: Callable[[Sequence[Case], float], bool]) -> None:
    """Judge batches in processes; each has one in hand and one waiting."""
    context = mp.get_context("spawn")
    with ProcessPoolExecutor(plan.jobs, context, initializer=stay_with_parent) as pool:
        todo = _batches(plan)
        running = {pool.submit(batch, plan, *b) for b in islice(todo, 2 * plan.jobs)}
        more = True
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                more = take(*future.result()) and more
                if more:
                    running |= {pool.submit(batch, plan, *b) for b in islice(todo, 1)}
            if not more:
                pool.shutdown(wait=True, cancel_futures=True)
                return
