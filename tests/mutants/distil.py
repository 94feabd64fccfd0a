"""Distil the corpus of campaigns: reach many conditions in long runs, and keep few programs.

    python -m tests.mutants.distil reach build/reached.1 --seconds 3600 --seed 1 --domain passes
    python -m tests.mutants.distil keep build/reached.1 build/reached.2

``reach`` judges drawn cases of some domains, and changes of those that it has kept
(``fuzz/distilled.py``).  Of each case it notes the terms of conditions that alone decide there
(``tests/mutants/conditions.py``), and in a child it judges the case by a compiler without each of
these terms that few cases have killed so far.  It keeps a case that kills a term or has one alone
which no case before it had, and changes it further, as fuzzers do that are guided by coverage (M.
Zalewski, "american fuzzy lop", 2014).  Programs are appended to ``FOLDER/DOMAIN.txt`` as they are
found, so a run that is stopped keeps what it has, and goes on from there.

``keep`` writes the corpus anew, or with ``--add`` adds to it: of the programs of folders those that
together show all that they show, the ones first that show most in the time that they take.
``counters`` keeps the counters of members as they are now (``fuzz/counters.py``), ``rank`` orders
them by the terms that decide alone in them, and ``trim`` drops those that show least in their
time.  To reach more than the corpus does, let a run start from it: ``--start
fuzz/corpus/distilled``.  A run
``--about`` some files asks for their terms alone, and so comes to more cases.  ``keep`` takes what
``tests/mutants/grow.py`` found of mutants, too.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Annotated, Any

import typer

from didyma.fuzz import distilled, worker
from didyma.fuzz.chooser import Dice
from didyma.fuzz.counters import Counters, needs_more, unlike
from didyma.fuzz.distilled import Member
from didyma.fuzz.domains import registry
from didyma.fuzz.domains.domain import Domain
from tests.mutants.conditions import FOLDERS, Counts, count
from tests.mutants.forking import Say, forked, limit_cpu
from tests.mutants.planting import Planter, import_all
from tests.mutants.swapping import find_caches, forget_results

TWICE = 2  # members that kill each term, of different programs
TRIES = 8  # of a term that a domain does not kill, after which it is tried ever more seldom
HANG = 8.0  # times the processor time that a case takes, and some, is a hang
LONGEST = 2.0  # seconds that are always one
SLOWEST = 400.0  # milliseconds of a member that the corpus may hold
# Folders of the compiler that the judge of a domain looks at; where none are named, all.
JUDGED: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "passes": ("passes",), "lowering": ("lower", "schedule"), "emission": ("emit",),
        "indices": ("lower", "schedule"), "schedules": ("schedule", "emit"),
        "forms": ("schedule", "emit"), "programs": ("order", "memory", "emit"),
        "planners": ("memory", "emit"), "foreign": ("emit",),
    }
)  # fmt: skip
RESULTS = "mutants.jsonl"  # what became of mutants, in folders of runs about these
SHOWN = 4  # terms that the corpus names for each member
_TERM = re.compile(r"\.py(:\d+)?(: (True|False): |$)")  # in what is shown of terms, or of a file
ALONE = " decides"  # after a term that decides alone in a member which does not kill it

app = typer.Typer(add_completion=False)


def judges(domain: str, folder: str) -> bool:
    """Return whether the judge of a domain looks at what a folder or file of the compiler makes."""
    return folder not in FOLDERS or folder in JUDGED.get(domain, FOLDERS)


@dataclass(slots=True)
class Reach:
    """A run that looks for cases until a time of the clock, and what it has seen."""

    counts: Counts
    folder: Path
    end: float
    part: tuple[int, int] = (0, 1)  # of the terms: those that this run drops
    about: Sequence[str] = ("",)  # what the files of these terms have in their names
    kills: Counter[int] = field(default_factory=Counter[int])
    decided: set[int] = field(default_factory=set[int])
    seen: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    parents: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    wrong: int = 0

    def asks(self, file: str, domain: str) -> bool:
        """Return whether terms of a file are asked for in a domain."""
        return judges(domain, file.split("/")[0]) and any(name in file for name in self.about)

    def due(self, domain: str, number: int) -> bool:
        """Return whether a term that decides alone in a case of a domain is to be dropped there."""
        if self.kills[number] >= TWICE or number % self.part[1] != self.part[0]:
            return False
        self.seen[domain, number] += 1
        times = self.seen[domain, number]
        return times <= TRIES or times & (times - 1) == 0

    def begin(self, opened: Iterable[worker.Opened], folders: Sequence[Path]) -> None:
        """Take over what files of folders hold; cases of another compiler are judged again."""
        names = {str(t): n for n, t in enumerate(self.counts.terms)}
        for o, folder in itertools.product(opened, folders):
            for m in read(o.domain, folder):
                case, terms = m.case(o.domain), {t.removesuffix(ALONE) for t in m.shows}
                if terms <= names.keys():
                    self.parents.setdefault(o.domain.name, []).append(case)
                    self.kills.update(names[t] for t in m.shows if t in names)
                    self.decided.update(names[t] for t in terms)
                elif time.monotonic() < self.end:
                    self.counts.next_case()
                    self.take(o, case, m.facts.get("seed", 0), m.facts.get("index", 0))

    def take(self, opened: worker.Opened, case: Any, seed: int, index: int) -> None:
        """Judge a case; keep it if it shows something new."""
        domain = opened.domain
        start = time.process_time()
        outcome = opened.judged(case)
        ms = max(0.1, round(1000 * (time.process_time() - start), 1))
        terms = self.counts.terms
        alone = {n for n in self.counts.next_case() if self.asks(terms[n].file, domain.name)}
        if outcome.findings:
            self.wrong += 1
            print(f"wrong: {domain.name} {seed} {index}: {outcome.findings[0]}"[:300], flush=True)
            return
        due = [n for n in alone if self.due(domain.name, n)]
        seconds = min(LONGEST, 0.4 + HANG * ms / 1000)
        killed = self.killed(opened, case, due, seconds, outcome.counters)
        new = alone - self.decided
        if not killed and not new:
            return
        self.decided |= alone
        self.kills.update(killed)
        shows = [str(terms[n]) for n in killed] + [str(terms[n]) + ALONE for n in new - killed]
        kept = distilled.member(domain, case, seed, index)
        kept = replace(kept, shows=tuple(shows), many=len(shows), ms=ms, counters=outcome.counters)
        self.parents.setdefault(domain.name, []).append(case)
        with (self.folder / f"{domain.name}.txt").open("a", encoding="utf-8") as f:
            f.write(kept.text())

    def killed(
        self,
        opened: worker.Opened,
        case: Any,
        due: Sequence[int],
        seconds: float,
        counters: Counters,
    ) -> frozenset[int]:
        """Return the terms without which a case has a finding, a crash, a hang or other counters.

        A hang takes more than so many seconds of processor time.
        """
        rest, found = list(due), set[int]()
        remembers = opened.domain.name == "graphs"  # which does not compile a module twice

        def work(some: Sequence[int], say: Say) -> None:
            for number in itertools.takewhile(lambda _: time.monotonic() < self.end, some):
                self.counts.dropped = number
                forget_results()
                limit_cpu(seconds)
                again = worker.Opened(opened.domain) if remembers else opened
                o = again.judged(case)
                say((number, bool(o.findings or unlike(o.counters, counters))))

        while rest and time.monotonic() < self.end:
            (ended,) = forked([tuple(rest)], work, 1, patience=120.0)
            found.update(number for number, is_found in ended.said if is_found)
            rest = rest[len(ended.said) :]
            if ended.how:
                found.add(rest.pop(0))
        return frozenset(found)


def _cases(r: Reach, domain: Domain[Any], seed: int) -> Iterator[tuple[Any, int]]:
    """Yield cases without end: half of them drawn, half of them changed."""
    chance = Random(f"{seed} {domain.name}")
    for index in itertools.count():
        parents = r.parents.get(domain.name, ())
        if not parents or chance.random() < 0.5:
            yield domain.draw(seed, index), index
        else:
            recent = parents[-64:] if chance.random() < 0.5 else parents
            c = Dice(chance.getrandbits(64))
            yield distilled.changed(chance.choice(recent), domain, c, (seed, index)), index


@app.command()
def reach(
    folder: Path,
    seconds: Annotated[float, typer.Option(help="Seconds of the run.")] = 60.0,
    seed: int = 1,
    domain: Annotated[
        list[str] | None, typer.Option(help="A domain; all if none is given.")
    ] = None,
    part: Annotated[str, typer.Option(help="Drop one term in so many: 2/5 is the third.")] = "0/1",
    start: Annotated[
        list[Path] | None, typer.Option(help="A folder of what was reached before.")
    ] = None,
    about: Annotated[
        list[str] | None, typer.Option(help="Files of the compiler; all if none is named.")
    ] = None,
) -> None:
    """Look for cases that show something new, and append them to the files of a folder."""
    sys.setrecursionlimit(20_000)
    end = time.monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    import_all()
    counts = Counts()
    count(counts, Planter(), FOLDERS)
    first, of = map(int, part.split("/"))
    r = Reach(counts, folder, end, (first, of), about or ("",))
    domains = registry.make(registry.Setup(("host", "simt")), domain or ())
    opened = {d.name: worker.Opened(d) for d in domains}
    find_caches()
    gc.collect()
    gc.freeze()
    r.begin(opened.values(), [*(start or ()), folder])
    drawn = {d.name: _cases(r, d, seed) for d in domains}
    spent, cases = dict.fromkeys(opened, 0.0), Counter[str]()
    while time.monotonic() < end:
        name = min(spent, key=lambda n: spent[n])
        began = time.monotonic()
        try:
            case, index = next(drawn[name])
        except Exception as e:
            print(f"not drawn: {name} {seed}: {type(e).__name__}: {e}"[:300], flush=True)
            drawn[name] = _cases(r, opened[name].domain, seed + 1000)
            continue
        counts.alone.clear()
        r.take(opened[name], case, seed, index)
        cases[name] += 1
        spent[name] += time.monotonic() - began
    killed = sum(n > 0 for n in r.kills.values())
    kept = sum(map(len, r.parents.values()))
    print(
        f"{len(counts.terms)} terms, {len(r.decided)} decided, {killed} killed, {kept} kept, "
        f"{r.wrong} wrong, cases {dict(cases)}"
    )


@app.command()
def keep(
    folders: list[Path],
    seconds: Annotated[float, typer.Option(help="Seconds that the corpus may take.")] = 40.0,
    most: Annotated[int, typer.Option(help="Members that are chosen.")] = 1500,
    add: Annotated[bool, typer.Option(help="Let what the corpus holds stay as it is.")] = False,
) -> None:
    """Write the corpus anew, of what folders hold, or add to it what they show."""
    found: dict[tuple[str, str], Member] = {}
    shown = [row for folder in folders for row in results(folder).values() if row.get("key")]
    domains = registry.make(registry.Setup(("host", "simt")))
    for d, folder in itertools.product(domains, folders):
        for m in read(d, folder):
            there = found.get((d.name, m.key), m)
            shows = tuple(dict.fromkeys((*there.shows, *m.shows)))
            found[d.name, m.key] = replace(there, shows=shows)
    for row in shown:
        key = row["domain"], row["key"]
        if key in found and row["what"] not in found[key].shows:
            found[key] = replace(found[key], shows=(*found[key].shows, row["what"]))
    more = Counter((row["domain"], row["key"]) for row in shown)
    opened = {d.name: worker.Opened(d) for d in domains}
    agree = {k: again for k, m in found.items() if m.shows and (again := timed(opened[k[0]], m))}
    chosen = cover(agree, 1000 * seconds, most)
    distilled.FILES.mkdir(exist_ok=True)
    for d in domains:
        held = [
            replace(m, many=m.many + more[d.name, m.key])
            for m in read(d, distilled.FILES)
            if add and (d.name, m.key) not in chosen
        ]
        kept = [*held, *(brief(m) for k, m in chosen.items() if k[0] == d.name)]
        _write(d.name, kept)
        print(f"{d.name}: {len(kept)} of {sum(m.ms for m in kept) / 1000:.1f} s")


def _write(domain: str, members: Sequence[Member]) -> None:
    """Write the members of a domain; one without any has no file."""
    path = distilled.FILES / f"{domain}.txt"
    if members:
        path.write_text("".join(m.text() for m in members), encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


@app.command()
def counters(
    domain: Annotated[
        list[str] | None, typer.Option(help="A domain; all if none is given.")
    ] = None,
) -> None:
    """Keep the counters of members as they are now, after a change of the compiler on purpose.

    A member that cannot be compiled any more keeps those that it has, and is named; the exit code
    is 1 then.
    """
    lost = False
    for d in registry.make(registry.Setup(("host", "simt")), domain or ()):
        opened = worker.Opened(d)
        every = read(d, distilled.FILES)
        found = [opened.judged(m.case(d)).counters for m in every]
        now = [replace(m, counters=x or m.counters) for m, x in zip(every, found, strict=True)]
        _write(d.name, now)
        risen = sum(needs_more(b.counters, a.counters) for a, b in zip(every, now, strict=True))
        fallen = sum(needs_more(a.counters, b.counters) for a, b in zip(every, now, strict=True))
        print(f"{d.name}: of {len(now)} members {risen} need more and {fallen} less")
        for m in (m for m, x in zip(every, found, strict=True) if m.counters and not x):
            print(f"{d.name}: {m.key} has no counters any more: judge it with `didyma fuzz`")
            lost = True
    raise typer.Exit(int(lost))


@app.command()
def rank(
    drop: Annotated[
        bool, typer.Option("--drop", help="Drop members that show only what two others do.")
    ] = False,
) -> None:
    """Order members anew: those first that have most terms decide alone in their time.

    The first of a term counts whole, the second a third.
    """
    sys.setrecursionlimit(20_000)
    names = {d.name: d for d in registry.make(registry.Setup(("host", "simt")))}
    every = {(n, m.key): m for n, d in names.items() for m in read(d, distilled.FILES)}
    opened = {n: worker.Opened(d) for n, d in names.items()}
    agree = {k: again for k, m in every.items() if (again := timed(opened[k[0]], m))}
    import_all()
    counts = Counts()
    count(counts, Planter(), FOLDERS)
    alone = dict[tuple[str, str], tuple[str, ...]]()
    for k, m in agree.items():
        counts.next_case()
        opened[k[0]].judged(m.case(names[k[0]]))
        alone[k] = tuple(map(str, counts.next_case()))
    found = ranked(every, {k: replace(m, shows=alone[k]) for k, m in agree.items()}, drop=drop)
    for name in names:
        some = [m for k, m in found.items() if k[0] == name]
        _write(name, some)
        print(f"{name}: {len(some)} of {sum(m.ms for m in some) / 1000:.1f} s")


def ranked(
    every: Mapping[tuple[str, str], Member],
    alone: Mapping[tuple[str, str], Member],
    *,
    drop: bool,
) -> dict[tuple[str, str], Member]:
    """Return members with the time that they take, and how many terms decide alone in them first.

    ``alone`` has those that agree, which show the terms that decide alone there.  With ``drop``
    those of them are left out in which no term does that does not in two others, but those that
    show more than terms.
    """
    chosen = cover(alone, float("inf"), len(alone))
    return {
        k: replace(m, ms=alone.get(k, m).ms, many=len(chosen[k].shows) if k in chosen else 1)
        for k, m in every.items()
        if not drop or k in chosen or k not in alone or not all(map(_TERM.search, m.shows))
    }


@app.command()
def trim(
    seconds: Annotated[float, typer.Option(help="Seconds that the corpus may take.")] = 24.0,
) -> None:
    """Drop the members that show least in their time until the others fit."""
    names = [d.name for d in registry.make(registry.Setup(("host", "simt")))]
    every = [(n, m) for n in names for m in distilled.members(n).values()]
    ranked = sorted(every, key=lambda x: x[1].cost)
    total = itertools.accumulate(m.ms / 1000 for _, m in ranked)
    kept = {(n, m.key) for (n, m), spent in zip(ranked, total, strict=True) if spent <= seconds}
    for name in names:
        some = [m for n, m in every if n == name and (name, m.key) in kept]
        _write(name, some)
        print(f"{name}: {len(some)} of {sum(m.ms for m in some) / 1000:.1f} s")


def cover(
    found: Mapping[tuple[str, str], Member], most_ms: float, most: int
) -> dict[tuple[str, str], Member]:
    """Return the members that together show most in their time, each with what it adds."""
    shown, chosen, ms = Counter[str](), dict[tuple[str, str], Member](), 0.0
    heap = [(-sum(map(_worth, m.shows)) / m.ms, key) for key, m in found.items()]
    heapq.heapify(heap)
    while heap and ms < most_ms and len(chosen) < most:
        _, key = heapq.heappop(heap)
        m = found[key]
        new = tuple(t for t in m.shows if shown[t] < (1 if t.endswith(ALONE) else TWICE))
        rate = sum(_worth(t, shown[t]) for t in new) / m.ms
        if heap and rate < -heap[0][0]:
            if rate:
                heapq.heappush(heap, (-rate, key))
        elif rate:
            shown.update(new)
            ms += m.ms
            chosen[key] = replace(m, shows=new, many=len(new))
    print(f"{len(shown)} shown of {len({t for m in found.values() for t in m.shows})}")
    return chosen


def _worth(term: str, times: int = 0) -> float:
    return 0.2 if term.endswith(ALONE) else 1.0 if not times else 0.3


def timed(opened: worker.Opened, m: Member) -> Member | None:
    """Return a member with the time that it takes; None if it is wrong as it is, or too slow."""
    case = m.case(opened.domain)
    start = time.process_time()
    o = opened.judged(case)
    ms = max(0.1, round(1000 * (time.process_time() - start), 1))
    return None if o.findings or ms > SLOWEST else replace(m, ms=ms, counters=o.counters)


def brief(m: Member) -> Member:
    """Return a member that names few of the terms that it shows, without their lines."""
    return replace(m, shows=tuple(re.sub(r"(\.py):\d+", r"\1", t) for t in m.shows[:SHOWN]))


def results(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return what became of mutants in a folder that ``tests/mutants/grow.py`` wrote, by id."""
    path = folder / RESULTS
    rows = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    return {row["mutant"]: row for row in map(json.loads, rows)}


def read(domain: Domain[Any], folder: Path) -> Sequence[Member]:
    """Return the members for a domain that a folder holds."""
    path = folder / f"{domain.name}.txt"
    return distilled.parse(path.read_text(encoding="utf-8")) if path.exists() else ()


if __name__ == "__main__":
    app()
