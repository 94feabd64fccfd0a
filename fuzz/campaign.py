"""A campaign: shards in watched processes until a deadline, findings kept as they arrive."""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing as mp
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import assert_never

from didyma.codegen.options import Options
from didyma.fuzz.graphs import Case, decode
from didyma.fuzz.replay import Recorded, save
from didyma.fuzz.shard import Begin, Done, Found, Job, Judged, Message, possible, worker
from didyma.fuzz.watchdog import how_it_ended, spawn
from didyma.refimpl.ir.text import show

SHARD = 200  # graphs Hypothesis makes from one seed
START_SECONDS = 120  # a worker must judge by then: longer than any import takes


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign is to do.

    ``teams`` has one entry a process: the engines on which it judges every graph.
    ``hang_seconds`` is how long one case may take; ``stop_after`` so many findings the campaign
    ends early, 0 for never.
    """

    seconds: float
    teams: tuple[tuple[str, ...], ...]
    seed: int = 0
    options: Options = field(default_factory=Options)
    hang_seconds: float = 30.0
    shrink_seconds: float = 15.0
    stop_after: int = 0
    findings: Path | None = None


def teams(engines: tuple[str, ...], jobs: int) -> tuple[tuple[str, ...], ...]:
    """Share engines among processes: one each while there are enough, else all to all.

    >>> teams(("simt", "host"), 3), teams(("simt", "host"), 1)
    ((('simt',), ('host',), ('simt',)), (('simt', 'host'),))
    """
    if jobs < len(engines):
        return (engines,) * jobs
    return tuple((engines[i % len(engines)],) for i in range(jobs))


@dataclass(slots=True)
class Tally:
    """Counts of the graphs judged."""

    programs: int = 0
    checked: int = 0
    total: int = 0

    @property
    def checked_share(self) -> float:
        """Share of the judged elements that could be decided."""
        return self.checked / self.total if self.total else 1.0


@dataclass(slots=True)
class Result:
    """What a campaign saw; ``by_team`` is keyed by the team's engines joined with ``+``."""

    possible: int
    seconds: float = 0.0
    by_team: dict[str, Tally] = field(default_factory=dict[str, Tally])
    nodes: list[int] = field(default_factory=list[int])
    covered: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    findings: list[Found] = field(default_factory=list[Found])
    files: list[str] = field(default_factory=list[str])
    interrupted: bool = False

    @property
    def all(self) -> Tally:
        """Sum over the teams."""
        t = self.by_team.values()
        return Tally(sum(x.programs for x in t), sum(x.checked for x in t), sum(x.total for x in t))

    def rate(self, programs: int) -> float:
        """Programs a minute."""
        return 60 * programs / self.seconds if self.seconds else 0.0

    @property
    def median_nodes(self) -> int:
        """Median number of nodes of a graph."""
        return sorted(self.nodes)[len(self.nodes) // 2] if self.nodes else 0

    def json(self) -> str:
        """Return the result as the JSON of ``didyma fuzz --json``."""
        whole = self.all
        return json.dumps(
            {
                "programs": whole.programs,
                "seconds": round(self.seconds, 3),
                "programs_per_minute": round(self.rate(whole.programs), 1),
                "median_nodes": self.median_nodes,
                "checked_share": round(whole.checked_share, 6),
                "findings": [
                    {
                        "level": f.level,
                        "where": f.where,
                        "kind": f.kind,
                        "message": f.message,
                        "nodes": f.nodes,
                        "file": file,
                    }
                    for f, file in zip(self.findings, self.files, strict=True)
                ],
                "coverage": {
                    "pairs": len(self.covered),
                    "possible": self.possible,
                    "ops": len({op for op, _ in self.covered}),
                },
                "engines": {
                    team: {
                        "programs": t.programs,
                        "programs_per_minute": round(self.rate(t.programs), 1),
                        "checked_share": round(t.checked_share, 6),
                    }
                    for team, t in self.by_team.items()
                },
            },
            indent=2,
        )


class _Worker:
    def __init__(self, job: Job) -> None:
        here, there = mp.get_context("spawn").Pipe(duplex=False)
        self.pipe = here
        self.job = job
        self.process = spawn(worker, (job, there))
        there.close()
        self.case: bytes | Case = b""
        self.since = time.monotonic()
        self.started = False
        self.best: Found | None = None  # of the disagreement that is being shrunk

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run(plan: Plan, progress: Callable[[Result], None] = lambda _: None) -> Result:
    """Fuzz until the deadline or Ctrl-C.  Time starts when the first case is judged.

    Workers get seeds of their own, all told by the plan's: the same plan judges the same graphs.
    """
    result = Result(possible(), by_team={"+".join(t): Tally() for t in plan.teams})
    hired = itertools.count()

    def hire(team: tuple[str, ...]) -> _Worker:
        seed = (plan.seed << 40) + (next(hired) << 24)  # each shard of a worker adds 1
        return _Worker(Job(seed, SHARD, team, plan.options, plan.shrink_seconds))

    workers = [hire(team) for team in plan.teams]
    try:
        _watch(plan, result, workers, hire, progress)
    except KeyboardInterrupt:
        result.interrupted = True
    finally:
        for w in workers:
            w.stop()
    for w in workers:  # what was being made smaller when time was up
        _settle(w, result, plan)
    return result


def _watch(
    plan: Plan,
    result: Result,
    workers: list[_Worker],
    hire: Callable[[tuple[str, ...]], _Worker],
    progress: Callable[[Result], None],
) -> None:
    """Take messages and replace workers that died or hang, until time is up."""
    hired = time.monotonic()
    start: float | None = None
    while True:
        now = time.monotonic()
        if start is not None:
            result.seconds = now - start
            if result.seconds >= plan.seconds:
                return
        elif now - hired > START_SECONDS:
            raise RuntimeError(f"no worker started within {START_SECONDS} s")
        if 0 < plan.stop_after <= len(result.findings):
            return
        connection.wait([w.pipe for w in workers], timeout=0.25)
        for i, w in enumerate(workers):
            ended = _drain(w, result, plan)
            if w.started and start is None:
                start = time.monotonic()
            if not ended and time.monotonic() - w.since > plan.hang_seconds and w.started:
                text = f"no answer within {plan.hang_seconds:g} s"
                _keep(result, plan, w.job.engines, _dead(w, "hang", text))
                ended = True
            if ended:
                w.stop()
                _settle(w, result, plan)
                workers[i] = hire(w.job.engines)
        progress(result)


def _settle(w: _Worker, result: Result, plan: Plan) -> None:
    """Keep the smallest case of a worker's disagreement."""
    if w.best is not None:
        _keep(result, plan, w.job.engines, w.best)
        w.best = None


def _drain(w: _Worker, result: Result, plan: Plan) -> bool:
    """Take every waiting message; True when the worker has died."""
    try:
        while w.pipe.poll():
            message: Message = w.pipe.recv()
            w.since = time.monotonic()
            match message:
                case Begin(case):
                    w.case, w.started = case, True
                case Judged(nodes, checked, total, covered):
                    tally = result.by_team["+".join(w.job.engines)]
                    tally.programs += 1
                    tally.checked += checked
                    tally.total += total
                    result.nodes.append(nodes)
                    for pair in covered:
                        result.covered[pair] = result.covered.get(pair, 0) + 1
                case Found():
                    w.best = message
                case Done():
                    _settle(w, result, plan)
                case _:
                    assert_never(message)
    except (EOFError, ConnectionError):
        how = how_it_ended(w.process)
        if not w.started:
            raise RuntimeError(f"a worker could not start: {how}") from None
        _keep(result, plan, w.job.engines, _dead(w, "crash", f"the process died: {how}"))
        return True
    return False


def _dead(w: _Worker, kind: str, message: str) -> Found:
    case = decode(w.case) if isinstance(w.case, bytes) else w.case
    nodes = len(case.module.entry.nodes)
    return Found(case, w.job.engines[-1], "process", kind, message, nodes)


def _keep(result: Result, plan: Plan, engines: tuple[str, ...], f: Found) -> None:
    """Record a finding once per level, kind and place."""
    if any((o.level, o.kind, o.where) == (f.level, f.kind, f.where) for o in result.findings):
        return
    result.findings.append(f)
    file = ""
    if plan.findings is not None:
        case = f.case
        options = case.options(plan.options)
        recorded = Recorded(case.module, case.seeds, dict(case.env), engines, options)
        digest = hashlib.sha256(f"{show(case.module)}{case.seeds}".encode()).hexdigest()[:8]
        name = f"{f.level}-{f.kind}-{digest}.dym"
        file = os.fspath(save(plan.findings / name, recorded, f.message))
    result.files.append(file)
