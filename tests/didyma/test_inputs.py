"""Input values chosen on the command line: judged, shown, stored, replayed, or refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.commands import inputs
from didyma.fuzz import given
from didyma.fuzz.replay import Recorded, load, save
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType
from tests.didyma.cli import didyma
from tests.didyma.test_bad_input import refused_with

# Refuses all but a few values of %k: random ones of 64 bits are not among them.
COUNTS = """module {
  dims n in [1, 8], u in [2, 5]
  func @main(%k: i64[], %x: f32[n, 2]) -> (%y, %z) {
    () = bind(%k, dim="u")
    %y = iota(axis=0, dtype=f32, shape=(u,)) : f32[u]
    %z = exp(%x) : f32[n, 2]
  }
}
"""
ALL = ", ".join(f"%{d}: {d}[2]" for d in DType)
MANY = f"module {{ func @main({ALL}, %pairs: f32[3, 2]) -> (%f32) {{ }} }}"


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    path = tmp_path / "counts.dym"
    path.write_text(COUNTS)
    return path


def npy(folder: Path, array: Array) -> Path:
    path = folder / "x.npy"
    np.save(path, array)
    return path


def test_a_number_is_judged_and_shown(counts: Path) -> None:
    assert "refused" in didyma("check", counts, "--json").json
    said = didyma("check", counts, "--json", "--input", "k=3", "-i", "x=0.5")
    assert said.code == 0
    assert said.json["inputs"] == {"k": 3, "x": 0.5}
    assert "refused" not in said.json
    assert "input k = 3" in didyma("check", counts, "--input", "k=3").out


def test_an_array_tells_sizes(counts: Path, tmp_path: Path) -> None:
    file = npy(tmp_path, np.ones((5, 2), np.float32))
    d = didyma("check", counts, "--json", "-i", f"x={file}", "-i", "k=2").json
    assert d["dims"]["n"] == 5
    assert d["inputs"] == {"x": "f32[5, 2]", "k": 2}
    refused_with(
        didyma("check", counts, "--json", "-i", f"x={file}", "-d", "n=4"), "dim-mismatch", "%x"
    )


def test_what_was_judged_is_replayed(counts: Path, tmp_path: Path) -> None:
    file, kept = npy(tmp_path, np.ones((5, 2), np.float32)), tmp_path / "kept.dym"
    words = ("--json", "-i", f"x={file}", "-i", "k=4", "--seed", "7", "--planner", "linear_scan")
    first = didyma("check", counts, *words, "--save", kept).json
    file.unlink()
    again = didyma("replay", kept, "--json").json
    differ = ("levels", "seed", "rounds")
    assert {k: v for k, v in first.items() if k not in differ} == {
        k: v for k, v in again.items() if k not in differ
    }
    worst = [[level["worst"] for level in d["levels"]] for d in (first, again)]
    assert worst[0] == worst[1]
    kept.write_text(kept.read_text().replace('"x": {"dtype"', '"y": {"dtype"'))
    refused_with(didyma("replay", kept, "--json"), "not-a-finding", "%y")


def test_a_finding_of_sizes_known_late_is_replayed(tmp_path: Path) -> None:
    m = parse_module(COUNTS)
    kept = Recorded(m, (1, 2), {"n": 2}, ("host",), Options())
    assert load(save(tmp_path / "f.dym", kept, "")) == kept


VALUES: Mapping[str, Mapping[str, object]] = {
    "i8": {"-128": -128, "1e2": 100}, "u64": {str(2**64 - 1): 2**64 - 1}, "i4": {"-8": -8},
    "bool": {"true": True, "0": False}, "f32": {"16000": 16000, "-inf": "-inf", "nan": "nan"},
    "f16": {"65504": 65504}, "bf16": {"3e38": 3.00405527047391e38}, "f4e2m1": {"-6": -6, "5": 4},
    "f64": {"0.1": 0.1}, "f8e8m0": {"3": 4},
}  # fmt: skip


def test_integers_that_a_peer_refuses_are_filled(tmp_path: Path) -> None:
    """Random numbers are no lengths of sequences: all ones are."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    x = onnx.helper.make_tensor_value_info("x", 1, ["steps", 2, 3])
    n = onnx.helper.make_tensor_value_info("lengths", 6, [2])
    y = onnx.helper.make_tensor_value_info("y", 1, None)
    rng = np.random.default_rng(0)
    weights = {
        name: onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), name)
        for name, s in (("w", (1, 12, 3)), ("r", (1, 12, 4)))
    }
    gru = onnx.helper.make_node("GRU", ["x", "w", "r", "", "lengths"], ["y"], hidden_size=4)
    g = onnx.helper.make_graph([gru], "g", [x, n], [y], [*weights.values()])
    m = onnx.helper.make_model(g, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10)
    path, kept = tmp_path / "gru.onnx", tmp_path / "gru.dym"
    path.write_bytes(m.SerializeToString())
    said = didyma("check", path, "--peer", "onnxruntime", "--json", "--save", kept)
    assert said.code == 0, said.err
    assert said.json["inputs"] == {"lengths": 1}
    assert load(kept).given["lengths"].array() == 1
    refused = didyma("check", path, "--peer", "onnxruntime", "--input", "lengths=99")
    assert refused.code == 0, refused.err
    assert re.search(r"^onnxruntime +nothing checked", refused.out, re.MULTILINE)
    assert "not judged, since it refused" in refused.out


