"""Programs judged at every level, from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from didyma.codegen.options import Options
from didyma.codegen.runtime.registry import engine as engine_by_name
from didyma.fuzz import levels
from didyma.fuzz.graphs import inputs as random_inputs
from didyma.oracle.report import Report
from didyma.refimpl.ir import control, dims
from didyma.tracing import Program


def check(
    program: Program,
    *,
    engines: Iterable[str] = ("host",),
    sizes: Mapping[str, int] | None = None,
    seed: int = 1,
    planner: str = "didyma",
) -> Report:
    """Judge every level on random inputs.

    It runs in this process: ``didyma check`` runs it in one that may crash.
    """
    m = program.module
    told = control.told(m)
    env = {v.name: min(v.hi, v.lo + 2) for v in m.dims if v.name in told} | dict(sizes or {})
    dims.check_ranges(env, m.dims)
    seeds = [seed * 1000 + i for i in range(len(m.entry.params))]
    arrays = random_inputs(m, env, seeds)
    chosen = [engine_by_name(e) for e in engines]
    return levels.check(m, arrays, chosen, Options(planner=planner))
