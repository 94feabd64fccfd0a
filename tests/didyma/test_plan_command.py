"""``didyma plan`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from didyma.plan_command import plan
from refimpl.errors import DidymaError

NET = Path(__file__).parent.parent / "data" / "planner" / "nets" / "pl_mobilenetv2.csv"


def run(capsys: pytest.CaptureFixture[str], file: Path, **more: object) -> tuple[int, str]:
    options: dict[str, object] = {
        "planner": "didyma", "capacity": None, "given": (), "limit": 5.0, "plot": None,
        "json": False, **more,
    }  # fmt: skip
    code = plan(file, **options)  # type: ignore[arg-type]  # named by the caller
    return code, capsys.readouterr().out


def test_json_of_one_planner(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, NET, json=True)
    d = json.loads(out)
    keys = ["planner", "buffers", "peak", "lower_bound", "ratio", "seconds", "offsets"]
    assert (code, list(d)) == (0, keys)
    assert d["buffers"] == len(d["offsets"]) == 64
    assert d["peak"] == d["lower_bound"] == 6021120
    assert d["ratio"] == 1.0


def test_all_planners_have_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, NET, planner="all")
    assert code == 0
    for name in ("none", "size_class", "storage_id", "hill_climb", "canonical", "didyma"):
        assert name in out


def test_a_capacity_that_some_planners_miss(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, NET, planner="all", capacity=6021120, json=True)
    rows = {d["planner"]: d for d in json.loads(out)}
    assert code == 0
    assert rows["none"]["error"] == "over-capacity"
    assert rows["didyma"]["peak"] == 6021120


def test_the_picture_names_every_buffer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("id,lower,upper,size\na<b,0,2,8\nb,1,3,4\nempty,1,3,0\n")
    picture = tmp_path / "plan.svg"
    assert run(capsys, trace, plot=picture)[0] == 0
    text = picture.read_text()
    root = ElementTree.fromstring(text)
    titles = [t.text for t in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["a<b: 8 B at 0, times 0 to 2", "b: 4 B at 8, times 1 to 3"]
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_what_is_wrong_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("id,lower,upper,size\r\na,0,2,8\r\nb,1,3,4\r\n")
    with pytest.raises(DidymaError, match=r"time 1`\n.*12 bytes alive at once: a \(8\), b \(4\)"):
        run(capsys, trace, capacity=10)
    with pytest.raises(DidymaError, match="unknown-planner"):
        run(capsys, trace, planner="guess")
    trace.write_text("id,lower,upper,size\n")
    with pytest.raises(DidymaError, match="no-buffers"):
        run(capsys, trace)
    with pytest.raises(DidymaError, match="unreadable-file"):
        run(capsys, tmp_path / "absent.csv")
