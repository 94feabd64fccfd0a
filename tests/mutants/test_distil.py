"""What a run keeps of a toy, and what the corpus keeps of several runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from didyma.fuzz import distilled, worker
from didyma.fuzz.distilled import Member
from didyma.fuzz.domains.domain import Domain, Judge, Outcome
from didyma.oracle.report import Finding
from tests.mutants.conditions import Counts, Term
from tests.mutants.directed import Written, missing
from tests.mutants.distil import ALONE, Reach, cover, ranked
from tests.mutants.test_conditions import instrumented

CALLS = ((1, 1, [2]), (1, 0, [2]), (1, 0, [2]), (0, 1, [2]), (1, 1, [2]))
WANT = ("all", "some", "some", "none", "all")


@dataclass(frozen=True)
class Calls(Domain[int]):
    """A toy, whose cases are calls of a function that a term may be dropped from."""

    called: Callable[..., str]

    @property
    def name(self) -> str:
        return "calls"

    def draw(self, seed: int, index: int) -> int:
        return (seed + index) % len(CALLS)

    def judge(self) -> Judge[int]:
        def judged(case: int) -> Outcome:
            wrong = self.called(*CALLS[case]) != WANT[case]
            return Outcome((Finding("call", "", "value", "wrong"),) if wrong else ())

        return judged


def test_what_kills_a_term_or_has_it_alone_is_kept(tmp_path: Path) -> None:
    counts, names = instrumented()
    r = Reach(counts, tmp_path, time.monotonic() + 60)
    opened = worker.Opened(Calls(names["fits"]))
    for index in range(len(CALLS)):
        r.take(opened, opened.domain.draw(0, index), 0, index)
    assert not r.wrong
    assert counts.dropped < 0, "terms are dropped in children"
    kept = distilled.parse((tmp_path / "calls.txt").read_text(encoding="utf-8"))
    assert [m.facts["index"] for m in kept] == [0, 1, 2, 3], "the last shows nothing new"
    assert "passes/x.py:5: False: b" in kept[1].shows
    assert not any(t.endswith(ALONE) for t in kept[2].shows), "nothing new but a second kill"


def test_a_run_about_other_files_keeps_nothing(tmp_path: Path) -> None:
    counts, names = instrumented()
    r = Reach(counts, tmp_path, time.monotonic() + 60, about=("y.py", "z"))
    opened = worker.Opened(Calls(names["fits"]))
    r.take(opened, 0, 0, 0)
    assert not [*tmp_path.iterdir()]
    assert r.asks("passes/y.py", "passes")
    assert not r.asks("passes/y.py", "emission")


def test_the_corpus_holds_what_shows_most_in_its_time() -> None:
    def made(ms: float, *shows: str) -> Member:
        return Member({"seed": ms, "index": 0}, "", shows, len(shows), ms)

    found: dict[tuple[str, str], Any] = {
        ("passes", "quick"): made(1.0, "a", "b"),
        ("passes", "slow"): made(9.0, "a", "b", "c"),
        ("passes", "again"): made(5.0, "a" + ALONE),
        ("graphs", "vain"): made(2.0, "a" + ALONE),
    }
    chosen = cover(found, 100.0, 10)
    assert [*chosen] == [("passes", "quick"), ("passes", "slow"), ("graphs", "vain")]
    assert [m.many for m in chosen.values()] == [2, 3, 1]
    assert [*cover(found, 5.0, 10)] == [("passes", "quick"), ("passes", "slow")]
    assert len(cover(found, 100.0, 1)) == 1


def test_a_rank_drops_members_that_show_only_what_two_others_do() -> None:
    def made(ms: float, *shows: str) -> Member:
        return Member({"seed": ms, "index": 0}, "", shows, 1, 50.0)

    term, mutant = "passes/a.py: False: x", "passes/a.py: constant: 1 -> 2, 4a0e"
    every = {
        ("passes", name): made(ms, shows)
        for name, ms, shows in (("a", 1.0, term), ("b", 2.0, term), ("c", 3.0, term),
                                ("d", 4.0, mutant), ("wrong", 5.0, term))
    }  # fmt: skip
    alone = {k: Member(m.facts, "", ("x",), 1, m.facts["seed"]) for k, m in every.items()}
    del alone["passes", "wrong"]
    left = ranked(every, alone, drop=True)
    assert [name for _, name in left] == ["a", "b", "d", "wrong"]
    assert [m.ms for m in left.values()] == [1.0, 2.0, 4.0, 50.0]
    assert len(ranked(every, alone, drop=False)) == len(every)


def test_terms_that_no_member_shows_are_listed_with_whether_they_decide() -> None:
    terms = [Term("passes/a.py", n, "x", True) for n in range(3)]
    reached = Written(Counts([*terms, Term("lower/b.py", 1, "x", True)]), Path(), 0.0)
    reached.about = ("passes/",)
    reached.kills[0], reached.decided = 1, {0, 2}
    assert [*missing(reached)] == [str(terms[1]), f"{terms[2]} decides"]
