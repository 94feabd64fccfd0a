"""Hypothesis strategies for property tests: programs with inputs, arrays, memory plans and traces.

What they draw prints as text, a graph as a graph, and shrinks: of a graph Hypothesis deletes nodes,
then makes sizes, dtypes and values simpler, so a failing test shows the smallest program that
fails.  The graphs are those of campaigns (``fuzz/graphs.py``); they use every op that Didyma has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from didyma.codegen.memory import trace
from didyma.codegen.memory.arena.problem import Problem, problem
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import Choice
from didyma.codegen.memory.planners import planner as planner_of
from didyma.fuzz import shown
from didyma.fuzz.allocator.programs import Shape, program
from didyma.fuzz.graphs import Case
from didyma.fuzz.strategies import CASES
from didyma.fuzz.values import Distribution, array, corners
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.program import Program as ScheduledProgram
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import Array, DType, Tensor
from didyma.tracer.tracing import Program

__all__ = [
    "Drawn", "Scheduled", "Trace", "cases", "graphs", "plans", "programs", "shapes", "traces",
    "values",
]  # fmt: skip

# Sizes at which kernels go wrong, the simplest first.
_SIZES = (1, 2, 3, 0, 4, 5, 7, 8, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)
_PATTERN = 64  # elements after which a pattern of corners begins again


@dataclass(frozen=True, slots=True, repr=False)
class Drawn:
    """A program with a value for each of its inputs, and the size that these give each symbol."""

    program: Program
    inputs: tuple[Array, ...]
    sizes: Mapping[str, int]

    def __repr__(self) -> str:
        params = self.program.module.entry.params
        values = [
            f"{p.name}: {shown.value(Tensor.of(x))}"
            for p, x in zip(params, self.inputs, strict=True)
        ]
        sizes = [f"{name} = {n}" for name, n in self.sizes.items()]
        return "\n".join([str(self.program), *sizes, *values])


def cases(*, control_flow: bool = False) -> st.SearchStrategy[Drawn]:
    """Draw programs with inputs, corner values among them; some result has elements to compare.

    With ``control_flow`` one program in six has branches, loops, calls or data-dependent sizes.
    """
    drawn = (CASES if control_flow else CASES.filter(_plain)).filter(_comparable)
    return drawn.map(lambda c: Drawn(Program(c.module), c.inputs(), dict(c.env)))


def graphs(*, control_flow: bool = False) -> st.SearchStrategy[Program]:
    """Draw programs, as ``cases`` does."""
    drawn = CASES if control_flow else CASES.filter(_plain)
    return drawn.map(lambda c: Program(c.module))


def shapes(
    *, min_rank: int = 0, max_rank: int = 3, max_size: int = 257
) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw shapes whose sizes are zero, one, odd, and on both sides of vectors, warps and tiles."""
    sizes = [n for n in _SIZES if n <= max_size]
    drawn = st.lists(st.sampled_from(sizes), min_size=min_rank, max_size=max_rank)

    def of(row: list[int]) -> tuple[int, ...]:
        return tuple(row)

    return drawn.map(of)


def values(
    dtype: str = "f32", shape: tuple[int, ...] | st.SearchStrategy[tuple[int, ...]] = ()
) -> st.SearchStrategy[Array]:
    """Draw arrays of a dtype of Didyma: a pattern of corner values among normal numbers.

    ``shape`` is a shape, or a strategy of shapes.  Arrays shrink in shape, and to few corners.
    DidymaError ``unknown-dtype``.
    """
    if dtype not in {d.value for d in DType}:
        known = ", ".join(d.value for d in DType)
        raise DidymaError("unknown-dtype", "values", got=repr(dtype), want=f"one of {known}")
    kind = DType(dtype)
    some = corners(kind)

    def of(drawn: tuple[tuple[int, ...], list[int], int]) -> Array:
        shape, pattern, seed = drawn
        fresh = array(seed, kind, shape, None, Distribution.NORMAL)
        at = np.resize(np.array(pattern, np.int64), shape)
        return np.where(at < some.size, some[np.minimum(at, some.size - 1)], fresh)

    patterns = st.lists(st.integers(0, 2 * some.size), min_size=1, max_size=_PATTERN)
    drawn = shape if isinstance(shape, st.SearchStrategy) else st.just(shape)
    return st.tuples(drawn, patterns, st.integers(1, 1 << 30)).map(of)


@dataclass(frozen=True, slots=True, repr=False)
class Scheduled:
    """The launches of a program, in order; what ``plans`` draws has a memory plan, too."""

    program: ScheduledProgram

    def __repr__(self) -> str:
        return show(self.program).rstrip()


def programs(*, lines: int = 20) -> st.SearchStrategy[Scheduled]:
    """Draw programs of launches that have no memory plan yet, for planners to plan.

    ``lines`` is about how many they have at most.  Simpler ones have fewer lines and neither
    branches nor loops.
    """

    def of(drawn: tuple[Shape, int]) -> Scheduled:
        shape, seed = drawn
        return Scheduled(program(seed, shape))

    yes = st.booleans()
    shaped = st.builds(
        Shape, lines=st.integers(4, max(4, lines)), symbolic=yes, branches=yes, loops=yes,
        parts=yes, streams=yes, sharing=yes, moves=yes, devices=yes,
    )  # fmt: skip
    return st.tuples(shaped, st.integers(0, 1 << 32)).map(of)


def plans(planner: Choice = "didyma", *, lines: int = 20) -> st.SearchStrategy[Scheduled]:
    """Draw programs with the memory plan of a planner, by its name or as an object.

    DidymaError ``unknown-planner``, ``bad-planner``.
    """
    chosen = planner_of(planner)
    return programs(lines=lines).map(lambda s: Scheduled(plan(s.program, chosen)))


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """Buffers to place in one arena, which print as a trace that ``didyma plan`` reads."""

    problem: Problem

    def __repr__(self) -> str:
        return trace.show(self.problem).rstrip()


def traces(*, buffers: int = 24) -> st.SearchStrategy[Trace]:
    """Draw traces of at most so many buffers: each is alive for a time and has a size.

    They shrink to few buffers, short lives and small sizes.
    """
    row = st.tuples(st.integers(0, 2 * buffers), st.integers(0, 8), st.integers(0, 1 << 16))

    def of(rows: list[tuple[int, int, int]]) -> Trace:
        lower = [at for at, _, _ in rows]
        upper = [at + life for at, life, _ in rows]
        return Trace(problem(lower, upper, [size for _, _, size in rows]))

    return st.lists(row, min_size=1, max_size=buffers).map(of)


def _plain(c: Case) -> bool:
    return len(c.module.functions) == 1


def _comparable(c: Case) -> bool:
    """Return whether some result has elements, as far as the sizes of the inputs tell."""
    entry, env = c.module.entry, dict(c.env)
    types = entry.types()
    shapes = [[d for d in types[r].shape if env.keys() >= {*dims.free(d)}] for r in entry.results]
    return any(0 not in dims.values(shape, env) for shape in shapes)
