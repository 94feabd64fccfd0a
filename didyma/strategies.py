"""Hypothesis strategies for property tests: random programs, and programs with inputs.

What they draw prints as a graph, and shrinks as one: Hypothesis deletes nodes, then makes sizes,
dtypes and values simpler, so a failing test shows the smallest program that fails.  The graphs are
those of campaigns (``fuzz/graphs.py``); they use every op that Didyma has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from didyma.fuzz import shown
from didyma.fuzz.graphs import CASES, Case
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, Tensor
from didyma.tracer.tracing import Program

__all__ = ["Drawn", "cases", "graphs"]


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


def _plain(c: Case) -> bool:
    return len(c.module.functions) == 1


def _comparable(c: Case) -> bool:
    """Return whether some result has elements, as far as the sizes of the inputs tell."""
    entry, env = c.module.entry, dict(c.env)
    types = entry.types()
    shapes = [[d for d in types[r].shape if env.keys() >= {*dims.free(d)}] for r in entry.results]
    return any(0 not in dims.values(shape, env) for shape in shapes)
