"""Findings of emission and of planners are replayed from their files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from didyma.codegen.emit import terms
from didyma.codegen.emit.terms import Term
from didyma.fuzz import cases, saved
from didyma.fuzz.allocator.written import Written
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.distilled import members
from didyma.fuzz.domains.domain import Domain, Outcome
from didyma.fuzz.domains.emission import Emission
from didyma.fuzz.domains.plans import Plans
from didyma.fuzz.emission.forms import draw
from didyma.fuzz.emission.shrink import smaller
from didyma.fuzz.executor import InlineExecutor
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import Barrier
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import stmts
from tests.didyma.cli import didyma


@pytest.mark.parametrize("domain", [Emission(("host",)), Plans()], ids=lambda d: d.name)
def test_a_file_gives_the_same_case(domain: Domain[object], tmp_path: Path) -> None:
    for index in range(2):
        case = domain.draw(3, index)
        path = tmp_path / f"{index}.dym"
        path.write_text(domain.text(case, Outcome(), "said\nof it", 3), encoding="utf-8")
        assert saved.is_case(path)
        assert cases.load(path).case == case
        assert domain.replay(case, str(path)) == f"didyma replay {path}"
    said = didyma("replay", tmp_path, "--json")
    assert said.code == 0
    assert [row["exit_code"] for row in said.json["findings"]] == [0] * 2


def test_a_case_that_was_written_down_is_read_as_it_was(tmp_path: Path) -> None:
    domain = Plans()
    kept = (m.case(domain) for m in members(domain.name).values())
    path = tmp_path / "case.dym"
    for case in [c for c in kept if isinstance(c, Written)][:3]:
        path.write_text(domain.text(case, Outcome(), "", 3), encoding="utf-8")
        assert cases.load(path).case == case
        assert not domain.judge()(case).findings


def test_a_finding_of_emission_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = terms.literal

    def slip(value: float, dtype: DType) -> Term:
        return right(value + 1 if value == 3 else value, dtype)

    monkeypatch.setattr("didyma.codegen.emit.expressions.literal", slip)
    domain = Emission(("host",))
    plan = Plan((domain,), count=300, seed=1, shrink_seconds=0.5, findings=tmp_path, stop_after=1)
    e = run(plan, executor=InlineExecutor()).groups[0].smallest
    assert e.replay == f"didyma replay {e.file}"
    s = cases.load(Path(e.file))
    assert s.case == e.case
    judge = s.domain.judge()
    assert judge(s.case).findings[0].kind == e.finding.kind
    monkeypatch.undo()
    assert not s.domain.judge()(s.case).findings


def test_files_that_are_no_cases(tmp_path: Path) -> None:
    path = tmp_path / "x.dym"
    good = saved.head("planners", {"seed": 3, "kinds": ["arena"]})
    facts = json.loads(good.removeprefix(saved.HEAD))
    for change, code in (
        ({"format": 99}, "newer-format"),
        ({"domain": "weather"}, "not-a-finding"),
        ({"seed": "three"}, "not-a-finding"),
    ):
        path.write_text(saved.HEAD + json.dumps(facts | change) + "\n", encoding="utf-8")
        with pytest.raises(DidymaError) as e:
            cases.load(path)
        assert e.value.code == code
    path.write_text(saved.HEAD + "{\n", encoding="utf-8")
    assert didyma("replay", path).code == 2


def test_kernels_with_barriers_are_made_smaller() -> None:
    drawn = (replace(draw(Random(i)), seed=0) for i in range(40))
    case = next(c for c in drawn if any(isinstance(s, Barrier) for s in stmts(c.kernel.body)))
    sizes = [len(list(stmts(c.kernel.body))) for c in smaller(case)]
    assert min(sizes) < len(list(stmts(case.kernel.body)))
