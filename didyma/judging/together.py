"""Edits that are tried together: one compilation, and one launch of copies that have one each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.judging import launching
from didyma.judging.edited import Way
from didyma.judging.edits import Edit
from didyma.judging.evidence import Evidence, OfLine
from didyma.judging.rounds import Later, Round
from didyma.judging.switched import Switched, switched
from didyma.judging.task import Task
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

_LANES = 1 << 14  # of copies that run together
_FIRST = 32  # edits that are tried first, which shows how long more take
_LEAST = 2  # edits that are tried together, however many lanes their copies have
_SHORT = 0.1  # seconds of a compilation, of which a few more are no matter
_REFUSED = 10  # times that NVRTC refuses some edits, until all are left out
_OF_EDIT = re.compile(r"^edit(\d+)\(\d+\): (?:catastrophic )?error", re.M)
_CONSTANT = re.compile(r"^text\((\d+)\): error: expression must have a constant value", re.M)
_OF_LINE = re.compile(r"^text\((\d+)\): (?:catastrophic )?error", re.M)


E = TypeVar("E", bound=OfLine)


@dataclass(frozen=True, slots=True)
class Copies(Generic[E]):
    """A task each of whose copies has an edit, by its number from 1 on."""

    task: Task
    edits: tuple[E, ...]


@dataclass(slots=True)
class Made:
    """What became of some edits: those of ``copies``, and others.

    Those ``beside`` may be choices of another text, those ``alone`` of none.  What is in neither
    names what is unknown where it stands.
    """

    copies: Copies[Edit] | None = None
    beside: list[Edit] = field(default_factory=list[Edit])
    alone: list[Edit] = field(default_factory=list[Edit])


def copies(way: Way, edits: Sequence[Edit]) -> Made:
    """Compile as many of some edits together as can be."""
    text, some, found = way.task.source.text, edits, Made()
    for _ in range(_REFUSED):
        made = switched(text, some)
        found.beside += made.beside
        found.alone += made.alone
        some = made.edits
        if not some:
            break
        try:
            compiled = way.switched(made.text)
        except DidymaError:  # PTX that cannot be read
            compiled = ""
        if not isinstance(compiled, str):
            found.copies = Copies(compiled, some)
            break
        later = _halved(made, compiled) if way.compiling < _SHORT else ()
        refused = {*later} or _refused(made, compiled)
        if later:
            found.beside += later
        else:
            found.alone += refused
        left = [e for e in some if e not in refused]
        if len(left) == len(some):  # and NVRTC does not say why
            left, rest = left[: len(left) // 2], left[len(left) // 2 :]
            found.beside += rest if left else ()
        some = left
    else:
        found.beside += some
    return found


def _refused(made: Switched, log: str) -> set[Edit]:
    """Return the edits that NVRTC refuses, and those of the lines that it refuses.

    Those are the first one, which may be why it refuses others, and all that must be constant, but
    for lines of which it refuses some edits: these may be why it refuses the line.
    """
    gone = {made.edits[int(n) - 1] for n in _OF_EDIT.findall(log)}
    lines = {int(n) for n in (*_OF_LINE.findall(log)[:1], *_CONSTANT.findall(log))}
    return gone.union(*(made.lines.get(n, ()) for n in lines - {e.line for e in gone}))


def _halved(made: Switched, log: str) -> Sequence[Edit]:
    """Return half of the edits of the line that NVRTC refuses first, if it names none of them.

    Any one of these, such as an edit of what a macro assigns to, may be why it refuses the line.
    """
    first = _OF_LINE.search(log)
    row = made.lines.get(int(first[1]), ()) if first and not _OF_EDIT.search(log) else ()
    return row[len(row) // 2 :] if len(row) > 1 else ()


def outcomes(
    c: Copies[E], r: Round, wrong: Array | None, seconds: float, lanes: int = _LANES
) -> Iterator[tuple[E, tuple[Array, ...], tuple[Array, ...], Array, bool]]:
    """Run a round with each edit; yield the outputs without it and with it, and what is right.

    The last of what is yielded says whether all is: no access was out of bounds or misaligned
    either.  There are no outputs, and nothing is right, with one of which a loop does not end.

    Copies of so many ``lanes`` run at a time.  What takes much longer than the kernel without any
    edit is left out.
    Nothing where the text with all edits has other ``wrong`` elements than the kernel, without any,
    nor where it has none and accesses nothing that it may not.
    """
    steps = [launching.geometry(c.task, s, r.case.env, r.arrays)[0] for s in c.task.steps]
    most = max(_LEAST, lanes // max(1, *(s.blocks * s.padded for s in steps)))
    deadline, k, step = processor_time() + seconds, 1, min(_FIRST, most)
    while k <= len(c.edits) and (left := deadline - processor_time()) > 0:
        numbers = range(k, min(k + step, len(c.edits) + 1))
        (before, *after), strayed = launching.side_by_side(
            c.task, r.case.env, r.arrays, numbers, left
        )
        if before is None or (wrong is not None and (r.right(c.task, before) == wrong).any()):
            return
        if wrong is not None and not (wrong.any() or strayed[0]):
            return
        for n, outputs, stray in zip(numbers, after, strayed[1:], strict=True):
            if outputs:
                right = r.right(c.task, outputs)
                yield c.edits[n - 1], before, outputs, right, bool(right.all() and not stray)
            elif outputs is not None:
                yield c.edits[n - 1], before, (), np.zeros(1, np.bool_), False
        k, took = numbers.stop, left - (deadline - processor_time())
        # So many that half of the time that is left is likely enough for them.
        step = max(_LEAST, min(most, int((left - took) / 2 / max(took, 1e-3) * len(numbers))))


def restoring(
    c: Copies[E], r: Round, evidence: Evidence, seconds: float, lanes: int = _LANES
) -> tuple[list[E], set[E]]:
    """Return the edits with which a round is right, and those of which that is known.

    Evidence takes note of what these change.  Copies of so many ``lanes`` run at a time.
    """
    found, known = list[E](), set[E]()
    with suppress(DidymaError):
        for e, before, outputs, right, whole in outcomes(c, r, evidence.wrong, seconds, lanes):
            known.add(e)
            if outputs:
                replace(evidence, before=before).meet(e.line, outputs, right)
            if whole:
                found.append(e)
    return found, known


def passing(way: Way, some: Sequence[Edit], rest: Sequence[Later], seconds: float) -> list[Edit]:
    """Return those of some edits with which all rounds are right, as far as there is time."""
    left, deadline = [*some], processor_time() + seconds
    c = copies(way, left).copies
    for made in rest if c else ():
        seconds = deadline - processor_time()
        if c is None or not left or seconds < 0:
            break
        with suppress(DidymaError):
            for e, _, _, _, whole in outcomes(c, made(), None, seconds):
                if e in left and not whole:
                    left.remove(e)
    return left
