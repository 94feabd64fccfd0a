"""The distilled corpus: its text, what a campaign asks of it, and that its programs agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from didyma.fuzz import distilled, worker
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.distilled import KEPT, NEAR, members
from didyma.fuzz.domains import registry
from didyma.fuzz.domains.domain import Domain
from didyma.fuzz.domains.indices import Indices
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.schedules import kept as kept_schedules
from didyma.fuzz.schedules.cases import Case as Scheduled
from didyma.fuzz.steering.meter import Wish

EVERY = registry.make(registry.Setup(("host", "simt")))
DOMAINS = tuple(d for d in EVERY if d.name != "parts")  # whose cases are seeds
COUNTERS = "python -m tests.mutants.distil counters"
SAMPLE = 12  # members of a domain that are judged here, spread over all


@pytest.mark.parametrize("domain", EVERY, ids=lambda d: d.name)
def test_what_is_drawn_is_kept_as_text(domain: Domain[object]) -> None:
    for index in range(4):
        case: object = domain.draw(9, index)
        case = kept_schedules.brief(case) if isinstance(case, Scheduled) else case
        kept = distilled.member(domain, case, 9, index)
        (again,) = distilled.parse(kept.text())
        assert again == kept
        assert again.key == kept.key
        assert again.case(domain) == case


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: d.name)
def test_members_agree(domain: Domain[object]) -> None:
    every = list(members(domain.name).values())
    assert every, "each domain has some"
    assert all(m.shows and m.ms > 0 for m in every), "each says why it is there"
    opened = worker.Opened(domain)
    for m in every[:: max(1, len(every) // SAMPLE)]:
        case, o = opened.drawn(0, 0, [(KEPT, m.key)])
        assert case == m.case(domain)
        assert not o.findings, f"{m.text()}\nto keep other counters: {COUNTERS}"
        assert distilled.member(domain, m.case(domain), 0, 0).facts == m.facts or "index" in m.facts


def test_a_campaign_judges_members_first_and_then_changes_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[str]()
    drawn = worker.drawn

    def noted(
        domain: Domain[object], seed: int, index: int, wishes: Sequence[Wish] | None
    ) -> object:
        asked.append(wishes[0][0] if wishes else "")
        return drawn(domain, seed, index, wishes)

    monkeypatch.setattr(worker, "drawn", noted)
    every = members("indices")
    count = len(every) + 6
    r = run(Plan((Indices(),), count=count, seed=3, kept=True), executor=InlineExecutor())
    assert r.all.cases == count
    assert not r.groups
    assert asked[: len(every)] == [KEPT] * len(every)
    assert sorted(asked[len(every) :]) == ["", "", "", "", NEAR, NEAR]


def test_a_changed_member_is_the_same_each_time() -> None:
    for domain in DOMAINS:
        some = [worker.drawn(domain, 5, i, [(NEAR,)]) for i in range(6)]
        assert some == [worker.drawn(domain, 5, i, [(NEAR,)]) for i in range(6)]
        assert len(set(map(repr, some))) > 3


def test_a_wish_for_a_member_names_it() -> None:
    key = next(iter(members("passes")))
    assert distilled.known([(KEPT, key)], "passes")
    assert not distilled.known([(KEPT, key)], "lowering")
    assert not distilled.known([], "passes")
    assert distilled.known([(NEAR,)], "passes")


def test_a_folder_without_files_has_no_members(tmp_path: Path) -> None:
    assert not members("passes", tmp_path)
