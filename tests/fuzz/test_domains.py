"""One engine runs campaigns on any domain: a toy shows what a domain must have."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.domain import Domain, Judge, Outcome, Shrinker
from didyma.fuzz.domains.graphs import TEMPLATED, TEMPLATES, Graphs
from didyma.fuzz.domains.plans import Plans
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.minimise.search import greedy
from didyma.fuzz.records import record
from didyma.oracle.report import Finding
from didyma.refimpl.ir.graph import CONTROL
from didyma.refimpl.ir.kernel import ClaimedKernel


def blamed(case: int) -> Outcome:
    """Blame numbers from 40 on."""
    findings = (Finding("number", "", "value", "too large"),) if case >= 40 else ()
    return Outcome(findings, size=case, covered=(("parity", str(case % 2)),))


@dataclass(frozen=True)
class Numbers(Domain[int]):
    """A toy: numbers, of which those from 40 on are wrong."""

    label: str = "numbers"

    @property
    def name(self) -> str:
        return self.label

    def draw(self, seed: int, index: int) -> int:
        return (seed + 7 * index) % 100

    def judge(self) -> Judge[int]:
        return blamed

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[int]]]:
        return ((1.0, lambda case: greedy(case, lambda n: (n // 2, n - 1) if n else ())),)


def test_a_domain_takes_a_few_lines(tmp_path: Path) -> None:
    r = run(Plan((Numbers(),), count=30, seed=3, findings=tmp_path), executor=InlineExecutor())
    (group,) = r.groups
    assert group.smallest.case == 40, "shrunk"
    assert r.all.cases == 30
    covered = r.tallies["numbers"].covered
    assert covered["parity", "0"] + covered["parity", "1"] == 30
    (file,) = tmp_path.iterdir()
    head, what, anew, case = file.read_text().splitlines()
    assert (head, what, case) == ("# campaign seed 3", "# number: : too large", "40")
    index = re.fullmatch(r"# drawn anew by `.* --domain numbers --seed 3 --case (\d+)`", anew)
    assert index is not None
    assert Numbers().draw(3, int(index[1])) >= 40
    assert str(file) == group.smallest.file


def test_any_executor_makes_the_calls() -> None:
    plan = Plan((Numbers(), Numbers("others")), count=30, seed=3, jobs=2)
    r = run(plan, executor=ThreadPoolExecutor(2))
    assert {name: t.cases for name, t in r.tallies.items()} == {"numbers": 30, "others": 30}
    assert [g.smallest.case for g in r.groups] == [40]


def test_domains_of_several_kinds_share_a_campaign() -> None:
    plan = Plan((Graphs(("host",)), Plans(), Numbers()), count=3, seed=1)
    r = run(plan, executor=InlineExecutor())
    assert {name: t.cases for name, t in r.tallies.items()} == {
        "graphs": 3, "planners": 3, "numbers": 3,
    }  # fmt: skip


def ends(case: int) -> Outcome:
    """End the process at numbers from 40 on, by exit codes of two kinds."""
    if case >= 70:
        os._exit(7)
    if case >= 40:
        ctypes.string_at(0)
    return Outcome()


@dataclass(frozen=True)
class Deadly(Numbers):
    """Numbers of which those from 40 on end their process."""

    def draw(self, seed: int, index: int) -> int:
        return (10, 45, 77)[index]

    def judge(self) -> Judge[int]:
        return ends

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[int]]]:
        return ((1.0, lambda case: greedy(case, lambda n: (n // 2, n - 5))),)


def test_crashes_are_shrunk_too() -> None:
    r = run(Plan((Deadly(),), count=3, seed=3, shrink_seconds=200.0))
    found = {g.reason: (g.count, g.smallest.case) for g in r.groups}
    assert found == {
        "the process died: SIGSEGV": (2, 40),  # the second while 72 was made smaller
        "the process died: exit code 7": (1, 72),
    }
    assert r.all.cases == 3


@dataclass(frozen=True)
class Explained(Deadly):
    """Numbers that end their process, of which a judge without engines says what is wrong."""

    def without_engines(self) -> Numbers:
        return Numbers()


def test_what_ends_a_process_is_grouped_by_what_explains_it() -> None:
    r = run(Plan((Explained(),), count=2, seed=3, shrink_seconds=200.0))
    assert [(g.kind, g.count, g.smallest.case) for g in r.groups] == [("value", 1, 40)]


class Slip(Numbers):
    """Numbers whose shrinker fails behind its first step."""

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[int]]]:
        def halves(case: int) -> Generator[int, bool, None]:
            yield case // 2
            raise KeyError("no such size")

        return ((1.0, halves),)


def test_an_error_in_a_shrinker_costs_the_shrinking_alone(tmp_path: Path) -> None:
    r = run(Plan((Slip(),), count=30, seed=3, findings=tmp_path), executor=InlineExecutor())
    assert r.all.cases == 30, "the campaign went on"
    (group,) = r.groups
    assert group.count > 1
    assert {e.unshrunk for e in group.examples} == {"KeyError: 'no such size'"}
    assert group.smallest.case < 80, "what was reached before is kept"
    for file in tmp_path.iterdir():
        assert "# could not be shrunk: KeyError: 'no such size'\n" in file.read_text()
    assert record(r, [Slip()])["groups"][0]["smallest"]["unshrunk"] == "KeyError: 'no such size'"


def slips(case: int) -> Outcome:
    """Judge a number; fail at 20."""
    if case <= 20:
        raise IndexError("no element")
    return blamed(case)


class Slippery(Numbers):
    """Numbers that cannot be judged from 20 down."""

    def draw(self, seed: int, index: int) -> int:
        return 41 if index else 10

    def judge(self) -> Judge[int]:
        return slips


def test_an_unexpected_error_of_a_judge_is_a_finding() -> None:
    r = run(Plan((Slippery(),), count=3, seed=3), executor=InlineExecutor())
    first, second = r.groups
    assert (first.kind, first.reason, first.smallest.case) == ("error", "IndexError", 0)
    assert (second.smallest.case, second.smallest.unshrunk) == (40, "IndexError: no element")


def test_greedy_goes_on_from_what_still_shows() -> None:
    steps = greedy(9, lambda n: (n - 5, n - 1) if n > 2 else ())
    assert next(steps) == 4
    assert steps.send(True) == -1
    assert steps.send(False) == 3
    with pytest.raises(StopIteration):
        steps.send(False)


def test_control_flow_is_a_domain() -> None:
    domain = Graphs(("host",), controlled=1)
    cases = [domain.draw(5, i) for i in range(30)]
    control = [
        c for c in cases if any(n.op in CONTROL for f in c.module.functions for n in f.nodes)
    ]
    assert len(control) > 15
    assert domain.name == "control"
    r = run(Plan((domain,), count=2, seed=5), executor=InlineExecutor())
    assert r.all.cases == 2
    assert r.groups == []


def test_templates_make_kernels_of_some_drawn_products() -> None:
    domain = Graphs(())
    cases = [domain.draw(7, i) for i in range(2, 400, TEMPLATED)]
    asked = [c for c in cases if dict(c.changes).get("kernels.codegens") == TEMPLATES]
    kernels = [
        isinstance(k, ClaimedKernel)
        for c in asked[:8]
        for ks in compile(c.module, c.options(Options())).kernels.values()
        for k in ks
    ]
    assert {*kernels} == {True, False}, "and schedules make others"
