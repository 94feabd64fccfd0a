"""Random schedules of random functions: legal steps change nothing, and refused ones are forced.

    python -m tests.bench.schedules --count 10000 --refused 10000 [--docs]

Schedules are judged on the interpreter and on ``host``.  A step that a dependence forbids is taken
all the same, and its result compared by the interpreter, which reports races and reads of what
nothing wrote, too.  The run goes on until there are as many schedules and forced steps as asked.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import get_context
from statistics import median
from time import process_time

from didyma.codegen.runtime.registry import engine
from didyma.codegen.schedule.steps.records import reassociates
from didyma.codegen.schedule.steps.text import FORMS, step_name
from didyma.fuzz.schedules.cases import Case, draw
from didyma.fuzz.schedules.judge import Judged, judge
from didyma.refimpl.ir.loop import Fold as FoldStatement
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.walk import stmts
from tests.bench.page import ROOT, commit, put, table

PAGE = ROOT / "docs" / "schedules.md"
SECTION = "tests.bench.schedules"
CHUNK = 125  # schedules that a process judges at once


@dataclass(slots=True)
class Tally:
    """What came of some schedules: steps taken, refused by code, and forced, each by kind."""

    steps: list[int] = field(default_factory=list[int])
    loose: int = 0
    elements: int = 0
    taken: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    forced: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    traits: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        """The number of forced steps."""
        return sum(self.forced.values())

    def join(self, other: Tally) -> None:
        """Add what came of other schedules."""
        self.steps += other.steps
        self.wrong += other.wrong
        self.loose += other.loose
        self.elements += other.elements
        self.seconds += other.seconds
        self.taken += other.taken
        self.refused += other.refused
        self.forced += other.forced
        self.traits += other.traits

    def add(self, index: int, case: Case, found: Judged) -> None:
        """Count a case."""
        self.steps.append(len(case.schedule))
        self.loose += any(map(reassociates, case.schedule))
        self.elements += found.total
        self.taken.update(map(step_name, case.schedule))
        self.refused.update(step_name(r.step) for r in case.refused)
        self.forced.update((step_name(r.step), came) for r, came in found.forced)
        self.traits.update(traits(case))
        self.wrong += [f"case {index}: {f}" for f in found.findings[:1]]


def traits(case: Case) -> Iterator[str]:
    """Yield what a function has."""
    f = case.subject.func
    yield "a lowered graph" if case.subject.module is not None else "a drawn loop nest"
    yield from kinds(f)


def kinds(f: PrimFunc) -> set[str]:
    """Return the kinds of statements of a function that schedules meet, and what else it has."""
    body = stmts(f.body)
    folds = [s for s in body if isinstance(s, FoldStatement)]
    names = {
        "For": "loops", "If": "conditions", "While": "`while`", "Let": "`let`",
        "Call": "calls", "Allocate": "buffers of its own", "Atomic": "atomic updates",
    }  # fmt: skip
    found = {names[n] for s in body if (n := type(s).__name__) in names}
    found |= {"folds with one accumulator"} if any(len(s.accs) == 1 for s in folds) else set()
    found |= {"folds with several accumulators"} if any(len(s.accs) > 1 for s in folds) else set()
    found |= {"several folds, such as a row's"} if len(folds) > 1 else set()
    return found | ({"symbolic sizes"} if f.dims else set())


def judged(seed: int, part: range) -> Tally:
    """Judge the schedules of some indices."""
    tally, host = Tally(), [engine("host")]
    began = process_time()
    for index in part:
        case = draw(seed, index)
        tally.add(index, case, judge(case, host))
    tally.seconds = process_time() - began
    return tally


def run(seed: int, cases: int, refused: int, jobs: int) -> Tally:
    """Judge so many schedules, and more until so many refused steps are forced."""
    tally = Tally()
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for at in count(0, CHUNK * jobs):
            if len(tally.steps) >= cases and tally.tried >= refused:
                return tally
            parts = (range(a, a + CHUNK) for a in range(at, at + CHUNK * jobs, CHUNK))
            for done in pool.map(partial(judged, seed), parts):
                tally.join(done)
            print(
                f"{len(tally.steps)} schedules, {tally.tried} refused steps forced,"
                f" {len(tally.wrong)} wrong",
                file=sys.stderr, flush=True,
            )  # fmt: skip
    raise AssertionError("the indices have no end")


def lines(t: Tally, command: str) -> Iterator[str]:
    """Yield the tables of the page."""
    cases, differing = (
        len(t.steps),
        sum(n for (_, came), n in t.forced.items() if came == "differs"),
    )
    yield f"`{command}`, on `{commit()}`:"
    yield ""
    yield from table(
        ("schedules, on the interpreter and `host`", ""),
        [
            ("schedules", cases),
            ("steps of a schedule, median", f"{median(t.steps):g}"),
            ("schedules that reassociate", t.loose),
            ("elements compared", t.elements),
            ("wrong results", len(t.wrong)),
            ("steps refused", sum(t.refused.values())),
            ("of these forced", t.tried),
            ("forced steps with another result, or a fault", f"{differing / t.tried:.0%}"),
            ("schedules in a minute of processor time", f"{60 * cases / t.seconds:.0f}"),
        ],
    )
    yield ""
    yield from table(
        ("step", "taken", "refused", "forced", "differs"),
        [
            (f"`{n}`", t.taken[n], t.refused[n],
             t.forced[n, "differs"] + t.forced[n, "agrees"], t.forced[n, "differs"])
            for n in FORMS
        ],
    )  # fmt: skip
    yield ""
    yield from table(("functions with", "of " + str(cases)), t.traits.most_common())


def main() -> int:
    """Run the command; return 1 where a result is wrong."""
    p = argparse.ArgumentParser("python -m tests.bench.schedules", description=__doc__)
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--refused", type=int, default=0)
    p.add_argument("--seed", type=int, default=13)
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--docs", action="store_true", help="write the tables into docs/schedules.md")
    a = p.parse_args()
    tally = run(a.seed, a.count, a.refused, a.jobs)
    command = f"python -m tests.bench.schedules --count {a.count} --refused {a.refused}"
    page = list(lines(tally, command))
    print(*page, *tally.wrong, sep="\n")
    if a.docs:
        put(SECTION, page, PAGE)
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
