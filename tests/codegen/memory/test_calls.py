"""Memory of programs that call functions of their own."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.memory import peak, unplanned_total
from didyma.codegen.memory.elide import elided
from didyma.codegen.memory.planners import PLANNERS
from didyma.codegen.options import MemoryOptions, Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import check as check_levels
from didyma.fuzz.levels import runner
from didyma.oracle.plan_check import check, replay
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import NO_INLINE, Module
from didyma.refimpl.ir.program import Call, Copy, Launch
from didyma.refimpl.ir.text import parse_module, parse_program, show
from didyma.refimpl.ir.types import Array
from tests.bench.decoder import decoder
from tests.bench.symbolic_plans import agree

B, S = (1, 4), (1, 64)


def layered(noinline: bool) -> Module:
    return decoder(3, 16, 2, B, S, noinline=noinline)


def arrays(m: Module, b: int, s: int) -> list[Array]:
    r = np.random.default_rng(0)
    env = {"B": b, "S": s}
    shapes = ([d if isinstance(d, int) else env[str(d)] for d in p.type.shape]
              for p in m.entry.params)  # fmt: skip
    return [(r.normal(size=s) / 8).astype(np.float32) for s in shapes]


def results(c: Compiled, given: list[Array]) -> list[Array]:
    return list(runner(c, engine("host"))(engine("host"), given))


def test_a_layer_is_compiled_once() -> None:
    kept, inlined = compile(layered(True)), compile(layered(False))
    (f,) = kept.program.functions
    calls = [x for x in kept.program.lines if isinstance(x, Call)]
    assert [x.callee for x in calls] == [f.name] * 3
    assert not any(isinstance(x, Launch) for x in kept.program.lines)
    assert len(f.lines) < len(inlined.program.lines) / 2
    assert {k.name for k in kept.program.kernels} == {
        x.kernel for x in f.lines if isinstance(x, Launch)
    }
    for b, s in ((1, 1), (2, 7)):
        assert agree(kept, {"B": b, "S": s})  # with and without a plan, to the bit
    report = check_levels(kept.source, arrays(kept.source, 2, 3), [engine("simt")])
    assert report.agree, report.findings[0]


@pytest.mark.parametrize("planner", [p for p in PLANNERS if p != "exact"])
def test_every_planner_plans_functions(planner: str) -> None:
    c = compile(layered(True), Options(memory=MemoryOptions(planner=planner)))
    env = {"B": 2, "S": 7}
    assert check(c.program, env) == []
    assert replay(c.program, env).peak == peak(c.program, env)
    assert peak(c.program, env) <= unplanned_total(c.program, env)


SMALL = """
module {
  func @kept(%x: f32[64, 2]) -> (%z) attrs(NoInline=1) {
    %y = flip(%x, axes=(0,)) : f32[64, 2]
    %s = cumulative_sum(%y, axis=0, exclusive=false, reverse=false) : f32[64, 2]
    %z = cumulative_sum(%s, axis=1, exclusive=false, reverse=false) : f32[64, 2]
  }
  func @main(%x: f32[64, 2]) -> (%b) {
    %a = call @kept(%x) : f32[64, 2]
    %b = call @kept(%a) : f32[64, 2]
  }
}
"""


def test_what_a_function_takes_counts_where_it_is_called() -> None:
    m = parse_module(SMALL)
    c = compile(m)
    inside = peak(c.program.function["kept"], {})
    assert inside > 0
    assert peak(c.program, {}) == 1024 + inside
    assert (
        peak(compile(m, Options(memory=MemoryOptions(capacity=1024 + inside))).program, {})
        == 1024 + inside
    )
    with pytest.raises(DidymaError) as caught:
        compile(m, Options(memory=MemoryOptions(capacity=1023 + inside)))
    assert caught.value.code == "over-capacity"
    assert f"{inside} bytes in functions" in str(caught.value)


def test_weights_of_a_function_are_the_programs() -> None:
    w = np.arange(6, dtype=np.float32).reshape(2, 3)

    @dd.noinline
    def f(x: dd.Tensor) -> dd.Tensor:
        return x @ dd.asarray(w) @ dd.asarray(w.T.copy())

    @dd.trace(dd.f32[4, 2])
    def main(x: dd.Tensor) -> dd.Tensor:
        return f(f(x))

    p = dd.compile(main).compiled.program
    (g,) = p.functions
    assert len(p.constants) == 2
    assert len(g.inputs) == 3
    x = np.ones((4, 2), np.float32)
    assert np.array_equal(dd.compile(main)(x), x @ w @ w.T @ w @ w.T)


def test_results_of_a_function_that_are_not_made_by_it_are_copies() -> None:
    m = parse_module("""
module {
  func @kept(%x: f32[4], %w: f32[4]) -> (%x, %s, %y, %y) attrs(NoInline=1) {
    %y = exp(%x) : f32[4]
    %s = reshape(%y, shape=(2, 2)) : f32[2, 2]
  }
  func @main(%x: f32[4]) -> (%a, %b, %c, %d) {
    %a, %b, %c, %d = call @kept(%x, %x) : f32[4], f32[2, 2], f32[4], f32[4]
  }
}
""")
    c = compile(m)
    (f,) = c.program.functions
    assert sum(isinstance(x, Copy) for x in f.lines) == 3
    x = np.arange(4, dtype=np.float32)
    a, b, c4, d = results(c, [x])
    assert a.tolist() == x.tolist()
    assert b.ravel().tolist() == c4.tolist() == d.tolist()


def test_a_function_nobody_calls_any_more_is_gone() -> None:
    text = show(parse_module(SMALL)).replace("-> (%b)", "-> (%x)")
    c = compile(parse_module(text))
    assert c.program.functions == ()
    assert not any(NO_INLINE in f.attr for f in c.fused.functions)


def test_a_copy_stays_where_a_call_writes_what_was_copied() -> None:
    function = """
      function @f {
        inputs (%a)
        outputs (%b)
        types { %a: f32[4] %b: f32[4] }
        lines { copy %b from %a return () }
      }"""
    text = """
      program @main {{
        inputs (%x)
        types {{ %x: f32[4] %a: f32[4] %c: f32[4] %d: f32[4] }}
        {function}
        lines {{
          call @f(%x) -> (%a) copy %c from %a {between} call @f(%c) -> (%d) return (%a, %d)
        }}
      }}"""
    for between, kept in (("", 0), ("call @f(%x) -> (%a)", 1)):
        p = elided(parse_program(text.format(function=function, between=between)), lambda _: (0,))
        assert sum(isinstance(x, Copy) for x in p.lines) == kept
