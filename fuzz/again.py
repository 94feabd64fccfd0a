"""Judge many recorded cases again, in processes that may crash or hang at the cost of one case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future

from didyma.fuzz import worker
from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.executor import WatchedExecutor, WorkerDiedError
from didyma.fuzz.replay import Recorded


def judged(
    cases: Sequence[Recorded],
    engines: Sequence[str] | None = None,
    jobs: int = 1,
    hang_seconds: float = 60.0,
    progress: Callable[[], None] = lambda: None,
    executor: Executor | None = None,
) -> list[Outcome]:
    """Judge cases at every level, on their own engines or on those given; return the outcomes.

    ``progress`` is called once for each case.  EngineMissing and the errors of unknown engines.
    """
    domains = [Graphs(tuple(engines or r.engines)) for r in cases]
    packed = [worker.packed(d) for d in domains]
    executor = executor or WatchedExecutor(jobs, hang_seconds)
    try:
        rows = zip(domains, packed, cases, strict=True)
        calls = [(d, r, executor.submit(worker.judge_one, p, r.case)) for d, p, r in rows]
        return list(_outcomes(calls, progress))
    finally:
        executor.shutdown(cancel_futures=True)


def _outcomes(
    calls: Sequence[tuple[Graphs, Recorded, Future[Outcome]]], progress: Callable[[], None]
) -> Iterator[Outcome]:
    for domain, r, call in calls:
        try:
            yield call.result()
        except WorkerDiedError as e:
            yield Outcome((domain.failure(r.case, e.kind, e.reason),))
        progress()
