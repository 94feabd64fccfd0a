"""What the commands share: stdin, folders that are not there, completion, width, functions."""

from __future__ import annotations

import codecs
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import didyma as dd
from didyma import words
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import probe
from didyma.commands.doctor import EXTRAS
from didyma.commands.explain import texts
from didyma.files import beside
from didyma.functions import composed
from didyma.refimpl.ir.graph import Function, Module, Node, Param, attrs
from didyma.refimpl.ir.text import parse, show
from didyma.refimpl.ir.types import DType, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.texts import with_files
from tests.didyma.cli import EXP, Said, didyma
from tests.test_house import ROOT, setup

DIMS = EXP.replace("module {", "module {\n  dims n in [1, 64], m in [1, 64]").replace(
    "2, 3", "n, m"
)
TRACE = "id,lower,upper,size\na,0,2,64\nb,1,3,64\n"


def given(data: bytes, *args: object) -> Said:
    """Run a command with these bytes on stdin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        return didyma(*args)


def test_stdin_is_a_file(tmp_path: Path) -> None:
    assert given(DIMS.encode(), "check", "-").code == 0
    assert given(DIMS.encode(), "explain", "-", "--out", tmp_path / "out").code == 0
    assert (tmp_path / "out" / "00-source.dym").read_text() == DIMS
    assert given(DIMS.encode(), "plan", "-", "--json").json["dims"] == {"n": 2, "m": 3}
    assert given(TRACE.encode(), "plan", "-", "--json").json["peak"] == 128
    model = tmp_path / "m.onnx"
    assert given(DIMS.encode(), "export", "-", "--out", model).code == 0
    assert given(model.read_bytes(), "check", "-").code == 0


def test_kernels_come_on_stdin(tmp_path: Path) -> None:
    text = b"__global__ void one(int* x) { x[0] = 1; }"
    said = given(text, "sanitize", "-", "--grid", "1", "--arg", "x=out:i32[0]", "--json")
    if probe("ptx").runs:
        assert (said.code, said.json["file"]) == (1, "<stdin>"), said.err
        assert said.json["findings"][0]["file"] == "<stdin>"
        said = given(text, "sanitize", "-", "--grid", "1", "--arg", "x=out:i32[0]")
        assert said.out.startswith("<stdin>:1: out-of-bounds"), said.out
        path = tmp_path / "one.dym"
        path.write_text(EXP)
        copied = b"__global__ void f(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }"
        said = given(copied, "judge", "-", "--spec", path, "--block", "2", "--json")
        assert (said.code, said.json["file"]) == (1, "<stdin>"), said.err
    said = given(text, "judge", "-", "--certificate", str(tmp_path / "c.json"))
    assert (said.code, "bad-option at `--certificate`" in said.err) == (2, True), said.err
    said = given(text, "judge", "-")
    assert (said.code, "no specification" in said.err) == (2, True), said.err
    assert "bad-ptx" in given(b"// one\n.version 8.0\n.nothing\n", "sanitize", "-").err


def test_texts_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "m.dym"
    path.write_bytes(codecs.BOM_UTF8 + DIMS.replace("\n", "\r\n").encode())
    assert didyma("plan", path, "--json").json["dims"] == {"n": 2, "m": 3}
    assert given(path.read_bytes(), "plan", "-", "--json").json["dims"] == {"n": 2, "m": 3}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["ops", "--json"], ["--version"], ["ops", "nosuch", "--json"]])
def test_a_full_disk_is_no_bug(words: list[str]) -> None:
    command = [sys.executable, "-m", "didyma", *words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "unwritable at `the output`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [(">&-", "ops exp", 0), ("<&-", "plan -", 2), (">&- 2>&-", "plan nosuch.csv", 2)],
)
def test_a_closed_stream_is_no_bug(closed: str, words: str, code: int) -> None:
    command = f"{sys.executable} -m didyma {words} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr


def test_a_current_folder_that_was_deleted_is_no_bug(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    run = f"cd {gone} && rmdir {gone} && {sys.executable} -m didyma plan x.csv"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", run], capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a current folder that was deleted" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_an_encoding_lacks_is_printed_escaped() -> None:
    command = [sys.executable, "-m", "didyma", "ops"]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert "\\u" in done.stdout


def test_no_order_of_warps_is_a_mistake() -> None:
    said = given(b"", "sanitize", "-", "--schedules", "0")
    assert (said.code, "--schedules" in said.err) == (2, True)


def test_messages_name_stdin() -> None:
    said = given(EXP.replace("exp(%x)", "exp()").encode(), "check", "-", "--json")
    assert said.code == 2
    assert "in:   <stdin>:3: %y = exp() : f32[2, 3]" in said.err
    assert (said.json["error"]["file"], said.json["error"]["line"]) == ("<stdin>", 3)
    assert "`<stdin>:1:1`" in given(b"", "check", "-").err
    assert given(b"\x00\x01", "check", "-", "--json").json["error"]["code"] == "onnx-broken"


@pytest.mark.parametrize(
    "words_",
    [
        ("explain", "{source}", "--out", "{at}/no/such"),
        ("export", "{source}", "--out", "{at}/no/such.onnx"),
        ("plan", "{source}", "--plot", "{at}/no/such.svg"),
        ("check", "{source}", "--save", "{at}/no/such.dym"),
        ("build", "{source}", "--out", "{at}/no/such"),
        ("tune", "--export", "{at}/no/such.json", "--cache", "{at}/no/cache"),
    ],
)
def test_folders_are_not_made(words_: tuple[str, ...], tmp_path: Path) -> None:
    source = tmp_path / "exp.dym"
    source.write_text(EXP)
    said = didyma(*(w.format(source=source, at=tmp_path) for w in words_), "--json")
    assert said.code == 2
    assert said.json["error"]["code"] == "unwritable"
    assert f"{tmp_path / 'no'}/such" in said.json["error"]["where"]
    assert f"mkdir -p {tmp_path / 'no'}" in said.json["error"]["help"]
    assert [p.name for p in tmp_path.iterdir()] == ["exp.dym"]


@pytest.mark.parametrize("name", ["x.png", "x", "x.svg.gz"])
def test_a_picture_is_an_svg(name: str, tmp_path: Path) -> None:
    said = didyma("plan", tmp_path / "no.dym", "--plot", tmp_path / name, "--json")
    assert said.json["error"]["code"] == "unknown-format"  # before the file is looked for
    assert list(tmp_path.iterdir()) == []


def test_sizes_of_plan_say_how_they_were_chosen(tmp_path: Path) -> None:
    source = tmp_path / "exp.dym"
    source.write_text(DIMS)
    assert "at n=2 (default), m=3 (default)" in didyma("plan", source).out
    assert "at n=5, m=2 (default)" in didyma("plan", source, "--dim", "n=5").out
    assert didyma("plan", source, "--dim", "n=5", "--json").json["chosen"] == {"m": "default"}


def test_the_words_that_a_shell_completes_are_those_of_the_tables() -> None:
    assert (ROOT / "didyma" / words.FILE).read_text() == words.text()


MAIN = 'import sys; sys.argv[0] = "didyma"; from didyma.cli import main; main()'


def completed(line: str) -> list[str]:
    env = os.environ | {
        "_DIDYMA_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", MAIN], capture_output=True, text=True, check=False, env=env
    )
    return done.stdout.split()


def test_completion() -> None:
    assert completed("didyma check --engine ") == [
        "cuda",
        "host",
        "host-fast",
        "nvrtc",
        "ptx",
        "simt",
    ]
    assert completed("didyma fuzz --planner lin") == ["linear_scan"]
    assert completed("didyma ops soft") == ["softmax", "softplus", "softsign"]
    assert completed("didyma explain shape-m") == ["shape-mismatch"]
    assert completed("didyma ex") == ["export", "explain"]


def test_completion_imports_no_tables() -> None:
    code = "import sys; from didyma.words import words; words('ops'), words('engines')"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print('numpy' in sys.modules, 'sympy' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["False", "False"]


def test_a_function_made_of_ops_is_shown() -> None:
    said = didyma("ops", "softmax")
    assert said.code == 0
    assert "Exponentials along an axis" in said.out
    assert "dd.softmax(x: Tensor, /, axis: int = -1)" in said.out
    (record,) = didyma("ops", "softmax", "--json").json
    assert record["ops"] == ["max", "subtract", "exp", "sum", "divide"]
    assert "softmax" in didyma("ops").out
    assert "did you mean softmax" in didyma("ops", "softmx").err


def test_functions_are_found_in_the_namespace_and_made_of_ops() -> None:
    names = composed.names()
    assert {"softmax", "attention", "fft.fft", "complex.abs", "sort", "layer_norm"} <= {*names}
    for name in ("softmax", "fft.fft", "top_k", "dropout"):
        found = composed.composed(name)
        assert found is not None
        assert found.ops
        assert {*found.ops} <= {*OPS, "bind", "if", "while", "scan", "call"}
    assert composed.composed("compile") is None


def test_output_fits_80_columns(tmp_path: Path) -> None:
    source = tmp_path / "exp.dym"
    source.write_text(DIMS)
    for args in (["ops"], ["ops", "conv"], ["ops", "attention"], ["plan", source]):
        for line in didyma(*args).out.splitlines():
            assert len(line) <= 80, line
            assert "..." not in line or args[0] != "plan"
    helped = didyma("--help").out
    assert "..." not in helped.replace("[ARGS]...", "")


def test_doctor_knows_the_extras_of_the_package() -> None:
    extras = setup()["options.extras_require"]
    assert EXTRAS.keys() == extras.keys() - {"dev", "docs"}
    for name, (_, distributions) in EXTRAS.items():
        wanted = [row.split(">=")[0] for row in extras[name].split()]
        assert list(distributions) == wanted, name
        assert name in didyma("doctor").out


def large() -> Module:
    w = Tensor.of(np.arange(3000, dtype=np.float32).reshape(1000, 3))
    x = TensorType(DType.F32, (1000, 3))
    constant = Node(("w",), "constant", (), (x,), attrs({"value": w}))
    add = Node(("y",), "add", ("x", "w"), (x,))
    return Module((Function("main", (Param("x", x),), (constant, add), ("y",)),))


def test_weights_stand_beside_the_texts(tmp_path: Path) -> None:
    source = tmp_path / "large.dym"
    source.write_text(show(large()))
    out = tmp_path / "out"
    said = didyma("explain", source, "--out", out, "--json")
    assert said.code == 0
    (data,) = out.glob("*.bin")
    assert data.stat().st_size == 12_000
    for name in said.json["files"]:
        text = out / name
        if name.endswith(".dym"):
            assert text.stat().st_size < 3000, name
            again = parse(text.read_text(), name, beside(text))
            assert with_files(show(again), {}) == text.read_text()
    assert parse((out / "00-source.dym").read_text(), "", beside(out / "x")) == large()
    assert didyma("check", out / "00-source.dym").code == 0


def test_a_constant_whose_file_is_gone_or_another_is_refused(tmp_path: Path) -> None:
    files = texts(compile(large()))
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(data)
    (data_,) = tmp_path.glob("*.bin")
    data_.write_bytes(bytes(12_000))
    for _ in range(2):
        error = didyma("check", tmp_path / "00-source.dym", "--json").json["error"]
        assert (error["code"], error["line"]) == ("parse", 3)
        assert "a file of bytes beside this text" in error["want"]
        data_.unlink(missing_ok=True)
    source = tmp_path / "00-source.dym"
    source.write_text(source.read_text().replace(data_.name, f"../{data_.name}"))
    assert didyma("check", source, "--json").json["error"]["code"] == "parse"
    assert dd.__version__
