"""The search for edits of single lines with which a wrong kernel is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.judging import inputs, launching
from didyma.judging.edited import TOGETHER, Way, fastest
from didyma.judging.edits import Edit, familiar
from didyma.judging.evidence import Evidence
from didyma.judging.inputs import Case
from didyma.judging.launching import Ran
from didyma.judging.task import Task
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars as bars_
from didyma.refimpl.ops.bars import Bar

_LONGER = 1.0  # seconds: for the rounds after the first, and for more edits than one
_SLOWER = 8  # times as long as the kernel itself that an edited one may take
_LOOKED = 4  # failed rounds of which one is chosen in which some elements are right


@dataclass(frozen=True, slots=True)
class Round:
    """A round of inputs in an order of warps, with the bars of its outputs."""

    case: Case
    schedule: int
    arrays: tuple[Array, ...]
    bars: tuple[Bar, ...]

    @classmethod
    def of(cls, task: Task, case: Case, schedule: int = 0) -> Round:
        """Draw the inputs of a round and compute the bars."""
        arrays = inputs.values(task, case)
        return cls(case, schedule, arrays, tuple(truth(task, case, arrays)))

    def run(self, task: Task) -> Ran:
        """Run a kernel in this round."""
        return launching.run(task, self.case.env, self.arrays, self.schedule)

    def right(self, task: Task, outputs: Sequence[Array]) -> Array:
        """Return which of all elements of the outputs are right."""
        types = task.spec.entry.result_types()
        with np.errstate(all="ignore"):
            rows = [
                np.broadcast_to(bars_.judge(b, o, t.dtype).ok, o.shape).reshape(-1)
                for b, o, t in zip(self.bars, outputs, types, strict=True)
            ]
        return np.concatenate(rows)


def truth(task: Task, case: Case, arrays: Sequence[Array]) -> list[Bar]:
    """Return the bars of the outputs under the contract of a task."""
    m = task.spec
    given = [bars_.exact(a, DType.of(a)) for a in arrays]
    found = interpreter.bars(m.entry, m, given, dict(case.env), task.contract.rules, stored=True)
    types = m.entry.result_types()
    return [task.contract.widened(b, t.dtype) for b, t in zip(found, types, strict=True)]


@dataclass(slots=True)
class Mended:
    """What a search has found, the best first.

    ``edits`` make all rounds right, ``likely`` ones all those for which there was time.  ``line``
    is the one whose edits change most nearly what is wrong; 0 where none is known.
    """

    edits: list[Edit] = field(default_factory=list[Edit])
    likely: list[Edit] = field(default_factory=list[Edit])
    line: int = 0


def mended(
    task: Task,
    tried: Iterable[Edit],
    failed: Sequence[Round],
    passed: Sequence[Round],
    seconds: float,
) -> Mended:
    """Try edits for some seconds of processor time.

    The first edit of each line comes first; then those come sooner whose lines' edits have changed
    what is wrong.  Once an edit is found, the search goes on for half of the time that it took.
    """
    begun = processor_time()
    deadline = begun + seconds
    first, evidence = _telling(task, failed)
    rounds = [first, *(r for r in failed if r is not first), *passed]
    way = fastest(task, first.run)
    limit = max(0.05, _SLOWER * way.seconds)
    found = Mended()
    for e, edited in _compiled(way, _batches([*tried], evidence)):
        now = processor_time()
        if now > deadline:
            break
        right = _mends(e, edited, min(limit, deadline - now), rounds, evidence)
        if right:
            if not found.edits:
                deadline = min(deadline, now + (now - begun) / 2 + _LONGER)
            found.edits.append(e)
        elif right is None:
            found.likely.append(e)
    for row in (found.edits, found.likely):
        row.sort(key=lambda e: (-familiar(e, task.source.text), len(e.new)))
    found.line = evidence.likely()
    return found


def _telling(task: Task, failed: Sequence[Round]) -> tuple[Round, Evidence]:
    """Return a small failed round, with right elements beside wrong ones if there is one."""
    found: list[tuple[Round, Evidence]] = []
    for r in sorted(failed, key=lambda r: sum(r.case.env.values()))[:_LOOKED]:
        outputs = r.run(task).outputs
        found.append((r, Evidence(~r.right(task, outputs), outputs)))
        if found[-1][1].tells:
            return found[-1]
    return found[0]


def _batches(tried: Sequence[Edit], evidence: Evidence) -> Iterator[list[Edit]]:
    """Yield edits to compile together, in an order that follows the evidence."""
    left = {(e.line, e.new): k for k, e in enumerate(tried)}
    firsts = {e.line: e for e in reversed(tried)}
    some = sorted(firsts.values(), key=lambda e: left[e.line, e.new])
    while left:
        if not some:
            order = sorted(left.items(), key=lambda p: (p[1] + TOGETHER) / evidence.weight(p[0][0]))
            some = [tried[k] for _, k in order[:TOGETHER]]
        for e in some[:TOGETHER]:
            del left[e.line, e.new]
        yield some[:TOGETHER]
        some = some[TOGETHER:]


def _compiled(way: Way, batches: Iterator[list[Edit]]) -> Iterator[tuple[Edit, Task]]:
    """Yield edits with the kernels that they make, but for those that NVRTC refuses."""
    text = way.task.source.text
    for some in batches:
        for e, edited in zip(some, way.compiled([e.of(text) for e in some]), strict=True):
            if edited is not None:
                yield e, edited


def _mends(
    e: Edit, edited: Task, seconds: float, rounds: Sequence[Round], evidence: Evidence
) -> bool | None:
    """Return whether an edited kernel is right; None if its time ends before the rounds do.

    It hangs if the first round takes more than so many ``seconds``.
    """
    with suppress(DidymaError):  # a launch that cannot be
        ran = rounds[0].run(replace(edited, seconds=seconds))
        right = rounds[0].right(edited, ran.outputs)
        if not any(f.kind == "hang" for f in ran.faults):
            evidence.meet(e.line, ran.outputs, right)
        if ran.faults or not right.all():
            return False
        end = processor_time() + _LONGER
        for r in rounds[1:]:
            left = end - processor_time()
            if left <= 0:
                return None
            ran = r.run(replace(edited, seconds=left))
            if ran.faults or not r.right(edited, ran.outputs).all():
                return False if processor_time() < end else None
        return True
    return False
