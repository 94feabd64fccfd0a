"""A campaign: cases of some domains, judged in watched processes until a deadline."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from didyma.codegen.runtime import disk
from didyma.fuzz import distilled, worker
from didyma.fuzz.distilled import Member
from didyma.fuzz.domains.domain import Domain, Outcome
from didyma.fuzz.executor import WatchedExecutor, WorkerDiedError, WorkerStartError
from didyma.fuzz.files import Files
from didyma.fuzz.groups import Example, Findings, cause
from didyma.fuzz.minimise.search import search
from didyma.fuzz.result import Result, Tally
from didyma.fuzz.seeds import fresh_seed
from didyma.fuzz.shares import Shares
from didyma.fuzz.signals import StopRequest, stop_requests
from didyma.fuzz.steering.meter import Meter, Wish
from didyma.fuzz.worker import BATCH_CASES, Batch, Undrawn

T = TypeVar("T")

CHANGED = 3  # of so many cases, one is a kept one that was changed
EARLY = 0.7  # of a campaign's time, in which kept cases come before those of all domains
KEPT_CASES = 16  # of a domain that are judged before one of another domain may be

Call: TypeAlias = Callable[[], Any]
Work: TypeAlias = Generator[Call, Any, None]  # yields calls, and is sent what they return


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign does: for some seconds, or so many cases, whichever comes first.

    ``jobs`` processes take turns at the cases of each domain: process ``i`` of ``n`` judges the
    cases ``i``, ``i + n``, … of the seed, which is drawn if none is given.  So the same plan with
    the same seed judges the same cases of a domain, as many as it has time for; how the domains
    share the time depends on what they find (``fuzz/shares.py``), but for the ``shares`` of those
    that are given one.  Each domain begins at its case ``first``, and ends before case ``count``.
    A domain that can be asked for particular pieces is asked for those that it covered least
    (``fuzz/steering/meter.py``); with several processes what these are depends on the order in
    which they report.  Unless it is ``metered``, each case is asked for ``wishes``, or for nothing.
    With ``kept`` the distilled corpus is judged first (``fuzz/distilled.py``), at most for 70 % of
    the time, and one in ``CHANGED`` of a domain's cases after it is a kept one that was changed.

    A case that takes ``hang_seconds`` is a finding; a finding is made smaller for
    ``shrink_seconds``.  With ``stop_after`` the campaign ends after so many groups of findings.
    ``findings`` is the folder that files are written to.  ``lines`` asks which lines of the
    compiler ran.
    """

    domains: tuple[Domain[Any], ...]
    seconds: float | None = None
    count: int | None = None
    seed: int = field(default_factory=fresh_seed)
    first: int = 0
    jobs: int = 1
    hang_seconds: float = 30.0
    shrink_seconds: float = 15.0
    stop_after: int = 0
    findings: Path | None = None
    shares: Mapping[str, float] = field(default_factory=dict[str, float])
    lines: bool = False
    metered: bool = True
    wishes: tuple[Wish, ...] | None = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """What a case is drawn from, beside the seed: its index, and the wishes of a meter, if any."""

    index: int
    wishes: tuple[Wish, ...] | None


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
    packed = tuple(worker.packed(d) for d in plan.domains)
    with stop_requests() as stop:
        executor = executor or WatchedExecutor(
            plan.jobs, plan.hang_seconds, worker.open_all, (packed, plan.lines)
        )
        campaign = _Campaign(plan, packed, stop)
        try:
            campaign.spread(executor, progress)
        finally:
            executor.shutdown(cancel_futures=True)
            worker.close_all()  # of an executor that makes its calls in this process
    return campaign.result


