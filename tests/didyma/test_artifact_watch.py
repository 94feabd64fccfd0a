"""What may be asked of the launches of a built program, and where its errors come from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.artifacts import build
from didyma.artifacts.load import load
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.tracer.tensor import Tensor
from tests.didyma.cli import didyma

n = dd.dim("n", 1, 64)


@dd.noinline
def layer(x: Tensor, w: Tensor) -> Tensor:
    return dd.exp(x @ w) - 1.0


@dd.trace(dd.f32[n, 3], dd.f32[3, 3])
def net(x: Tensor, w: Tensor) -> Tensor:
    h = layer(layer(x, w), w)
    return dd.max(h, axis=1)


COMPILED = dd.compile(net)
FILES = build.contents({"host": build.Target(COMPILED.compiled, b"{}\n")})
X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
W = np.full((3, 3), 0.25, np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build.write(tmp_path / "built", FILES)
    return tmp_path / "built"


def refusal(run: Callable[[], object]) -> DidymaError:
    with pytest.raises(DidymaError) as e:
        run()
    return e.value


def test_each_launch_is_told_with_what_it_computed(folder: Path) -> None:
    told: list[Any] = []
    kept: list[np.ndarray[Any, Any]] = []

    def watch(x: Any) -> None:
        told.append(x)
        kept.extend(a.copy() for a in x.results.values())

    (got,) = load(folder)([X, W], watch=watch)
    entry = COMPILED.compiled.source
    (want,) = graph.run(entry, [X, W])
    first = np.expm1(X.astype(float) @ W)
    assert [x.kernel for x in told[:2]] == [told[0].kernel] * 2  # the layer, called twice
    assert len(told) == 3
    np.testing.assert_allclose(kept[0], first, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(kept[1], np.expm1(first @ W), rtol=1e-5, atol=1e-6)
    assert kept[2].tobytes() == got.tobytes()
    np.testing.assert_allclose(kept[2], want, rtol=1e-5)
    for x in told:
        assert x.line.startswith(f"launch @{x.kernel}(")
        assert all(f"%{name}" in x.line for name in x.results)
        assert x.nodes
        assert x.seconds > 0
    assert told[0].nbytes == 4 * (5 * 3 + 3 * 3 + 5 * 3)
    assert told[2].nbytes == 4 * (5 * 3 + 5)


def test_each_launch_has_a_context_around_it(folder: Path) -> None:
    events: list[str] = []

    @contextmanager
    def around(name: str) -> Generator[None]:
        events.append(f"begin {name}")
        yield
        events.append(f"end {name}")

    def watch(x: Any) -> None:
        events.append(f"told {x.kernel}")

    load(folder)([X, W], around=around, watch=watch)
    assert len(events) == 9
    for begin, end, told in zip(events[::3], events[1::3], events[2::3], strict=True):
        name = begin.removeprefix("begin ")
        assert (end, told) == (f"end {name}", f"told {name}")


def test_an_error_says_from_which_lines_of_the_program_it_came(folder: Path) -> None:
    def fail(x: Any) -> None:
        if len(x.results) == 1 and "max" in x.nodes:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as e:
        load(folder)([X, W], watch=fail)
    (note,) = e.value.__notes__
    source = (folder / "module.py").read_text().splitlines()
    place, text = note.split(": ", 1)
    assert text.startswith("launch @")
    number = int(place.removeprefix("module.py, line "))
    kernel = text.removeprefix("launch @").partition("(")[0]
    assert source[number - 1].strip().startswith(f'kernels.launch("{kernel}"')
    assert text in (folder / "program.dym").read_text()


def test_an_error_in_a_function_names_the_call_too(folder: Path) -> None:
    e = refusal(lambda: load(folder)([X * np.float32(1e30), W * 1e30], finite=True))
    assert e.code == "not-finite"
    call, launch = (note.split(": ", 1)[1] for note in e.__notes__)
    assert call.startswith("call @layer(")
    assert launch.startswith("launch @")


def test_a_fault_of_a_kernel_shows_its_line_and_nodes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = load(folder)
    text = (folder / "kernels.cu").read_text().splitlines()

    def failed(*_: object) -> tuple[int, int]:
        return 5, 4

    monkeypatch.setattr(program.runtime.host.Stage, "go", failed)
    e = refusal(lambda: program([X, W]))
    assert e.code == "kernel-fault"
    shown, nodes, *_ = e.__notes__
    assert shown == f"line 4 of the kernels: {text[3].strip()}"
    assert nodes.startswith("nodes of the graph: ")


@pytest.mark.parametrize(
    ("x", "code", "got"),
    [
        (np.asfortranarray(X), "input-strides", "strides (4, 20)"),
        (np.broadcast_to(X[:1], (5, 3)), "input-strides", "strides (0, 4)"),
        (np.zeros(19, np.float32)[1:16].reshape(5, 3), "input-alignment", "an address "),
    ],
)
def test_what_would_be_copied_is_refused_on_request(
    folder: Path, x: np.ndarray[Any, Any], code: str, got: str
) -> None:
    program = load(folder)
    (want,) = program([np.array(x, order="C"), W], strict=True)
    assert program([x, W])[0].tobytes() == want.tobytes()
    e = refusal(lambda: program([x, W], strict=True))
    assert (e.code, e.where) == (code, "x")
    assert e.got.startswith(got)


def test_an_array_on_a_gpu_is_refused(folder: Path) -> None:
    elsewhere = SimpleNamespace(__cuda_array_interface__={}, dtype=np.dtype(np.float32), ndim=2)
    assert refusal(lambda: load(folder)([elsewhere, W], strict=True)).code == "input-device"


def test_the_log_has_lines_and_kernels(folder: Path) -> None:
    env = os.environ | {"DIDYMA_LOG": "kernel, wrapper"}
    words = [sys.executable, "-B", str(folder / "module.py"), "n=2"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    said = done.stderr.splitlines()
    kernels = [line for line in said if line.startswith("kernel ")]
    assert len(kernels) == 3
    assert all("GB/s" in line for line in kernels)
    launched = [line for line in said if line.startswith("line ") and ": launch @" in line]
    assert len(launched) == 3
    assert sum(": call @layer(" in line for line in said) == 2
    env["DIDYMA_LOG"] = "kernel,wraper"
    wrong = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("bad-option at `DIDYMA_LOG`\n  got:  wraper\n")


def test_a_compile_writes_the_levels_that_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = {
        "graph": "module {", "loop": "func @", "schedule": "kernel @", "plan": "program @net {",
        "kernel": 'extern "C"', "wrapper": '"""Program net',
    }  # fmt: skip
    for level, head in heads.items():
        monkeypatch.setenv("DIDYMA_LOG", level)
        dd.compile(net)
        said = capsys.readouterr().err
        assert said.startswith(f"# {level}, after ")
        dd.check(net, tries=1)
        assert capsys.readouterr().err == said
        assert head in said
        assert {line.split(",")[0] for line in said.splitlines() if ", after " in line} == {
            f"# {level}"
        }
    monkeypatch.setenv("DIDYMA_LOG", "grpah")
    assert refusal(lambda: dd.compile(net)).where == "DIDYMA_LOG"


