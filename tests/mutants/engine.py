"""The mutation engine: everything is imported once, and each mutant is hunted in a forked child.

Before the first mutant, the checks run without one for a while, and which lines of codegen each of
their cases executes is recorded.  A mutant meets the cases that execute its line first, and then
those that were not recorded.  Ordering by coverage and forking after imports are those of Python's
fastest mutation testers.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.mutants import checks as checking
from tests.mutants import (
    effects,
    equivalents,
    hunting,
    instructions,
    planting,
    reached,
    recording,
    unit_tests,
)  # fmt: skip
from tests.mutants.forking import Ended, Say, forked, limit_cpu
from tests.mutants.hunting import Queue
from tests.mutants.memory import page as memory
from tests.mutants.memory.fault import MOST
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.reached import Reached
from tests.mutants.state import State
from tests.mutants.target import Result, Target

ROUNDS = (
    120  # times that a drawn program is judged, on other values and sizes, for a mutant of its text
)
TEXT_CHECKS = (checking.on("graphs", "host"), checking.on("graphs", "simt"))
UNIT_TESTS = unit_tests.NAME
TESTED_LATE = 0.1  # of a mutant's time, before tests are run
PATIENCE = 600.0  # seconds that a child may say nothing, on a loaded machine
FEW = 8  # targets for which nothing is recorded
RECORDED = ROOT / "build" / "mutants"  # where records are kept, by a hash of the sources
TEXTS = 120  # drawn programs whose kernels are mutated


@dataclass(frozen=True, slots=True)
class HuntPlan:
    """How mutants are hunted: for ``seconds`` of processor time each, ``jobs`` at once.

    A case hangs once it has taken ``grace`` seconds more than the slowest without a mutant.
    Campaigns draw from ``seed``; that on ``host`` has ``programs`` graphs, others in proportion.
    What they execute is recorded for ``record`` seconds of processor time of each job.
    """

    seed: int = 0
    programs: int = 800
    seconds: float = 60.0
    jobs: int = 1
    grace: float = 10.0
    record: float = 40.0
    until: float = float("inf")  # on time.monotonic()


@dataclass(slots=True)
class Engine:
    """Hunts targets; ``progress`` is called with what is being done, how much, of how much.

    ``stopped`` says whether to stop early; ``suite`` makes the conformance suite by text.
    ``kills`` counts the mutants of a group that each check killed so far: in the next one of the
    group, the check with the most is first.
    """

    plan: HuntPlan
    progress: Callable[[str, int, int], None] = lambda text, done, of: None
    stopped: Callable[[], bool] = lambda: False
    suite: Callable[[], Sequence[Sequence[Any]]] = checking.suite
    texts_of_suite: Sequence[Sequence[Any]] = ()
    checks: tuple[checking.Check, ...] = ()
    reached: Reached = field(default_factory=Reached)
    planter: planting.Planter = field(default_factory=planting.Planter)
    kills: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    again: list[Target] = field(default_factory=list[Target])  # to be hunted without a wrong case

    def in_time(self) -> bool:
        """Return whether there is time left, and nobody stopped the run."""
        return time.monotonic() < self.plan.until and not self.stopped()

    def bounds(self) -> hunting.Bounds:
        """Return what a hunt is to know of the checks."""
        slowest = {**self.reached.slowest, UNIT_TESTS: 2 * unit_tests.SECONDS}
        return hunting.Bounds(
            self.plan.seconds, lambda check: slowest.get(check, 0.0) + self.plan.grace,
            self.reached.lost,
        )  # fmt: skip

    # ---- before the first mutant

    def measure(self, folder: Path | None = None, targets: int = FEW + 1) -> None:
        """Make the checks, and record what they execute, or go on with a folder's file of that.

        For ``FEW`` targets nothing is recorded: that takes longer than to judge every case.
        """
        planting.import_all()
        self.texts_of_suite = self.suite()
        self.checks = checking.checks(self.plan.seed, self.plan.programs, self.texts_of_suite)
        for ended in forked(["imports"], _note_imports, 1, idle=self.in_time):
            self.planter = planting.Planter(ended.said[0])
        recorded = [c for c in self.checks if c.name != UNIT_TESTS]
        sizes = {c.name: c.cases for c in recorded}
        self.reached = Reached(sizes)
        if targets <= FEW:
            return
        file = folder and folder / f"{reached.key(sys.version_info, sizes, self.plan.seed)}.json"
        self.reached = (file and Reached.load(file)) or self.reached
        before = self.reached.spent
        recording.record(
            self.reached, recorded, self.plan.record * self.plan.jobs, self.plan.jobs,
            self.in_time, partial(self.progress, "reach"),
        )  # fmt: skip
        if file and self.reached.spent > before:
            self.reached.save(file)

    def texts(self) -> list[checking.Text]:
        """Return the kernel texts of drawn programs."""
        step = 10
        works = [range(a, a + step) for a in range(0, TEXTS, step)]
        found: list[checking.Text] = []
        for ended in forked(
            works, partial(_draw, self.plan.seed), self.plan.jobs, idle=self.in_time
        ):
            found += [text for many in ended.said for text in many]
        return sorted(found)

    # ---- mutants

    def hunt(
        self,
        targets: Sequence[Target],
        entries: Sequence[equivalents.Entry],
        state: State,
        report: Callable[[Result], None] = lambda _: None,
    ) -> None:
        """Hunt the targets of which the state has no result, until the time is over."""
        rest = [t for t in targets if t.id not in state.results]
        rest.sort(key=lambda t: t.id)  # by chance, so that a part of a run speaks for all of it
        done = len(targets) - len(rest)
        self.progress("mutants", done, len(targets))
        work = partial(_hunt, self)
        self.kills.update((r.group, r.check) for r in state.results.values() if r.check)
        for t in [t for t in rest if t.stale]:
            rest.remove(t)
            state.keep(Result(t.id, t.group, t.name, "survived", reason=t.stale))
            done += 1
        for ended in forked(self._again(rest), work, self.plan.jobs, PATIENCE, self.in_time):
            r = self.result(ended)
            m = ended.work.mutant
            if not self._confirmed(ended):
                self.again.append(ended.work)
                continue
            if r.outcome != "killed" and m is not None:
                why = equivalents.reason(m, entries, r.outcome == "survived")
                if r.outcome == "identical":
                    why = "the bytecode is identical"
                r = replace(r, equivalent=bool(why), reason=why or r.reason)
            state.keep(r)
            report(r)
            self.kills[r.group, r.check] += r.outcome == "killed"
            done += 1
            self.progress("mutants", done, len(targets))

    def _again(self, targets: Sequence[Target]) -> Iterator[Target]:
        """Yield targets, and those that are to be hunted again before the next."""
        for t in targets:
            while self.again:
                yield self.again.pop()
            yield t
        while self.again:
            yield self.again.pop()

    def _confirmed(self, ended: Ended[Target]) -> bool:
        """Return whether the case that killed a mutant is right without it, so that it counts.

        That of a record is; another is judged again, and noted if it is wrong.
        """
        t = ended.work
        last: tuple[Any, ...] = ended.said[-1] if ended.said else ("",)
        if t.mutant is None or last[0] not in ("at", "killed") or last[1] == "import":
            return True
        name, index = str(last[1]), int(last[-1])
        noted = _noted(t.mutant, name)
        if index < 0 or index < self.reached.counts.get(noted, 0):
            return True
        for judged in forked([(name, index)], partial(_judge, self, t), 1, idle=self.in_time):
            wrong = judged.how or judged.said[-1]
            if wrong:
                self.reached.note_wrong(noted, index, wrong)
            return not wrong
        return False

    def explain(self, targets: Sequence[Target], state: State) -> None:
        """Record of each survivor whether it changes what is compiled, and how."""
        left = [
            t
            for t in targets
            if t.mutant is not None
            and t.id in state.results
            and state.results[t.id].outcome == "survived"
            and not state.results[t.id].effect
        ]
        for t, effect in effects.measure(self, left):
            state.keep(replace(state.results[t.id], effect=effect))
        for t in instructions.same(self, left):
            r = replace(state.results[t.id], equivalent=True, reason=instructions.REASON)
            state.keep(r)

    def cases(self, t: Target) -> dict[str, Queue]:
        """Return the cases worth judging, by check."""
        m = t.mutant
        if m is None:
            return {"memory faults": Queue(range(MOST))}
        if m.program >= 0:
            wrong = {name: self.reached.wrong.get(_noted(m, name), 0) for name in TEXT_CHECKS}
            return {
                n: Queue([i for i in range(ROUNDS) if not w >> i & 1]) for n, w in wrong.items()
            }
        found = self.reached.queues(m, self.planter.at_import(m))
        if t.engine:
            wanted = checking.of_levels(t.engine, t.levels)
            return {k: v for k, v in found.items() if k in wanted}
        near = unit_tests.of(m.file, m.site.scope)
        if tests := [i for i in near if not self.reached.is_wrong(UNIT_TESTS, i)]:
            known = any(q.known for q in found.values())
            found[UNIT_TESTS] = Queue(tests, late=known * TESTED_LATE * self.plan.seconds)
        return found

    def result(self, ended: Ended[Target]) -> Result:
        """Return what came of a target."""
        t, said = ended.work, ended.said
        m = t.mutant
        r = Result(
            t.id, t.group, t.name, "survived",
            file=m.file if m else "", line=m.line if m else 0, diff=m.diff if m else "",
        )  # fmt: skip
        if ended.how:
            at = next((s for s in reversed(said) if s[0] == "at"), ("at", "import", 0, 0.0, -1))
            how = "hang" if ended.how == "hang" else "crash"
            return replace(
                r, outcome="killed", check=at[1], how=how, programs=at[2], seconds=round(at[3], 3),
                message=ended.how,
            )  # fmt: skip
        last = said[-1]
        match last[0]:
            case "killed":
                _, name, programs, seconds, level, kind, message, _ = last
                r = replace(
                    r, outcome="killed", check=name, level=level, message=message[:300],
                    how=kind if kind in ("error", "lost") else "finding", programs=programs,
                    seconds=round(seconds, 3),
                )  # fmt: skip
                if t.levels and level not in t.levels:
                    r = replace(r, outcome="survived", reason=f"found at the level {level}, "
                                f"not {' or '.join(t.levels)}")  # fmt: skip
            case "survived":
                r = replace(r, outcome="survived" if last[4] else "unreached", programs=last[2],
                            seconds=round(last[3], 3), reached=last[4])  # fmt: skip
            case outcome:
                r = replace(r, outcome=outcome)
        return r


def _note_imports(_: str, say: Say) -> None:
    say(planting.called_at_import(planting.import_all))


def _draw(seed: int, programs: range, say: Say) -> None:
    say(checking.texts(seed, programs))


def _hunt(engine: Engine, t: Target, say: Say) -> None:
    """Hunt one target, in a child."""
    m, plan = t.mutant, engine.plan
    cases = engine.cases(t)
    if m is None:
        checks: Sequence[Any] = [_memory_fault(t, plan.seed)]
        hunting.hunt(checks, cases, engine.bounds(), say)
        return
    if planting.identical(m):
        say(("identical",))
        return
    if not any(q.known or q.others for q in cases.values()):
        say(("unreached",))
        return
    try:
        mark = engine.planter.plant(m)
        fresh = hunting.fresh("tests.mutants.checks")
    except Exception as e:
        say(("killed", "import", 0, 0.0, "import", "error", f"{type(e).__name__}: {e}", -1))
        return
    checks = _checks(engine, m, fresh)
    likely = sorted(checks, key=lambda c: -engine.kills[t.group, c.name])
    hunting.hunt(likely, cases, engine.bounds(), say, mark.take)


def _checks(engine: Engine, m: Mutant, module: Any) -> Any:
    """Return the checks of a mutant, by the module ``checks`` as it is now."""
    if m.program >= 0:
        return module.kernel_text(m.program, engine.plan.seed, ROUNDS)
    return module.checks(engine.plan.seed, engine.plan.programs, engine.texts_of_suite)


def _noted(m: Mutant, check: str) -> str:
    """Return under which name it is noted that a case of a mutant's check is wrong without it."""
    return check if m.program < 0 else f"{check}, {m.file}"


def _judge(engine: Engine, t: Target, case: tuple[str, int], say: Say) -> None:
    """Judge one case without any mutant, in a child; say what is wrong with it."""
    assert t.mutant is not None
    name, index = case
    check = next(c for c in _checks(engine, t.mutant, checking) if c.name == name)
    limit_cpu(engine.bounds().limit(name))
    found = check.open()(index)
    say("" if found is None or isinstance(found, frozenset) else ": ".join(found))


def _memory_fault(t: Target, seed: int) -> checking.Check:
    """Return the check that plants a fault of memory planning in random programs."""
    fault = memory.faults()[t.memory]

    def judge(index: int) -> checking.Verdict | None:
        found = fault.kill(seed + 1 + index)
        return (found[0].check, "finding", found[0].message) if found else None

    return checking.Check("memory faults", MOST, lambda: judge)
