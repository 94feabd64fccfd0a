"""Wrappers of programs with control flow, on engines: the graph's own results, and nothing held."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import planner
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.allocator import wrappers
from didyma.refimpl.interp import graph
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.text import parse_program
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify import program as laws
from tests.codegen.control.modules import TEXTS, module
from tests.codegen.emit.test_wrapper import Watched
from tests.codegen.once import ran
from tests.codegen.order.test_control import bare, inputs


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("where", ["host", "simt"])
def test_engines_run_what_graphs_mean(where: str, name: str) -> None:
    m = module(name)
    unplanned = bare(m)
    for how in ("none", "linear_scan", "didyma"):
        p = plan(unplanned, planner(how))
        for n in (0, 1, 5):
            given = inputs(m, n)
            on = Watched(engine(where))
            want, got = graph.run(m, given), ran(p, on, given)
            assert [a.tobytes() for a in got] == [a.tobytes() for a in want], (how, n)
            assert [a.shape for a in got] == [a.shape for a in want]
            assert on.held == []


ALLOCATES = """
program @main {
  inputs (%x)
  types { %x: f32[4]  %y: f32[4]  %z: f32[4]  %w: f32[4] }
  lines {
    allocate %w
    extern "both"(%x, by=2.0) -> (%y, %w, %z) allocates (%y, %z)
    free %y
    return (%z, %w)
  }
}
"""


def both(on: Engine, outputs: Sequence[Any], inputs: Sequence[Any], attrs: Any) -> list[Any]:
    """A routine that allocates two of its outputs and is given the third."""
    x = on.download(inputs[0], DType.F32, (4,))
    made = [on.upload(x), on.upload(x * np.float32(attrs["by"]))]
    on.copy(outputs[0], made[0])
    return made


@pytest.mark.parametrize("where", ["host", "simt"])
def test_a_routine_that_allocates(where: str) -> None:
    p = parse_program(ALLOCATES)
    laws.verify(p)
    on = Watched(engine(where))
    x = np.arange(4, dtype=np.float32)
    z, w = ran(p, on, [x], externs={"both": both})
    assert z.tolist() == [0, 2, 4, 6]
    assert w.tolist() == [0, 1, 2, 3]
    assert on.held == []


def test_the_stack_of_a_thread() -> None:
    on = Host()
    first, second = on.stack(1000), on.stack(PORTABLE.stack)
    assert abs(first.address - second.address) >= PORTABLE.stack
    assert first.address % 256 == second.address % 256 == 0
    at = first.address
    on.unstack(first)
    again = on.stack(40)
    assert again.address == at, "the region is kept"
    assert (again.array == 0xFF).all()
    ctypes.memset(again.address + 40, 7, 1)
    with pytest.raises(KernelFault, match="guard"):
        on.unstack(again)
    on.unstack(second)


def test_every_stream_has_waited_around_a_call() -> None:
    p = parse_program("""
      program @main {
        inputs (%x)
        types { %x: f32[4] %y: f32[4] %z: f32[4] }
        kernel @double(a: f32[4], o: f32[4]) writes (o) {
          for i in 4 bound blockIdx.x { o[i] = a[i] + a[i] }
        }
        function @plain {
          inputs (%a)
          outputs (%b)
          types { %a: f32[4] %b: f32[4] }
          lines { launch @double(%a, %b) return () }
        }
        function @streamed {
          inputs (%a)
          outputs (%b)
          types { %a: f32[4] %b: f32[4] }
          lines { launch @double(%a, %b) stream 2 return () }
        }
        lines {
          allocate %y
          allocate %z
          launch @double(%x, %y) stream 1
          call @plain(%y) -> (%z)
          call @streamed(%z) -> (%y)
          launch @double(%y, %z) stream 1
          wait 0 on 1
          free %y
          return (%z)
        }
      }""")
    laws.verify(p)
    text = wrapper.emit(p, cuda.emit(p.kernels))
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("plain(engine, kernels, externs, y, z)")
    assert lines[at - 1] == lines[at + 1] == "engine.join()"
    inside = lines[lines.index("def streamed(engine, kernels, externs, a, b):") :]
    (launched,) = (i for i, x in enumerate(inside) if x.endswith("[a, b], sizes, 2)"))
    assert inside[launched - 1] == inside[launched + 1] == "engine.join()"
    x = np.arange(4, dtype=np.float32)
    (z,) = ran(p, Watched(engine("host")), [x])
    assert z.tolist() == (x * 16).tolist()


def test_every_stream_has_waited_after_a_branch_with_an_empty_side() -> None:
    p = parse_program("""
      program @main {
        inputs (%x, %go)
        types { %x: f32[4] %go: bool[] %y: f32[4] %z: f32[4] }
        kernel @double(a: f32[4], o: f32[4]) writes (o) {
          for i in 4 bound blockIdx.x { o[i] = a[i] + a[i] }
        }
        lines {
          allocate %y
          allocate %z
          launch @double(%x, %y) stream 1
          if %go { copy %z from %x } else { }
          launch @double(%y, %z)
          free %y
          return (%z)
        }
      }""")
    laws.verify(p)
    x = np.arange(4, dtype=np.float32)
    for go in (False, True):
        (z,) = wrappers.run(p, [x, np.asarray(go)], MemoryUse())
        assert z.tolist() == (x * 4).tolist()
