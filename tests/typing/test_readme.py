"""The README shows the program that the type checkers read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import didyma as dd
from tests.typing import readme

ROOT = Path(__file__).parents[2]


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def test_the_readme_shows_what_the_checkers_read() -> None:
    shown = re.search(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S
    )
    assert shown is not None
    file = lines(Path(readme.__file__).read_text(encoding="utf-8"))
    program = lines(shown[1])
    start = file.index(program[0])
    assert file[start : start + len(program)] == program


def test_sizes_of_annotations_hold() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    rest, first = dd.interpret(readme.centred, x).values
    assert rest.tolist() == (x - x.mean(0)).tolist()
    assert first.tolist() == x[0].tolist()


def test_what_the_checkers_read_is_traced() -> None:
    @dd.trace(dd.f32[4, 4], dd.i64[2])
    def program(x: dd.Tensor, rows: dd.Tensor) -> list[dd.Tensor]:
        return [y for y in readme.methods(x, rows) if y.dtype == dd.f32]

    assert len(program.module.entry.results) > 10
