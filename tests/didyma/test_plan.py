"""``didyma plan`` from the command line."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from didyma.codegen.options import MemoryOptions, Options
from didyma.codegen.pipeline import compile
from didyma.commands.plan import plan
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse_module, show
from tests.didyma.cli import didyma

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
    with pytest.raises(DidymaError, match="unreadable-file") as caught:
        run(capsys, tmp_path / "absent.csv")
    assert caught.value.got == "No such file or directory"


GRAPH = """module {
  dims n in [2, 64]
  func @main(%x: f32[n, 32], %w: f32[32, 32]) -> (%z) {
    %a = matmul(%x, %w) : f32[n, 32]
    %b = exp(%a) : f32[n, 32]
    %c = matmul(%b, %w) : f32[n, 32]
    %z = add(%c, %a) : f32[n, 32]
  }
}
"""


def test_a_graph_is_compiled_and_planned_at_the_sizes_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "g.dym"
    file.write_text(GRAPH)
    _, out = run(capsys, file)
    assert "at n=3 (default)" in out
    least = json.loads(run(capsys, file, given=("n=2",), json=True)[1])
    more = json.loads(run(capsys, file, given=("n=4",), json=True)[1])
    assert (least["dims"], more["dims"]) == ({"n": 2}, {"n": 4})
    # Three rows of 32 floats at most: a and b, then a, c and the result.
    assert least["peak"] == 3 * 2 * 32 * 4
    assert more["peak"] == 2 * least["peak"]
    for words in (("n=65",), ("n=1",), ("k=4",), ("n",), ("n=x",)):
        with pytest.raises(DidymaError, match=r"bad-option|dim-out-of-range"):
            run(capsys, file, given=words)


def test_a_program_is_planned_as_it_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    compiled = compile(parse_module(GRAPH), Options(memory=MemoryOptions(planner="didyma")))
    whole = json.loads(run(capsys, written(tmp_path / "g.dym", GRAPH), given=["n=3"], json=True)[1])
    for name, p in (("unplanned", compiled.unplanned), ("planned", compiled.program)):
        file = written(tmp_path / f"{name}.dym", show(p))
        d = json.loads(run(capsys, file, given=["n=3"], json=True)[1])
        assert (d["peak"], d["buffers"]) == (whole["peak"], whole["buffers"]), name


def test_a_model_is_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import helper

    from tests.didyma.onnx.models import model, value

    chain = ["x", "a", "b", "y"]
    nodes = [helper.make_node("MatMul", [v, "w"], [u]) for v, u in pairwise(chain)]
    w = np.ones((16, 16), np.float32)
    made = model(nodes, [value("x", "batch", 16)], [value("y", "batch", 16)], w=w)
    file = tmp_path / "m.onnx"
    onnx.save(made, str(file))
    d = json.loads(run(capsys, file, given=["batch=4"], json=True)[1])
    assert d["dims"] == {"batch": 4}
    assert (d["peak"], d["lower_bound"]) == (2 * 4 * 16 * 4, 2 * 4 * 16 * 4)
    assert "batch=2 (default)" in run(capsys, file)[1]


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("bad-life", "id,lower,upper,size\na,3,1,8\n"),
        ("duplicate-buffer", "id,lower,upper,size\na,0,1,8\na,2,3,8\n"),
        ("bad-size", "id,lower,upper,size\na,0,1,-8\n"),
        ("bad-size", "id,lower,upper,size\na,0,1,99999999999999999999999\n"),
        ("bad-size", "id,lower,upper,size\na,0,1,100000000000000000\n"),
        ("bad-number", "id,lower,upper,size\na,0,1,8.5\n"),
        ("bad-number", "id,lower,upper,size\na,0,,8\n"),
        ("bad-trace", "id,lower,size\na,0,8\n"),
        ("bad-trace", "id,lower,upper,size\na,0,8\n"),
        ("bad-trace", "id,lower,upper,size,colour\na,0,1,8,red\n"),
        ("bad-trace", ""),
        ("bad-alignment", "id,lower,upper,size,alignment\na,0,1,8,3\n"),
        ("bad-offset", "id,lower,upper,size,offset\na,0,1,8,-4\n"),
        ("fixed-overlap", "id,lower,upper,size,offset\na,0,2,8,0\nb,1,3,8,4\n"),
    ],
)
def test_bad_traces_are_refused_by_the_command_line(code: str, text: str, tmp_path: Path) -> None:
    said = didyma("plan", str(written(tmp_path / "t.csv", text)))
    assert said.code == 2
    assert f"didyma: {code} at `" in said.err
    assert said.out == ""


def test_a_trace_of_another_system_is_read(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(b"\xef\xbb\xbfid,lower,upper,size\r\na,0,2,8\r\nb,2,3,8\r\n")
    said = didyma("plan", str(file), "--json")
    assert (said.code, said.json["peak"]) == (0, 8)


def test_a_capacity_below_the_bound_is_refused_with_the_time_and_who_is_alive(
    tmp_path: Path,
) -> None:
    file = written(tmp_path / "t.csv", "id,lower,upper,size\na,0,2,3\nb,1,4,2\nc,3,5,3\n")
    said = didyma("plan", str(file), "--capacity", "4")
    assert said.code == 2
    assert "over-capacity at `time 1`" in said.err
    assert "5 bytes alive at once: a (3), b (2)" in said.err
    assert "want: a capacity of at least 5, not 4" in said.err
