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


SIZES = """primfunc @sizes(PARAMS, y: f32[n, m]) writes (y) dims n in [1, 64], m in [1, 64] {
  for i in n parallel {
    for j in m {
      y[i, j] = a[i + j] + b[2 * j] + c[i * m + j]
    }
  }
}
"""
SHAPES = {"a": "a: f32[m + n]", "b": "b: f32[2*m + 1]", "c": "c: f32[m*n]"}


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_a_size_is_bound_by_any_shape_that_tells_it(tmp_path: Path, order: str) -> None:
    text = SIZES.replace("PARAMS", ", ".join(SHAPES[p] for p in order))
    run = dd.compile(loaded(tmp_path, text), engine="simt")
    arrays = {p: np.arange(s, dtype=np.float32) for p, s in (("a", 5), ("b", 5), ("c", 6))}
    want = [[i + j + 2 * j + i * 2 + j for j in range(2)] for i in range(3)]
    assert np.array_equal(run(*(arrays[p] for p in order)), want)


PLACES = "a: f32[n], b: f32[2*n + 1], c: f32[n, floor(n/2)]"
ASSERTED = f"""primfunc @asserted({PLACES}) writes (a) dims n in [2, 9] {{
  for i in n parallel {{
    a[i] = a[i] + b[2 * i] + c[i, 0]
  }}
}}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("shapes", "code", "place", "got", "want"),
    [
        (((4,), (8,), (4, 2)), "dim-mismatch", "b, axis 0", "size 8", "2*n + 1 = 9"),
        (((4,), (9,), (5, 2)), "dim-mismatch", "c, axis 0", "size 5", "n = 4"),
        (((4,), (9,), (4, 1)), "dim-mismatch", "c, axis 1", "size 1", "= 2"),
        (((4,), (9, 1), (4, 2)), "rank-mismatch", "b", "shape (9, 1)", "rank 1"),
        (((10,), (21,), (10, 5)), "dim-out-of-range", "n", "n = 10", "2 <= n <= 9"),
    ],
)
def test_a_size_is_asserted_where_it_stands_again(
    tmp_path: Path,
    engine: str,
    shapes: tuple[tuple[int, ...], ...],
    code: str,
    place: str,
    got: str,
    want: str,
) -> None:
    run = dd.compile(loaded(tmp_path, ASSERTED), engine=engine)
    with pytest.raises(dd.DidymaError) as e:
        run(*(np.ones(s, np.float32) for s in shapes))
    said = e.value
    assert (said.code, said.where, said.got) == (code, place, got)
    assert want in said.want


@pytest.mark.parametrize(
    ("params", "place"),
    [("a: f32[n**2], y: f32[n]", "a, axis 0"), ("a: f32[3], y: f32[n]", "@untold")],
)
def test_a_size_that_no_shape_tells_is_refused(tmp_path: Path, params: str, place: str) -> None:
    head = f"primfunc @untold({params}) writes (y) dims n in [1, 9] {{\n"
    body = "  for i in n parallel {\n    y[i] = a[i]\n  }\n}\n"
    run = dd.compile(loaded(tmp_path, head + body))
    with pytest.raises(dd.DidymaError) as e:
        run(np.ones(9 if "*" in params else 3, np.float32))
    assert (e.value.code, e.value.where) == ("unbound-dim", place)


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_may_have_any_strides(tmp_path: Path, engine: str) -> None:
    run = dd.compile(loaded(tmp_path, ASSERTED), engine=engine)
    b = np.arange(18, dtype=np.float32)[::-2]
    c = np.arange(8, dtype=np.float32).reshape(2, 4).T
    got = run(np.broadcast_to(np.float32(2), (4,)), b, c)
    assert np.array_equal(got, 2 + b[:8:2] + c[:, 0])


MOVED = """primfunc @moved(x: f32[n], y: f32[n]) writes (y) dims n in [1, 9] attrs(noalias=false) {
  for i in n parallel {
    y[i] = x[i]
  }
}
"""


def test_pointers_are_restricted_only_where_nothing_aliases(tmp_path: Path) -> None:
    x = np.arange(3, dtype=np.float32)
    for text in (MOVED, MOVED.replace(" attrs(noalias=false)", "")):
        run = dd.compile(loaded(tmp_path, text))
        assert np.array_equal(run(x), x)
        assert ("__restrict__" in run.text) == ("noalias" not in text)


def test_no_step_relies_on_buffers_that_may_be_one(tmp_path: Path) -> None:
    steps = "schedule @moved {\n  split i by 4\n}"
    with pytest.raises(dd.DidymaError, match="noalias=false") as e:
        dd.compile(loaded(tmp_path, MOVED), schedules={"moved": steps})
    assert e.value.code == "bad-step"
