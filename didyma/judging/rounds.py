"""Rounds of inputs with the bars of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

import numpy as np

from didyma.judging import inputs, launching
from didyma.judging.inputs import Case
from didyma.judging.launching import Ran
from didyma.judging.task import Task
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars as bars_
from didyma.refimpl.ops.bars import Bar


@dataclass(frozen=True, slots=True)
class Round:
    """A round of inputs in an order of warps, with the bars of its outputs.

    Where it has inputs ``before``, kernels are launched on these first, and then once more, with
    what that leaves in the variables of their text.
    """

    case: Case
    schedule: int
    arrays: tuple[Array, ...]
    bars: tuple[Bar, ...]
    before: tuple[Array, ...] | None = None

    @classmethod
    def of(cls, task: Task, case: Case, schedule: int = 0, *, again: bool = False) -> Round:
        """Draw the inputs of a round, or of a second launch after it, and compute the bars."""
        arrays = inputs.values(task, case, again=int(again))
        before = inputs.values(task, case) if again else None
        return cls(case, schedule, arrays, tuple(truth(task, case, arrays)), before)

    def run(self, task: Task) -> Ran:
        """Run a kernel in this round."""
        env, left = self.case.env, None
        if self.before is not None:
            left = launching.run(task, env, self.before, self.schedule).left
        return launching.run(task, env, self.arrays, self.schedule, left)

    def right(self, task: Task, outputs: Sequence[Array]) -> Array:
        """Return which of all elements of the outputs are right."""
        types = task.spec.entry.result_types()
        with np.errstate(all="ignore"):
            rows = [
                np.broadcast_to(bars_.judge(b, o, t.dtype).ok, o.shape).reshape(-1)
                for b, o, t in zip(self.bars, outputs, types, strict=True)
            ]
        return np.concatenate(rows)


Later: TypeAlias = Callable[[], Round]


def later(task: Task, case: Case, schedule: int = 0, *, again: bool = False) -> Later:
    """Return a function that makes a round when it is first called: its bars may take long."""
    return cache(partial(Round.of, task, case, schedule, again=again))


def truth(task: Task, case: Case, arrays: Sequence[Array]) -> list[Bar]:
    """Return the bars of the outputs under the contract of a task."""
    m = task.spec
    given = [bars_.exact(a, DType.of(a)) for a in arrays]
    found = interpreter.bars(m.entry, m, given, dict(case.env), task.contract.rules, stored=True)
    types = m.entry.result_types()
    return [task.contract.widened(b, t.dtype) for b, t in zip(found, types, strict=True)]
