"""Select the fastest right choice of a function: build, judge, time, pick.

Candidates are built, compiled and checked in child processes, several side by side, while one more
runs them on the engine and judges what they compute.  Those that are right are timed against each
other in one child alone.  A candidate that crashes or hangs a child is out, with the reason; the
others go on in a new child.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from threading import Event
from typing import Any, Protocol

from didyma.codegen.select import worker
from didyma.codegen.select.choice import Candidate, Choice, distinct, ranked
from didyma.codegen.select.worker import Checks, Judge, Say, Task
from didyma.refimpl.errors import DidymaError

CANDIDATES = 32  # of one function, at most
STARTS = 3  # children that may be lost before they begin, as on a machine that is very busy
UNBEGUN = ", before it began"
JUDGING = 0.6  # share of the time for judging; the rest is for timing


@dataclass(frozen=True, slots=True)
class Lost:
    """A child process gave no answer, or raised: the reason."""

    reason: str


class Isolate(Protocol):
    """Calls ``f(*args, say)`` in a child process that may crash, and hang for ``seconds``."""

    def __call__(
        self, f: Callable[..., Any], args: tuple[Any, ...], seconds: float, say: Say
    ) -> Any:
        """Return what the function returns, or why there is nothing: a ``Lost``."""
        ...


class Judged(Protocol):
    """Is called with the text of a choice and why it is out, or nothing where it is right."""

    def __call__(self, name: str, reason: str, lost: bool = False) -> None:
        """Note a verdict, or that a child was lost at the choice."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a selection may take: seconds in all, and until a candidate counts as hung.

    ``rest`` are the seconds for which nothing runs before each sample.  A GPU is then timed in a
    burst; without a rest it is timed under load, at which its clock may be lower.
    """

    seconds: float = 30.0
    timeout: float = 30.0
    candidates: int = CANDIDATES
    jobs: int = 1
    rest: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one candidate: ``reason`` says why it is out; else its median ``seconds``.

    ``text`` is the hash of its kernels' text.  A candidate that was judged right, but not timed for
    long, or at all, was too far behind or came too late.  With ``lost`` a child was lost at it,
    which may be the machine's fault.
    """

    choice: str
    text: str
    reason: str = ""
    seconds: float | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """All trials of a function, the usual choice first, and the choice that was picked.

    Those whose kernels nobody could build come last.
    """

    trials: tuple[Trial, ...]
    picked: Trial
    usual: Trial
    spent: float


def select(
    task: Task,
    judge: Judge,
    isolate: Isolate,
    limits: Limits,
    known: Mapping[str, str] | None = None,
    heard: Callable[[Trial], None] = lambda trial: None,
    checks: Checks | None = None,
) -> Selection:
    """Return the fastest right choice of a function, of as many as the limits allow.

    ``known`` are reasons by the hashes of texts that were judged before, empty ones for right
    texts.  ``heard`` is called with each trial that was judged now.  Only what passes both the
    ``judge`` and the ``checks`` is right.  The choice that the model ranks first is picked unless
    another is faster beyond noise.

    DidymaError ``no-valid-choices`` says why each candidate is out.
    """
    began = time.monotonic()
    choices = islice(ranked(task.loop, task.options, task.source), 2 * limits.candidates)
    refused: list[Trial] = []
    candidates = [*islice(distinct(_buildable(task, choices, refused)), limits.candidates)]
    texts = {str(c.choice): c.digest for c in candidates}
    reasons = {name: (known or {})[t] for name, t in texts.items() if t in (known or {})}
    todo = [c.choice for c in candidates if str(c.choice) not in reasons]

    lock = threading.Lock()

    def judged(name: str, reason: str, lost: bool = False) -> None:
        with lock:
            reasons[name] = reason
            heard(Trial(name, texts[name], reason, lost=lost))

    bench = _Children(task, judge, checks, isolate, limits, judged)
    bench.judge_all(todo, began + JUDGING * limits.seconds)
    right = [c.choice for c in candidates if reasons.get(str(c.choice)) == ""]
    out = {**{t.choice: t.reason for t in refused}, **reasons}
    if not right:
        raise _none(task, out)
    left = max(1.0, limits.seconds - (time.monotonic() - began))
    got = bench.time_all(right, left)
    if got is None:
        raise _none(task, {**out, **reasons})
    best, seconds = got
    trials = {
        name: Trial(name, text, reasons[name], seconds.get(name))
        for name, text in texts.items()
        if name in reasons
    }
    usual = trials[next(iter(seconds))]
    every = (*trials.values(), *refused)
    return Selection(every, trials[best], usual, time.monotonic() - began)


