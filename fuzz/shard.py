"""One shard of a campaign: a seed and a count of graphs, judged in a process of its own.

The parent sees each case's bytes before the case runs, so that a crash or a hang costs that case
and nothing else.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TypeAlias

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as hypothesis_seed

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import levels, traits
from didyma.fuzz.graphs import RAW, Case, decode
from didyma.fuzz.levels import Failed
from didyma.fuzz.messages import Begin, Done, Found, Judged, Message, Refused
from didyma.fuzz.shrink import cut_off, shrink
from didyma.fuzz.shrink_sizes import shrink_sizes
from didyma.fuzz.shrink_values import shrink_values
from didyma.fuzz.watchdog import stay_with_parent
from didyma.oracle.report import Finding, Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ops import OPS

GRAPH_SHARE = 0.6  # of the time to shrink, after which the graph is left as it is
SIZE_SHARE = 0.8  # and the sizes

EngineChoice: TypeAlias = str | Engine  # the name of an engine, or the engine itself


def engine_name(e: EngineChoice) -> str:
    """Return the name of an engine that is given by name or as an object."""
    return e if isinstance(e, str) else e.name


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to do until told to stop."""

    seed: int
    count: int
    engines: tuple[EngineChoice, ...]
    options: Options
    shrink_seconds: float

    @property
    def engine_names(self) -> tuple[str, ...]:
        """The engines by name."""
        return tuple(engine_name(e) for e in self.engines)


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


class Judge:
    """The levels and engines of one worker; a module judged twice in a row is compiled once."""

    def __init__(self, engines: Sequence[Engine], options: Options) -> None:
        self.engines = engines
        self.options = options
        self._last: tuple[Module, Options, Compiled | Failed] | None = None

    def compiled(self, case: Case) -> Compiled | Failed:
        """Compile the case's module with the case's options."""
        m, options = case.module, case.options(self.options)
        if self._last is None or self._last[0] is not m or self._last[1] != options:
            self._last = (m, options, levels.compiled(m, options))
        return self._last[2]

    def report(self, case: Case) -> Report:
        """Judge every level."""
        made = self.compiled(case)
        if isinstance(made, Failed):
            return made.report()
        return levels.judged(made, case.inputs(), self.engines, details=False)

    def found(self, case: Case, report: Report) -> Found | None:
        """Return the first finding of the case's report."""
        if not report.findings:
            return None
        f, nodes = report.findings[0], len(case.module.entry.nodes)
        return Found(case, f.level, f.where, f.kind, f.message, nodes, self._traits(case, f))

    def _traits(self, case: Case, f: Finding) -> frozenset[str]:
        """Return what to group a wrong value by; other kinds are grouped by their reasons."""
        made = self.compiled(case)
        if f.kind != "value" or f.level == "passes" or isinstance(made, Failed):
            return frozenset()
        if f.level == "graph":
            return frozenset({f.where})
        return traits.of_kernels(made, f.where) | traits.of_types(case.module, dict(case.env))


def run(job: Job, engines: Sequence[Engine], send: Callable[[Message], None]) -> None:
    """Judge ``count`` cases; a disagreement is sent, shrunk for a while, and ends the shard.

    Each smaller case is sent too: the last ``Found`` before ``Done`` is the smallest.
    """
    first: list[Found] = []
    judge = Judge(engines, job.options)

    def judge_one(raw: bytes) -> None:
        if first:
            raise _DisagreementError
        send(Begin(raw))
        case = decode(raw)
        report = judge.report(case)
        comparisons = [c for level in report.levels for c in level.comparisons]
        checked, total = sum(c.checked for c in comparisons), sum(c.total for c in comparisons)
        send(Judged(len(case.module.entry.nodes), checked, total, coverage(case)))
        bad = judge.found(case, report)
        if bad is not None:
            first.append(bad)
            send(bad)
            raise _DisagreementError

    def still(case: Case) -> bool:
        send(Begin(case))
        bad = judge.found(case, judge.report(case))
        if bad is None or bad.cause != first[0].cause:
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
        now, seconds = time.monotonic(), job.shrink_seconds
        case = shrink(first[0].case, still, now + GRAPH_SHARE * seconds)
        case = cut_off(case, still, now + GRAPH_SHARE * seconds)
        case = shrink_sizes(case, still, now + SIZE_SHARE * seconds)
        shrink_values(case, still, now + seconds)


def worker(packed: bytes, pipe: Connection) -> None:
    """Entry point of a worker process: shards one after another, each with the next seed.

    ``packed`` is a pickled ``Job``: what cannot be unpickled here is told to the parent.
    """
    stay_with_parent()
    try:
        job: Job = pickle.loads(packed)
        engines = [engine(e) if isinstance(e, str) else e for e in job.engines]
    except DidymaError as e:
        pipe.send(Refused(e))
        return
    except Exception as e:
        pipe.send(Refused(untransferable(e)))
        return
    while True:
        run(job, engines, pipe.send)
        pipe.send(Done())
        job = replace(job, seed=job.seed + 1)


def packed(job: Job) -> bytes:
    """Return a job as bytes; DidymaError ``bad-option`` if an engine or planner is no value."""
    try:
        return pickle.dumps(job)
    except Exception as e:
        raise untransferable(e) from None


def untransferable(e: Exception) -> DidymaError:
    """Return the error that says that an engine or planner cannot be sent to another process."""
    return DidymaError(
        "bad-option", "engines and planner of a campaign",
        got=f"an object that another process cannot load: {type(e).__name__}: {e}",
        want="objects that pickle takes, of classes of a module",
        help="register it by an entry point, and give its name instead",
    )  # fmt: skip
