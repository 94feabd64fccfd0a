"""Edits of a kernel's instructions, where its text is PTX: those of a line of the source together.

A compiler makes several instructions of an operation of a line, one for each element that a thread
holds; an edit changes all of one name, and sometimes those of two names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.judging import forms, put_in
from didyma.judging.evidence import Evidence
from didyma.judging.expressions import evaluate
from didyma.judging.forms import Row, Sizes
from didyma.judging.groups import groups
from didyma.judging.mending import Search, telling
from didyma.judging.put_in import Parts
from didyma.judging.rounds import Later, Round
from didyma.judging.task import Scalar, Step, Task
from didyma.judging.together import Copies, restoring
from didyma.refimpl.errors import DidymaError

_SLOWER, _LEAST = 4, 0.05  # times as long as without edit, and seconds, that one may take
_TOGETHER = 64  # edits that are tried side by side
_LONGER = 1.0  # seconds for the rounds after the first, and for more edits than one
_PAIRED = 12  # edits of a line of which two are tried together
_TWO = 3.0  # by which two edits weigh less than they do alone


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """An edit of the instructions that come from a line, of one kernel of a task.

    ``parts`` are the places of instructions, each with the form that they get.
    """

    file: str
    line: int
    step: int
    parts: Parts
    shown: str

    def rows(self, task: Task, sizes: Sizes) -> dict[int, Row]:
        """Return the instructions that take the places of others, for a round of some sizes."""
        instrs = task.steps[self.step].kernel.program.instrs
        return {
            at: form(k, instrs[at], sizes)
            for places, form in self.parts for k, at in enumerate(places)
        }  # fmt: skip

    def of(self, task: Task, sizes: Sizes) -> Task:
        """Return a task with the edit, for a round of some sizes."""
        steps = [*task.steps]
        kernel = steps[self.step].kernel.changed(self.rows(task, sizes))
        steps[self.step] = replace(steps[self.step], kernel=kernel)
        return replace(task, steps=tuple(steps))


def mended(
    task: Task, failed: Sequence[Later], passed: Sequence[Later], seconds: float
) -> tuple[list[Change], list[tuple[str, int]]]:
    """Try edits for some seconds of processor time.

    Return those that make all rounds right, and the lines near which others are most likely.
    """
    begun = processor_time()
    stop = begun + seconds
    first, evidence = telling(task, failed)
    started = processor_time()
    first.run(task)
    limit = max(_LEAST, _SLOWER * (processor_time() - started))
    rest, found = (*failed, *passed), list[Change]()
    tried = changes(task)
    search = Search(tried, evidence)
    many = _TOGETHER if evidence.wrong.any() else 1
    while (now := processor_time()) < stop and (some := search.next(many)):
        if many > 1:
            right, known = restoring(_copies(task, some, first), first, evidence, stop - now)
            if not known:  # no copies of this kernel can run
                search.back(some)
                many = 1
            some = right
        for e in some:
            now = processor_time()
            if _mends(e, task, min(limit, stop - now), first, rest, evidence):
                if not found:
                    stop = min(stop, now + (now - begun) / 2 + _LONGER)
                found.append(e)
    rank = {e: k for k, e in enumerate(tried)}
    files = {e.line: e.file for e in tried}
    return sorted(found, key=rank.__getitem__), [(files[n], n) for n in search.places()]


def _copies(task: Task, some: Sequence[Change], r: Round) -> Copies[Change]:
    """Return a task each of whose copies has one of some edits, for the sizes of a round."""
    steps = [*task.steps]
    for k, s in enumerate(task.steps):
        rows = {n: e.rows(task, r.case.env) for n, e in enumerate(some, 1) if e.step == k}
        steps[k] = replace(s, kernel=s.kernel.varied(rows))
    return Copies(replace(task, steps=tuple(steps)), tuple(some))


def _mends(
    e: Change, task: Task, left: float, first: Round, rest: Sequence[Later], evidence: Evidence
) -> bool:
    """Return whether a kernel is right with an edit in all rounds.

    The first may take so many seconds, and the others together a second.
    """
    with suppress(DidymaError):  # an instruction that is none
        for k, r in enumerate((first, *(made() for made in rest))):
            begun = processor_time()
            ran = r.run(replace(e.of(task, r.case.env), timeout=left))
            right = r.right(task, ran.outputs)
            if not k and not any(f.kind == "hang" for f in ran.faults):
                evidence.meet(e.line, ran.outputs, right)
            left = _LONGER if not k else left - (processor_time() - begun)
            if ran.faults or not right.all() or left <= 0:
                return False
        return True
    return False


def changes(task: Task) -> list[Change]:
    """Return edits of a task's instructions, those first that most likely make a kernel right."""
    names = sorted({v.name for v in task.spec.dims})
    found: list[tuple[float, Change]] = []
    for step, s in enumerate(task.steps):
        all_groups, known = groups(s.kernel), _scalars(s)
        for g in all_groups:
            of = (
                *forms.operations(g), *forms.numbers(g, names), *forms.taken(g, all_groups),
                *forms.scaled(g, all_groups), *forms.fewer(g),
                *put_in.terms(g, all_groups, s.kernel), *put_in.rooted(g, s.kernel, known),
            )  # fmt: skip
            rows = [(weight, shown, ((g.places, form),)) for weight, shown, form in of]
            for weight, shown, parts in (*rows, *put_in.grown(g, all_groups, s.kernel)):
                told = f"`{shown}` for `{g.first.name}`"
                found.append((weight, Change(g.file, g.line, step, parts, told)))
    found += _pairs(found)
    return [e for _, e in sorted(found, key=lambda p: -p[0])]


def _pairs(found: Sequence[tuple[float, Change]]) -> Iterator[tuple[float, Change]]:
    """Yield pairs of edits of a line, as one that is unrolled or tested beforehand needs."""
    of_lines: dict[tuple[int, str, int], list[tuple[float, Change]]] = {}
    for weight, e in sorted(found, key=lambda p: -p[0]):
        of_lines.setdefault((e.step, e.file, e.line), []).append((weight, e))
    for row in of_lines.values():
        for (v, a), (w, b) in combinations(row[:_PAIRED], 2):
            if a.parts[0][0] != b.parts[0][0]:
                both = replace(a, parts=(*a.parts, *b.parts), shown=f"{a.shown} and {b.shown}")
                yield v + w - _TWO, both


def _scalars(s: Step) -> list[float]:
    """Return the floats that a launch gives a kernel as numbers."""
    found = list[float]()
    for r in s.roles:
        if isinstance(r, Scalar) and r.dtype.is_float:
            with suppress(DidymaError):  # an expression of sizes
                found.append(float(evaluate(r.expression, {}, "")))
    return found
