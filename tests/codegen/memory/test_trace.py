"""Traces: round trip, and the message of each thing that may be wrong (``traces/<code>.csv``).

``python -m tests.codegen.memory.test_trace`` writes the messages anew; read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from didyma.codegen.memory import trace
from didyma.codegen.memory.arena import FREE, Problem, solve
from didyma.refimpl.errors import DidymaError
from tests.codegen.memory.arena.test_planners import problems

HERE = Path(__file__).parent / "traces"
CASES = sorted(p.stem for p in HERE.glob("*.csv"))


def message(name: str) -> DidymaError:
    text = (HERE / f"{name}.csv").read_bytes().decode()
    with pytest.raises(DidymaError) as e:
        trace.parse(text, f"{name}.csv")
    return e.value


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    e = message(name)
    assert e.code == name.split(".")[0]
    assert f"{e}\n" == (HERE / f"{name}.txt").read_text()


def fields(p: Problem) -> list[object]:
    return [p.names, *(a.tolist() for a in (p.lower, p.upper, p.size, p.alignment, p.fixed))]


@settings(deadline=None, max_examples=50)
@given(p=problems())
def test_round_trip(p: Problem) -> None:
    assert fields(trace.parse(trace.show(p))) == fields(p)


def test_a_plan_is_a_trace_with_offsets() -> None:
    p = trace.parse("id,lower,upper,size\na,0,2,8\nb,1,3,4\n")
    assert trace.show(p, solve(p).offsets) == "id,lower,upper,size,offset\na,0,2,8,0\nb,1,3,4,8\n"


def test_line_ends_spaces_marks_and_column_order_do_not_matter() -> None:
    text = "\ufeffsize , id,upper,lower\r\n 8,a,2 ,0\r\n\r\n4,b,3,-1\r\n"
    p = trace.parse(text)
    assert fields(p) == [("a", "b"), [0, -1], [2, 3], [8, 4], [1, 1], [FREE, FREE]]


def test_no_buffers_are_no_error() -> None:
    assert trace.parse("id,lower,upper,size\n").count == 0


if __name__ == "__main__":
    for case in CASES:
        (HERE / f"{case}.txt").write_text(f"{message(case)}\n")
