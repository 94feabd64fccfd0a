"""Bad input: a code, the place, what was got and wanted; exit 2; no traceback; nothing written."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import onnx
import pytest
from onnx import TensorProto, helper

from tests.didyma.cli import EXP, Said, didyma

Make: TypeAlias = Callable[[Path], Path]


def text(content: str) -> Make:
    def make(folder: Path) -> Path:
        path = folder / "bad.dym"
        path.write_text(content)
        return path

    return make


def raw(name: str, content: bytes) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return make


def magika() -> Path:
    spec = importlib.util.find_spec("magika")
    assert spec is not None, "install magika==1.0.3 with --no-deps"
    assert spec.origin is not None
    return Path(spec.origin).parent / "models" / "standard_v3_3" / "model.onnx"


def truncated(folder: Path) -> Path:
    path = folder / "short.onnx"
    data = magika().read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


def model(*nodes: onnx.NodeProto) -> Make:
    def make(folder: Path) -> Path:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
        graph = helper.make_graph(nodes, "g", [x], [y])
        opset = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
        path = folder / "m.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=opset).SerializeToString())
        return path

    return make


def missing(folder: Path) -> Path:
    return folder / "missing.dym"


def missing_onnx(folder: Path) -> Path:
    return folder / "missing.onnx"


def a_folder(folder: Path) -> Path:
    path = folder / "folder.dym"
    path.mkdir()
    return path


def an_onnx_folder(folder: Path) -> Path:
    path = folder / "folder.onnx"
    path.mkdir()
    return path


SYMBOLIC = EXP.replace("module {", "module {\n  dims n in [1, 8]").replace("2, 3", "n, 3")
UNBOUND = """module {
  dims n in [1, 8]
  func @main(%x: f32[2]) -> (%y) {
    %y = broadcast_to(%x, shape=(n, 2)) : f32[n, 2]
  }
}
"""

FILES: dict[str, tuple[Make, str, str]] = {
    "malformed": (text(EXP.replace("(%y)", "(%y")), "parse", "bad.dym:"),
    "empty": (text(""), "parse", "bad.dym:"),
    "unknown op": (text(EXP.replace("exp(", "expo(")), "G-unknown-op", "expo"),
    "wrong dtype": (text(EXP.replace("f32[2, 3]\n", "i32[2, 3]\n")), "G-type", "%y"),
    "no such dtype": (text(EXP.replace("f32", "f33")), "parse", "f33"),
    "dtype of an op": (text(EXP.replace("f32", "i32")), "dtype-mismatch", "exp"),
    "wrong rank": (text(EXP.replace("f32[2, 3]\n", "f32[2]\n")), "G-type", "%y"),
    "wrong shape": (text(EXP.replace("f32[2, 3]\n", "f32[2, 4]\n")), "G-type", "%y"),
    "attribute": (text(EXP.replace("exp(%x)", "exp(%x, axis=1)")), "G-attr-names", "axis"),
    "undefined": (text(EXP.replace("exp(%x)", "exp(%z)")), "G-undefined", "%z"),
    "operands": (text(EXP.replace("exp(%x)", "exp(%x, %x)")), "G-arity", "exp"),
    "a size nothing tells": (text(UNBOUND), "G-unbacked", "n"),
    "garbage": (raw("bad.dym", bytes(range(256))), "unreadable-file", "bad.dym"),
    "garbage of ONNX": (raw("bad.onnx", b"\xff\x00" * 99), "onnx-broken", "bad.onnx"),
    "empty ONNX": (raw("bad.onnx", b""), "onnx-broken", "bad.onnx"),
    "truncated ONNX": (truncated, "onnx-broken", "short.onnx"),
    "unsupported ONNX op": (
        model(helper.make_node("StringNormalizer", ["x"], ["y"], name="norm")),
        "onnx-unsupported", "norm",
    ),
    "ONNX op of a foreign domain": (
        model(helper.make_node("Frob", ["x"], ["y"], name="frob", domain="mine")),
        "onnx-unsupported", "frob",
    ),
    "missing": (missing, "unreadable-file", "missing.dym"),
    "missing ONNX": (missing_onnx, "unreadable-file", "missing.onnx"),
    "folder": (a_folder, "unreadable-file", "folder.dym"),
    "ONNX folder": (an_onnx_folder, "unreadable-file", "folder.onnx"),
    "another format": (raw("m.pt", b"PK"), "unknown-format", "m.pt"),
}  # fmt: skip


def refused_with(said: Said, code: str, where: str) -> None:
    """The error is whole, in both forms, and nothing else is said."""
    assert said.code == 2, said.err
    assert "Traceback" not in said.err
    assert said.err.startswith(f"didyma: {code} at `")
    error = said.json["error"]
    assert error["code"] == code
    assert where in f"{error['where']} {error['got']}"
    assert error["got"]
    assert error["want"]
    assert f"got:  {error['got'].splitlines()[0]}" in said.err


@pytest.mark.parametrize("command", ["check", "explain", "replay"])
@pytest.mark.parametrize("name", FILES)
def test_bad_file(name: str, command: str, tmp_path: Path) -> None:
    make, code, where = FILES[name]
    path = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    out = ["--out", tmp_path / "out"] if command == "explain" else []
    said = didyma(command, path, "--json", *out)
    if command == "replay" and path.is_dir():  # of no findings
        assert (said.code, said.json) == (5, {"agree": False, "findings": []})
        return
    if command == "replay" and code != "unreadable-file":
        code, where = ("not-a-finding", path.name) if path.suffix != ".onnx" else ("", "")
    if code:
        refused_with(said, code, where)
    else:
        assert said.code == 2  # ONNX bytes: no text, or no finding
    assert sorted(tmp_path.rglob("*")) == before


OPTIONS: dict[str, tuple[list[str], str, str]] = {
    "out of range": (["--dim", "n=9"], "dim-out-of-range", "n = 9"),
    "not a number": (["--dim", "n=x"], "bad-option", "n=x"),
    "a digit that is no decimal": (["--dim", "n=²"], "bad-option", "n=²"),
    "below zero": (["--dim", "n=-1"], "bad-option", "n=-1"),
    "no such symbol": (["--dim", "m=1"], "bad-option", "m=1"),
    "no value": (["--dim", "n"], "bad-option", "--dim n"),
    "engine": (["--engine", "abacus"], "unknown-engine", "abacus"),
    "engine that runs nothing": (["--engine", "nvrtc"], "bad-option", "nvrtc"),
    "planner": (["--planner", "guess"], "unknown-planner", "guess"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_option(name: str, tmp_path: Path) -> None:
    words, code, where = OPTIONS[name]
    refused_with(didyma("check", text(SYMBOLIC)(tmp_path), "--json", *words), code, where)


def test_a_file_that_is_not_there_needs_no_suffix_to_be_missed(tmp_path: Path) -> None:
    refused_with(didyma("check", tmp_path / "absent", "--json"), "unreadable-file", "absent")
    refused_with(didyma("schedule", tmp_path / "absent", "--json"), "unreadable-file", "absent")


@pytest.mark.parametrize("command", ["replay", "findings"])
def test_where_there_is_nothing_findings_are_wanted(command: str, tmp_path: Path) -> None:
    said = didyma(command, tmp_path / "absent", "--json")
    refused_with(said, "unreadable-file", "absent")
    assert said.json["error"]["want"] == "a finding, or a folder of findings"


def test_a_file_of_another_kind_is_told_which_kinds_there_are(tmp_path: Path) -> None:
    kernel = raw("k.cu", b"")(tmp_path)
    said = didyma("plan", kernel, "--json")
    refused_with(said, "unknown-format", "k.cu")
    assert ".csv" in said.json["error"]["want"]
    refused_with(didyma("check", tmp_path, "--json"), "unknown-format", "a folder")


def test_explain_refuses_an_engine_that_is_none(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = didyma("explain", text(EXP)(tmp_path), "-o", out, "--json", "-e", "abacus")
    refused_with(said, "unknown-engine", "abacus")
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "code", "where"),
    [
        (["--domain", "kernels"], "unknown-domain", "kernels"),
        (["--share", "graphs"], "bad-option", "graphs"),
        (["--share", "graphs=many"], "bad-option", "graphs=many"),
        (["--share", "graphs=0"], "bad-option", "graphs=0"),
        (["--share", "kernels=5"], "bad-option", "kernels=5"),
        (["--share", "graphs=60", "--share", "planners=50"], "bad-option", "planners=50"),
        (["--case", "3"], "bad-option", "--case 3"),
        (["--domain", "planners", "--engine", "host"], "bad-option", "--engine host"),
    ],
)
def test_bad_option_of_a_campaign(words: list[str], code: str, where: str, tmp_path: Path) -> None:
    refused_with(didyma("fuzz", *words, "--findings", tmp_path, "--json"), code, where)


def test_unknown_op() -> None:
    said = didyma("ops", "expp", "--json")
    refused_with(said, "unknown-op", "expp")
    assert "exp" in said.json["error"]["help"]


def test_a_folder_that_takes_no_files(tmp_path: Path) -> None:
    good = text(EXP)(tmp_path)
    taken = tmp_path / "taken"
    taken.write_text("mine")
    refused_with(didyma("explain", good, "--out", taken, "--json"), "unwritable", "taken")
    refused_with(didyma("fuzz", "--findings", taken / "in", "--json"), "unwritable", "taken")
    assert taken.read_text() == "mine"


def test_explain_writes_all_or_nothing(tmp_path: Path) -> None:
    good = text(EXP)(tmp_path)
    out = tmp_path / "out"
    (out / "kernels.cu").mkdir(parents=True)  # the place of one file is taken
    refused_with(didyma("explain", good, "--out", out, "--json"), "unwritable", "out")
    assert [p.name for p in out.rglob("*")] == ["kernels.cu"]


HEAD = '# didyma finding {"seeds": [1], "dims": {}, "engines": ["host"], "options": {}}\n'
FINDINGS = {
    "head": (HEAD.replace("seeds", "seats"), "not-a-finding"),
    "JSON": (HEAD.replace("}}", "}"), "not-a-finding"),
    "option": (HEAD.replace('"options": {}', '"options": {"speed": 1}'), "unknown-option"),
    "block": (HEAD.replace('"options": {}', '"options": {"block": 7}'), "bad-option"),
    "engine": (HEAD.replace("host", "abacus"), "unknown-engine"),
    "too few seeds": (HEAD.replace("[1]", "[]"), "not-a-finding"),
    "sizes": (HEAD.replace('"dims": {}', '"dims": {"q": 1}'), "not-a-finding"),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_bad_finding(name: str, tmp_path: Path) -> None:
    head, code = FINDINGS[name]
    refused_with(didyma("replay", text(head + EXP)(tmp_path), "--json"), code, "")


@pytest.mark.parametrize(
    ("words", "got"),
    [
        (["check", "--json"], "Missing argument"),
        (["check", "a", "b", "--json"], "unexpected extra argument"),
        (["plan", "x.csv", "--capacity", "many", "--json"], "--capacity"),
        (["fuzz", "--seconds", "0", "--json"], "--seconds"),
        (["check", "x.dym", "--timeout", "inf", "--json"], "--timeout"),
        (["tune", "x.dym", "--rest", "inf", "--json"], "--rest"),
        (["plan", "x.csv", "--seconds", "nan", "--json"], "--seconds"),
        (["judge", "--json"], "--check FILE"),
        (["judge", "x.cu", "--check", "c.json", "--json"], "--check FILE"),
        (["guess", "--json"], "No such command 'guess'"),
        (["ops", "--jsn", "--json"], "No such option"),
    ],
)
def test_a_wrong_command_line_is_one_json_document_too(words: list[str], got: str) -> None:
    refused_with(didyma(*words), "bad-option", got)


@pytest.mark.parametrize("words", [[], ["bench"], ["corpus"]])
def test_no_words_print_the_help(words: list[str]) -> None:
    said = didyma(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("Usage: didyma")
