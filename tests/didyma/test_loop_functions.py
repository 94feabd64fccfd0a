"""Loop functions as a user calls them: numbers by value, and sizes read off shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.refimpl.interp import loop as definition
from didyma.refimpl.ir.text import parse_loop

ENGINES = ("host", "simt")
HEAD = "primfunc @axpy(x: f32[n], y: f32[n], alpha: f32, step: i8, k: i64)"
AXPY = f"""{HEAD} writes (y) dims n in [1, 64] {{
  for i in n parallel {{
    for j in k {{
      y[i] = y[i] + alpha * x[i] + f32(step)
    }}
  }}
}}
"""


def loaded(folder: Path, text: str) -> dd.LoopProgram:
    (folder / "function.dym").write_text(text)
    found = dd.load(folder / "function.dym")
    assert isinstance(found, dd.LoopProgram)
    assert f"{found}\n" == text
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_are_given_by_value(tmp_path: Path, engine: str) -> None:
    run = dd.compile(loaded(tmp_path, AXPY), engine=engine)
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    for alpha, step, k in ((0.5, -3, 2), (np.float32(4), np.int8(1), np.int64(0)), (-1, 127, 1)):
        assert np.array_equal(run(x, y, alpha, step, k), y + k * (alpha * x + step))
    assert "f32 alpha, i8 step, i64 k)" in run.text


def test_a_schedule_keeps_the_numbers(tmp_path: Path) -> None:
    steps = "schedule @axpy {\n  split i by 4\n  bind i_outer to blockIdx.x\n}"
    report = dd.check(loaded(tmp_path, AXPY), schedules={"axpy": steps})
    assert report.agree, report.findings


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ((0.5, 1), "input-count", "5: x, y, alpha, step, k"),
        (("a", 1, 1), "input-dtype", "@axpy, alpha"),
        ((0.5, 1.0, 1), "input-dtype", "@axpy, step"),
        ((0.5, 128, 1), "input-dtype", "a number of i8"),
        ((0.5, True, 1), "input-dtype", "@axpy, step"),
        ((0.5, 1, np.int32(1)), "input-dtype", "@axpy, k"),
        ((np.float64(0.5), 1, 1), "input-dtype", "@axpy, alpha"),
        ((np.ones(1, np.float32), 1, 1), "input-dtype", "@axpy, alpha"),
    ],
)
def test_what_is_no_number_of_the_dtype_is_refused(
    tmp_path: Path, given: tuple[Any, ...], code: str, says: str
) -> None:
    run = dd.compile(loaded(tmp_path, AXPY))
    x = np.ones(3, np.float32)
    with pytest.raises(dd.DidymaError, match=says) as e:
        run(x, x, *given)
    assert e.value.code == code


def test_the_definition_takes_numbers_by_name() -> None:
    (f,) = parse_loop(AXPY)
    held = {"x": np.array([2], np.float32), "y": np.array([1], np.float32)}
    definition.run(f, held, {"n": 1}, scalars={"alpha": 1.5, "step": -1, "k": 3})
    assert held["y"] == [1 + 3 * (1.5 * 2 - 1)]
