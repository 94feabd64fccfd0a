"""The line of a kernel to which a wrong result is traced."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise

import numpy as np

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.codegen.runtime.ptx.code import Instr
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging import inputs, launching
from didyma.judging.edited import TOGETHER, Way, fastest
from didyma.judging.edits import Edit, edits, familiar, with_barriers
from didyma.judging.inputs import Case
from didyma.judging.task import Task
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars as bars_
from didyma.refimpl.ops.bars import Bar

_STORES = frozenset(("st", "red", "atom"))
_AROUND = 2  # lines
_MOST = 3  # edits that are told
_LONGER = 1.0  # seconds: for the rounds after the first, and for more edits than one
_APART = 8  # lines between two that have instructions; loops that were unrolled have none
_SLOWER = 8  # times as long as the kernel itself that an edited one may take


@dataclass(frozen=True, slots=True)
class Suspect:
    """A line that is likely wrong, and the edit that makes the kernel right, if one does.

    ``others`` are edits of other lines that do so as well.  ``file`` is another file than the
    kernel's, of which PTX says that it was compiled from it.
    """

    line: int
    edit: Edit | None = None
    others: tuple[Edit, ...] = ()
    file: str = ""


def suspect(
    task: Task,
    failed: Sequence[Case],
    passed: Sequence[Case],
    seconds: float,
    races: Sequence[int] = (),
) -> Suspect | None:
    """Return the line to which what is wrong in some rounds is traced; None where none is known.

    Edits of single lines are tried for ``seconds`` of processor time.  Of those that make all
    rounds right, the line of the most familiar one is the answer; else it is the line of an
    edit that makes all those right for which there is time, the one that wrote the first wrong
    element, or the last one that stores to global memory.  ``races`` are lines that
    race: barriers around them are tried, too.
    """
    kernels = [s.kernel for s in task.steps]
    lines = sorted({n for k in kernels for n in executed(k, task.source)})
    if not task.source.file.endswith(".ptx") and failed and seconds > 0:
        text = task.source.text
        near = [n for n in lines if races and min(races) - _AROUND <= n <= max(races) + _AROUND]
        tried = chain(with_barriers(text, near), edits(text, lines))
        with _without_garbage():
            found, likely = _mending(task, tried, (failed, passed), seconds)
        if found:
            best = found[0]
            return Suspect(best.line, best, tuple(e for e in found[1:_MOST] if e.line != best.line))
        if likely:
            return Suspect(likely)
    line = _writer(task, min(failed, key=lambda c: sum(c.env.values()))) if failed else 0
    last = stores(kernels[-1], task.source)[-1:]
    return next((Suspect(n) for n in (line, *last) if n), _elsewhere(kernels[-1]))


@contextmanager
def _without_garbage() -> Generator[None]:
    """Collect no garbage meanwhile, since each pass takes long and finds little."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _mending(
    task: Task, tried: Iterable[Edit], cases: tuple[Sequence[Case], Sequence[Case]], seconds: float
) -> tuple[list[Edit], int]:
    """Return the edits that mend a kernel, of those that are found in time; the best comes first.

    Beside them is the line of the best edit that mends all rounds for which it has time, or 0.
    Once an edit is found, the search goes on for half of the time that it took.
    """
    failed, passed = cases
    begun = processor_time()
    deadline = begun + seconds
    ordered = sorted(failed, key=lambda c: sum(c.env.values()))
    rounds = [_Round.of(task, c) for c in (*ordered, *passed)]
    way = fastest(task, lambda t: launching.run(t, rounds[0].case.env, rounds[0].arrays))
    limit = max(0.05, _SLOWER * way.seconds)
    found: list[Edit] = []
    likely: list[Edit] = []
    for e, edited in _compiled(way, tried):
        now = processor_time()
        if now > deadline:
            break
        mended = _mends(edited, min(limit, deadline - now), rounds)
        if mended:
            if not found:
                deadline = min(deadline, now + (now - begun) / 2 + _LONGER)
            found.append(e)
        elif mended is None:
            likely.append(e)
    found, likely = (
        sorted(row, key=lambda e: (-familiar(e, task.source.text), len(e.new)))
        for row in (found, likely)
    )
    return found, likely[0].line if likely else 0


