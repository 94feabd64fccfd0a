"""The plugin for pytest keeps the seed of a failure and the certificates of what passes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import didyma as dd
from didyma.commands import judge_kernel
from didyma.judging import asserting
from didyma.judging.judge import Judgement, Outcome
from didyma.judging.task import Task
from didyma.refimpl.errors import DidymaError
from tests.test_house import ROOT
from tests.warm import python

pytestmark = pytest.mark.usefixtures("ptx")

SUITE = """
from pathlib import Path

import pytest
import didyma as dd

n = dd.dim("n", 1, 300)


def double(x: dd.f32[n]) -> dd.f32[n]:
    return x + x


@pytest.mark.didyma(grid="cdiv(n, 32)", rounds=4)
@pytest.mark.parametrize("factor", ["2.0f", "3.0f"])
def test_double(didyma, factor):
    text = Path(__file__).with_name("double.cu").read_text()
    didyma.assert_kernel_correct(text.replace("2.0f", factor), double)


def test_file(didyma):
    with pytest.raises(dd.DidymaError, match="spec-mismatch"):
        didyma.assert_kernel_correct(Path("double.cu"), double, args=["x=n"])
"""
KERNEL = """__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""


def run(folder: Path, *words: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(ROOT), "PYTEST_PLUGINS": "didyma.pytest_plugin"}
    done = python("-m", "pytest", "-q", "--strict-markers", *words, cwd=folder, env=env)
    return done.stdout + done.stderr


def test_seeds_and_certificates_are_kept_by_node_id(tmp_path: Path) -> None:
    (tmp_path / "test_twice.py").write_text(SUITE)
    (tmp_path / "double.cu").write_text(KERNEL)
    shown = run(tmp_path, "--didyma-seed", "5", "--didyma-certificates", "kept")
    assert "1 failed, 2 passed" in shown, shown
    assert "kernel.cu:3: wrong-value: add[0]" in shown
    assert "--didyma-seed 5" in shown
    assert "asserting.py" not in shown, "the judge's own frames are hidden"
    (file,) = (tmp_path / "kept").iterdir()
    assert file.name.startswith("test_twice.py_test_double_2.0f-")
    made = json.loads(file.read_text())
    assert (made["verdict"], made["seed"]) == ("correct", 5)
    assert made["asked"] == {"test": "test_twice.py::test_double[2.0f]"}
    with pytest.raises(DidymaError, match=r'pytest "test_twice.py::test_double\[2.0f\]"'):
        judge_kernel.check(file, json=True)
    file.write_text(file.read_text().replace('"correct"', '"certain"'))
    with pytest.raises(DidymaError, match="a certificate that was edited"):
        judge_kernel.check(file, json=True)
    shown = run(tmp_path, "-k", "3.0f")
    assert "decided, seed 5" in shown, "the seed of the failure is tried first"
    (tmp_path / "test_twice.py").write_text(SUITE.replace("x + x", "3.0 * x"))
    assert "1 passed" in run(tmp_path, "-k", "3.0f", "--didyma-seconds", "0.01")
    assert "decided, seed 1" in run(tmp_path, "-k", "2.0f", "-p", "no:cacheprovider")
    assert "1 failed" in run(tmp_path, "-k", "2.0f")


@pytest.mark.parametrize(
    ("option", "want"),
    [
        ("--didyma-seed=-1", "want a number from 0 on"),
        ("--didyma-seed=x", "want a number from 0 on"),
        ("--didyma-seconds=nan", "want a positive number of seconds"),
        ("--didyma-seconds=inf", "want a positive number of seconds"),
        ("--didyma-certificates=double.cu", "unwritable at `double.cu`"),
    ],
)
def test_an_option_that_fits_no_test_is_refused_and_not_kept(
    option: str, want: str, tmp_path: Path
) -> None:
    (tmp_path / "test_twice.py").write_text(SUITE)
    (tmp_path / "double.cu").write_text(KERNEL)
    assert want in run(tmp_path, "-k", "2.0f", option)
    shown = run(tmp_path, "-k", "2.0f")
    assert "1 passed" in shown, shown


@pytest.mark.parametrize("given", ["grid=1, blok=32", '"x"'])
def test_a_marker_with_arguments_of_something_else_is_refused(given: str, tmp_path: Path) -> None:
    suite = f"import pytest\n@pytest.mark.didyma({given})\ndef test_it(didyma):\n    pass\n"
    (tmp_path / "test_it.py").write_text(suite)
    shown = run(tmp_path)
    assert "1 error" in shown, shown
    assert "bad-call at `the marker didyma of test_it.py::test_it`" in shown
    assert ("blok" if "blok" in given else "'x'") in shown


ALIKE = '''
import pytest
import didyma as dd

n = dd.dim("n", 1, 300)
TEXT = """__global__ void k(const float* x, float* y, int n) {
  if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];
}"""


def double(x: dd.f32[n]) -> dd.f32[n]:
    return x + x


@pytest.mark.didyma(grid=1, block=300, rounds=1)
@pytest.mark.parametrize("tail", ["float", "float ", "float*", "f" * 100])
@pytest.mark.parametrize("head", ["h" * 90])
@pytest.mark.parametrize("name", ["k" * 90])
def test_it(didyma, head, tail, name):
    didyma.assert_kernel_correct(TEXT, double)
'''


def test_ids_that_read_the_same_or_are_long_have_certificates_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(ALIKE)
    shown = run(tmp_path, "--didyma-certificates", "kept")
    assert "4 passed" in shown, shown
    assert len([*(tmp_path / "kept").iterdir()]) == 4


n = dd.dim("n", 1, 300)


def double(x: dd.Tensor) -> dd.Tensor:
    return x + x


def test_later_seeds_have_the_seconds_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, given = [0.0], list[float]()

    def judge(task: Task) -> Judgement:
        given.append(task.draw.seconds)
        clock[0] += 4.0
        found = Judgement(task, checked=1)
        found.accepted = ["zeros"] if len(given) > 1 else []
        return found

    monkeypatch.setattr(asserting, "judge", judge)
    monkeypatch.setattr(asserting, "monotonic", lambda: clock[0])
    first = dd.testing.assert_kernel_correct(
        KERNEL, dd.trace(dd.f32[n])(double), grid="cdiv(n, 32)", seconds=10.0
    )
    assert given == [10.0, 6.0, 2.0]
    assert first.outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("option", "value"),
    [("seconds", 0.0), ("seconds", -1.0), ("seconds", float("nan")), ("seconds", float("inf")),
     ("timeout", 0.0), ("rounds", 0), ("seed", -1)],
)  # fmt: skip
def test_a_number_that_cannot_be_is_refused(option: str, value: float) -> None:
    given: dict[str, Any] = {option: value}
    with pytest.raises(DidymaError, match=f"bad-option at `{option}`"):
        dd.testing.assert_kernel_correct(
            KERNEL, dd.trace(dd.f32[n])(double), grid="cdiv(n, 32)", **given
        )
