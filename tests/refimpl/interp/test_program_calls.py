"""Calls of a program's functions: what they see, what they may touch, whose sizes they have."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.refimpl.interp import program
from didyma.refimpl.interp.faults import ProgramFault
from didyma.refimpl.interp.program_streams import Late
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import parse_program
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import program as laws

X = np.arange(4, dtype=np.float32)
DOUBLE = """
  kernel @double(x: f32[4], o: f32[4]) writes (o) {
    for i in 4 bound blockIdx.x {
      o[i] = x[i] + x[i]
    }
  }
"""


def read(function: str, lines: str, values: str = "%y", head: str = "") -> Program:
    """A program of input x, with values of its type, and one function of one input."""
    types = "".join(f" {v}: f32[4]" for v in ("%x", *values.split()))
    return parse_program(
        f"program @main {{ {head} inputs (%x) types {{{types} }} {DOUBLE} {function}"
        f" lines {{ {lines} }} }}"
    )


def function(name: str, lines: str, more: str = "", head: str = "") -> str:
    types = f"%a: f32[4] %b: f32[4] {more}"
    return (
        f"function @{name} {{ {head} inputs (%a) outputs (%b) types {{ {types} }}"
        f" lines {{ {lines} return () }} }}"
    )


def results(p: Program) -> list[Array]:
    laws.verify(p)
    return program.run(p, [X])


TWICE = function(
    "twice", "allocate %t launch @double(%a, %t) launch @double(%t, %b) free %t", "%t: f32[4]"
)


def test_functions_call_functions_above_them() -> None:
    more = function("more", "call @twice(%a) -> (%b)")
    p = read(TWICE + more, "allocate %y call @more(%x) -> (%y) return (%y)")
    (y,) = results(p)
    assert y.tolist() == [0, 4, 8, 12]


def test_each_call_has_memory_of_its_own() -> None:
    lines = "allocate %y allocate %z call @twice(%x) -> (%y) call @twice(%y) -> (%z) free %y"
    (z,) = results(read(TWICE, f"{lines} return (%z)", "%y %z"))
    assert z.tolist() == [0, 16, 32, 48]


def test_a_function_may_write_a_part_of_a_whole() -> None:
    p = parse_program(
        "program @main { inputs (%x) types { %x: f32[4] %w: f32[2, 4] %p: f32[4] %q: f32[4] }"
        f" {DOUBLE} {TWICE} lines {{ allocate %w view %p of %w view %q of %w at 16"
        " call @twice(%x) -> (%p) call @twice(%p) -> (%q) return (%w) } }"
    )
    (w,) = results(p)
    assert w.tolist() == [[0, 4, 8, 12], [0, 16, 32, 48]]


def test_symbols_that_a_function_binds_are_its_own() -> None:
    inner = function(
        "turns", "copy %b from %a repeat i in k + 2 { launch @double(%a, %b) }",
        head="dims k in [0, 3], i in [0, 7]",
    )  # fmt: skip
    lines = """
      allocate %y
      copy %y from %x
      repeat k in 3 {
        repeat i in 2 {
          allocate %z
          call @turns(%y) -> (%z)
          copy %y from %z
          free %z
        }
      }
      return (%y)
    """
    (y,) = results(read(inner, lines, "%y %z", head="dims k in [0, 3], i in [0, 7]"))
    assert y.tolist() == (X * 2**6).tolist()


def test_what_a_function_does_not_write_holds_poison() -> None:
    p = read(function("nothing", ""), "allocate %y call @nothing(%x) -> (%y) return (%y)")
    assert np.isnan(program.run(p, [X])[0]).all()


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("launch @double(%a, %b) copy %a from %b", "read-only"),
        ("launch @double(%a, %b) free %b", "read-only"),
        ("launch @double(%a, %b) reuse %t over %b", "read-only"),
        ("launch @double(%a, %b) view %t of %a copy %t from %b", "read-only"),
    ],
)
def test_a_function_must_not_touch_what_is_not_its_own(lines: str, kind: str) -> None:
    p = read(function("bad", lines, "%t: f32[4]"), "allocate %y call @bad(%x) -> (%y) return (%y)")
    with pytest.raises(ProgramFault) as caught:
        program.run(p, [X])
    assert caught.value.kind == kind


def test_what_a_call_writes_is_not_read_by_it() -> None:
    p = read(TWICE, "allocate %y copy %y from %x call @twice(%y) -> (%y) return (%y)")
    with pytest.raises(ProgramFault) as caught:
        program.run(p, [X])
    assert caught.value.kind == "ownership"


@pytest.mark.parametrize("late", ["lower first", "higher first"])
def test_work_on_streams_has_ended_around_a_call(late: Late) -> None:
    inner = function(
        "streamed", "allocate %t launch @double(%a, %t) stream 2 wait 1 on 2"
        " launch @double(%t, %b) stream 1 wait 0 on 1 wait 0 on 2 free %t", "%t: f32[4]",
    )  # fmt: skip
    lines = """
      allocate %y
      allocate %z
      launch @double(%x, %y) stream 1
      call @streamed(%y) -> (%z)
      launch @double(%z, %y) stream 2
      wait 0 on 2
      free %z
      return (%y)
    """
    p = read(inner, lines, "%y %z")
    laws.verify(p)
    (y,) = program.run(p, [X], late=late)
    assert y.tolist() == (X * 16).tolist()