def test_results_of_launches_and_texts_of_levels_are_files(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    dump = tmp_path / "dump"
    said = didyma("run", str(folder), "-i", f"x={tmp_path / 'x.npy'}", "--dump", str(dump))
    assert said.code == 0
    names = sorted(p.name for p in dump.iterdir())
    assert [n.partition("-")[0] for n in names] == ["000", "001", "002"]
    assert [np.load(dump / n).shape for n in names] == [(5, 3), (5, 3), (5,)]
    run = ("run", str(folder), "-i", f"x={tmp_path / 'x.npy'}", "--dim")
    assert didyma(*run, "n=5").code == 0
    said = didyma(*run, "n=4", "--json")
    assert said.json["error"]["where"] == "--dim n=4"
    assert "n = 5" in said.json["error"]["want"]
    (tmp_path / "a.dym").write_text((folder / "graph.dym").read_text())
    words = ("build", str(tmp_path / "a.dym"), "-o", str(tmp_path / "a"), "--tries", "1")
    assert didyma(*words, "--dump", str(tmp_path / "levels")).code == 0
    assert {"loops.dym", "wrapper.py"} <= {p.name for p in (tmp_path / "levels").iterdir()}


def test_the_benchmark_tells_of_each_kernel(folder: Path) -> None:
    words = [sys.executable, "-B", str(folder / "module.py"), "--benchmark", "--json", "n=3"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)["kernels"]
    assert sorted((r["launches"], r["bytes"]) for r in rows) == [(1, 48), (2, 2 * 108)]
    for r in rows:
        assert r["gb_per_second"] == pytest.approx(r["bytes"] / r["seconds"] / 1e9)


NVTX = """
import atexit, contextlib, sys
names = []
told = lambda: f"{len(names)} ranges, {len(set(names))} names"
atexit.register(lambda: print(told(), file=sys.stderr))

def annotate(name):
    names.append(name)
    return contextlib.nullcontext()
"""


def script(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    called = [sys.executable, "-B", "module.py", *words]
    return subprocess.run(called, capture_output=True, text=True, check=False, cwd=folder)


def test_a_module_as_a_script_dumps_launches_and_prints_what_it_was_asked(folder: Path) -> None:
    said = script(folder, "--dump", "dump", "--json", "--strict", "n=3")
    found = json.loads(said.stdout)
    assert found["sizes"] == {"n": 3}
    assert found["inputs"][0] == {"name": "x", "dtype": "f32", "shape": [3, 3]}
    assert len([*(folder / "dump").iterdir()]) == 3
    rows = script(folder, "--benchmark").stdout.splitlines()
    assert "calls, n = 2, microseconds: min" in rows[0]
    assert rows[1].split() == ["launches", "bytes", "us", "GB/s", "kernel"]
    assert [row.split()[0] for row in rows[2:]] in (["1", "2"], ["2", "1"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["n=0"], "dim-out-of-range at `n`"),
        (["n=three"], "n=three: want one of n = a number"),
        (["--slow"], "unrecognized arguments: --slow"),
        (["--dump", "module.py/x"], "--dump module.py/x: want a folder that takes files"),
        (["--dump", "d", "--benchmark"], "--dump: want no --benchmark"),
    ],
)
def test_a_module_as_a_script_refuses(folder: Path, words: list[str], told: str) -> None:
    said = script(folder, *words)
    assert (said.returncode, said.stdout) == (2, "")
    assert told in said.stderr


@pytest.mark.parametrize(
    ("package", "code", "told"),
    [
        ("raise ImportError", 4, "extra-missing at `--ranges`"),
        (NVTX, 0, "3 ranges, 2 names"),
    ],
)
def test_ranges_need_a_package(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    code: int,
    told: str,
) -> None:
    (tmp_path / "nvtx.py").write_text(package)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = script(folder, "--ranges")
    assert said.returncode == code
    assert told in said.stderr
