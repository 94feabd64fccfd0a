"""The mutation engine: everything is imported once, and each mutant is hunted in a forked child.

Before the first mutant, the checks run without one, and which lines of codegen each of their cases
executes is recorded.  A mutant then meets only cases that execute its line.  Ordering by coverage
and forking after imports are those of Python's fastest mutation testers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.mutants import checks as checking
from tests.mutants import effects, equivalents, hunting, planting, reached
from tests.mutants.forking import Ended, Say, forked
from tests.mutants.memory import page as memory
from tests.mutants.memory.fault import MOST
from tests.mutants.reached import Reached
from tests.mutants.state import State
from tests.mutants.target import Result, Target

ROUNDS = (
    12  # times that a drawn program is judged, on other values and sizes, for a mutant of its text
)
TEXT_CHECKS = (checking.on("graphs", "host"), checking.on("graphs", "simt"))
FEW = 8  # targets that meet every case of every check
TEXTS = 120  # drawn programs whose kernels are mutated


@dataclass(frozen=True, slots=True)
class HuntPlan:
    """How mutants are hunted: for ``seconds`` of processor time each, ``jobs`` at once.

    A case hangs once it has taken ``grace`` seconds more than the slowest without a mutant.
    Campaigns draw from ``seed``; that on ``host`` has ``programs`` graphs, others in proportion.
    """

    seed: int = 0
    programs: int = 800
    seconds: float = 60.0
    jobs: int = 1
    grace: float = 10.0
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

    def in_time(self) -> bool:
        """Return whether there is time left, and nobody stopped the run."""
        return time.monotonic() < self.plan.until and not self.stopped()

    def bounds(self) -> hunting.Bounds:
        """Return what a hunt is to know of the checks."""
        slowest, grace = self.reached.slowest, self.plan.grace
        return hunting.Bounds(
            self.plan.seconds, lambda check: slowest.get(check, 0.0) + grace, self.reached.lost
        )

    # ---- before the first mutant

    def measure(self, file: Path | None = None, targets: int = FEW + 1) -> None:
        """Make the checks, and record what they execute, or read that from a file that has it.

        For ``FEW`` targets nothing is recorded: that takes longer than to judge every case.
        """
        planting.import_all()
        self.texts_of_suite = self.suite()
        self.checks = checking.checks(self.plan.seed, self.plan.programs, self.texts_of_suite)
        for ended in forked(["imports"], _note_imports, 1, idle=self.in_time):
            self.planter = planting.Planter(ended.said[0])
        if targets <= FEW:
            self.reached = Reached(counts={c.name: c.cases for c in self.checks})
            return
        key = reached.key(self.plan.seed, self.plan.programs)
        known = Reached.load(file, key) if file else None
        if known is None:
            known = reached.measure(
                self.checks, self.plan.jobs, self.in_time, partial(self.progress, "reach")
            )
            if not self.in_time():
                return
            if file:
                known.save(file, key)
        self.reached = known

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
        for ended in forked(rest, work, self.plan.jobs, 100.0, self.in_time):
            r = self.result(ended)
            m = ended.work.mutant
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

    def explain(self, targets: Sequence[Target], state: State) -> None:
        """Record of each survivor whether it changes what is compiled."""
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

    def cases(self, t: Target) -> dict[str, list[int]]:
        """Return the cases worth judging, by check."""
        m = t.mutant
        if m is None:
            return {"memory faults": list(range(MOST))}
        if m.program >= 0:
            return {name: list(range(ROUNDS)) for name in TEXT_CHECKS}
        if m.file.startswith("codegen/"):
            found = self.reached.cases(m, self.planter.at_import(m))
        else:
            found = {c.name: list(range(c.cases)) for c in self.checks}
        wanted = checking.of_levels(t.engine)
        return {k: v for k, v in found.items() if not t.engine or k in wanted}

    def result(self, ended: Ended[Target]) -> Result:
        """Return what came of a target."""
        t, said = ended.work, ended.said
        m = t.mutant
        r = Result(
            t.id, t.group, t.name, "survived",
            file=m.file if m else "", line=m.line if m else 0, diff=m.diff if m else "",
            reached=sum(map(len, self.cases(t).values())),
        )  # fmt: skip
        if ended.how:
            at = next((s for s in reversed(said) if s[0] == "at"), ("at", "import", 0, 0.0))
            how = "hang" if ended.how == "hang" else "crash"
            return replace(
                r, outcome="killed", check=at[1], how=how, programs=at[2], seconds=round(at[3], 3),
                message=ended.how,
            )  # fmt: skip
        last = said[-1]
        match last[0]:
            case "killed":
                _, name, programs, seconds, level, kind, message = last
                r = replace(
                    r, outcome="killed", check=name, level=level, message=message[:300],
                    how=kind if kind in ("error", "lost") else "finding", programs=programs,
                    seconds=round(seconds, 3),
                )  # fmt: skip
                if t.levels and level not in t.levels:
                    r = replace(r, outcome="survived", reason=f"found at the level {level}, "
                                f"not {' or '.join(t.levels)}")  # fmt: skip
            case "survived":
                r = replace(r, programs=last[2], seconds=round(last[3], 3))
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
    if not any(cases.values()):
        say(("unreached",))
        return
    try:
        engine.planter.plant(m)
        fresh = hunting.fresh("tests.mutants.checks")
    except Exception as e:
        say(("killed", "import", 0, 0.0, "import", "error", f"{type(e).__name__}: {e}"))
        return
    if m.program >= 0:
        checks = fresh.kernel_text(m.program, plan.seed, ROUNDS)
    else:
        checks = fresh.checks(plan.seed, plan.programs, engine.texts_of_suite)
    likely = sorted(checks, key=lambda c: -engine.kills[t.group, c.name])
    hunting.hunt(likely, cases, engine.bounds(), say)


def _memory_fault(t: Target, seed: int) -> checking.Check:
    """Return the check that plants a fault of memory planning in random programs."""
    fault = memory.faults()[t.memory]

    def judge(index: int) -> checking.Verdict | None:
        found = fault.kill(seed + 1 + index)
        return (found[0].check, "finding", found[0].message) if found else None

    return checking.Check("memory faults", MOST, lambda: judge)
