"""`didyma corpus`: cases are added once, listed with why they are there, merged and judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from didyma.codegen.options import GraphOptions, Options
from didyma.fuzz import corpus_files, replay
from didyma.fuzz.replay import FORMAT, Recorded
from didyma.oracle.report import Finding
from didyma.refimpl.ir.text import parse_module
from tests.didyma.cli import EXP, didyma
from tests.didyma.planting import careless, inline
from tests.didyma.test_bad_input import refused_with

FOUND = Finding("host", "fused_exp_0", "value", "y[0]: got 1, want 2")
WHY = "exp was too large"


def finding(path: Path, source: str = EXP, **others: Any) -> Path:
    r = Recorded(parse_module(source), (7,), {}, ("host",), Options(), finding=FOUND)
    return replay.save(path, replace(r, **others))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "corpus"
    made.mkdir()
    return made


def add(file: Path, folder: Path, *words: object) -> dict[str, object]:
    said = didyma("corpus", "add", file, "--why", WHY, "--folder", folder, "--json", *words)
    assert said.code == 0, said.err
    document: dict[str, object] = said.json
    return document


def test_a_finding_is_added_with_why_it_is_there(tmp_path: Path, folder: Path) -> None:
    said = add(finding(tmp_path / "f.dym"), folder)
    assert said["added"] is True
    (path,) = folder.iterdir()
    assert str(path) == said["file"]
    assert path.name.startswith("exp-")
    assert path.read_text().splitlines()[1:3] == [
        f"# why: {WHY}", f"# once host (value) in fused_exp_0: {FOUND.message}",
    ]  # fmt: skip
    (row,) = didyma("corpus", "list", "--folder", folder, "--json").json["cases"]
    assert row == {
        "file": str(path), "why": WHY, "signature": "host value", "covers": "", "nodes": 1,
    }  # fmt: skip
    listed = didyma("corpus", "list", "--folder", folder).out
    assert f"{path.name}  (host value)\n    {WHY}\n1 case\n" in listed
    assert replay.load(path).finding == FOUND, "a case is a finding, too"


def test_a_program_is_added_with_what_it_covers(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "p.dym"
    path.write_text(EXP)
    said = add(path, folder, "--covers", "exp of f32")
    (r,) = corpus_files.cases(folder).values()
    assert (r.covers, r.finding) == ("exp of f32", None)
    assert set(r.values) == {"x"}, "replayed on these values for ever"
    assert didyma("corpus", "list", "--folder", folder).out.count("(exp of f32)") == 1
    assert said["added"] is True


def test_cases_of_one_structure_and_options_are_added_once(tmp_path: Path, folder: Path) -> None:
    first = add(finding(tmp_path / "f.dym"), folder)
    same = EXP.replace("%x", "%in").replace("%y", "%out")
    again = add(finding(tmp_path / "g.dym", same, seeds=(9,)), folder)
    assert again == {"file": first["file"], "added": False}
    others = [
        finding(tmp_path / "h.dym", options=Options(graph=GraphOptions(fuse=False))),
        finding(tmp_path / "i.dym", EXP.replace("[2, 3]", "[2, 4]")),
        finding(tmp_path / "j.dym", EXP.replace("exp(", "log(")),
    ]
    assert all(add(path, folder)["added"] for path in others)
    assert len(corpus_files.cases(folder)) == 4


def test_another_corpus_is_merged_whole(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for where in (folder, other):
        add(finding(tmp_path / "f.dym"), where)
    add(finding(tmp_path / "g.dym", EXP.replace("exp(", "log(")), other)
    said = didyma("corpus", "merge", other, "--folder", folder, "--json")
    (new,) = said.json["added"]
    assert "log-" in new
    assert len(corpus_files.cases(folder)) == 2
    assert didyma("corpus", "merge", other, "--folder", folder, "--json").json == {"added": []}
    assert [r.why for r in corpus_files.cases(folder).values()] == [WHY, WHY]


def test_nothing_is_half_written_where_a_disk_is_full(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for op in ("exp", "log"):
        add(finding(tmp_path / "f.dym", EXP.replace("exp(", f"{op}(")), other)
    write, written = Path.write_bytes, list[Path]()

    def full(path: Path, data: bytes) -> int:
        written.append(path)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        return write(path, data)

    with mock.patch.object(Path, "write_bytes", full):
        said = didyma("corpus", "merge", other, "--folder", folder, "--json")
    refused_with(said, "unwritable", "corpus")
    assert list(folder.iterdir()) == []


def test_every_case_is_judged(tmp_path: Path, folder: Path) -> None:
    add(finding(tmp_path / "f.dym"), folder)
    add(finding(tmp_path / "g.dym", EXP.replace("exp(", "negative(")), folder)
    words = ("corpus", "replay", "--folder", folder, "--engine", "host")
    with inline():
        said = didyma(*words, "--json")
    assert (said.code, said.json["agree"]) == (0, True)
    with careless():
        said, shown = didyma(*words, "--json"), didyma(*words)
    assert said.code == shown.code == 1
    assert sorted(c["now"] for c in said.json["cases"]) == ["DISAGREE", "agree"]
    assert "host (value) in exp_0" in shown.out or "host (value)" in shown.out
    assert "1 of 2 cases agree" in shown.out


def test_an_empty_corpus_judges_nothing(folder: Path) -> None:
    assert didyma("corpus", "replay", "--folder", folder, "--json").code == 5


def rewritten(path: Path, **changes: object) -> None:
    first, _, rest = path.read_text().partition("\n")
    head = json.loads(first.removeprefix("# didyma finding "))
    head |= changes
    path.write_text(f"# didyma finding {json.dumps(head)}\n{rest}")


def test_what_a_newer_version_wrote_is_refused_with_its_place(tmp_path: Path, folder: Path) -> None:
    add(finding(tmp_path / "f.dym"), folder)
    (path,) = folder.iterdir()
    rewritten(path, format=FORMAT + 1, didyma="9.0")
    before = path.read_text()
    for words in (("list",), ("replay",), ("add", finding(tmp_path / "g.dym"), "--why", "x")):
        said = didyma("corpus", *words, "--folder", folder, "--json")
        refused_with(said, "newer-format", path.name)
        assert said.json["error"]["line"] == 1
        assert "9.0" in said.json["error"]["got"]
    assert path.read_text() == before
    assert len(list(folder.iterdir())) == 1


def test_bad_input_is_refused(tmp_path: Path, folder: Path) -> None:
    path = finding(tmp_path / "f.dym")
    said = didyma("corpus", "add", path, "--why", " ", "--folder", folder, "--json")
    refused_with(said, "bad-option", "--why")
    missing = tmp_path / "no" / "corpus"
    said = didyma("corpus", "add", path, "--why", WHY, "--folder", missing, "--json")
    refused_with(said, "unwritable", "corpus")
    refused_with(didyma("corpus", "list", "--folder", missing, "--json"), "unreadable-file", "no")
    finding(folder / "copied.dym")
    refused_with(
        didyma("corpus", "replay", "--folder", folder, "--json"), "bad-corpus", "copied.dym"
    )
