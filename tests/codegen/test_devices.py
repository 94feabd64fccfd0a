"""Device tags: no engine honours one, so nothing that would run on an engine accepts one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import levels
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.program import Allocate, Copy, Program, Return
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import DType, TensorType
from didyma.tracer.tracing import Program as Traced
from tests.didyma.cli import didyma

APART = """module {
  func @main(%x: f32[4]@cuda:0, %y: f32[4]@cuda:1) -> (%a, %b) {
    %a = exp(%x) : f32[4]@cuda:0
    %b = exp(%y) : f32[4]@cuda:1
  }
}
"""
# One device for all, but not the program's own; and a value that nothing reads.
SAME = APART.replace("cuda:1", "cuda:0")
UNREAD = """module {
  func @main(%x: f32[4], %c: f32[4]@"a b") -> (%y) {
    %y = exp(%x) : f32[4]
  }
}
"""
INPUTS = [np.zeros(4, np.float32)] * 2


@pytest.mark.parametrize(
    ("text", "name"), [(APART, "%x on @cuda:0"), (SAME, "%x on @cuda:0"), (UNREAD, "%c on @a b")]
)
def test_a_graph_with_a_tag_is_not_compiled(text: str, name: str) -> None:
    m = parse_module(text)
    traced = Traced(m)
    for run in (
        lambda: compile(m),
        lambda: levels.check(m, INPUTS, [engine("host")]),
        lambda: dd.compile(traced),
        lambda: dd.check(traced),
    ):
        with pytest.raises(DidymaError, match="one device") as e:
            run()
        assert (e.value.code, e.value.got) == ("device-unsupported", name)
        assert "remove `@" in e.value.help


@pytest.mark.parametrize("command", ["check", "explain", "plan"])
def test_the_command_line_refuses_it(command: str, tmp_path: Path) -> None:
    source = tmp_path / "apart.dym"
    source.write_text(APART)
    words = ("--out", tmp_path / "out") if command == "explain" else ()
    said = didyma(command, source, *words)
    assert said.code == 2
    assert "device-unsupported" in said.err
    assert "%x on @cuda:0" in said.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["apart.dym"]


def test_a_program_with_a_tag_gets_no_wrapper() -> None:
    far = TensorType(DType.F32, (4,), "cuda:1")
    lines = (Allocate("y"), Copy("y", "x"), Return(("y",)))
    p = Program("f", (), ("x",), (), (("x", far), ("y", far)), (), lines)
    with pytest.raises(DidymaError, match="%x on @cuda:1") as e:
        wrapper.emit(p, cuda.emit(()))
    assert e.value.code == "device-unsupported"


def test_the_reference_runs_it() -> None:
    a, b = graph.run(parse_module(APART), INPUTS)
    np.testing.assert_array_equal(a, np.ones(4))
    np.testing.assert_array_equal(b, np.ones(4))
