"""The domain of index arithmetic: nests of loops at random indices, simplified and scheduled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from didyma.codegen.options import Options
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome
from didyma.fuzz.domains.kernels import Kernels, outcome
from didyma.fuzz.emission.kernels import Case
from didyma.fuzz.indices.judge import Judged, judge
from didyma.fuzz.indices.nests import draw
from didyma.refimpl.ir.loop import INDEX, Binary, Expr
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.walk import expr_children, exprs


@dataclass(frozen=True, slots=True)
class Indices(Kernels):
    """Nests that read and write at random indices, judged by all values of the indices."""

    options: Options = field(default_factory=Options)

    @property
    def name(self) -> str:
        """``indices``."""
        return "indices"

    @property
    def floor(self) -> float:
        """A nest takes a hundredth of a second."""
        return 0.05

    @property
    def usual(self) -> bool:
        """Whether no option of the user changes what is counted."""
        return self.options == Options()

    def draw(self, seed: int, index: int) -> Case:
        """Return the nest of a campaign's seed and an index."""
        return draw(Random((seed << 64) + index))

    def judge(self) -> Judge[Case]:
        """Return the judge."""
        return self.outcome

    def outcome(self, case: Case) -> Outcome:
        """Judge a nest."""
        found = judge(case, self.options)
        o = outcome(case, found.findings, found.total, _keys(case, found))
        return replace(o, counters=found.counters)

    def text(self, case: Case, found: Outcome, message: str, seed: int) -> str:
        """Return the loop program, which the text form of loops reads back."""
        head = Domain[Case].text(self, case, found, message, seed).splitlines()[:-1]
        values = f"# values of seed {case.seed}, sizes {dict(case.env)}"
        return "\n".join([*head, values, show(case.kernel), ""])

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how many kernels of each schedule there were."""
        schedules = {k[1]: n for k, n in sorted(covered.items()) if k[0] == "schedule"}
        return {"schedules": schedules, "keys": len(covered)}


def _keys(case: Case, found: Judged) -> Iterator[Key]:
    """Yield each schedule, and each operation of the indices with its operands'."""
    for schedule in found.schedules:
        yield "schedule", schedule
    for e in exprs(case.kernel.body):
        if isinstance(e, Binary) and e.dtype is INDEX:
            yield e.op, *map(_named, expr_children(e))


def _named(e: Expr) -> str:
    return e.op if isinstance(e, Binary) else type(e).__name__
