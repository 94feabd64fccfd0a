"""A campaign on memory planning: seeds one after another, each a case of some domain."""

from __future__ import annotations

import json
import multiprocessing as mp
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import connection
from multiprocessing.connection import Connection

from didyma.fuzz.allocator.domains import DOMAINS, Case, domain_of, judge_case
from didyma.fuzz.allocator.judge import Check, Verdict
from didyma.fuzz.seeds import fresh_seed
from didyma.fuzz.signals import StopRequest, stop_requests
from didyma.fuzz.watchdog import how_it_ended, spawn, stay_with_parent

KEPT = 20  # findings kept
START_SECONDS = 120  # a worker must judge by then: longer than any import takes


@dataclass(slots=True)
class Result:
    """What a campaign saw; ``seconds`` are of the clock, ``cpu`` of the processors.

    ``seed`` and ``jobs`` repeat it; ``stopped_by`` is the signal that ended it early, 0 for none.
    """

    seed: int = 0
    jobs: int = 1
    schedules: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    by_domain: Counter[str] = field(default_factory=Counter[str])
    by_planner: Counter[str] = field(default_factory=Counter[str])
    findings: list[Case] = field(default_factory=list[Case])
    stopped_by: int = 0

    def add(self, c: Case, cpu: float) -> None:
        """Count a judged case."""
        self.schedules += 1
        self.cpu += cpu
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
                "seed": self.seed,
                "jobs": self.jobs,
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

    ``jobs`` is the number of processes, or 0 to judge in this one.  Every ``run_every``-th program
    is also run, none for 0; with ``stop_after`` the campaign ends after so many findings.  A case
    that takes ``hang_seconds`` is a finding.  A seed is drawn where none is given: the first case
    has that seed, the next one more, and the same seed judges the same cases.
    """

    seconds: float | None = None
    limit: int | None = None
    seed: int = field(default_factory=fresh_seed)
    jobs: int = 1
    run_every: int = 50
    domains: tuple[str, ...] = tuple(DOMAINS)
    stop_after: int = 0
    hang_seconds: float = 120.0

    def seed_of(self, slot: int, k: int) -> int | None:
        """Return the k-th seed of one of the processes, which take turns; None after the last."""
        n = slot + k * max(self.jobs, 1)
        return None if self.limit is not None and n >= self.limit else self.seed + n

    def seeds(self, slot: int, first: int) -> Iterator[int]:
        """Yield the seeds of one of the processes from its ``first``-th on."""
        for k in count(first):
            if (seed := self.seed_of(slot, k)) is None:
                return
            yield seed


def run(plan: Plan, progress: Callable[[Result], None] = lambda _: None) -> Result:
    """Judge cases until the plan is done, or until Ctrl-C or SIGTERM.

    Time starts when the first process begins.
    """
    with stop_requests() as stop:
        campaign = _Campaign(plan, stop, progress)
        if plan.jobs:
            campaign.spread()
        else:
            campaign.here()
    return campaign.result


class _Campaign:
    """A campaign that runs, and what it has seen so far."""

    def __init__(self, plan: Plan, stop: StopRequest, progress: Callable[[Result], None]) -> None:
        self.plan = plan
        self.stop = stop
        self.progress = progress
        self.called = time.monotonic()
        self.began = self.called if plan.jobs == 0 else 0.0  # when judging began; 0: not yet
        self.result = Result(plan.seed, plan.jobs)

    def over(self) -> bool:
        """Return whether the campaign is to end: told to, out of time, or enough was found."""
        r, plan = self.result, self.plan
        now = time.monotonic()
        if self.began:
            r.seconds = now - self.began
        elif now - self.called > START_SECONDS:
            raise RuntimeError(f"no worker started within {START_SECONDS} s")
        r.stopped_by = self.stop.signal
        late = plan.seconds is not None and r.seconds >= plan.seconds
        return bool(self.stop.signal) or late or 0 < plan.stop_after <= len(r.findings)

    def here(self) -> None:
        """Judge in this process."""
        for seed in self.plan.seeds(0, 0):
            self.result.add(*_judged(self.plan, seed))
            self.progress(self.result)
            if self.over():
                return

    def spread(self) -> None:
        """Judge in processes, and replace those that die or hang."""
        lanes: list[_Lane] = []
        try:
            for slot in range(self.plan.jobs):
                lanes += [_Lane(self.plan, slot)]
            while not self.over() and (busy := [lane for lane in lanes if lane.at is not None]):
                connection.wait([lane.pipe for lane in busy], timeout=0.25)
                for lane in busy:
                    self.take(lane)
                self.progress(self.result)
        finally:
            for lane in lanes:
                lane.kill()

    def take(self, lane: _Lane) -> None:
        """Count what a process has judged; where it died or hangs, begin after that case."""
        try:
            while lane.at is not None and lane.pipe.poll():
                if (judged := lane.receive()) is not None:
                    self.result.add(*judged)
                elif not self.began:
                    self.began = time.monotonic()
        except (EOFError, ConnectionError):
            how = how_it_ended(lane.process)
            if how in ("SIGTERM", "SIGINT"):  # no case sends these: whoever did means the campaign
                lane.restart()
            elif not lane.started:
                raise RuntimeError(f"a worker could not start: {how}") from None
            else:
                self.lost(lane, "crash", f"the process died: {how}")
        else:
            if lane.silent() > self.plan.hang_seconds:
                self.lost(lane, "hang", f"no answer within {self.plan.hang_seconds:g} s")

    def lost(self, lane: _Lane, check: Check, message: str) -> None:
        """Count the case at which a process died or hangs as a finding, and go on after it."""
        if lane.at is not None:
            domain = domain_of(lane.at, self.plan.domains)
            case = Case(domain, lane.at, "unknown", (Verdict(check, message),))
            self.result.add(case, 0.0)
        lane.done += 1
        lane.restart()


class _Lane:
    """A process that judges the seeds of a slot; ``done`` of them are judged."""

    def __init__(self, plan: Plan, slot: int) -> None:
        self.plan = plan
        self.slot = slot
        self.done = 0
        self.start()

    def start(self) -> None:
        """Start the process at the first seed that is not done."""
        self.pipe, there = mp.get_context("spawn").Pipe(duplex=False)
        self.started = False
        self.since = time.monotonic()
        self.process = spawn(worker, (self.plan, self.slot, self.done, there))
        there.close()

    @property
    def at(self) -> int | None:
        """The seed that is being judged; None after the last."""
        return self.plan.seed_of(self.slot, self.done)

    def receive(self) -> tuple[Case, float] | None:
        """Return the next case judged, None for the word that the process begins.

        EOFError or ConnectionError where it is gone.
        """
        judged: tuple[Case, float] | None = self.pipe.recv()
        self.since, self.started = time.monotonic(), True
        self.done += judged is not None
        return judged

    def silent(self) -> float:
        """Return for how many seconds the process has judged nothing; 0 while it starts."""
        return time.monotonic() - self.since if self.started and self.at is not None else 0.0

    def restart(self) -> None:
        """Begin again at the seed that is next."""
        self.kill()
        self.start()

    def kill(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _judged(plan: Plan, seed: int) -> tuple[Case, float]:
    """Judge the case of a seed; also says how long that took the processor."""
    began = time.process_time()
    case = judge_case(seed, plan.domains, plan.run_every)
    return case, time.process_time() - began


def worker(plan: Plan, slot: int, done: int, pipe: Connection) -> None:
    """Entry point of a process: judge the seeds of a slot, but the first, which are done."""
    stay_with_parent()
    pipe.send(None)
    for seed in plan.seeds(slot, done):
        pipe.send(_judged(plan, seed))
