"""Arenas of sizes that are known when a program starts, judged at many of them."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

import numpy as np
import pytest
import sympy

from didyma.codegen.memory import peak, planner
from didyma.codegen.memory.liveness import Range
from didyma.codegen.memory.oriented import Layout, layout
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import LiveBuffer
from didyma.codegen.options import GraphOptions, MemoryOptions, Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.oracle import lanes
from didyma.oracle.plan_check import check as check_plan
from didyma.oracle.symbolic_plan import PlacedBuffer, bindings, check
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import program as program_interp
from didyma.refimpl.interp.program import ProgramFault
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar, evaluate, floordiv, symbol
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.program import Arena, Carry
from didyma.refimpl.ir.text import parse, show
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.verify import program as laws
from tests.codegen.make import Graph
from tests.codegen.memory.replay import bare_program, replay
from tests.codegen.once import ran_compiled

N, M = symbol("n"), symbol("m")
DIMS = (DimVar("n", 0, 300), DimVar("m", 1, 40))
SIZES: tuple[Dim, ...] = (
    N, 3 * N, N * M, M * M, 700, 64, dims.add(N, 5), floordiv(dims.add(N, 1), 2), N * N, 0,
)  # fmt: skip


def drawn(seed: int, count: int) -> list[LiveBuffer]:
    r = random.Random(seed)
    found: list[LiveBuffer] = []
    for i in range(count):
        start = r.randrange(count)
        life = Range(start, min(count, start + r.choice((0, 1, 2, 3, count // 2))))
        found.append(LiveBuffer(f"b{i}", TensorType(DType.F32, (r.choice(SIZES),)), life))
    return found


class Fresh:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, wanted: str) -> str:
        self.count += 1
        return f"{wanted}_{self.count}"


def faults(buffers: list[LiveBuffer], found: Layout) -> list[object]:
    """Everything the judge of symbolic plans has against a layout; its lines are run first."""
    blocks = [PlacedBuffer(b.name, b.type.nbytes, b.live.start, b.live.end + 1) for b in buffers]

    def placed(env: Mapping[str, int]) -> tuple[int, dict[str, int]]:
        known = dict(env)
        for line in found.lines:
            assert isinstance(line, Carry)
            assert not line.values
            known |= {name: evaluate(d, known) for name, d in line.dims}
        for v in found.symbols:
            assert v.lo <= known[v.name] <= v.hi
        top = evaluate(found.nbytes, known)
        assert top <= found.most
        return top, {name: evaluate(d, known) for name, d in found.offsets.items()}

    return list(check(blocks, 256, placed, bindings(DIMS, 20)))


@pytest.mark.parametrize("name", ["didyma", "greedy_by_size", "storage_id", "linear_scan"])
def test_nothing_overlaps_at_any_size(name: str) -> None:
    for seed in range(12):
        buffers = drawn(seed, 2 + seed)
        assert faults(buffers, layout(buffers, DIMS, planner(name), Fresh())) == []


def test_many_buffers_are_given_several_orders() -> None:
    several = 0
    for seed in range(3):
        buffers = drawn(seed, 24)
        began = time.process_time()
        found = layout(buffers, DIMS, planner("didyma"), Fresh())
        assert time.process_time() - began < 20
        assert faults(buffers, found) == []
        several += any(v.name.startswith("take") for v in found.symbols)
    assert several


def test_programs_keep_every_value_and_read_back() -> None:
    dispatched = 0
    for seed in range(20):
        bare = bare_program(seed)
        p = plan(bare, planner("didyma"))
        assert parse(show(p)) == p
        settled = [x for x in p.lines if isinstance(x, Carry)]
        dispatched += bool(settled)
        for env in ({"n": 2, "m": 2}, {"n": 9, "m": 9}, {"n": 3, "m": 8}):
            replay(p, env)
    assert dispatched > 2


def ladder(steps: int) -> Module:
    """A graph whose values take n, n*m and m*m elements in turn, and are read again later."""
    g = Graph()
    x, y = g.param("x", N, M), g.param("y", M, N)
    values = [x]
    for _ in range(steps):
        left = values[-1]
        square = g("matmul", left, y)
        values.append(g("matmul", square, left))
    out = values[-1]
    for v in values[1:-1]:
        out = g("add", out, v)
    return g.module(out, dims=(DimVar("n", 1, 60), DimVar("m", 1, 9)))


def test_a_compiled_program_runs_at_every_size() -> None:
    c = compile(ladder(7), Options(graph=GraphOptions(fuse=False)))
    laws.verify(c.program)
    assert any(isinstance(x, Carry) for x in c.program.lines)
    assert isinstance(next(x for x in c.program.lines if isinstance(x, Arena)).nbytes, sympy.Expr)
    host = engine("host")
    r = np.random.default_rng(0)
    for n, k in ((1, 1), (60, 9), (7, 9), (33, 2)):
        assert check_plan(c.program, {"n": n, "m": k}) == []
        inputs = [r.normal(size=s).astype(np.float32) * 0.1 for s in ((n, k), (k, n))]
        want = program_interp.run(c.unplanned, inputs, lanes.run)
        got = program_interp.run(c.program, inputs, lanes.run)
        assert [a.tobytes() for a in want] == [a.tobytes() for a in got]
        ran = ran_compiled(c, host, inputs)
        np.testing.assert_allclose(ran[0], want[0], rtol=1e-3, atol=1e-3)
        env = {"n": n, "m": k}
        assert peak(c.program, env) <= peak(c.unplanned, env)


def test_a_capacity_is_checked_when_the_program_starts() -> None:
    m = ladder(2)
    c = compile(m, Options(graph=GraphOptions(fuse=False), memory=MemoryOptions(capacity=6000)))
    small, large = ([np.ones(s, np.float32) for s in ((n, 4), (4, n))] for n in (4, 60))
    assert len(program_interp.run(c.program, small, lanes.run)) == 1
    with pytest.raises(ProgramFault, match="memory is within 6000 bytes"):
        program_interp.run(c.program, large, lanes.run)
    with pytest.raises(DidymaError, match="over-capacity"):
        compile(m, Options(graph=GraphOptions(fuse=False), memory=MemoryOptions(capacity=300)))
