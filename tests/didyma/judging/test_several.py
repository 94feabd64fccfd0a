"""Tasks of several launches, which share memory beside inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.commands import judge_kernel
from didyma.judging.judge import Judgement, Outcome, judge, located
from didyma.judging.making import launch_of, make_task
from didyma.judging.request import Request, described
from didyma.judging.task import Draw
from didyma.refimpl.errors import DidymaError
from didyma.testing import assert_kernel_correct

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")

rows, n = dd.dim("rows", 1, 64), dd.dim("n", 1, 4096)


@dd.trace(dd.f32[rows, n])
def spread(x: dd.Tensor) -> dd.Tensor:
    return x - dd.mean(x, axis=1, keepdims=True)


@dd.trace(dd.f32[rows, n])
def doubled(x: dd.Tensor) -> dd.Tensor:
    return x + x


TEXT = """
__global__ void partial(const float* x, float* part, int n) {
  float sum = 0.0f;
  const float* row = x + blockIdx.x * n;
  for (int k = blockIdx.y * 32 + threadIdx.x; k < n; k += 32 * gridDim.y) sum += row[k];
  for (int far = 16; far; far /= 2) sum += __shfl_down_sync(~0u, sum, far);
  if (threadIdx.x == 0) part[blockIdx.x * gridDim.y + blockIdx.y] = sum;
}
__global__ void centre(const float* x, const float* part, float* y, int n, int parts) {
  float sum = 0.0f;
  for (int k = 0; k < parts; ++k) sum += part[blockIdx.x * parts + k];
  for (int k = threadIdx.x; k < n; k += blockDim.x)
    y[blockIdx.x * n + k] = x[blockIdx.x * n + k] - sum / n;
}
"""
LAUNCHES: tuple[dict[str, Any], ...] = (
    {"kernel": "partial", "grid": ("rows", 4)},
    {"kernel": "centre", "grid": "rows", "block": 64, "arg": {"y": "out", "parts": "4"}},
)
MEMORY = {"part": "f32[rows, 4]"}


def judged(
    text: str,
    spec: dd.Program,
    launches: Sequence[Mapping[str, Any]],
    memory: Mapping[str, str] = MEMORY,
) -> Judgement:
    made = [launch_of(x, (), "") for x in launches]
    kept = [f"{k}={v}" for k, v in memory.items()]
    draw = Draw({"n": (130, 33, 1, 97)}, rounds=6, most=1 << 12)
    return judge(make_task(Source(text, "k.cu"), spec.module, made, None, draw, 10.0, kept))


def kinds(found: Judgement) -> set[str]:
    return {f.kind for f, _ in found.faults} | ({"wrong-value"} if found.wrong else set())


def test_two_kernels_share_memory() -> None:
    found = assert_kernel_correct(TEXT, spread, launches=LAUNCHES, memory=MEMORY, rounds=4)
    assert found.task.label == "partial, centre"
    assert found.others[0].outside == "several launches"


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("gridDim.y + blockIdx.y] = sum", "gridDim.y] = sum", "race"),
        ("threadIdx.x == 0)", "threadIdx.x == 0 && blockIdx.y < 3)", "uninitialised"),
        ("k < n; k += blockDim.x", "k < n - 1; k += blockDim.x", "unwritten"),
        ("- sum / n", "+ sum / n", "wrong-value"),
        ("k < parts", "k < parts - 1", "wrong-value"),
        ("const float* row = x", "((float*)x)[0] = 0; const float* row = x", "input-changed"),
    ],
)  # fmt: skip
def test_a_fault_of_either_kernel_is_found(old: str, new: str, what: str) -> None:
    assert TEXT.count(old) == 1
    assert what in kinds(judged(TEXT.replace(old, new), spread, LAUNCHES))


def test_a_line_of_either_kernel_is_named() -> None:
    faulty = TEXT.replace("k < parts", "k < parts - 1")
    found = located(judged(faulty, spread, LAUNCHES), seconds=20)
    at = next(i for i, row in enumerate(faulty.split("\n"), 1) if "k < parts" in row)
    assert found.suspect is not None
    assert found.suspect.line == at


def test_a_result_may_be_written_by_several_launches() -> None:
    text = "".join(
        f"__global__ void {name}(const float* x, float* y, int n) {{"
        f"int row = blockIdx.x * n;"
        f"for (int k = 2 * threadIdx.x + {first}; k < n; k += 64) y[row + k] = 2 * x[row + k]; }}\n"
        for name, first in (("even", 0), ("odd", 1))
    )
    both = [{"kernel": k, "grid": "rows", "arg": ["x", "out"]} for k in ("even", "odd")]
    assert judged(text, doubled, both, {}).outcome is Outcome.CORRECT
    assert "unwritten" in kinds(judged(text, doubled, both[:1] * 2, {}))


def test_a_description_has_launches_and_memory(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(TEXT, "utf-8")
    (tmp_path / "specs.py").write_text(
        "import didyma as dd\n"
        "rows, n = dd.dim('rows', 1, 64), dd.dim('n', 1, 4096)\n"
        "@dd.trace\n"
        "def spread(x: dd.f32[rows, n]) -> dd.f32[rows, n]:\n"
        "    return x - dd.mean(x, axis=1, keepdims=True)\n", "utf-8",
    )  # fmt: skip
    path = tmp_path / "k.toml"
    head = 'file = "k.cu"\nspec = "specs.py::spread"\nrounds = 3\n[memory]\npart = "f32[rows, 4]"\n'
    path.write_text(
        head + '[[launch]]\nkernel = "partial"\ngrid = ["rows", 4]\n'
        '[[launch]]\nkernel = "centre"\ngrid = "rows"\nblock = 64\n'
        'arg = { y = "out", parts = "4" }\n', "utf-8",
    )  # fmt: skip
    kept = tmp_path / "c.json"
    assert judge_kernel.command(Request(str(path)), kept, True) == 0
    assert judge_kernel.check(kept, True) == 0
    path.write_text(head + '[[launch]]\nkernel = "partial"\nwarps = 4\n', "utf-8")
    with pytest.raises(DidymaError, match="warps"):
        judge_kernel.task_of(described(Request(str(path))))


@pytest.mark.parametrize(
    ("memory", "code"),
    [
        ({"part": "f32"}, "bad-option"),
        ({"x": "f32[4]"}, "bad-option"),
        ({"part": "f33[4]"}, "unknown-dtype"),
        ({}, "spec-mismatch"),
        ({"part": "i32[rows, 4]"}, "spec-mismatch"),
    ],
)
def test_memory_that_does_not_fit_is_refused(memory: dict[str, str], code: str) -> None:
    with pytest.raises(DidymaError) as e:
        assert_kernel_correct(TEXT, spread, launches=LAUNCHES, memory=memory)
    assert e.value.code == code
