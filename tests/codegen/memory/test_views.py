from __future__ import annotations

from dataclasses import replace

import numpy as np

from didyma.codegen.memory import peak
from didyma.codegen.options import GraphOptions, MemoryOptions, Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.registry import engine
from didyma.oracle import lanes
from didyma.oracle.plan_check import check
from didyma.refimpl.interp import program as program_interp
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.program import Launch, View
from didyma.refimpl.verify import program as laws
from tests.codegen.make import Graph
from tests.codegen.memory.here import HERE
from tests.codegen.once import ran_compiled


def judged(m: Module, planner: str = "didyma") -> Compiled:
    """Compile op by op; the plan is sound and gives the bits of the program without one."""
    c = compile(m, Options(graph=GraphOptions(fuse=False), memory=MemoryOptions(planner=planner)))
    laws.verify(c.program)
    assert check(c.program, {}) == []
    r = np.random.default_rng(0)
    types = [p.type for p in m.entry.params]
    inputs = [r.normal(size=[int(str(d)) for d in t.shape]).astype(np.float32) for t in types]
    want = program_interp.run(c.unplanned, inputs, lanes.run)
    got = program_interp.run(c.program, inputs, lanes.run)
    ran = ran_compiled(c, engine("simt"), inputs)
    assert [a.tobytes() for a in got] == [a.tobytes() for a in want]
    assert [a.shape for a in ran] == [a.shape for a in want]
    assert peak(c.program, {}) <= peak(
        compile(
            m, Options(graph=GraphOptions(fuse=False), memory=MemoryOptions(planner="none"))
        ).program,
        {},
    )
    return c


def launches(c: Compiled) -> list[int]:
    return [sum(isinstance(x, Launch) for x in p.lines) for p in (c.program, c.unplanned)]


def halves(rows: int, axis: int = 0) -> Module:
    g = Graph()
    x = g.param("x", 4, 16)
    a, b = g("exp", x), g("sin", g.param("y", rows, 16))
    c = g("concat", a, b, axis=axis)
    return g.module(g("sum", c, axes=(1,), keepdims=False))


def test_parts_are_written_into_the_whole() -> None:
    for name in HERE:
        c = judged(halves(8), name)
        assert launches(c) == ([4, 4] if name == "none" else [3, 4])
    assert View("sin", "concat", 256) in judged(halves(8)).program.lines


def test_parts_that_are_no_runs_stay() -> None:
    assert launches(judged(halves(4, axis=1))) == [4, 4]


def test_a_part_at_an_odd_offset_stays() -> None:
    g = Graph()
    a, b = g("exp", g.param("x", 3)), g("sin", g.param("y", 5))
    c = judged(g.module(g("abs", g("concat", a, b, axis=0))))
    assert launches(c) == [4, 4]


def test_an_input_a_result_and_a_part_given_twice_stay() -> None:
    g = Graph()
    x = g.param("x", 4)
    a = g("exp", x)
    c = judged(g.module(g("concat", x, a, axis=0), g("concat", a, a, axis=0), a))
    assert launches(c) == [3, 3]


def test_a_whole_may_be_a_part() -> None:
    g = Graph()
    a, b = g("exp", g.param("x", 64)), g("sin", g.param("y", 64))
    inner = g("concat", a, b, axis=0)
    outer = g("concat", inner, g("cos", inner), axis=0)
    c = judged(g.module(g("negative", outer)))
    assert launches(c) == [4, 6]


def test_a_slice_of_one_run_is_a_view() -> None:
    g = Graph()
    x = g("exp", g.param("x", 8, 16))
    top = g("slice", x, starts=(4, 0), stops=(8, 16), steps=(1, 1))
    left = g("slice", x, starts=(0, 0), stops=(8, 8), steps=(1, 1))
    c = judged(g.module(g("sin", top), g("cos", left)))
    assert View("slice", "exp", 256) in c.program.lines
    assert launches(c) == [4, 5]


def test_a_slice_backwards_from_beyond_the_end() -> None:
    g = Graph()
    x = g("exp", g.param("x", 8, 16))
    last = g("slice", x, starts=(9, 0), stops=(6, 16), steps=(-1, 1))
    c = judged(g.module(g("sin", last)))
    assert View("slice", "exp", 7 * 16 * 4) in c.program.lines


def test_a_part_that_would_keep_much_alive_is_copied() -> None:
    """The slice is small and lives long: as a view it would keep all of its operand."""
    g = Graph()
    x = g("exp", g.param("x", 64, 64))
    part = g("slice", x, starts=(0, 0), stops=(1, 64), steps=(1, 1))
    y = g("matmul", g.param("y", 64, 64), g.param("z", 64, 64))
    y = g("matmul", y, g("matmul", y, y))
    c = judged(g.module(g("add", y, part)))
    assert not any(isinstance(v, View) for v in c.program.lines)


N, M = symbol("n"), symbol("m")


def judged_symbolic(m: Module, views: int) -> None:
    """Compile with sizes n and m; the plan is sound and gives the right bits at some of them."""
    for planner in ("didyma", "linear_scan"):
        c = compile(
            m, Options(graph=GraphOptions(fuse=False), memory=MemoryOptions(planner=planner))
        )
        laws.verify(c.program)
        assert sum(isinstance(x, View) for x in c.program.lines) == views
        for env in ({"n": 0, "m": 1}, {"n": 3, "m": 7}, {"n": 8, "m": 8}):
            assert check(c.program, env) == []
            r = np.random.default_rng(0)
            inputs = [
                r.normal(size=dims.values(p.type.shape, env)).astype(np.float32)
                for p in m.entry.params
            ]
            want = program_interp.run(c.unplanned, inputs, lanes.run)
            got = program_interp.run(c.program, inputs, lanes.run)
            ran = ran_compiled(c, engine("simt"), inputs)
            assert [a.tobytes() for a in got] == [a.tobytes() for a in want]
            assert [a.shape for a in ran] == [a.shape for a in want]
            assert peak(c.program, env) <= peak(c.unplanned, env)


def symbolic(g: Graph, *results: str) -> Module:
    return replace(g.module(*results), dims=(DimVar("n", 0, 8), DimVar("m", 1, 8)))


def test_parts_of_symbolic_sizes_are_written_into_the_whole() -> None:
    g = Graph()
    a, b = g("exp", g.param("x", N, 4)), g("sin", g.param("y", M, 4))
    c = g("concat", a, b, g("cos", g.param("z", 2, 4)), axis=0)
    judged_symbolic(symbolic(g, g("negative", g("flip", c, axes=(0,)))), 3)


def test_parts_that_may_start_anywhere_stay() -> None:
    g = Graph()
    a, b = g("exp", g.param("x", N)), g("sin", g.param("y", M))
    judged_symbolic(symbolic(g, g("flip", g("concat", a, b, axis=0), axes=(0,))), 0)


def test_a_slice_of_symbolic_size_is_a_view() -> None:
    g = Graph()
    x = g("exp", g.param("x", N + M, 16))
    g.param("y", N)
    g.param("z", M)
    part = g("slice", x, starts=(N, 0), stops=(N + M, 16), steps=(1, 1))
    judged_symbolic(symbolic(g, g("sin", part)), 1)


def test_a_slice_that_may_begin_behind_the_end_stays() -> None:
    for size, views in ((N, 0), (M, 1)):  # of which the second is at least 1
        g = Graph()
        x = g("exp", g.param("x", size, 16))
        g.param("y", M if size is N else N)
        part = g("slice", x, starts=(1, 0), stops=(size, 16), steps=(1, 1))
        judged_symbolic(symbolic(g, g("sin", part)), views)
