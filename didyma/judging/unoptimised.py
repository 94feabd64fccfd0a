"""Faults of a kernel as it is written, which a compiler's optimisation removes with their code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from didyma.codegen.runtime.ptx.sanitize import Finding
from didyma.codegen.runtime.ptx.sources import unoptimised
from didyma.judging import inputs, launching
from didyma.judging.inputs import Case
from didyma.judging.task import Task

SECONDS = 2.0  # of the launch, whose end tells nothing
_LEAST = 2  # elements of each size


def faults(task: Task, cases: Sequence[Case]) -> list[tuple[Finding, Case]]:
    """Run the first round of ordinary numbers without optimisation, and return what checks find.

    An accumulator that nobody has set, say, is found there: an optimised kernel may have it as
    zero.  Nothing of PTX, which a compiler has made.
    """
    case = next(
        (c for c in cases if c.ordinary and min(c.env.values(), default=_LEAST) >= _LEAST), None
    )
    made = [unoptimised(task.source, s.name, task.flags) for s in task.steps] if case else []
    if case is None or not all(made):
        return []
    steps = tuple(replace(s, kernel=k) for s, (k,) in zip(task.steps, made, strict=True))
    plain = replace(task, steps=steps, timeout=min(task.timeout, SECONDS))
    ran = launching.run(plain, case.env, inputs.values(task, case))
    return [(f, case) for f in ran.faults if f.kind != "hang"]
