"""A campaign: shards in watched processes until a deadline, findings kept as they arrive."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import assert_never

from didyma.codegen.options import Options
from didyma.fuzz import disk
from didyma.fuzz.graphs import decode
from didyma.fuzz.groups import Example, Group, group_of
from didyma.fuzz.messages import Begin, Done, Found, Judged, Message, Refused
from didyma.fuzz.replay import Recorded, save
from didyma.fuzz.result import Result, Tally
from didyma.fuzz.seeds import fresh_seed
from didyma.fuzz.shard import EngineChoice, Job, possible
from didyma.fuzz.signals import StopRequest, stop_requests
from didyma.fuzz.worker import Worker
from didyma.refimpl.ir.text import show

SHARD = 200  # graphs Hypothesis makes from one seed
START_SECONDS = 120  # a worker must judge by then: longer than any import takes


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign is to do.

    ``teams`` has one entry a process: the engines on which it judges every graph, by name or as
    objects that pickle takes.  ``seed`` is drawn where none is given; the same plan with the same
    seed judges the same graphs in each process, as many of them as time allows.
    ``hang_seconds`` is how long one case may take; ``stop_after`` so many groups of findings the
    campaign ends early, 0 for never.  ``findings`` is the folder that files are written to.
    """

    seconds: float
    teams: tuple[tuple[EngineChoice, ...], ...]
    seed: int = field(default_factory=fresh_seed)
    options: Options = field(default_factory=Options)
    hang_seconds: float = 30.0
    shrink_seconds: float = 15.0
    stop_after: int = 0
    findings: Path | None = None


def teams(engines: Sequence[EngineChoice], jobs: int) -> tuple[tuple[EngineChoice, ...], ...]:
    """Share engines among processes: one each while there are enough, else all to all.

    >>> teams(("simt", "host"), 3), teams(("simt", "host"), 1)
    ((('simt',), ('host',), ('simt',)), (('simt', 'host'),))
    """
    if jobs < len(engines):
        return (tuple(engines),) * jobs
    return tuple((engines[i % len(engines)],) for i in range(jobs))


def job(plan: Plan, slot: int, generation: int) -> Job:
    """Return what a process is to do, which is the ``generation``-th of its slot.

    Its first shard has the job's seed, and each further one a seed one larger.
    """
    seed = (plan.seed << 64) + (slot << 48) + (generation << 24)
    return Job(seed, SHARD, plan.teams[slot], plan.options, plan.shrink_seconds)


def run(plan: Plan, progress: Callable[[Result], None] = lambda _: None) -> Result:
    """Fuzz until the deadline, Ctrl-C or SIGTERM.  Time starts when the first case is judged.

    Errors: ``bad-option`` for an engine or planner that no other process can load,
    ``unknown-engine``, EngineMissing, ``unwritable``.
    """
    if plan.findings is not None:
        disk.must_take_files(plan.findings)
    with stop_requests() as stop:
        campaign = _Campaign(plan, stop, progress)
        try:
            campaign.start()
            campaign.watch()
        finally:
            campaign.end()
    return campaign.result


