"""What a run about mutants keeps of a toy, and how mutants are planted and taken back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from didyma.codegen.emit import names
from didyma.fuzz import distilled
from didyma.fuzz.distilled import Member
from didyma.fuzz.domains.domain import Domain, Judge, Outcome
from didyma.oracle.report import Finding
from tests.mutants import sources
from tests.mutants.distil import results
from tests.mutants.grow import Growth, wanted
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.planting import functions
from tests.mutants.pool import Pool, Recipe, Want
from tests.mutants.swapping import planted, swaps

FILE = ROOT / "codegen/emit/names.py"
NAMES = {"a b": "a_b", "c": "c", "a._b": "a_b", "9": "v9", "": "v"}
WORDS = tuple(NAMES)


@dataclass(frozen=True)
class Words(Domain[int]):
    """A toy, whose cases are words that a function of the compiler makes names of."""

    @property
    def name(self) -> str:
        return "words"

    def draw(self, seed: int, index: int) -> int:
        return (seed + index) % len(WORDS)

    def judge(self) -> Judge[int]:
        def judged(case: int) -> Outcome:
            wrong = names.sanitise(WORDS[case]) != NAMES[WORDS[case]]
            return Outcome((Finding("name", "", "value", "wrong"),) if wrong else ())

        return judged


def mutant(new: str) -> Mutant:
    """Return the first mutant of the function with a new text."""
    every = (m for m in sources.of_file(FILE) if m.site.scope == "sanitise")
    return next(m for m in every if m.site.new == new)


def grown(folder: Path, members: Sequence[int], news: Sequence[str]) -> Growth:
    """Return a run that hunted some mutants of a function, from members of few words."""
    wants, numbers = wanted([mutant(new) for new in news], 1)
    g = Growth(Pool({"words": Words()}), folder, numbers, time.monotonic() + 60, 2.0, 1)
    g.record([("words", Member({"seed": i, "index": 0}, "", ms=0.1)) for i in members])
    g.hunt(wants)
    return g


def test_a_member_that_shows_a_mutant_is_found(tmp_path: Path) -> None:
    g = grown(tmp_path, range(len(WORDS)), ["False"])
    ((_, row),) = results(tmp_path).items()
    assert (row["outcome"], row["domain"]) == ("killed", "words")
    assert g.pool.members[row["key"]][1].facts["seed"] == WORDS.index("a._b")
    assert not (tmp_path / "words.txt").exists(), "it is a member already"


def test_a_case_that_is_drawn_becomes_a_member(tmp_path: Path) -> None:
    g = grown(tmp_path, [1], ["False", "(word and word[0].isascii())"])
    assert {row["outcome"] for row in results(tmp_path).values()} == {"killed"}
    kept = distilled.parse((tmp_path / "words.txt").read_text(encoding="utf-8"))
    shown = {WORDS[Words().draw(m.facts["seed"], m.facts["index"])] for m in kept}
    assert shown == {"a._b", "9"}
    assert all("emit/names.py: " in m.shows[0] for m in kept)
    assert {m.key for m in kept} < g.pool.members.keys()


def test_a_mutant_of_no_consequence_survives(tmp_path: Path) -> None:
    grown(tmp_path, range(len(WORDS)), ["(word and word[0].isalpha())"])
    assert [row["outcome"] for row in results(tmp_path).values()] == ["survived"]


def test_lines_that_a_case_is_first_to_execute_make_it_a_member(tmp_path: Path) -> None:
    _, numbers = wanted([mutant("False")], 1)
    g = Growth(Pool({"words": Words()}), tmp_path, numbers, time.monotonic() + 60, 2.0, 1)
    g.explore(0.01)
    assert g.pool.reach


def test_mutants_are_planted_and_taken_back() -> None:
    some = swaps(mutant("False"), functions())
    with planted(some):
        assert names.sanitise("a._b") == "a__b"
    assert names.sanitise("a._b") == "a_b"
    assert not swaps(replaced(mutant("False"), "while"), functions())


def replaced(m: Mutant, new: str) -> Mutant:
    return replace(m, site=replace(m.site, new=new))


def test_a_mutant_of_each_line_comes_first() -> None:
    wants, numbers = wanted(sources.of_file(FILE), 3)
    first = [w.line for w in wants[: len(numbers)]]
    assert sorted(first) == sorted(numbers.values())
    assert str(wants[0]).startswith("emit/names.py: ")


def test_an_input_is_tried_as_it_is_and_then_changed() -> None:
    pool = Pool({"emission": Words()})
    slow, quick = (Member({"seed": i, "index": 0}, "", ms=ms) for i, ms in enumerate((5.0, 1.0)))
    pool.add("emission", slow, [7])
    pool.add("emission", quick, [7])
    tried = pool.recipes(Want(mutant("False"), 7), 100.0)
    assert [*islice(tried, 2)] == [Recipe("emission", quick.key), Recipe("emission", slow.key)]
    assert not any(r.is_member for r in islice(tried, 20))
    assert not [*pool.recipes(Want(mutant("False"), 8), 100.0)]
