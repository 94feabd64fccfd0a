"""Random nested control flow through the whole compile: one result at every level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from didyma.codegen.options import GraphOptions, MemoryOptions, Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.registry import engine
from didyma.oracle import lanes, plan_check
from didyma.refimpl.interp import graph, program
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array
from tests.codegen.control.random_modules import Draw
from tests.codegen.once import ran_compiled

PLANNERS = ("none", "linear_scan", "didyma", "greedy_by_size")


def compiled(m: Module, seed: int) -> Compiled:
    how = Options(
        memory=MemoryOptions(planner=PLANNERS[seed % 4]),
        graph=GraphOptions(fuse=seed % 5 != 0, simplify=seed % 3 != 0),
    )
    return compile(m, how)


def inputs(m: Module, seed: int) -> list[Array]:
    """Small whole numbers, so that sums are exact in any order."""
    r = np.random.default_rng(seed)
    shapes = ([int(str(d)) for d in p.type.shape] for p in m.entry.params)
    return [r.integers(-9, 9, s).astype(np.float32) for s in shapes]


def same(got: Sequence[Array], want: Sequence[Array]) -> bool:
    pairs = zip(got, want, strict=True)
    return all(a.shape == b.shape and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("seed", range(24))
def test_levels_agree(seed: int) -> None:
    m = Draw(seed).module()
    c = compiled(m, seed)
    assert plan_check.check(c.program, {}) == []
    for k in range(2):
        given = inputs(m, 10 * seed + k)
        want = graph.run(m, given)
        assert same(program.run(c.program, given, lanes.run), want)
        assert same(program.run(c.program, given, lanes.run, late="lower first"), want)
        assert same(program.run(c.unplanned, given, lanes.run), want)
        assert same(ran_compiled(c, engine("host"), given), want)
        if seed < 6:
            assert same(ran_compiled(c, engine("simt"), given), want)
