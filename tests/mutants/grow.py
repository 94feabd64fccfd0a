"""Grow the corpus of campaigns by mutants: for each one, find a program that shows it.

    python -m tests.mutants.grow build/grown --seconds 500 --jobs 30
    python -m tests.mutants.distil keep --add build/grown

The lines of the compiler that each member of the corpus executes are recorded first
(``tests/mutants/reach.py``).  Then children take mutants of the compiler in turn, of lines that
members execute, a mutant of each line before the second of any.  They judge with the mutant the
members that execute its line, and then changes of these members (``fuzz/distilled.py``) and cases
that are drawn, until one shows it or its processor time is spent.  A case that shows it, and is
right without it, becomes a member, and mutants after it are judged by it as well.

Members are appended to ``FOLDER/DOMAIN.txt``, and to ``FOLDER/mutants.jsonl`` what became of each
mutant, so a run that is stopped goes on from there.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count, cycle, islice
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypeAlias

import typer

from didyma.fuzz import distilled, worker
from didyma.fuzz.distilled import Member
from didyma.fuzz.domains import registry
from tests.mutants import sources
from tests.mutants.distil import RESULTS, read, results
from tests.mutants.forking import Ended, Say, forked, limit_cpu
from tests.mutants.mutant import Mutant
from tests.mutants.planting import functions, import_all
from tests.mutants.pool import Pool, Recipe, Want
from tests.mutants.reach import Line, Lines
from tests.mutants.reached import executable
from tests.mutants.swapping import find_caches, forget_results, planted, swaps

GROUPS = ("passes", "lower", "schedule", "order", "memory", "emit")
TURN = 4.0  # seconds of processor time after which a child hands back what it has not come to
BATCH = 24  # mutants of a child, at most
REPLAYS = 0.5  # of a mutant's time, in which members are judged by it before changes of them
HANG = 8.0  # times the processor time that a case takes, and some, is a hang
WARM = 6  # members of each domain that are judged before children are forked
EXPLORED = 5 << 32  # the first seed of cases that are drawn to execute new lines
DONE = ("killed", "identical")  # outcomes after which a mutant is not hunted again
# Operators whose mutants come after others of the same line: they are seldom what people slip in.
LATE = ("swapped arguments", "constant", "arithmetic", "comparison", "return value")


Kept: TypeAlias = tuple[str, Sequence[int]]  # the text of a member, and the lines it executes
Said: TypeAlias = tuple[str, Recipe | None, Kept | None]  # an outcome, and what shows the mutant


@dataclass(slots=True)
class Growth:
    """A run that grows the corpus until a time of the clock, with ``each`` second of a mutant."""

    pool: Pool
    folder: Path
    numbers: Mapping[Line, int]
    end: float
    each: float
    jobs: int
    outcomes: Counter[str] = field(default_factory=Counter[str])
    told: float = 0.0

    def running(self) -> bool:
        """Return whether there is time left."""
        return time.monotonic() < self.end

    # ---- what members execute

    def record(self, some: Sequence[tuple[str, Member]]) -> None:
        """Take the members that are right, with the lines that they execute."""
        parts = [some[i :: 4 * self.jobs] for i in range(min(4 * self.jobs, len(some)))]
        for ended in forked(parts, self._record, self.jobs, idle=self.running):
            for (domain, m), lines in zip(ended.work, ended.said, strict=False):
                if lines is not None:
                    self.pool.add(domain, m, lines)

    def _record(self, some: Sequence[tuple[str, Member]], say: Say) -> None:
        lines = Lines(("codegen",))
        for domain, m in some:
            say(self._traced(lines, domain, m.case(self.pool.domains[domain]))[0])

    def explore(self, seconds: float) -> None:
        """Draw cases for some seconds of processor time of each job; take those of new lines."""
        turn = min(seconds, TURN)
        turns = islice(cycle(self.pool.domains), int(self.jobs * seconds / (turn or 1.0)))
        work = partial(self._explore, turn)
        for ended in forked(enumerate(turns, EXPLORED), work, self.jobs, idle=self.running):
            for text, lines in ended.said:
                if any(line not in self.pool.reach for line in lines):
                    self.keep(ended.work[1], text, lines)

    def _explore(self, seconds: float, work: tuple[int, str], say: Say) -> None:
        seed, domain = work
        lines, reached = Lines(("codegen",)), set(self.pool.reach)
        end = time.process_time() + seconds
        for index in count():
            if time.process_time() > end:
                return
            case = self.pool.domains[domain].draw(seed, index)
            found, took = self._traced(lines, domain, case)
            if found is not None and not reached.issuperset(found):
                reached.update(found)
                say((self._text(domain, case, (seed, index), took), found))

    def _traced(self, lines: Lines, domain: str, case: Any) -> tuple[array[int] | None, float]:
        """Return the numbers of the lines of a case, None if it is wrong, and its seconds."""
        forget_results()
        opened = worker.Opened(self.pool.domains[domain])
        start = time.process_time()
        outcome, reached = lines.of(lambda: opened.judged(case))
        seconds = time.process_time() - start
        if outcome.findings:
            return None, seconds
        return array("i", (self.numbers[at] for at in reached if at in self.numbers)), seconds

    def _text(
        self, domain: str, case: Any, drawn: tuple[int, int], seconds: float, *shows: str
    ) -> str:
        made = distilled.member(self.pool.domains[domain], case, *drawn)
        ms = max(0.1, round(1000 * seconds, 1))
        return replace(made, shows=shows, many=max(1, len(shows)), ms=ms).text()

    def keep(self, domain: str, text: str, lines: Iterable[int]) -> Member:
        """Take a member from its text, and append it to the file of its domain."""
        (m,) = distilled.parse(text)
        self.pool.add(domain, m, lines)
        with (self.folder / f"{domain}.txt").open("a", encoding="utf-8") as f:
            f.write(text)
        return m

    # ---- mutants

    def hunt(self, wants: Sequence[Want]) -> None:
        """Judge mutants in children until all have been, or the time is over."""
        rest = deque(wants)
        while rest and self.running():
            for ended in forked(_batches(rest), self._hunt, self.jobs, 120.0, self.running):
                self._take(ended, rest)

    def _hunt(self, some: Sequence[Want], say: Say) -> None:
        """Hunt mutants in a child: say each case, and what became of each mutant."""
        start = time.process_time()
        lines = cache(lambda: Lines(("codegen",)))
        for want in some:
            say(self._one(want, say, lines))
            if time.process_time() - start > TURN:
                return

    def _one(self, want: Want, say: Say, lines: Callable[[], Lines]) -> Said:
        some = swaps(want.mutant, _functions())
        if not some:
            return "identical", None, None
        end = time.process_time() + self.each
        recipes = self.pool.recipes(want, REPLAYS * 1000 * self.each)
        found = want.suspect and (want.suspect, self.pool.case(want.suspect))
        while True:
            if found is not None:
                r, case = found
                if r.is_member:
                    return "killed", r, None
                reached, seconds = self._traced(lines(), r.domain, case)
                if reached is not None:
                    text = self._text(r.domain, case, r.drawn, seconds, str(want))
                    return "killed", r, (text, reached)
            with planted(some):
                found = self._shown(recipes, end, say)
            if found is None:
                return "survived", None, None

    def _shown(self, recipes: Iterator[Recipe], end: float, say: Say) -> tuple[Recipe, Any] | None:
        """Return the first case of which something is found; None if the time is over before."""
        opened = dict[str, worker.Opened]()
        for r in recipes:
            if time.process_time() > end:
                return None
            say(("at", r, None))
            if r.domain not in opened:
                opened[r.domain] = worker.Opened(self.pool.domains[r.domain])
            limit_cpu(1.0 + HANG * self.pool.ms(r.key) / 1000)
            try:
                case = self.pool.case(r)
            except Exception:
                continue  # of the drawing, which is not judged
            outcome = opened[r.domain].judged(case)
            limit_cpu(0.0)
            if outcome.findings:
                return r, case
        return None

    def _take(self, ended: Ended[Sequence[Want]], rest: deque[Want]) -> None:
        """Note what a child found, and give back the mutants that it did not come to."""
        came = [said for said in ended.said if said[0] != "at"]
        left = list(ended.work[len(came) :])
        for want, said in zip(ended.work, came, strict=False):
            self._note(want, *said)
        if ended.how and left:
            want, at = left[0], ended.said[-1][1] if ended.said else None
            if isinstance(at, Recipe) and at.is_member:
                self._note(left.pop(0), "killed", at, None)
            elif isinstance(at, Recipe) and want.suspect is None:
                left[0] = replace(want, suspect=at)
            else:
                self._note(left.pop(0), "survived", None, None)
        rest.extendleft(reversed(left))
        if time.monotonic() > self.told + 20.0:
            self.told = time.monotonic()
            print(f"{len(rest)} left, {dict(self.outcomes)}", flush=True)

    def _note(self, want: Want, outcome: str, r: Recipe | None, kept: Kept | None) -> None:
        key = r.key if r else ""
        if r and kept:
            key = self.keep(r.domain, *kept).key
        self.pool.kills[key] += 1
        self.outcomes[outcome + " anew" * (kept is not None)] += 1
        row = {"mutant": want.mutant.id, "what": str(want), "outcome": outcome}
        if r:
            row |= {"domain": r.domain, "key": key}
        with (self.folder / RESULTS).open("a", encoding="utf-8") as f:
            f.write(f"{json.dumps(row)}\n")


@cache
def _functions() -> Mapping[Any, Any]:
    return functions()


def _batches(rest: deque[Want]) -> Iterator[Sequence[Want]]:
    while rest:
        yield [rest.popleft() for _ in range(min(BATCH, len(rest)))]


def wanted(mutants: Iterable[Mutant], seed: int) -> tuple[list[Want], dict[Line, int]]:
    """Return mutants in the order in which they are hunted, and the numbers of their lines."""
    chance = Random(seed)
    numbers = dict[Line, int]()
    lines = dict[int, list[Want]]()
    for m in mutants:
        number = numbers.setdefault((m.file, executable(m)), len(numbers))
        lines.setdefault(number, []).append(Want(m, number))
    ranked = list[tuple[int, float, Want]]()
    for some in lines.values():
        chance.shuffle(some)
        some.sort(key=lambda w: w.mutant.site.operator in LATE)
        ranked += ((rank, chance.random(), w) for rank, w in enumerate(some))
    return [w for *_, w in sorted(ranked, key=lambda r: r[:2])], numbers


def main(
    folder: Path,
    seconds: Annotated[float, typer.Option(help="Seconds of the run.")] = 60.0,
    jobs: int = 1,
    each: Annotated[float, typer.Option(help="Processor time of a mutant, in seconds.")] = 3.0,
    explored: Annotated[float, typer.Option(help="Seconds in which cases are drawn first.")] = 0.0,
    seed: int = 1,
    domain: Annotated[
        list[str] | None, typer.Option(help="A domain; all if none is given.")
    ] = None,
    start: Annotated[
        list[Path] | None, typer.Option(help="A folder of what was grown before.")
    ] = None,
    about: Annotated[
        list[str] | None, typer.Option(help="Words in the files that are mutated.")
    ] = None,
) -> None:
    """Look for programs that show mutants, and append them to the files of a folder."""
    sys.setrecursionlimit(20_000)
    end = time.monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    import_all()
    domains = {d.name: d for d in registry.make(registry.Setup(("host", "simt")), domain or ())}
    before = {k: row for place in (*(start or ()), folder) for k, row in results(place).items()}
    every = (
        m for m in sources.every()
        if m.reach_line and m.group in GROUPS and any(name in m.file for name in about or ("",))
    )  # fmt: skip
    wants, numbers = wanted(every, seed)
    wants = [w for w in wants if before.get(w.mutant.id, {}).get("outcome") not in DONE]
    wants.sort(key=lambda w: w.mutant.id in before)
    g = Growth(Pool(domains), folder, numbers, end, each, jobs)
    _functions()
    for d in domains.values():
        opened = worker.Opened(d)
        for m in islice(distilled.members(d.name).values(), WARM):
            opened.judged(m.case(d))
    find_caches()
    forget_results()
    gc.collect()
    gc.freeze()
    members = {
        m.key: (d.name, m)
        for place in (distilled.FILES, *(start or ()), folder)
        for d in domains.values()
        for m in read(d, place)
    }
    g.record(list(members.values()))
    g.explore(explored)
    g.pool.kills.update(row["key"] for row in before.values() if row.get("key"))
    print(f"{len(g.pool.members)} members, {len(g.pool.reach)} of {len(numbers)} lines, "
          f"{len(wants)} mutants, {end - time.monotonic():.0f} s left", flush=True)  # fmt: skip
    g.hunt([w for w in wants if w.line in g.pool.reach])
    print(f"{dict(g.outcomes)}, {len(g.pool.members)} members")


if __name__ == "__main__":
    typer.run(main)
