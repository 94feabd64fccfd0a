"""What steps promise beside the meaning of a function is kept, and a step not taken breaks it."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from didyma.codegen.schedule.steps.apply import run
from didyma.codegen.schedule.steps.records import Schedule
from didyma.codegen.schedule.steps.text import parse, step_name
from didyma.fuzz.schedules import cases
from didyma.fuzz.schedules.promises import broken
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop

CASES = 80
# What may leave a function as it was: what it asks for is there already.
IDLE = {"reorder", "unroll", "vectorize", "parallel", "blockize", "swizzle", "inline"}


@cache
def drawn(forms: bool) -> list[tuple[Schedule, tuple[PrimFunc, ...], dict[str, int]]]:
    """Return schedules with the functions before and after each step, and sizes."""
    found = list[tuple[Schedule, tuple[PrimFunc, ...], dict[str, int]]]()
    for index in range(CASES):
        case = cases.draw(9, index, forms=forms)
        after = case.after or ()
        found.append((case.schedule, (case.subject.func, *after), dict(case.subject.env)))
    return found


@pytest.mark.parametrize("forms", [False, True])
def test_steps_do_what_their_records_say(forms: bool) -> None:
    said = [broken(steps, fs[0], fs[1:], env) for steps, fs, env in drawn(forms)]
    assert [s for s in said if s] == []


def test_a_step_that_is_not_taken_is_told() -> None:
    seen, told = Counter[str](), Counter[str]()
    for steps, fs, env in (*drawn(False), *drawn(True)):
        for step, before in zip(steps, fs, strict=False):
            seen[step_name(step)] += 1
            told[step_name(step)] += bool(broken((step,), before, (before,), env))
    assert len(seen) > 12
    assert {n for n in seen if told[n] < seen[n]} <= IDLE
    assert all(told.values())


ONE_LANE = """
kernel @f(x: f32[4, 1], y: f32[4]) writes (y) {
  for i in 4 {
    alloc s: f32[] local {
      s[] = 0.0:f32
      for k in 1 {
        s[] = s[] + x[i, k]
      }
      y[i] = s[]
    }
  }
}
"""


def test_a_lane_alone_has_nothing_to_exchange() -> None:
    (f,) = parse_loop(ONE_LANE)
    steps = parse("schedule @f {\n  bind i to blockIdx.x\n  reduce_across s over k by shuffle\n}\n")
    after = [a.func for a in run(steps.steps, f, cases.TARGET)]
    assert broken(steps.steps, f, after, {}) == ""


FUNCTION = """
kernel @f(x: f32[12, 8], y: f32[12, 8]) writes (y) {
  for i in 12 parallel {
    for j in 8 parallel {
      y[i, j] = x[i, j] + 1.0:f32
    }
  }
}
"""


@pytest.mark.parametrize(
    ("said", "done", "why"),
    [
        ("tile i, j by 4, 2", "split i by 4\n  split j by 2", "i_inner is not in j_outer"),
        ("split i by 4", "split i by 3 into i_outer, i_inner", "i_inner has 3 iterations"),
        ("fuse i, j", "split j by 4", "i is still there"),
        ("reorder j, i", "parallel i", "i is not in j"),
        ("bind i to blockIdx.x", "bind i to blockIdx.y", "i is bound to blockIdx.y"),
        ("vectorize j", "unroll j", "j is unrolled and not vectorized"),
        ("parallel i", "parallel i\n  unroll j", "j is unrolled, and was parallel"),
        ("stage x at i into s", "stage x at i in registers into t", "there is no buffer s"),
    ],
)  # fmt: skip
def test_another_step_in_its_place_is_told(said: str, done: str, why: str) -> None:
    (f,) = parse_loop(FUNCTION)
    (step,) = parse(f"schedule @f {{\n  {said}\n}}\n").steps
    made = [a.func for a in run(parse(f"schedule @f {{\n  {done}\n}}\n").steps, f)][-1]
    assert why in broken((step,), f, (made,), {})
