"""The conformance suite of memory planners: programs and traces, judged by what shares no planner.

A plan of a program must keep the laws of programs, pass the replay of ``oracle.plan_check``, and
give the bits of the program without a plan when it runs in poisoned memory; a placement of a trace
must pass ``oracle.placement_check``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TypeAlias

from didyma.codegen.memory.arena import ArenaPlanner, solve
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import Choice, Planner, planner
from didyma.codegen.options import MemoryOptions, Options
from didyma.fuzz import levels
from didyma.fuzz.allocator import domains, traces
from didyma.fuzz.allocator.programs import mixed, program
from didyma.fuzz.graphs import BYTES, decode

Check: TypeAlias = Callable[[], Sequence[str]]  # returns what is wrong, in words

PROGRAMS, GRAPHS, TRACES, FIXED = 60, 20, 60, 20  # of each kind


def suite(which: Choice) -> Iterator[tuple[str, Check]]:
    """Yield the checks of a planner by name; those of traces if it places buffers in an arena.

    DidymaError as ``planner``.
    """
    chosen = planner(which)
    for seed in range(PROGRAMS):
        yield f"program {seed}", partial(_program, chosen, seed)
    for seed in range(GRAPHS):
        yield f"graph {seed}", partial(_graph, chosen, seed)
    if chosen.arena is not None:
        for seed in range(TRACES):
            yield f"trace {seed}", partial(_trace, chosen.arena, seed)
        for seed in range(FIXED):
            yield f"fixed {seed}", partial(_fixed, chosen.arena, seed)


def _program(chosen: Planner, seed: int) -> list[str]:
    """Plan a random program twice, and judge the plan at several sizes and by running it."""
    bare = program(seed, mixed(seed))
    wrong = [f"{v.check}: {v.message}" for v in domains.judged(bare, chosen, seed, run=True)]
    if not wrong and plan(bare, chosen) != plan(bare, chosen):
        return ["another call gives another plan"]
    return wrong


def _graph(chosen: Planner, seed: int) -> list[str]:
    """Compile a random graph and judge every level down to the program."""
    case = decode(Random(seed).randbytes(BYTES))
    report = levels.check(
        case.module, case.inputs(), [], Options(memory=MemoryOptions(planner=chosen))
    )
    return [f"{f.level} {f.where}: {f.message}" for f in report.findings]


def _trace(chosen: ArenaPlanner, seed: int) -> list[str]:
    p = traces.arena(seed, 24)
    wrong = [f"{v.check}: {v.message}" for v in domains.placed(p, chosen, 16 * seed)]
    if not wrong and solve(p, chosen).offsets.tolist() != solve(p, chosen).offsets.tolist():
        return ["another call gives another placement"]
    return wrong


def _fixed(chosen: ArenaPlanner, seed: int) -> list[str]:
    """Place buffers some of which are fixed; every third time within a capacity."""
    p = traces.fixed(seed, lambda p: solve(p, "greedy_by_size").offsets.tolist())
    p = traces.bounded(p, seed) if seed % 3 == 0 else p
    return [f"{v.check}: {v.message}" for v in domains.placed(p, chosen, seed)]