def _compiled(way: Way, tried: Iterable[Edit]) -> Iterator[tuple[Edit, Task]]:
    """Yield edits with the kernels that they make, but for those that NVRTC refuses."""
    left = iter(tried)
    text = way.task.source.text
    while some := [*islice(left, TOGETHER)]:
        for e, edited in zip(some, way.compiled([e.of(text) for e in some]), strict=True):
            if edited is not None:
                yield e, edited


def _writer(task: Task, case: Case) -> int:
    """Return the line that wrote the first wrong element of a round; 0 where none is known."""
    r = _Round.of(task, case)
    ran = launching.run(task, r.case.env, r.arrays)
    for t, bar, out, (step, pcs) in zip(
        task.spec.entry.result_types(), r.right, ran.outputs, ran.writers, strict=True
    ):
        with np.errstate(all="ignore"):
            wrong = np.flatnonzero(~bars_.judge(bar, out, t.dtype).ok)
        if wrong.size and pcs.size:
            pc = int(pcs[wrong[0] * out.itemsize])
            return _line(task.steps[step].kernel.program.instrs[pc], task.source) if pc >= 0 else 0
    return 0


def stores(kernel: Kernel, source: Source) -> list[int]:
    """Return the lines of a kernel's file at which it writes to global memory."""
    return sorted({_line(i, source) for i in _writing(kernel)} - {0})


def _writing(kernel: Kernel) -> list[Instr]:
    return [i for i in kernel.program.instrs if i.op in _STORES and "global" in i.mods]


def _elsewhere(kernel: Kernel) -> Suspect | None:
    """Return the last store in a file that the PTX names, such as that of a Triton kernel."""
    at = [i.loc for i in _writing(kernel) if i.loc]
    last = max(at, key=lambda loc: loc.line, default=None)
    return Suspect(last.line, file=last.file) if last else None


def executed(kernel: Kernel, source: Source) -> list[int]:
    """Return the lines of a kernel's file that have instructions, and those between them."""
    found = sorted({_line(i, source) for i in kernel.program.instrs} - {0})
    between = {n for a, b in pairwise(found) if b - a <= _APART for n in range(a, b)}
    return sorted(between | {*found})


def _line(i: Instr, source: Source) -> int:
    loc = i.loc
    if loc is None:
        return i.at if source.file.endswith(".ptx") else 0
    while loc and loc.file != source.file:
        loc = loc.outer
    return loc.line if loc else 0


@dataclass(frozen=True, slots=True)
class _Round:
    case: Case
    arrays: tuple[Array, ...]
    right: tuple[Bar, ...]

    @classmethod
    def of(cls, task: Task, case: Case) -> _Round:
        arrays = inputs.values(task, case)
        return cls(case, arrays, tuple(truth(task, case, arrays)))


def truth(task: Task, case: Case, arrays: Sequence[Array]) -> list[Bar]:
    """Return the bars of the outputs under the contract of a task."""
    m = task.spec
    given = [bars_.exact(a, DType.of(a)) for a in arrays]
    found = interpreter.bars(m.entry, m, given, dict(case.env), task.contract.rules, stored=True)
    types = m.entry.result_types()
    return [task.contract.widened(b, t.dtype) for b, t in zip(found, types, strict=True)]


def _mends(edited: Task, seconds: float, rounds: Sequence[_Round]) -> bool | None:
    """Return whether an edited kernel is right; None if its time ends before the rounds do.

    It hangs if the first round takes more than so many ``seconds``.
    """
    with suppress(DidymaError):  # a launch that cannot be
        if not _right(replace(edited, seconds=seconds), rounds[0]):
            return False
        end = processor_time() + _LONGER
        for r in rounds[1:]:
            left = end - processor_time()
            if left <= 0:
                return None
            if not _right(replace(edited, seconds=left), r):
                return False if processor_time() < end else None
        return True
    return False


def _right(task: Task, r: _Round) -> bool:
    ran = launching.run(task, r.case.env, r.arrays)
    if ran.faults:
        return False
    types = task.spec.entry.result_types()
    with np.errstate(all="ignore"):
        return all(
            bars_.judge(b, o, t.dtype).ok.all()
            for b, o, t in zip(r.right, ran.outputs, types, strict=True)
        )
