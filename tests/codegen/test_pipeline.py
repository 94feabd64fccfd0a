from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from didyma.codegen.options import GraphOptions, KernelOptions, MemoryOptions, Options
from didyma.codegen.pipeline import Compiled, Lowered, compile, stages
from didyma.codegen.rules import decided
from didyma.oracle import lanes
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as graphs
from didyma.refimpl.interp import program as programs
from didyma.refimpl.ir.dims import evaluate
from didyma.refimpl.ir.graph import CALL, Function
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Allocate, Launch
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, from_memory, to_memory
from didyma.refimpl.ops.bars import Contract, exact, judge
from tests.codegen.graphs import bindings, graph, operands, same_bits
from tests.codegen.make import Graph

CHOICES = [
    Options(),
    Options(graph=GraphOptions(fuse=False)),
    Options(graph=GraphOptions(simplify=False), kernels=KernelOptions(vectorise=False, block=32)),
    Options(memory=MemoryOptions(planner="none")),
    Options(memory=MemoryOptions(planner="linear_scan"), graph=GraphOptions(fuse=False)),
    Options(memory=MemoryOptions(planner="size_class"), graph=GraphOptions(fuse=False)),
    Options(memory=MemoryOptions(planner="storage_id"), graph=GraphOptions(fuse=False)),
]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_every_level_agrees(options: Options, symbolic: bool) -> None:
    checked = 0
    for seed in range(25):
        m = graph(seed, symbolic=symbolic)
        c = compile(m, options)
        env = bindings(m, seed)
        args = operands(m, seed, env)
        planned = programs.run(c.program, args, lanes.run)
        for a, b in zip(planned, programs.run(c.unplanned, args, lanes.run), strict=True):
            assert a.tobytes() == b.tobytes(), seed
        checked += check_kernels(c, args, env)
    assert checked > 25


def check_kernels(c: Compiled, args: Sequence[Array], env: Mapping[str, int]) -> int:
    """Judge each kernel, unscheduled and scheduled, on the reference's own operands."""
    values = graphs.values(c.fused.entry, c.fused, args, env)
    checked = 0
    for n in c.fused.entry.nodes:
        if n.op != CALL or n.callee not in c.loops:
            continue
        f = c.fused.function(n.callee)
        for kernels in ((c.loops[f.name],), tuple(map(loops, c.kernels[f.name]))):
            got = launch(c.loops[f.name], kernels, [values[a] for a in n.args], env)
            judge_results(c, f, [values[a] for a in n.args], got, env)
            checked += 1
    return checked


def launch(
    whole: PrimFunc, kernels: Sequence[PrimFunc], args: Sequence[Array], env: Mapping[str, int]
) -> list[Array]:
    buffers = {b.name: to_memory(a).copy() for b, a in zip(whole.params, args, strict=False)}
    for b in whole.params[len(args) :]:
        buffers[b.name] = np.zeros([evaluate(d, env) for d in b.shape], b.dtype.numpy)
    for k in kernels:
        # A kernel may see a buffer as one of another shape with as many elements.
        shapes = {b.name: [evaluate(d, env) for d in b.shape] for b in k.params}
        lanes.run(k, {name: buffers[name].reshape(s) for name, s in shapes.items()}, env)
    return [buffers[b.name] for b in whole.params[len(args) :]]


def judge_results(
    c: Compiled,
    f: Function,
    args: Sequence[Array],
    got: Sequence[Array],
    env: Mapping[str, int],
) -> None:
    operands = [exact(a, p.type.dtype) for a, p in zip(args, f.params, strict=True)]
    bars = graphs.bars(f, c.fused, operands, env, Contract())
    for bar, t, out in zip(bars, f.result_types(), got, strict=True):
        shape = [evaluate(d, env) for d in t.shape]
        verdict = judge(bar, from_memory(out, t.dtype, shape), t.dtype)
        assert (verdict.ok | verdict.undecided).all(), f


def test_fusion_off_makes_a_kernel_of_every_op() -> None:
    g = Graph()
    x = g.param("x", 4)
    m = g.module(g("square", g("negative", g("abs", x))))
    together, apart = compile(m), compile(m, Options(graph=GraphOptions(fuse=False)))
    assert [len(c.kernels) for c in (together, apart)] == [1, 3]
    passes = ["inline", "place", "simplify", "runs", "slices", "stacks"]
    assert [name for name, _ in together.passes] == [*passes, "fuse"]
    assert [name for name, _ in apart.passes] == [*passes, "separate"]
    v = [np.array([0.0, 1.0, 4.0, np.nan], np.float32)]
    assert same_bits(programs.run(apart.program, v, lanes.run)[0], graphs.run(m, v)[0])


def test_equal_functions_are_lowered_once() -> None:
    g = Graph()
    x = g.param("x", 4, 4)
    y = g("matmul", x, x)
    c = compile(g.module(g("matmul", y, y)))
    assert len(c.loops) == len(c.program.kernels) == 1
    assert sum(isinstance(line, Launch) for line in c.program.lines) == 2