@pytest.mark.parametrize("name", VALUES)
def test_numbers_of_a_dtype(name: str) -> None:
    m = parse_module(MANY)
    for word, want in VALUES[name].items():
        found = inputs.read(m, [f"{name}={word}"])
        assert given.shown(found[name]) == want
        arrays = given.inputs(m, {}, range(len(m.entry.params)), found)
        (array,) = (a for p, a in zip(m.entry.params, arrays, strict=True) if p.name == name)
        assert array.shape == (2,)
        assert array.dtype == DType(name).numpy
        assert given.recorded(given.record(found[name])) == found[name]


BAD = [
    "k", "k=", "q=1", "=3", "k=three", "k=0.5", f"k={2**63}", "k=nan", "k=3.npz",
]  # fmt: skip


@pytest.mark.parametrize("word", BAD)
def test_words_that_are_no_input(counts: Path, word: str) -> None:
    refused_with(didyma("check", counts, "--json", "--input", word), "bad-option", word)


TOO_MUCH = ("i8=128", "u8=-1", "i2=2", "bool=2", "f16=1e6", "f32=1e-60", f"f64={10**400}",
            "f4e2m1=inf", "f4e2m1=nan", "f8e8m0=-1", "f8e4m3=inf")  # fmt: skip


@pytest.mark.parametrize("word", TOO_MUCH)
def test_numbers_that_a_dtype_has_not(word: str) -> None:
    with pytest.raises(DidymaError, match="bad-option") as e:
        inputs.read(parse_module(MANY), [word])
    assert word in e.value.where


def test_files(tmp_path: Path) -> None:
    m = parse_module(MANY)
    x = np.array([1.5, -2]).astype(ml_dtypes.bfloat16)
    assert inputs.read(m, [f"bf16={npy(tmp_path, x)}"])["bf16"].array().tolist() == [1.5, -2]
    z = np.array([1 + 2j, 0, -1j], np.complex64)
    pairs = inputs.read(m, [f"pairs={npy(tmp_path, z)}"])["pairs"].array()
    assert pairs.tolist() == [[1, 2], [0, 0], [0, -1]]


FILES: list[tuple[str, str, Array]] = [
    ("input-dtype", "f32", np.zeros(2)),
    ("input-dtype", "f32", np.array(["a", "b"])),
    ("complex-input", "f64", np.zeros(2, np.complex64)),
    ("rank-mismatch", "f32", np.zeros((), np.float32)),
    ("rank-mismatch", "f32", np.zeros((2, 1), np.float32)),
    ("dim-mismatch", "f32", np.zeros(3, np.float32)),
    ("unreadable-file", "f32", np.array([None, 1])),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(FILES)))
def test_arrays_that_are_no_input(tmp_path: Path, case: int) -> None:
    code, name, array = FILES[case]
    path = tmp_path / "many.dym"
    path.write_text(MANY)
    word = f"{name}={npy(tmp_path, array)}"
    refused_with(didyma("check", path, "--json", "-i", word), code, name)


@pytest.mark.parametrize("content", [None, b"", b"no array"])
def test_files_that_are_no_array(counts: Path, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.npy"
    if content is not None:
        path.write_bytes(content)
    refused_with(didyma("check", counts, "--json", "-i", f"x={path}"), "unreadable-file", "x.npy")
