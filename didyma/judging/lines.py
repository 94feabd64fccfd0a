"""The line of a kernel to which a wrong result is traced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.codegen.runtime.ptx.code import Instr
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.sanitize import Source, attempts, compiled
from didyma.judging import inputs, launching
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
_LONGER = 1.0  # seconds
_HANG = 1.0  # seconds that an edited kernel may take
_LEAN = (("--minimal",), ("--minimal", "--Ofast-compile=min"))  # options of NVRTC
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
        found, likely = _mending(task, tried, (failed, passed), seconds)
        if found:
            best = found[0]
            return Suspect(best.line, best, tuple(e for e in found[1:_MOST] if e.line != best.line))
        if likely:
            return Suspect(likely)
    line = _writer(task, min(failed, key=lambda c: sum(c.env.values()))) if failed else 0
    last = stores(kernels[-1], task.source)[-1:]
    return next((Suspect(n) for n in (line, *last) if n), _elsewhere(kernels[-1]))


def _mending(
    task: Task, tried: Iterable[Edit], cases: tuple[Sequence[Case], Sequence[Case]], seconds: float
) -> tuple[list[Edit], int]:
    """Return the edits that mend a kernel, of those that are found in time; the best comes first.

    Beside them is the line of an edit that mends all rounds for which there is time, or 0.  Once an
    edit is found, the search goes on for half of the time that it took.
    """
    failed, passed = cases
    begun = processor_time()
    deadline = begun + seconds
    ordered = sorted(failed, key=lambda c: sum(c.env.values()))
    rounds = [_Round.of(task, c) for c in (*ordered, *passed)]
    task, needed, takes = _lean(task, rounds[0])
    limit = max(0.05, _SLOWER * takes)
    found: list[Edit] = []
    likely = 0
    for e in tried:
        now = processor_time()
        if now > deadline:
            break
        mended = _mends(task, e, needed, rounds, (min(limit, deadline - now), deadline))
        if mended:
            if not found:
                deadline = min(deadline, now + (now - begun) / 2 + _LONGER)
            found.append(e)
        elif mended is None:
            likely = likely or e.line
    return sorted(found, key=lambda e: -familiar(e, task.source.text)), likely


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
    between = {n for a, b in pairwise(found) if b - a <= 3 for n in range(a, b)}
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


def _lean(task: Task, r: _Round) -> tuple[Task, int, float]:
    """Return a task of which NVRTC compiles edits, and runs them in a round, in the least time.

    Edited kernels need no headers that NVRTC includes of itself.  What compiles fast may run
    slowly.  Beside the task are the number of attempts in which it compiles, and the seconds of
    processor time that the round takes.
    """
    name = task.steps[0].name
    needed = attempts(task.source, name, task.flags)
    known = [_timed(task, r, needed)]
    for flags in _LEAN if not needed else ():
        # Some kernels need those headers, and an NVRTC may be older than the option.
        with suppress(DidymaError):
            known.append(_timed(replace(task, flags=(*task.flags, *flags)), r, 0))
    _, takes, best = min(known, key=lambda k: k[0])
    return best, needed, takes


def _timed(task: Task, r: _Round, needed: int) -> tuple[float, float, Task]:
    """Compile a task anew and run a round; return the seconds of both, and of the run."""
    begun = processor_time()
    made = _compiled(task, task.source, needed)
    between = processor_time()
    launching.run(made, r.case.env, r.arrays)
    ended = processor_time()
    return ended - begun, ended - between, made


def _compiled(task: Task, source: Source, needed: int) -> Task:
    steps = (replace(s, kernel=compiled(source, s.name, task.flags, needed)) for s in task.steps)
    return replace(task, source=source, steps=tuple(steps))


def _mends(
    task: Task, e: Edit, needed: int, rounds: Sequence[_Round], times: tuple[float, float]
) -> bool | None:
    """Return whether a kernel is right with an edit; None if time ends before the rounds do.

    ``times`` are the seconds after which the kernel hangs in the first round, and the time by which
    all rounds have begun.
    """
    source = Source(e.of(task.source.text), task.source.file)
    limit, deadline = times
    try:
        edited = _compiled(task, source, needed)
        if not _right(replace(edited, seconds=limit), rounds[0]):
            return False
        later = replace(edited, seconds=max(limit, _HANG))
        for r in rounds[1:]:
            if processor_time() > deadline + _LONGER:
                return None
            if not _right(later, r):
                return False
    except DidymaError:
        return False  # C++ that NVRTC refuses, or a launch that cannot be
    return True


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