class _Campaign:
    """A campaign that runs, and what it has seen so far."""

    def __init__(self, plan: Plan, packed: tuple[bytes, ...], stop: StopRequest) -> None:
        self.plan = plan
        self.stop = stop
        self.domains = {d.name: d for d in plan.domains}
        self.packed = dict(zip(self.domains, packed, strict=True))
        self.shares = Shares({d.name: d.floor for d in plan.domains}, plan.shares)
        self.meters = {
            d.name: Meter(wanted, plan.seed, d.free)
            for d in plan.domains
            if plan.metered and (wanted := d.wanted())
        }
        self.kept = {
            d.name: deque(distilled.members(d.name).values()) if plan.kept else deque[Member]()
            for d in plan.domains
        }
        self.findings = Findings()
        self.files = Files(plan.findings, plan.seed)
        self.began: float | None = None  # when the first process was ready
        self.result = Result(plan.seed, plan.jobs, tallies={name: Tally() for name in self.domains})

    def spread(self, executor: Executor, progress: Callable[[Result], None]) -> None:
        """Submit the calls of all processes to an executor, one of each at a time.

        A process that cannot be started costs the campaign that process alone; the last one ends
        it, with what it has found.
        """
        works = [self.work(slot) for slot in range(self.plan.jobs)]
        waiting: dict[Future[Any], Work] = {}
        try:
            for work in works:
                waiting[executor.submit(next(work))] = work
            while waiting and not self.over():
                done, _ = wait(waiting, timeout=0.25, return_when=FIRST_COMPLETED)
                for future in [f for f in waiting if f in done]:  # in the order of their calls
                    work = waiting.pop(future)
                    if isinstance(future.exception(), WorkerStartError):
                        self.lose(work, future)
                    elif (call := _resumed(work, future)) is not None:
                        waiting[executor.submit(call)] = work
                progress(self.result)
        finally:
            for work in works:  # what was being made smaller is kept as it is
                work.close()

    def lose(self, work: Work, future: Future[Any]) -> None:
        """Go on without a process; raise what ended it if no case was judged and none is left."""
        work.close()
        self.result.lost += 1
        if self.result.lost == self.plan.jobs and not self.result.cases:
            future.result()

    def over(self) -> bool:
        """Return whether the campaign is to end: by a signal, out of time, or enough was found."""
        r, plan = self.result, self.plan
        r.seconds = 0.0 if self.began is None else time.monotonic() - self.began
        r.stopped_by = self.stop.signal
        r.shares = self.shares.record()
        late = plan.seconds is not None and r.seconds >= plan.seconds
        return bool(self.stop.signal) or late or 0 < plan.stop_after <= len(r.groups)

    def work(self, slot: int) -> Work:
        """Judge the cases of one process, a turn of a domain at a time."""
        yield worker.ready
        self.began = self.began or time.monotonic()
        at = dict.fromkeys(self.domains, self.plan.first + slot)
        while open := [d for d in at if self.plan.count is None or at[d] < self.plan.count]:
            ahead = [d for d in open if self.kept[d]] if self.early() else []
            if ahead:
                self.shares.begin(name := min(ahead, key=self.cost))
            else:
                name = self.shares.next(open)
            at[name] += self.plan.jobs * (yield from self.turn(name, at[name]))

    def turn(self, name: str, index: int) -> Generator[Call, Any, int]:
        """Judge some cases of a domain, the first by its index; return how many.

        Cases that end their process are judged again, one by one, each of them in a call of its
        own, up to the one that ends it again.
        """
        cases = self.next_cases(name, index)
        batch = yield from self.judged(name, cases)
        if batch is not None:
            self.shares.done(name, batch.cpu, batch.fresh)
            self.give_back(name, cases[batch.cases :])
            return batch.cases
        self.shares.done(name, 0.0, 0.0)
        for count, origin in enumerate(cases, 1):
            if (yield from self.judged(name, [origin], alone=True)) is None:
                self.give_back(name, cases[count:])
                return count
        self.result.deaths += 1
        return len(cases)

    def early(self) -> bool:
        """Return whether kept cases are judged before any other domain has its share."""
        seconds, began = self.plan.seconds, self.began
        return seconds is None or began is None or time.monotonic() - began < EARLY * seconds

    def cost(self, name: str) -> float:
        """Return what the next kept case of a domain costs, in milliseconds for what it shows."""
        return self.kept[name][0].cost

    def next_cases(self, name: str, first: int) -> Sequence[Origin]:
        """Return the next cases of one process, by their indices and what is wished for."""
        plan, cases = self.plan, list[Origin]()
        for wish in self.kept_next(name) or self.wished(name, first):
            cases.append(Origin(first + len(cases) * plan.jobs, wish))
        inside = [o for o in cases if plan.count is None or o.index < plan.count]
        self.give_back(name, cases[len(inside) :])
        return inside

    def kept_next(self, name: str) -> Sequence[tuple[Wish, ...]]:
        """Return wishes for the next kept cases of a domain that have not been judged."""
        kept = self.kept[name]
        some = [kept.popleft() for _ in range(min(len(kept), KEPT_CASES))]
        return [((distilled.KEPT, m.key),) for m in some]

    def wished(self, name: str, first: int) -> Iterator[tuple[Wish, ...] | None]:
        """Yield what a meter wishes for, with changes of kept cases in between."""
        plan, meter = self.plan, self.meters.get(name)
        turn = first // plan.jobs
        for wish in [plan.wishes] * BATCH_CASES if meter is None else meter.take(BATCH_CASES):
            if distilled.members(name) and plan.kept and turn % CHANGED == 0:
                yield ((distilled.NEAR,),)
                turn += 1
            yield wish
            turn += 1

    def give_back(self, name: str, cases: Sequence[Origin]) -> None:
        """Take back the wishes of cases that were not drawn."""
        wishes = [o.wishes for o in cases if o.wishes is not None]
        kept = [w[0][1] for w in wishes if w and w[0][0] == distilled.KEPT]
        self.kept[name].extendleft(distilled.members(name)[key] for key in reversed(kept))
        if name in self.meters:
            self.meters[name].give_back([w for w in wishes if not distilled.is_wish(w)])

    def judged(
        self, name: str, cases: Sequence[Origin], alone: bool = False
    ) -> Generator[Call, Any, Batch | None]:
        """Judge cases of a domain up to one with a finding, and make that one smaller.

        Return None if they ended their process; of a case that is judged ``alone`` that is a
        finding.
        """
        step = self.plan.jobs
        indices = range(cases[0].index, cases[0].index + len(cases) * step, step)
        wishes = [o.wishes for o in cases]
        answer = yield partial(
            worker.judge_some, self.packed[name], self.plan.seed, indices, self.plan.lines, wishes,
        )  # fmt: skip
        tally = self.result.tallies[name]
        if isinstance(answer, WorkerDiedError):
            if alone:
                tally.cases += 1
                domain, (origin,) = self.domains[name], cases
                case = worker.drawn(domain, self.plan.seed, origin.index, origin.wishes)
                domain, o = yield from self.explained(domain, case, answer)
                yield from self.shrink(origin, domain, case, o)
            return None
        batch: Batch = answer
        tally.add(batch)
        if name in self.meters:
            self.meters[name].see(batch.covered)
        self.result.reached |= batch.reached
        if batch.found is not None:
            found, o = batch.found
            yield from self.shrink(cases[batch.cases - 1], self.domains[name], found, o)
        return batch

    def explained(
        self, domain: Domain[Any], case: Any, e: WorkerDiedError
    ) -> Generator[Call, Any, tuple[Domain[Any], Outcome]]:
        """Judge what ended a process without its engines; return what found something, and what."""
        death, safe = _death(domain, case, e), domain.without_engines()
        if safe is not None:
            answer = yield partial(worker.judge_one, worker.packed(safe), case)
            if not isinstance(answer, WorkerDiedError) and answer.findings:
                return safe, replace(answer, findings=(*answer.findings, *death.findings))
        return domain, death

    def shrink(self, origin: Origin, domain: Domain[Any], case: Any, o: Outcome) -> Work:
        """Make a case smaller for a while, and keep the smallest that shows the same cause.

        An unexpected error costs the shrinking alone, and is recorded with the finding.
        """
        packed = worker.packed(domain)
        if isinstance(case, Undrawn):
            self.keep(domain, _example(domain, origin, case, o))
            return
        best = self.draft(domain, _example(domain, origin, case, o))
        sought = cause(best.finding)
        try:
            shrinkers = domain.shrinkers(best.finding)
            steps = search(best.case, shrinkers, self.plan.shrink_seconds)
            smaller = next(steps, None)
            while smaller is not None:
                answer = yield partial(worker.judge_one, packed, smaller)
                self.result.tried += 1
                dead = isinstance(answer, WorkerDiedError)
                o = answer
                if dead:
                    _, o = yield from self.explained(domain, smaller, answer)
                shows = bool(o.findings) and cause(o.findings[0]) == sought
                if shows:
                    found = replace(_example(domain, origin, smaller, o), unshrunk=best.unshrunk)
                    best = self.draft(domain, found, instead=best)
                elif dead:
                    self.keep(domain, _example(domain, origin, smaller, o))
                elif o.unexpected:
                    best = replace(best, unshrunk=o.unexpected)
                smaller = _sent(steps, shows)
        except Exception as e:
            best = replace(best, unshrunk=f"{type(e).__name__}: {e}")
        finally:
            self.files.drafts.discard(best.file)
            self.keep(domain, best)

    def draft(self, domain: Domain[Any], e: Example, instead: Example | None = None) -> Example:
        """Save a finding that is being made smaller, lest it be lost, instead of a larger one."""
        e = self.result.draft = self.files.save(domain, e)
        self.files.drafts.add(e.file)
        if instead is not None and instead.file != e.file:
            self.files.drafts.discard(instead.file)
            self.files.tidy(self.result.findings)
        return e

    def keep(self, domain: Domain[Any], e: Example) -> None:
        """Add a finding, and group all anew; only the files of examples stay."""
        self.findings.add(self.files.save(domain, e))
        self.result.groups = self.findings.groups()
        self.files.tidy(self.result.findings)


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


def _example(domain: Domain[Any], origin: Origin, case: Any, o: Outcome) -> Example:
    size = (0,) if isinstance(case, Undrawn) else domain.size(case)
    return Example(
        case, o.findings[0], o.traits, size, domain.name,
        others=o.findings[1:], index=origin.index, wishes=origin.wishes,
    )  # fmt: skip


def _death(domain: Domain[Any], case: object, e: WorkerDiedError) -> Outcome:
    """Return the death of a process as the outcome of its case."""
    return Outcome((domain.failure(case, e.kind, e.reason),))