def test_planned_and_unplanned_differ_in_allocations_alone() -> None:
    g = Graph()
    v = g.param("x", 40, 40)
    for _ in range(5):
        v = g("matmul", v, v)
    m = g.module(v)
    for name, most in (("linear_scan", 2), ("didyma", 0)):
        c = compile(m, Options(memory=MemoryOptions(planner=name)))
        count = [sum(isinstance(x, Allocate) for x in p.lines) for p in (c.program, c.unplanned)]
        assert count == [most, 5]
        assert [x for x in c.program.lines if isinstance(x, Launch)] == [
            x for x in c.unplanned.lines if isinstance(x, Launch)
        ]


def test_a_capacity_is_kept_or_refused_with_the_line() -> None:
    g = Graph()
    v = g.param("x", 40, 40)
    for _ in range(3):
        v = g("matmul", v, v)
    m = g.module(v)
    compile(m, Options(memory=MemoryOptions(capacity=13056)))
    with pytest.raises(DidymaError, match="over-capacity") as e:
        compile(m, Options(memory=MemoryOptions(capacity=12799)))
    assert "launch @" in e.value.where
    assert "12800 bytes alive at once: %matmul" in e.value.got
    with pytest.raises(DidymaError, match="bad-capacity"):
        Options(memory=MemoryOptions(capacity=-1))


def test_an_unknown_planner_is_refused_before_anything_runs() -> None:
    g = Graph()
    m = g.module(g.param("x", 4))
    with pytest.raises(DidymaError, match="linear_scan, none"):
        compile(m, Options(memory=MemoryOptions(planner="best")))


def test_a_block_that_no_device_has_is_refused() -> None:
    with pytest.raises(DidymaError, match="power of two"):
        Options(kernels=KernelOptions(block=100))


@pytest.mark.parametrize(
    "number",
    [{"kernels.few": -1}, {"graph.long_run": 7}, {"graph.outputs": 0}, {"kernels.chain": True}],
)
def test_thresholds_are_sizes(number: dict[str, Any]) -> None:
    with pytest.raises(DidymaError, match="bad-option"):
        Options().changed(number)


def test_low_thresholds_choose_as_for_large_programs() -> None:
    low = Options(graph=GraphOptions(long_run=8), kernels=KernelOptions(full=4, chain=2, short=0))
    m = parse_module(
        """module {
          func @main(%x: f32[3, 13]) -> (%s, %t) {
            %s = cumulative_sum(%x, axis=1, exclusive=true, reverse=false) : f32[3, 13]
            %t = sum(%x, axes=(1,), keepdims=false) : f32[3]
          }
        }"""
    )
    usual, chosen = compile(m), compile(m, low)
    assert dict(usual.passes)["runs"] is dict(usual.passes)["simplify"]
    assert dict(chosen.passes)["runs"] is not dict(chosen.passes)["simplify"]
    assert decided(usual)["reduce_row"] == 0 < decided(chosen)["reduce_row"]


def test_decisions_about_functions_that_are_called_count() -> None:
    m = parse_module(
        """module {
          func @layer(%x: f32[8]) -> (%t) attrs(NoInline=1) {
            %s = exp(%x) : f32[8]
            %t = sin(%s) : f32[8]
          }
          func @main(%x: f32[8]) -> (%y) {
            %y = call @layer(%x) : f32[8]
          }
        }"""
    )
    found = decided(compile(m, Options(graph=GraphOptions(fuse=False))))
    assert found["pointwise_wide"] == 2
    assert found["place in an arena"] == 2, "the result of each function, or what it needs"


def test_stages_have_names() -> None:
    run = stages(Options())
    assert len({s.name for s in run}) == len(run)


def test_a_compile_stops_after_the_stage_that_is_named() -> None:
    g = Graph()
    m = g.module(g("negative", g.param("x", 4)))
    whole = compile(m)
    for s in stages(Options()):
        ran: list[str] = []
        made = compile(m, Options(), ran.append, until=s.name)
        assert ran[-1] == s.name
        for f in fields(made):
            want = getattr(whole, f.name)
            assert getattr(made, f.name) == want or f.name in ("passes", "fused", "times")
    ran = [name for name, _ in compile(m, until="runs").passes]
    assert ran == ["inline", "place", "simplify", "runs"]
    assert type(compile(m, until="lower")) is Lowered
    assert compile(m, until="order").bare == compile(m, until="plan").bare


@pytest.mark.parametrize("until", ["lowr", "separate"])
def test_a_stage_that_does_not_run_is_refused_with_those_that_do(until: str) -> None:
    g = Graph()
    m = g.module(g.param("x", 4))
    with pytest.raises(DidymaError, match="unknown-stage") as e:
        compile(m, until=until)
    assert "slices, stacks, fuse, lower, schedule" in e.value.want
