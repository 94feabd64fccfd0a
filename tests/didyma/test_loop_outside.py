"""What loop functions return, and the library routines that are called between their kernels."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.emit.cuda import emit
from didyma.codegen.runtime.host import Host
from tests.didyma.test_loop_functions import ENGINES, loaded

SUM = """primfunc @total(x: f32[n], y: f32[n]) writes (y) returns f32 dims n in [1, 64] {
  for i in n parallel {
    y[i] = x[i] * 2.0:f32
  }
  fold (s = 0.0:f32) over (k in n) by (v: f32) -> (s + v) {
    yield (y[k])
  }
  return s
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_is_returned_after_the_outputs(tmp_path: Path, engine: str) -> None:
    program = loaded(tmp_path, SUM)
    y, total = dd.compile(program, engine=engine)(x := np.arange(5, dtype=np.float32))
    assert np.array_equal(y, 2 * x)
    assert (type(total), total) == (np.float32, 20)
    assert dd.check(program, engines=ENGINES).agree


def test_a_function_may_give_nothing_but_a_number(tmp_path: Path) -> None:
    text = "primfunc @first(x: i8[3]) writes () returns i8 {\n  return x[0]\n}\n"
    got: Any = dd.compile(loaded(tmp_path, text))(np.array([-3, 1, 2], np.int8))
    assert (type(got), got) == (np.int8, -3)


def test_a_schedule_keeps_what_is_returned(tmp_path: Path) -> None:
    steps = "schedule @total {\n  split i by 4\n  bind i_outer to blockIdx.x\n}"
    report = dd.check(loaded(tmp_path, SUM), schedules={"total": steps})
    assert report.agree, report.findings


CALLING = """primfunc @calling(x: f32[n], y: f32[n]) writes (y) dims n in [1, 64] {
  for i in n parallel {
    y[i] = x[i] * 2.0:f32
  }
  extern "sort"(y, down=true) -> alloc (t: f32[n], at: i64[n])
  for j in n parallel {
    y[at[j]] = t[j] + f32(j)
    t[j] = 0.0:f32
  }
  extern "cumsum"(y) -> (t)
  extern "add"(t, x) -> (y)
  free t
  free at
}
"""


def sort(x: Any, *, down: bool) -> tuple[Any, Any]:
    at = np.argsort(-x if down else x, kind="stable")
    return x[at], at


def cumsum(x: Any, *, out: Any) -> None:
    np.cumsum(x, out=out)


ROUTINES: dict[str, Callable[..., Any]] = {"sort": sort, "cumsum": cumsum, "add": np.add}


@pytest.mark.parametrize("engine", ENGINES)
def test_library_routines_are_called_between_kernels(tmp_path: Path, engine: str) -> None:
    run = dd.compile(loaded(tmp_path, CALLING), engine=engine, externs=ROUTINES)
    x = np.array([3, 1, 4, 1.5, 9], np.float32)
    ranks = np.array([2, 4, 1, 3, 0])
    assert np.array_equal(run(x), np.cumsum(2 * x + ranks, dtype=np.float32) + x)
    assert run.text.count("__global__") == 2


def test_a_function_with_external_calls_is_judged(tmp_path: Path) -> None:
    steps = "schedule @calling {\n  split j by 4\n  bind j_outer to blockIdx.x\n}"
    program = loaded(tmp_path, CALLING)
    report = dd.check(
        program, schedules={"calling": steps}, externs=ROUTINES, engines=("host", "simt")
    )
    assert report.agree, report.findings
    wrong = program.scheduled(steps)[-3:]
    assert [type(p).__name__ for p in wrong] == ["ExternalCall", "Free", "Free"]


def test_what_a_routine_made_is_released(tmp_path: Path) -> None:
    """The array that it returned is gone, and so are the engine's bytes for it."""
    made: list[weakref.ref[Any]] = []

    def kept(x: Any, *, down: bool) -> tuple[Any, Any]:
        found = sort(x, down=down)
        made.extend(map(weakref.ref, found))
        return found

    engine = Counting()
    run = dd.compile(loaded(tmp_path, CALLING), engine=engine, externs={**ROUTINES, "sort": kept})
    run(np.ones(3, np.float32))
    assert [x() for x in made] == [None, None]
    assert engine.live == 0


class Counting(Host):
    """Counts the buffers that are there."""

    live = 0

    def upload(self, array: Any) -> Any:
        self.live += 1
        return super().upload(array)

    def free(self, buffer: Any) -> None:
        self.live -= 1
        super().free(buffer)


@pytest.mark.parametrize(
    ("externs", "code", "says"),
    [
        ({}, "unknown-extern", "no implementation of add"),
        ({**ROUTINES, "gemm": np.matmul}, "unknown-extern", "one of: add, cumsum, sort"),
    ],
)
def test_every_routine_has_an_implementation_and_no_other_has(
    tmp_path: Path, externs: dict[str, Any], code: str, says: str
) -> None:
    with pytest.raises(dd.DidymaError, match=says) as e:
        dd.compile(loaded(tmp_path, CALLING), externs=externs)
    assert e.value.code == code


ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(
    "made", [ONES, (ONES, np.zeros(3, np.int32)), (ONES[:1], np.zeros(3, int)), None]
)
def test_what_a_routine_makes_is_of_the_types_that_are_declared(tmp_path: Path, made: Any) -> None:
    def wrong(x: Any, *, down: bool) -> Any:
        del x, down
        return made

    run = dd.compile(loaded(tmp_path, CALLING), externs={**ROUTINES, "sort": wrong})
    with pytest.raises(dd.DidymaError, match=r"float32\[3\], int64\[3\]") as e:
        run(ONES)
    assert e.value.code == "extern-result"


def test_an_external_call_is_no_statement_of_a_kernel(tmp_path: Path) -> None:
    with pytest.raises(dd.DidymaError, match='extern "sort"') as e:
        emit([loaded(tmp_path, CALLING).func])
    assert e.value.code == "target-lacks"
