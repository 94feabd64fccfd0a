"""Judged kernels as ``ModelNew`` of KernelBench, which are read back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from didyma.codegen.runtime.ptx.sources import Source
from didyma.commands import judge_kernel
from didyma.judging.adapters import load_inline, solution
from didyma.judging.making import Launch, make_task
from didyma.judging.request import Request
from didyma.judging.task import Role, Scalar, Task
from didyma.refimpl.errors import DidymaError
from tests.bench.found import FOUND
from tests.bench.idioms import IDIOMS
from tests.didyma.judging.kernels import KERNELS, Judged

pytestmark = pytest.mark.usefixtures("ptx")


def meanings(task: Task) -> list[list[Role | None]]:
    """Return the roles of each launch; None for numbers, whose text may differ."""
    return [[None if isinstance(r, Scalar) else r for r in s.roles] for s in task.steps]


@pytest.mark.parametrize(
    "kernel", [KERNELS["add"], KERNELS["product"], IDIOMS["bins"], FOUND["conv"]]
)
def test_a_solution_is_read_back(kernel: Judged) -> None:
    spec = kernel.spec.module
    task = make_task(Source(kernel.text, "k.cu"), spec, kernel.launch)
    read = load_inline.read(solution.model_new(task), "new.py", spec)
    again = make_task(read.source, spec, read.launches, memory=read.memory)
    assert meanings(again) == meanings(task)
    assert [s.label for s in again.steps] == [s.label for s in task.steps]


EXPRESSIONS = "max(cdiv(n, 4), 2) if n > 3 and not n == 7 else -n"


def test_what_has_no_text_in_c_is_refused() -> None:
    kernel = KERNELS["add"]
    for launch in (Launch(grid="next_pow2(n)"), Launch(grid=EXPRESSIONS)):
        task = make_task(Source(kernel.text, "k.cu"), kernel.spec.module, launch)
        with pytest.raises(DidymaError, match="bad-spec"):
            solution.model_new(task)


def test_the_command_writes_tasks_and_solutions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = KERNELS["add"]
    (tmp_path / "add.cu").write_text(kernel.text)
    (tmp_path / "add.dym").write_text(str(kernel.spec))
    asked = Request("", str(tmp_path / "add.dym"))
    for name in ("definition.json", "task.yml", "task.py"):
        assert judge_kernel.write(asked, tmp_path / name, False) == 0
    written = sorted(p.name for p in tmp_path.iterdir())
    assert written == [
        "add.cu",
        "add.dym",
        "definition.json",
        "reference.py",
        "task.py",
        "task.yml",
    ]
    given = Request(str(tmp_path / "add.cu"), str(tmp_path / "add.dym"), grid="4", block="32")
    assert judge_kernel.write(given, tmp_path / "new.py", False) == 0
    assert "class ModelNew" in (tmp_path / "new.py").read_text()
    assert "new.py written" in capsys.readouterr().out
    assert judge_kernel.write(asked, tmp_path / "task.yml", True) == 0
    both = [str(tmp_path / name) for name in ("reference.py", "task.yml")]
    assert json.loads(capsys.readouterr().out) == {"files": both}
    for request, name in ((asked, "task.txt"), (given, "definition.json"), (Request(""), "a.py")):
        with pytest.raises(DidymaError, match=r"unknown-format|bad-option"):
            judge_kernel.write(request, tmp_path / name, False)
