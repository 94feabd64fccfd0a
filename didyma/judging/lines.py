"""The line of a kernel to which a wrong result is traced."""

from __future__ import annotations

import gc
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.codegen.runtime.ptx.code import Instr
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging import instructions
from didyma.judging.edits import Edit, edits
from didyma.judging.inputs import Case
from didyma.judging.inserted import with_barriers, with_resets
from didyma.judging.mending import mended
from didyma.judging.rounds import Later, Round, later
from didyma.judging.task import Task
from didyma.refimpl.errors import counted
from didyma.refimpl.ops import bars as bars_

_STORES = frozenset(("st", "red", "atom"))
_WORD = re.compile(r"[A-Za-z_]\w*")
_NAME = re.compile(r"\bstruct (\w+)|(\w+)\s*\(")  # of a definition: the first
_AROUND = 2  # lines
_MOST = 3  # edits that are told
_NO_EDIT = "no edit of one line mends it, and edits here most likely change what is wrong"
_LAST_STORE = "it is the last store to global memory; the cause may be before it"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A line that is likely wrong, and the edit that makes the kernel right, if one does.

    ``others`` are edits of other lines that do so as well, of so ``many`` edits of so many
    ``lines``.  Without an edit, ``why`` says what speaks for the line, and ``also`` are a few that
    are about as likely; they are ``searched`` if that is what edits of them change.  ``file`` is
    another file than the kernel's, of which PTX says that it was compiled from it.
    """

    line: int
    edit: Edit | None = None
    others: tuple[Edit, ...] = ()
    file: str = ""
    why: str = ""
    many: int = 0
    lines: int = 0
    also: tuple[int, ...] = ()
    searched: bool = False


def suspect(
    task: Task,
    failed: Sequence[tuple[Case, int]],
    passed: Sequence[Case],
    seconds: float,
    races: Sequence[int] = (),
    *,
    again: bool = False,
) -> Suspect | None:
    """Return the line to which what is wrong in some rounds is traced; None where none is known.

    Edits of single lines are made and tried for ``seconds`` of processor time.  Of those that make
    all rounds right, the line of the most likely one is the answer; else it is the line of an
    edit that makes all those right for which there is time, the line near which other edits are
    the most likely, the one that wrote the first wrong element, or the last one that stores to
    global memory.  ``failed`` rounds, those first that take the least time, have the order of
    warps in which they failed, ``again`` if they did so in a second launch.  ``races`` are lines
    that race: barriers around them are tried, too.
    """
    kernels = [s.kernel for s in task.steps]
    wrong = [later(task, c, order, again=again) for c, order in failed]
    if failed and seconds > 0:
        right = [later(task, c) for c in passed]
        with _without_garbage():
            if task.source.file.endswith(".ptx"):
                found = _in_instructions(task, wrong, right, seconds)
            else:
                found = _in_text(task, wrong, right, seconds, races, again=again)
        if found:
            return found
    line = _writer(task, wrong[0]()) if wrong else 0
    last = stores(kernels[-1], task.source)[-1:]
    if line:
        return Suspect(line, why="it wrote the first wrong element; the cause may be before it")
    return Suspect(last[0], why=_LAST_STORE) if last else _elsewhere(kernels[-1])


def _in_text(
    task: Task,
    wrong: Sequence[Later],
    right: Sequence[Later],
    seconds: float,
    races: Sequence[int],
    *,
    again: bool,
) -> Suspect | None:
    """Return the line of edits of the text, or the one near which others are the likeliest."""
    begun, text = processor_time(), task.source.text
    lines = sorted({n for s in task.steps for n in executed(s.kernel, task.source)})
    near = [n for n in lines if races and min(races) - _AROUND <= n <= max(races) + _AROUND]
    barriers = with_barriers(text, near, races, fences="atom" in text)
    first = with_resets(text, lines) if again else barriers
    tried = [*first, *edits(text, lines)]
    found = mended(task, tried, wrong, right, seconds - (processor_time() - begun))
    if found.edits:
        best = found.edits[0]
        others = tuple(e for e in found.edits[1:_MOST] if e.line != best.line)
        places = {e.line for e in found.edits}
        return Suspect(best.line, best, others, many=len(found.edits), lines=len(places))
    if found.likely:
        line, *rest = dict.fromkeys(e.line for e in found.likely)
        also = f", and so with edits of {counted(len(rest), 'other line')}{_first(rest)}"
        why = f"all rounds for which there was time are right with: {found.likely[0].shown}"
        return _likely(line, rest, why + also * bool(rest))
    if found.lines:
        line, *rest = found.lines
        also = f"; {counted(len(rest), 'other line')} at least half as likely{_first(rest)}"
        return _likely(line, rest, _NO_EDIT + also * bool(rest))
    return None


def _in_instructions(
    task: Task, wrong: Sequence[Later], right: Sequence[Later], seconds: float
) -> Suspect | None:
    """Return the line of edits of instructions, or the one near which others are the likeliest."""
    changed, near = instructions.mended(task, wrong, right, seconds)
    places = [*dict.fromkeys((e.file, e.line) for e in changed)] or near
    if not places:
        return None
    why = f"all rounds are right with {changed[0].shown}" if changed else _NO_EDIT
    (file, line), *rest = places
    return replace(_likely(line, [n for _, n in rest], why), file=file)


def _likely(line: int, rest: Sequence[int], why: str) -> Suspect:
    return Suspect(line, why=why, also=tuple(rest[: _MOST - 1]), searched=True)


def _first(lines: Sequence[int]) -> str:
    """Return the first of some lines in words.

    >>> _first([24]), _first([24, 9, 31])
    (': 24', ', first 24, 9')
    """
    shown = ", ".join(map(str, lines[: _MOST - 1]))
    return f", first {shown}" if len(lines) > _MOST - 1 else f": {shown}"


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


def _writer(task: Task, r: Round) -> int:
    """Return the line that wrote the first wrong element of a round; 0 where none is known."""
    ran = r.run(task)
    for t, bar, out, (step, pcs) in zip(
        task.spec.entry.result_types(), r.bars, ran.outputs, ran.writers, strict=True
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
    return Suspect(last.line, file=last.file, why=_LAST_STORE) if last else None


def executed(kernel: Kernel, source: Source) -> list[int]:
    """Return the lines of a kernel's file of which instructions come.

    They are those of the functions that have instructions, since a loop that was unrolled has none
    of its own, of what these name, such as a structure that was optimised away, and of all that
    stands outside of functions, such as constants.
    """
    found = {_line(i, source) for i in kernel.program.instrs} - {0}
    rows = source.text.split("\n")
    left = {part: "\n".join(rows[n - 1] for n in part) for part in _parts(source.text)}
    known = [part for part in left if len(part) == 1 or found & {*part}]
    for part in known:  # which grows
        words = {*_WORD.findall(left[part])}
        known += [p for p in left if p not in known and _name(left[p]) in words]
    return sorted(n for part in known for n in part)


def _name(text: str) -> str:
    """Return what a definition defines, a structure or a function; empty for anything else.

    >>> _name("struct Sum {\\n  int n;\\n};"), _name("static float f(int n) {")
    ('Sum', 'f')
    """
    m = _NAME.search(text)
    return m[1] or m[2] if m else ""


def _parts(text: str) -> Iterator[range]:
    """Yield the lines of each definition outside of others, and of what else a text has.

    >>> [*_parts("int n = 4;\\nvoid f() {\\n  g();\\n}\\n#define K 1")]
    [range(1, 2), range(2, 5), range(5, 6)]
    """
    start, depth = 1, 0
    for n, row in enumerate(text.split("\n"), 1):
        depth += row.count("{") - row.count("}")
        if depth <= 0:
            yield range(start, n + 1)
            start, depth = n + 1, 0


def _line(i: Instr, source: Source) -> int:
    loc = i.loc
    if loc is None:
        return i.at if source.file.endswith(".ptx") else 0
    while loc and loc.file != source.file:
        loc = loc.outer
    return loc.line if loc else 0
