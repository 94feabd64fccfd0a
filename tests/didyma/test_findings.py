"""`didyma findings`: findings of several campaigns are grouped by cause, with what is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from didyma.codegen.options import Options
from didyma.fuzz import replay
from didyma.fuzz.replay import Recorded
from didyma.oracle.report import Finding
from didyma.refimpl.ir.text import parse_module
from tests.didyma.cli import EXP, didyma
from tests.didyma.planting import careless, inline


def found(
    folder: Path, name: str, traits: Sequence[str], level: str = "host", op: str = "exp"
) -> Path:
    """Write a finding of an op, as a campaign writes it."""
    folder.mkdir(exist_ok=True)
    m = parse_module(EXP.replace("exp(", f"{op}("))
    f = Finding(level, f"fused_{op}_0", "value", f"{name}: got 1, want 2")
    r = Recorded(m, (7,), {}, ("host",), Options(), finding=f, traits=frozenset(traits))
    return replay.save(folder / f"{name}.dym", r)


def test_findings_of_several_campaigns_form_groups(tmp_path: Path) -> None:
    one, two = tmp_path / "monday", tmp_path / "tuesday"
    found(one, "a", ["exp of numbers"])
    found(two, "b", ["exp of numbers", "an axis of 3"])
    found(two, "c", ["max of numbers"])
    found(two, "d", [], level="plan")
    said = didyma("findings", one, two, "--json")
    assert said.code == 1
    rows = said.json["groups"]
    files = [sorted(Path(f).stem for f in g["files"]) for g in rows]
    assert files == [["a", "b"], ["c"], ["d"]]
    assert [g["count"] for g in rows] == [2, 1, 1]
    assert rows[0]["common"] == ["exp of numbers"]
    shown = didyma("findings", one, two).out
    assert "4 findings in 3 groups" in shown
    assert "group 1: host (value), 2 findings\n  in common: exp of numbers" in shown
    assert str(one / "a.dym") in shown


def test_groups_that_earlier_findings_have_are_not_new(tmp_path: Path) -> None:
    old, now = tmp_path / "old", tmp_path / "now"
    found(old, "a", ["exp of numbers"])
    found(now, "b", ["exp of numbers", "f16"])
    said = didyma("findings", now, "--since", old, "--json")
    assert [g["new"] for g in said.json["groups"]] == [False]
    assert [len(g["files"]) for g in said.json["groups"]] == [1], "of the folders asked for"
    assert said.code == 0, "nothing new"
    found(now, "c", ["max of numbers"])
    said = didyma("findings", now, "--since", old)
    assert said.code == 1
    assert "group 2: host (value), 1 finding, new" in said.out
    assert said.out.count("new") == 1


def test_what_no_longer_fails_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "findings"
    found(folder, "a", ["exp of numbers"])
    found(folder, "b", ["negative of numbers"], op="negative")
    with careless():
        said = didyma("findings", folder, "--judge", "--json")
        assert [g["fails"] for g in said.json["groups"]] == [True, False]
        assert said.code == 1
    with inline():
        said = didyma("findings", folder, "--judge")
    assert said.code == 0
    assert said.out.count("no longer fails") == 2


def test_files_that_do_not_say_what_was_found_are_judged(tmp_path: Path) -> None:
    path = found(tmp_path / "old", "a", [])
    r = replay.load(path)
    replay.save(path, replace(r, finding=None))
    with careless():
        (g,) = didyma("findings", path.parent, "--json").json["groups"]
    assert (g["level"], g["kind"]) == ("host", "value")
    with inline():
        said = didyma("findings", path.parent, "--json")
    assert (said.json["groups"], said.json["unknown"]) == ([], [str(path)])
    assert said.code == 0


def test_no_findings_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    said = didyma("findings", tmp_path / "none")
    assert (said.code, said.out) == (5, "0 findings in 0 groups\n")
