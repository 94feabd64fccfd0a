"""Tasks of GPU MODE: ``reference.py`` with ``generate_input`` and ``ref_kernel``, and ``task.yml``.

Source of the format: the repository gpu-mode/reference-kernels on GitHub.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from didyma.judging.pytorch import program_of, torch_or_raise
from didyma.refimpl.errors import DidymaError
from didyma.tracer.tracing import Program

_ROW = re.compile(r"^\s*-\s*(\{.*\})\s*$", re.MULTILINE)
_SOURCE = re.compile(r"^\s*-\s*\{.*\"source\":\s*\"([^\"]*/)[^\"/]*\"", re.MULTILINE)
_ON_GPU = {"cuda": "cpu", "cuda:0": "cpu"}  # references run where no GPU is
_SECTION = re.compile(r"^(\w+):", re.MULTILINE)
_WITH_ARGUMENTS = frozenset(("tests", "benchmarks"))
_MOST = 1 << 16  # elements of the inputs


def is_task(text: str) -> bool:
    """Return whether a Python text is the reference of a task of GPU MODE."""
    return "def generate_input" in text and "def ref_kernel" in text


def arguments(task: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the tests and benchmarks of a ``task.yml``, which stand in braces.

    >>> [*arguments('files:\\n  - {"name": "a.py"}\\ntests:\\n  - {"size": 127, "seed": 4}')]
    [{'size': 127, 'seed': 4}]
    """
    _, *parts = _SECTION.split(task)
    for section, text in zip(parts[::2], parts[1::2], strict=True):
        for row in _ROW.findall(text) if section in _WITH_ARGUMENTS else ():
            # YAML needs no quotes around keys.
            quoted = re.sub(r"([{,]\s*)([A-Za-z_]\w*)\s*:", r'\1"\2":', row)
            yield json.loads(quoted)


def folders(task: str) -> list[str]:
    """Return other folders in which a ``task.yml`` has files that its reference imports.

    >>> folders('files:\\n  - {"source": "../utils.py"}\\n  - {"source": "task.py"}')
    ['../']
    """
    return [*dict.fromkeys(_SOURCE.findall(task))]


def load(path: Path) -> Program:
    """Return the program of a reference, at the sizes of the smallest of its tests.

    DidymaError ``extra-missing`` without PyTorch; ``bad-spec`` for a task of another form.
    """
    torch = torch_or_raise(str(path))
    from didyma.judging.specs import load_python

    described = path.with_name("task.yml")
    task = described.read_text(encoding="utf-8-sig") if described.is_file() else ""
    module = vars(load_python(path, [path.parent / f for f in folders(task)], _ON_GPU))
    rows = [*arguments(task)]
    sized = [(_elements(data), data) for a in rows if (data := _tensors(module, a, torch))]
    if not sized or min(n for n, _ in sized) > _MOST:
        raise DidymaError(
            "bad-spec", str(path), got="no test with inputs of few elements",
            want=f"a row of task.yml whose inputs have at most {_MOST} elements",
        )  # fmt: skip
    _, data = min(sized, key=lambda row: row[0])
    alone = len(data) == 1

    def run(*tensors: Any) -> Any:
        return module["ref_kernel"](tensors[0] if alone else tensors)

    return program_of(run, {f"input{k}": t for k, t in enumerate(data)}, str(path))


def _tensors(module: dict[str, Any], arguments: dict[str, Any], torch: Any) -> list[Any]:
    made: Any = module["generate_input"](**arguments)
    row: list[Any] = [*made] if isinstance(made, tuple | list) else [made]  # pyright: ignore[reportUnknownVariableType]  # of PyTorch
    return [t.cpu() for t in row if isinstance(t, torch.Tensor)]


def _elements(tensors: list[Any]) -> int:
    return sum(int(t.numel()) for t in tensors)
