"""Findings on disk: what they record, and what `didyma replay` says of one, many and none."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from didyma import __version__
from didyma.codegen.options import GraphOptions, MemoryOptions, Options
from didyma.commands.judge import Task, Verdict
from didyma.fuzz import shown
from didyma.fuzz.replay import FORMAT, Recorded, load, save
from didyma.oracle.compare import Comparison
from didyma.oracle.report import Finding, Level, Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Tensor
from tests.didyma.cli import EXP, didyma
from tests.didyma.test_bad_input import refused_with

LARGE = EXP.replace("[2, 3]", "[8, 9]")


def finding(path: Path, source: str = EXP, **others: Any) -> Path:
    r = Recorded(parse_module(source), (7,), {}, ("host",), Options())
    return save(path, replace(r, **others), "host (value) in fused_exp_0: wrong")


def head(path: Path) -> dict[str, Any]:
    first = path.read_text().partition("\n")[0]
    found: dict[str, Any] = json.loads(first.removeprefix("# didyma finding "))
    return found


def rewritten(path: Path, **changes: object) -> Path:
    """The finding with changes of its head."""
    _, _, rest = path.read_text().partition("\n")
    path.write_text(f"# didyma finding {json.dumps(head(path) | changes)}\n{rest}")
    return path


def test_a_finding_says_what_wrote_it_and_when(tmp_path: Path) -> None:
    options = Options(memory=MemoryOptions(planner="linear_scan"), graph=GraphOptions(fuse=False))
    path = finding(tmp_path / "f.dym", options=options, campaign_seed=123)
    h = head(path)
    assert (h["format"], h["didyma"], h["campaign_seed"]) == (FORMAT, __version__, 123)
    date = datetime.strptime(h["date"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - date).total_seconds()) < 3600
    assert h["engines"] == ["host"]
    assert (h["options"]["memory"]["planner"], h["options"]["graph"]["fuse"]) == (
        "linear_scan",
        False,
    )
    r = load(path)
    assert (r.version, r.campaign_seed, r.options) == (__version__, 123, options)
    assert "# host (value) in fused_exp_0: wrong" in path.read_text()


def test_what_was_found_is_recorded_for_machines_and_people(tmp_path: Path) -> None:
    f = Finding("host", "fused_exp_0", "value", "x[0]: got 1, want 2\nand more")
    why = "it once was wrong"
    path = finding(tmp_path / "f.dym", finding=f, traits=frozenset({"exp", "f16"}), why=why)
    r = load(path)
    assert (r.finding, r.why) == (f, why)
    assert sorted(r.traits) == ["exp", "f16"]
    assert "# why: it once was wrong\n# once host (value) in fused_exp_0: x[0]" in path.read_text()


def test_the_values_of_inputs_outlast_how_seeds_draw_them(tmp_path: Path) -> None:
    path = finding(tmp_path / "f.dym")
    values = load(path).values["x"].array()
    assert values.shape == (2, 3)
    again = load(rewritten(path, seeds=[8]))
    assert again.values["x"].array().tobytes() == values.tobytes()
    assert str(values[0, 0]) in path.read_text(), "for people, too"


def test_values_are_stored_compactly(tmp_path: Path) -> None:
    source = EXP.replace("[2, 3]", "[64, 64]")
    zeros = {"x": Tensor.of(np.zeros((64, 64), np.float32))}
    path = finding(tmp_path / "f.dym", source, given=zeros)
    assert path.stat().st_size < 2000
    assert not load(path).given["x"].array().any()


def test_a_finding_of_the_first_format_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.dym"
    old = '{"seeds": [7], "dims": {}, "engines": ["host"], "options": {"planner": "none"}}'
    path.write_text(f"# didyma finding {old}\n# a message\n{EXP}")
    r = load(path)
    assert (r.seeds, r.options, r.values) == (
        (7,),
        Options(memory=MemoryOptions(planner="none")),
        {},
    )
    assert (r.version, r.date, r.campaign_seed) == ("", "", None)


BROKEN: dict[str, dict[str, object]] = {
    "later": {"format": FORMAT + 1, "didyma": "9.0"},
    "format": {"format": "x"},
    "values": {"drawn": {"x": {"dtype": "f32", "shape": [2, 3], "data": "AA=="}}},
    "packed": {"drawn": {"x": {"dtype": "f32", "shape": [2, 3], "zlib": "AAAA"}}},
    "dtype": {"drawn": {"x": {"dtype": "f99", "shape": [2, 3], "data": "AA=="}}},
    "name": {"drawn": {"q": {"dtype": "i8", "shape": [], "data": "AA=="}}},
    "seed": {"campaign_seed": "many"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_head_is_refused(name: str, tmp_path: Path) -> None:
    path = rewritten(finding(tmp_path / "f.dym"), **BROKEN[name])
    said = didyma("replay", path, "--json")
    refused_with(said, "newer-format" if name == "later" else "not-a-finding", "f.dym")
    if name == "later":
        assert "9.0" in said.json["error"]["got"]


def test_one_finding_is_shown_with_its_inputs(tmp_path: Path) -> None:
    path = finding(
        tmp_path / "f.dym", given={"x": Tensor.of(np.array(0.5, np.float32))}, campaign_seed=5
    )
    said = didyma("replay", path)
    assert said.code == 0, said.err
    assert "campaign seed 5" in said.out
    assert "input x: f32[2, 3] = [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]" in said.out
    large = didyma("replay", finding(tmp_path / "g.dym", LARGE)).out
    (line,) = [x for x in large.splitlines() if x.startswith("input x:")]
    assert "f32[8, 9]: from" in line
    assert "seed 7" in line


def disagree(task: Task, timeout: float, **others: object) -> Verdict:
    """Say that programs of eight rows disagree, of one row are refused, of none do not run."""
    rows = task.module.entry.params[0].type.shape[0]
    if rows == 1:
        raise DidymaError("too-large", "x", got="much", want="less")
    compared = (Comparison(1, 1, 0.0),) if rows else ()
    wrong = (Finding("host", "fused_exp_0", "value", "x[0]: got 1, want 2"),) if rows == 8 else ()
    return Verdict(Report((Level("host", compared, wrong),)), {})


def sized(folder: Path, *rows: int) -> Path:
    folder.mkdir()
    for n in rows:
        finding(folder / f"rows{n}.dym", EXP.replace("[2, 3]", f"[{n}, 3]"))
    return folder


@pytest.mark.parametrize(
    ("rows", "code"),
    [((2, 3), 0), ((2, 8, 1), 1), ((2, 1), 2), ((2, 0), 0), ((0,), 5), ((), 5)],
)
def test_many_findings_are_a_table_and_one_exit_code(
    rows: tuple[int, ...], code: int, tmp_path: Path
) -> None:
    folder = sized(tmp_path / "all", *rows)
    with mock.patch("didyma.commands.replay.guarded", disagree):
        said = didyma("replay", folder)
        document = didyma("replay", folder, "--json")
    assert said.code == document.code == code
    assert [Path(f["file"]).name for f in document.json["findings"]] == [
        f"rows{n}.dym" for n in sorted(rows)
    ]
    assert document.json["agree"] is (code == 0), "never where nothing was checked"
    words = {8: "DISAGREES", 1: "refused", 0: "nothing ran"}
    for n in rows:
        (line,) = [x for x in said.out.splitlines() if x.startswith(f"rows{n}.dym")]
        assert words.get(n, "agrees") in line
        assert len(line) < 80
    if 8 in rows:
        assert "x[0]: got 1, want 2" in said.out
        assert "input x: f32[8, 3]" in said.out


def test_files_and_folders_are_judged_once_each(tmp_path: Path) -> None:
    folder = sized(tmp_path / "all", 2, 3)
    other = finding(tmp_path / "other.dym")
    with mock.patch("didyma.commands.replay.guarded", disagree):
        said = didyma("replay", folder, folder / "rows2.dym", other, "--json").json
    assert [Path(f["file"]).name for f in said["findings"]] == [
        "rows2.dym", "rows3.dym", "other.dym",
    ]  # fmt: skip


def test_all_are_read_before_any_is_judged(tmp_path: Path) -> None:
    folder = sized(tmp_path / "all", 2)
    (folder / "zz.dym").write_text(EXP)
    with mock.patch("didyma.commands.replay.guarded", side_effect=AssertionError):
        refused_with(didyma("replay", folder, "--json"), "not-a-finding", "zz.dym")
        refused_with(
            didyma("replay", tmp_path / "none.dym", "--json"), "unreadable-file", "none.dym"
        )


def test_a_dash_is_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = finding(tmp_path / "f.dym").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with mock.patch("didyma.commands.replay.guarded", disagree):
        assert didyma("replay", "-", "--json").json["agree"] is True


def test_folders_above_the_findings_are_not_made(tmp_path: Path) -> None:
    said = didyma("fuzz", "--seconds", "1", "--findings", tmp_path / "a" / "b", "--json")
    refused_with(said, "unwritable", "b")
    assert "mkdir -p" in said.json["error"]["help"]
    kept = tmp_path / "a" / "f.dym"
    with pytest.raises(DidymaError, match="unwritable"):
        finding(kept)
    assert list(tmp_path.iterdir()) == []


def test_values_that_people_read() -> None:
    x = np.arange(30, dtype=np.float32)
    x[3:5] = np.nan, -np.inf
    assert shown.value(Tensor.of(x)) == "f32[30]: from 0.0 to 29.0, 1 NaN, 1 infinite, 1 zero"
    assert shown.value(Tensor.of(np.array([True, False]))) == "bool[2] = [True, False]"
    assert shown.value(Tensor.of(np.zeros((2, 0), np.int8))) == "i8[2, 0] = [[], []]"
