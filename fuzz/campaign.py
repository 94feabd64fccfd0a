"""A campaign: cases of some domains, judged in watched processes until a deadline."""

from __future__ import annotations

import hashlib
import pickle
import re
import time
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from didyma.fuzz import disk
from didyma.fuzz.domains.domain import Domain, Judge, Outcome
from didyma.fuzz.executor import WatchedExecutor, WorkerDiedError
from didyma.fuzz.groups import Example, Findings, cause
from didyma.fuzz.result import Result, Tally
from didyma.fuzz.seeds import fresh_seed
from didyma.fuzz.signals import StopRequest, stop_requests
from didyma.refimpl.errors import DidymaError

T = TypeVar("T")

Call: TypeAlias = Callable[[], Any]
Work: TypeAlias = Generator[Call, Any, None]  # yields calls, and is sent what they return


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign does: for some seconds, or so many cases, whichever comes first.

    ``domains`` has one entry a process.  The processes take turns at the cases of the seed, which
    is drawn if none is given: process ``i`` of ``n`` judges the cases ``i``, ``i + n``, … of its
    domain, so the same plan with the same seed judges the same cases.  A case that takes
    ``hang_seconds`` is a finding; a finding is made smaller for ``shrink_seconds``.  With
    ``stop_after`` the campaign ends after so many groups of findings.  ``findings`` is the folder
    that files are written to.
    """

    domains: tuple[Domain[Any], ...]
    seconds: float | None = None
    count: int | None = None
    seed: int = field(default_factory=fresh_seed)
    hang_seconds: float = 30.0
    shrink_seconds: float = 15.0
    stop_after: int = 0
    findings: Path | None = None


def run(
    plan: Plan,
    progress: Callable[[Result], None] = lambda _: None,
    executor: Executor | None = None,
) -> Result:
    """Judge cases until the plan is done, or until Ctrl-C or SIGTERM.

    Time starts when the first process begins.  ``executor`` makes the calls instead of local
    processes; it is shut down in the end.

    Errors: ``bad-option`` for a domain that no other process can load, ``unwritable``, and those of
    the domains.
    """
    if plan.findings is not None:
        disk.must_take_files(plan.findings)
    packed = [_packed(d) for d in plan.domains]
    with stop_requests() as stop:
        executor = executor or WatchedExecutor(
            len(plan.domains), plan.hang_seconds, _open_all, (tuple(packed),)
        )
        campaign = _Campaign(plan, stop)
        try:
            campaign.spread(executor, [campaign.work(i, p) for i, p in enumerate(packed)], progress)
        finally:
            executor.shutdown(cancel_futures=True)
    return campaign.result


class _Campaign:
    """A campaign that runs, and what it has seen so far."""

    def __init__(self, plan: Plan, stop: StopRequest) -> None:
        self.plan = plan
        self.stop = stop
        self.findings = Findings()
        self.texts: dict[Path, str] = {}  # of the files that were not there before
        self.drafts: set[str] = set()  # files of findings that are being made smaller
        self.began: float | None = None  # when the first process was ready
        tallies = {d.name: Tally() for d in plan.domains}
        self.result = Result(plan.seed, len(plan.domains), tallies=tallies)

    def spread(
        self, executor: Executor, works: list[Work], progress: Callable[[Result], None]
    ) -> None:
        """Submit the calls of all works to an executor, one of each work at a time."""
        waiting: dict[Future[Any], Work] = {}
        try:
            for work in works:
                waiting[executor.submit(next(work))] = work
            while waiting and not self.over():
                done, _ = wait(waiting, timeout=0.25, return_when=FIRST_COMPLETED)
                for future in [f for f in waiting if f in done]:  # in the order of their calls
                    work = waiting.pop(future)
                    if (call := _resumed(work, future)) is not None:
                        waiting[executor.submit(call)] = work
                progress(self.result)
        finally:
            for work in works:  # what was being made smaller is kept as it is
                work.close()

    def over(self) -> bool:
        """Return whether the campaign is to end: by a signal, out of time, or enough was found."""
        r, plan = self.result, self.plan
        r.seconds = 0.0 if self.began is None else time.monotonic() - self.began
        r.stopped_by = self.stop.signal
        late = plan.seconds is not None and r.seconds >= plan.seconds
        return bool(self.stop.signal) or late or 0 < plan.stop_after <= len(r.groups)

    def work(self, slot: int, packed: bytes) -> Work:
        """Judge the cases of one process, and make those smaller that show a finding.

        A batch that ends its process is judged again, a case at a time.
        """
        yield _ready
        self.began = self.began or time.monotonic()
        plan, domain, step = self.plan, self.plan.domains[slot], len(self.plan.domains)
        index, batch = slot, domain.batch
        while plan.count is None or index < plan.count:
            end = index + batch * step if plan.count is None else plan.count
            outcomes = yield partial(judge_some, packed, plan.seed, range(index, end, step)[:batch])
            if isinstance(outcomes, WorkerDiedError):
                if batch > 1:
                    batch = 1
                    continue
                case = domain.draw(plan.seed, index)
                outcomes, batch = [_death(domain, case, outcomes)], domain.batch
            for o in outcomes:
                self.result.count(domain.name, o)
                if o.findings:
                    yield from self.shrink(domain, packed, domain.draw(plan.seed, index), o)
                index += step

    def shrink(self, domain: Domain[Any], packed: bytes, case: Any, o: Outcome) -> Work:
        """Make a case smaller for a while, and keep the smallest that shows the same cause.

        An unexpected error costs the shrinking alone, and is recorded with the finding.
        """
        best = _example(domain, case, o)
        draft = self.save(domain, best).file  # lest it be lost while it is made smaller
        self.drafts.add(draft)
        began, sought = time.monotonic(), cause(best.finding)
        try:
            for share, shrinker in domain.shrinkers(best.finding):
                steps, end = shrinker(best.case), began + share * self.plan.shrink_seconds
                smaller = next(steps, None)
                while smaller is not None and time.monotonic() <= end:
                    answer = yield partial(judge_one, packed, smaller)
                    dead = isinstance(answer, WorkerDiedError)
                    o = _death(domain, smaller, answer) if dead else answer
                    shows = bool(o.findings) and cause(o.findings[0]) == sought
                    if shows:
                        best = replace(_example(domain, smaller, o), unshrunk=best.unshrunk)
                    elif dead:
                        self.keep(self.save(domain, _example(domain, smaller, o)))
                    elif o.unexpected:
                        best = replace(best, unshrunk=o.unexpected)
                    smaller = _sent(steps, shows)
        except Exception as e:
            best = replace(best, unshrunk=f"{type(e).__name__}: {e}")
        finally:
            self.drafts.discard(draft)
            self.keep(self.save(domain, best))

    def keep(self, e: Example) -> None:
        """Add a finding, and group all anew; only the files of examples stay."""
        self.findings.add(e)
        self.result.groups = self.findings.groups()
        self.tidy()

    def save(self, domain: Domain[Any], e: Example) -> Example:
        """Return an example with its file, if files are written, and the command to replay it."""
        if self.plan.findings is None:
            return replace(e, replay=domain.replay(e.case, ""))
        f = e.finding
        level = re.sub(r"[^\w.-]", "-", f.level)
        digest = hashlib.sha256(repr(e.case).encode()).hexdigest()
        path = self.plan.findings / f"{level}-{f.kind}-{digest[:8]}.dym"
        lines = [f"{f.level} ({f.kind}) in {f.where}: {f.message}"]
        if e.unshrunk:
            lines.append(f"could not be shrunk: {e.unshrunk}")
        if path in self.texts or not path.exists():
            self.texts[path] = domain.text(e.case, "\n".join(lines), self.plan.seed)
            disk.write_text(path, self.texts[path])
        return replace(e, file=str(path), replay=domain.replay(e.case, str(path)))

    def tidy(self) -> None:
        """Write the files of examples that are missing; delete those that no example needs.

        A file that was there before the campaign stays as it is.
        """
        needed = {e.file for e in self.result.findings} | self.drafts
        for path, text in self.texts.items():
            if str(path) not in needed:
                path.unlink(missing_ok=True)
            elif not path.exists():
                disk.write_text(path, text)


def _resumed(work: Work, future: Future[Any]) -> Call | None:
    """Send a work the answer to its call, or the death of its process; return its next call."""
    try:
        answer = future.result()
    except WorkerDiedError as e:
        answer = e
    return _sent(work, answer)


def _sent(generator: Generator[T, Any, None], value: object) -> T | None:
    """Send a generator a value; return what it yields next, None if it has ended."""
    try:
        return generator.send(value)
    except StopIteration:
        return None


def _example(domain: Domain[Any], case: Any, o: Outcome) -> Example:
    return Example(
        case, o.findings[0], o.traits, domain.size(case), domain.name, others=o.findings[1:]
    )


def _death(domain: Domain[Any], case: object, e: WorkerDiedError) -> Outcome:
    """Return the death of a process as the outcome of its case."""
    return Outcome((domain.failure(case, e.kind, e.reason),))


# ---- what processes call

BATCH_SECONDS = 0.1  # so that a slow machine, too, reports in time


def judge_some(packed: bytes, seed: int, indices: range) -> list[Outcome]:
    """Draw and judge cases of a domain, until one shows a finding or ``BATCH_SECONDS`` are over."""
    domain, judge = _opened(packed)
    outcomes: list[Outcome] = []
    end = time.monotonic() + BATCH_SECONDS
    for i in indices:
        began = time.process_time()
        o = _judged(domain, judge, domain.draw(seed, i))
        outcomes.append(replace(o, seconds=time.process_time() - began))
        if o.findings or time.monotonic() > end:
            break
    return outcomes


def judge_one(packed: bytes, case: object) -> Outcome:
    """Judge a case of a domain."""
    return _judged(*_opened(packed), case)


def _judged(domain: Domain[Any], judge: Judge[Any], case: object) -> Outcome:
    """Judge a case; an error that no level expects is a finding, too."""
    try:
        return judge(case)
    except Exception as e:
        message = f"{type(e).__name__}: {e}"
        return Outcome((domain.failure(case, "error", message),), unexpected=message)


def _ready() -> None:
    """Do nothing: the answer says that the process is ready."""


def _open_all(packed: tuple[bytes, ...]) -> None:
    for p in packed:
        _opened(p)


@lru_cache(maxsize=16)
def _opened(packed: bytes) -> tuple[Domain[Any], Judge[Any]]:
    """Return a pickled domain and its judge, which keeps engines open from case to case."""
    try:
        domain: Domain[Any] = pickle.loads(packed)
    except DidymaError:
        raise
    except Exception as e:
        raise _untransferable(e) from None
    return domain, domain.judge()


def _packed(domain: Domain[Any]) -> bytes:
    try:
        return pickle.dumps(domain)
    except Exception as e:
        raise _untransferable(e) from None


def _untransferable(e: Exception) -> DidymaError:
    """Return the error that says that a domain cannot be sent to another process."""
    return DidymaError(
        "bad-option", "engines and planner of a campaign",
        got=f"an object that another process cannot load: {type(e).__name__}: {e}",
        want="objects that pickle takes, of classes of a module",
        help="register it by an entry point, and give its name instead",
    )  # fmt: skip