class _Campaign:
    """A campaign that runs: its workers, and what they have said so far."""

    def __init__(self, plan: Plan, stop: StopRequest, progress: Callable[[Result], None]) -> None:
        self.plan = plan
        self.stop = stop
        self.progress = progress
        self.workers: list[Worker] = []
        self.made: set[str] = set()  # files that were not there before
        jobs = [job(plan, slot, 0) for slot in range(len(plan.teams))]
        tallies = {"+".join(j.engine_names): Tally() for j in jobs}
        self.result = Result(possible(), plan.seed, len(jobs), by_team=tallies)

    def start(self) -> None:
        """Start a worker for each team."""
        for slot in range(len(self.plan.teams)):
            self.workers.append(Worker(job(self.plan, slot, 0)))

    def end(self) -> None:
        """Kill every worker, and keep what was being made smaller."""
        for w in self.workers:
            w.kill()
        for w in self.workers:
            self.settle(w)

    def watch(self) -> None:
        """Take messages and replace workers that died or hang, until time is up."""
        hired = time.monotonic()
        start: float | None = None
        while not self.over():
            if start is not None:
                self.result.seconds = time.monotonic() - start
            elif time.monotonic() - hired > START_SECONDS:
                raise RuntimeError(f"no worker started within {START_SECONDS} s")
            connection.wait([w.pipe for w in self.workers], timeout=0.25)
            for slot, w in enumerate(self.workers):
                ended = self.drain(w)
                if w.started and start is None:
                    start = time.monotonic()
                if not ended and w.silent() > self.plan.hang_seconds:
                    text = f"no answer within {self.plan.hang_seconds:g} s"
                    self.keep(w.job, _dead(w, "hang", text))
                    ended = True
                if ended:
                    w.kill()
                    self.settle(w)
                    self.workers[slot] = Worker(
                        job(self.plan, slot, w.generation + 1), w.generation + 1
                    )
            self.progress(self.result)

    def over(self) -> bool:
        """Return whether the campaign is to end: told to, out of time, or enough was found."""
        self.result.stopped_by = self.stop.signal
        enough = 0 < self.plan.stop_after <= len(self.result.groups)
        return bool(self.stop.signal) or enough or self.result.seconds >= self.plan.seconds

    def drain(self, w: Worker) -> bool:
        """Take every waiting message; True when the worker has died."""
        try:
            while w.pipe.poll():
                self.take(w, w.receive())
        except (EOFError, ConnectionError):
            how = w.how_it_ended()
            if how in ("SIGTERM", "SIGINT"):  # no graph sends these: whoever did means the campaign
                return True
            if not w.started:
                raise RuntimeError(f"a worker could not start: {how}") from None
            self.keep(w.job, _dead(w, "crash", f"the process died: {how}"))
            return True
        return False

    def take(self, w: Worker, message: Message) -> None:
        """Count what a worker says."""
        match message:
            case Begin(case):
                w.case, w.started = case, True
            case Judged(nodes, checked, total, covered):
                tally = self.result.by_team["+".join(w.job.engine_names)]
                tally.programs += 1
                tally.checked += checked
                tally.total += total
                self.result.nodes.append(nodes)
                for pair in covered:
                    self.result.covered[pair] = self.result.covered.get(pair, 0) + 1
            case Found():
                if w.best is None:  # written at once, lest it be lost while it is made smaller
                    w.draft = self.write(w.job, message)
                w.best = message
            case Done():
                self.settle(w)
            case Refused(error):
                raise error
            case _:
                assert_never(message)

    def settle(self, w: Worker) -> None:
        """Keep the smallest case of a worker's disagreement."""
        if w.best is None:
            return
        self.keep(w.job, w.best)
        self.discard(w.draft)
        w.best, w.draft = None, ""

    def keep(self, job: Job, f: Found) -> None:
        """Add a finding to the group it belongs to, or to a new one."""
        group = group_of(self.result.groups, f)
        if group is None:
            group = Group(*f.cause, f.traits)
            self.result.groups.append(group)
        e = Example(f, job.engine_names, self.write(job, f))
        if (dropped := group.add(e)) is not None:
            self.discard(dropped.file)

    def discard(self, file: str) -> None:
        """Delete a file that this campaign made and no example needs."""
        if file in self.made and all(e.file != file for e in self.result.findings):
            self.made.remove(file)
            Path(file).unlink(missing_ok=True)

    def write(self, job: Job, f: Found) -> str:
        """Write a finding; return its path, empty where none are written."""
        if self.plan.findings is None:
            return ""
        case = f.case
        options = case.options(self.plan.options)
        recorded = Recorded(
            case.module, case.seeds, dict(case.env), job.engine_names, options, dict(case.given),
            campaign_seed=self.plan.seed,
        )  # fmt: skip
        digest = hashlib.sha256(f"{show(case.module)}{case.seeds}{case.given}".encode()).hexdigest()
        level = re.sub(r"[^\w.-]", "-", f.level)
        path = self.plan.findings / f"{level}-{f.kind}-{digest[:8]}.dym"
        if not path.exists():
            self.made.add(str(path))
        return str(save(path, recorded, f"{f.level} ({f.kind}) in {f.where}: {f.message}"))


def _dead(w: Worker, kind: str, message: str) -> Found:
    case = decode(w.case) if isinstance(w.case, bytes) else w.case
    nodes = len(case.module.entry.nodes)
    return Found(case, w.job.engine_names[-1], "process", kind, message, nodes)
