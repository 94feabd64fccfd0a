"""How long things take: stages of the compile, the interpreter, engines, planners, campaigns.

Each group has a baseline that does none of our work, so that times count as ratios of one run.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import random
from functools import reduce

import pytest

import didyma as dd
from didyma.bench.workloads import WORKLOADS, arguments
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import names, planner
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Context, Fused, compile, stages
from didyma.codegen.runtime.registry import engine, probe
from didyma.fuzz.graphs import BYTES, decode
from didyma.fuzz.levels import check
from didyma.refimpl.errors import EngineMissing
from tests.bench.test_counters import Benchmark

GROUPS = ("compile", "interpreter", "engines", "planners", "campaigns")
PROGRAMS = ("gelu_bf16", "layer_norm_bf16", "attention_f32")


@pytest.mark.parametrize("group", GROUPS)
def test_baseline(benchmark: Benchmark, group: str) -> None:
    benchmark.group = group
    benchmark.extra_info["baseline"] = True
    text = inspect.getsource(argparse)
    assert isinstance(benchmark(lambda: ast.parse(text)), ast.Module)


@pytest.mark.parametrize("stage", [s.name for s in stages(Options())])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stage(benchmark: Benchmark, name: str, stage: str) -> None:
    benchmark.group = "compile"
    module = WORKLOADS[name].program().module
    options = Options()
    context = Context(options.changed({"memory.planner": planner(options.memory.planner)}))
    run = {s.name: s.run for s in stages(options)}
    before = list(run)[: list(run).index(stage)]
    made = reduce(lambda made, name: run[name](made, context), before, Fused(module, (), module))
    benchmark(lambda: run[stage](made, context))


@pytest.mark.parametrize("name", PROGRAMS)
def test_interpreter(benchmark: Benchmark, name: str) -> None:
    benchmark.group = "interpreter"
    w = WORKLOADS[name]
    program, given = w.program(), arguments(w)
    benchmark(lambda: dd.interpret(program, *given))


@pytest.mark.parametrize("engine_name", ["simt", "host", "cuda"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_engine(benchmark: Benchmark, name: str, engine_name: str) -> None:
    found = probe(engine_name)
    if not found.runs:
        pytest.skip(f"{engine_name}: {found.why}")
    benchmark.group = "engines"
    w = WORKLOADS[name]
    exe, given = dd.compile(w.program(), engine=engine(engine_name)), arguments(w)
    benchmark(lambda: exe(*given))


def _layers(count: int) -> dd.Program:
    """Return a stack of attention blocks, whose values live for different times."""

    @dd.trace(dd.f32[64, 48])
    def layers(x: dd.Tensor) -> dd.Tensor:
        for _ in range(count):
            scores = dd.softmax(dd.matmul(x, dd.transpose(x)), axis=-1)
            x = x + dd.tanh(dd.matmul(scores, x))
        return x

    return layers


@pytest.mark.parametrize("name", [n for n in names() if n != "none"])
def test_planner(benchmark: Benchmark, name: str) -> None:
    benchmark.group = "planners"
    bare = compile(_layers(16).module, Options(), until="order").bare
    try:
        benchmark(lambda: plan(bare, planner(name)))
    except EngineMissing as e:
        pytest.skip(f"{name}: {e.got}")


def test_campaign(benchmark: Benchmark) -> None:
    """Ten random graphs, judged at every level and on simt."""
    benchmark.group = "campaigns"
    engines, rng = [engine("simt")], random.Random(14)
    cases = [decode(rng.randbytes(BYTES)) for _ in range(10)]

    def judged() -> None:
        for c in cases:
            assert not check(c.module, c.inputs(), engines, c.options(Options())).findings

    benchmark.pedantic(judged, rounds=3)
