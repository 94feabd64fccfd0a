"""Which schedule a function gets: by its name, or by the hash of its structure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from didyma.codegen.schedule.steps.apply import run
from didyma.codegen.schedule.steps.text import ScheduleText, parse_all
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.text import show

DIGITS = 16  # of a hash
SOURCE = "<schedules>"  # what errors call the text of a compile's schedules


def loop_hash(f: PrimFunc) -> str:
    """Return a hash of what a loop function does: of its text, without its name and attributes.

    >>> from didyma.refimpl.ir.loop import Block
    >>> f = PrimFunc("f", (), (), Block(()))
    >>> loop_hash(f) == loop_hash(replace(f, name="g")), len(loop_hash(f))
    (True, 16)
    """
    text = show(replace(f, name="f", attrs=()))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def by_function(text: str, known: Mapping[str, str]) -> dict[str, ScheduleText]:
    """Return the schedules of a text by the names of the functions that they are for.

    ``known`` are the names of all functions with the hashes of their structure.

    Errors: those of the parser; ``unknown-function`` for a schedule of no function that there is,
    ``name-taken`` for a second one of a function.
    """
    found: dict[str, ScheduleText] = {}
    if not text:
        return found
    hashes = {key: name for name, key in known.items()}
    for s in parse_all(text, SOURCE):
        name = s.function if s.function in known else hashes.get(s.function, "")
        if not name:
            raise other_function(s, known)
        if name in found:
            raise s.at_head(
                DidymaError(
                    "name-taken", f"schedule @{s.function}", got=f"a second schedule of @{name}",
                    want="one for each function",
                )
            )  # fmt: skip
        found[name] = s
    return found


def other_function(s: ScheduleText, names: Iterable[str]) -> DidymaError:
    """Return the error of a schedule for another function than there is."""
    known = ", ".join(f"@{n}" for n in names) or "none"
    return s.at_head(
        DidymaError(
            "unknown-function", f"schedule @{s.function}", got=f"@{s.function}",
            want=f"the name of a function, or the hash of its structure: {known}",
        )
    )  # fmt: skip


def stepped(s: ScheduleText, f: PrimFunc, target: Target = PORTABLE) -> PrimFunc:
    """Return a function after the steps of a schedule; errors as of ``run``."""
    for applied in run(s.steps, f, target, s.at):
        f = applied.func
    return f