def _buildable(task: Task, choices: Iterable[Choice], refused: list[Trial]) -> Iterator[Candidate]:
    """Yield the candidates of the choices that keep the laws of the target, and list the others."""
    for choice in choices:
        try:
            yield task.build(choice)
        except DidymaError as e:
            refused.append(Trial(str(choice), "", " ".join(str(e).split()), lost=True))


def _none(task: Task, reasons: Mapping[str, str]) -> DidymaError:
    """Return the error that no choice is right, which tells each reason once."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    rows = [f"{' and '.join(row)}: {reason}" for reason, row in names.items()]
    help = "`didyma check` judges every level of the program" if rows else "give it more time"
    if any(reason.endswith(UNBEGUN) for reason in names):
        help = 'a script tunes under `if __name__ == "__main__":`, as its child processes import it'
    return DidymaError(
        "no-valid-choices", task.loop.name, got="; ".join(rows) or "no candidate within the time",
        want="at least one choice that is right", help=help,
    )  # fmt: skip


@dataclass(slots=True)
class _Both:
    """Passes on that a choice is wrong once, or that it is right when both judges have said so."""

    judged: Judged
    heard: dict[str, str] = field(default_factory=dict[str, str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, name: str, reason: str, lost: bool = False) -> None:
        with self.lock:
            before = self.heard.get(name)
            self.heard[name] = before or reason
        if before == "" or (before is None and reason):
            self.judged(name, reason, lost)


class _Stopped(Exception):
    """Ends a child whose work nobody waits for any more."""


@dataclass(frozen=True, slots=True)
class _Children:
    """Gives work to child processes, and takes out the candidates at which they were lost."""

    task: Task
    judge: Judge
    checks: Checks | None
    isolate: Isolate
    limits: Limits
    judged: Judged
    stopped: Event = field(default_factory=Event)

    def judge_all(self, choices: Sequence[Choice], end: float) -> None:
        """Judge choices in several children side by side, until a time of the monotonic clock.

        One child alone judges on the engine where others check meanwhile: it makes the bars once.
        """
        jobs = max(1, min(self.limits.jobs, len(choices)))
        shares = [choices[n::jobs] for n in range(jobs)]
        work: list[Callable[[], None]]
        if self.checks is None:
            examine = partial(self._judge_share, worker.examine, self.judge)
            work = [partial(examine, x, end, self.judged) for x in shares]
        else:
            judged = _Both(self.judged)
            check = partial(self._judge_share, worker.check, self.checks)
            work = [partial(self._judge_share, worker.examine, self.judge, choices, end, judged)]
            work += [partial(check, x, end, judged) for x in shares]
        with ThreadPoolExecutor(len(work)) as pool:
            try:
                for done in [pool.submit(f) for f in work]:
                    done.result()
            except BaseException:  # Ctrl-C among them: the children end at their next word
                self.stopped.set()
                raise

    def _judge_share(
        self,
        f: Callable[..., None],
        judge: Any,
        share: Sequence[Choice],
        end: float,
        judged: Judged,
    ) -> None:
        """Judge a share of the choices in a child, and in others after those that are lost."""
        done: set[str] = set()
        starts = STARTS
        while left := [c for c in share if str(c) not in done]:
            begun: list[str] = []

            def say(message: str, begun: list[str] = begun) -> None:
                if self.stopped.is_set():
                    raise _Stopped
                row = json.loads(message)
                if "begin" in row:
                    begun.append(row["begin"])
                else:
                    done.add(row["choice"])
                    judged(row["choice"], row["reason"])

            seconds = max(0.0, end - time.monotonic())
            args = (self.task, judge, left, seconds)
            got = self.isolate(f, args, self.limits.timeout, say)
            if not isinstance(got, Lost):
                return  # all are judged, or the time is over
            starts -= not begun
            blamed = begun[-1:] if begun else [] if starts else [str(c) for c in left]
            for name in blamed:
                done.add(name)
                judged(name, got.reason + ("" if begun else UNBEGUN), lost=True)

    def time_all(
        self, choices: Sequence[Choice], seconds: float
    ) -> tuple[str, dict[str, float]] | None:
        """Time choices in one child, the first being the usual one.

        Returns the pick and the seconds of each; None if every choice loses its child.
        """
        left, starts = list(choices), STARTS
        while left:
            begun: list[str] = []

            def say(message: str, begun: list[str] = begun) -> None:
                begun.append(json.loads(message)["begin"])

            args = (self.task, left, seconds, self.limits.rest)
            got: Any = self.isolate(worker.measure, args, self.limits.timeout, say)
            if not isinstance(got, Lost):
                timed: tuple[str, dict[str, float]] = got
                return timed
            starts -= not begun
            blamed = begun[-1:] if begun else [] if starts else [str(c) for c in left]
            for name in blamed:
                self.judged(name, got.reason, lost=True)
            left = [c for c in left if str(c) not in blamed]
        return None
