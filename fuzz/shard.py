"""One shard of a campaign: a seed and a count of graphs, judged in a process of its own.

The parent sees each case's bytes before the case runs, so that a crash or a hang costs that case
and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TypeAlias

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as hypothesis_seed

from didyma.codegen.options import Options
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.graphs import RAW, Case, decode
from didyma.fuzz.levels import check
from didyma.fuzz.shrink import shrink
from didyma.fuzz.watchdog import stay_with_parent
from didyma.oracle.report import Report
from didyma.refimpl.ops import OPS


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to do until told to stop."""

    seed: int
    count: int
    engines: tuple[str, ...]
    options: Options
    shrink_seconds: float


@dataclass(frozen=True, slots=True)
class Begin:
    """A case is about to run: the bytes it is made from, or the case itself."""

    case: bytes | Case


@dataclass(frozen=True, slots=True)
class Judged:
    """A case ran to the end and every level agreed, or see ``Found``."""

    nodes: int
    checked: int
    total: int
    coverage: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A case of a disagreement; a smaller one may follow."""

    case: Case
    level: str
    where: str
    kind: str
    message: str
    nodes: int


@dataclass(frozen=True, slots=True)
class Done:
    """The shard is finished."""


Message: TypeAlias = Begin | Judged | Found | Done


class _DisagreementError(Exception):
    """Tells Hypothesis to stop."""


def coverage(case: Case) -> tuple[tuple[str, str], ...]:
    """Pairs of op and dtype in a graph: of the first operand, but what ``where`` chooses from."""
    f = case.module.entry
    types = f.types()
    pairs = {
        (n.op, str(types[n.args[0]].dtype if n.args and n.op != "where" else n.types[0].dtype))
        for n in f.nodes
        if n.op in OPS
    }
    return tuple(sorted(pairs))


def possible() -> int:
    """Number of pairs of op and dtype there are."""
    return sum(len(op.dtypes) for op in OPS.values())


def found(case: Case, report: Report) -> Found | None:
    """The first finding of a report."""
    if report.agree:
        return None
    f = report.findings[0]
    return Found(case, f.level, f.where, f.kind, f.message, len(case.module.entry.nodes))


def run(job: Job, engines: Sequence[Engine], send: Callable[[Message], None]) -> None:
    """Judge ``count`` cases; a disagreement is sent, shrunk for a while, and ends the shard.

    Each smaller case is sent too: the last ``Found`` before ``Done`` is the smallest.
    """
    first: list[Found] = []

    def judged(case: Case) -> Report:
        return check(case.module, case.inputs(), engines, case.options(job.options))

    def judge_one(raw: bytes) -> None:
        if first:
            raise _DisagreementError
        send(Begin(raw))
        case = decode(raw)
        report = judged(case)
        levels = [c for level in report.levels for c in level.comparisons]
        checked, total = sum(c.checked for c in levels), sum(c.total for c in levels)
        send(Judged(len(case.module.entry.nodes), checked, total, coverage(case)))
        bad = found(case, report)
        if bad is not None:
            first.append(bad)
            send(bad)
            raise _DisagreementError

    def still(case: Case) -> bool:
        send(Begin(case))
        bad = found(case, judged(case))
        if bad is None or (bad.level, bad.kind) != (first[0].level, first[0].kind):
            return False
        send(bad)
        return True

    quiet = settings(
        max_examples=job.count,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
    try:
        hypothesis_seed(job.seed)(quiet(given(RAW)(judge_one)))()
    except BaseException:
        if not first:
            raise
    if first:
        shrink(first[0].case, still, time.monotonic() + job.shrink_seconds)


def worker(job: Job, pipe: Connection) -> None:
    """Entry point of a worker process: shards one after another, each with the next seed."""
    stay_with_parent()
    engines = [engine(e) for e in job.engines]
    while True:
        run(job, engines, pipe.send)
        pipe.send(Done())
        job = replace(job, seed=job.seed + 1)
