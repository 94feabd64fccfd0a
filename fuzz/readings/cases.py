"""Texts that one reader of the compiler is handed, and what it makes of them.

A reader makes something of a text, or refuses it in an error that says where it is wrong and what
is wanted; it never fails otherwise.  The texts of kernels, templates, programs and traces are kept
as somebody wrote them (``fuzz/distilled.py``), with a digest of what became of each, and are
changed in a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from didyma.fuzz.chooser import Chooser
from didyma.fuzz.counters import Counters, of_texts
from didyma.fuzz.readings import kernels, memory, programs, templates
from didyma.fuzz.readings.told import Reader, Told, said
from didyma.oracle.report import Finding

NEXT = "----\n"  # a line between texts that are read one by one
READERS: Mapping[str, Reader] = MappingProxyType({
    "plain": kernels.foreign, "kernel": kernels.kernel, "claim": kernels.claimed,
    "template": templates.template, "problem": templates.problem, "offer": templates.offer,
    "program": programs.program, "plans": programs.plans, "loops": kernels.loops,
    "recorded": programs.recorded, "moved": programs.moved, "intrinsics": kernels.intrinsics,
    "trace": memory.arena, "symbolic": memory.symbolic,
})  # fmt: skip
CHANGED = frozenset(("plain", "kernel", "claim", "trace"))  # readers whose texts are changed
_WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Reading:
    """One or several texts, the name of who reads them, and what that one is told."""

    reader: str
    text: str
    told: Told

    @property
    def facts(self) -> Mapping[str, Any]:
        """Everything but the text, as JSON has it."""
        return {"reader": self.reader, "told": dict(self.told)}


def recorded(facts: Mapping[str, Any], text: str) -> Reading:
    """Return the case of a text and of facts that ``Reading.facts`` gave."""
    return Reading(facts["reader"], text, facts["told"])


def changed(r: Reading, c: Chooser) -> Reading:
    """Return a case one word of which is left out, comes twice, or gives way to another."""
    found = [*_WORDS.finditer(r.text)]
    if r.reader not in CHANGED or not found:
        return r
    at, other = c.pick(found), c.pick(found)[0]
    word = c.pick(("", f"{at[0]} {at[0]}", other))
    return replace(r, text=f"{r.text[: at.start()]}{word}{r.text[at.end() :]}")


def judged(r: Reading) -> tuple[tuple[Finding, ...], Counters]:
    """Return what is wrong with how texts are read, and a digest of what became of all."""
    try:
        return (), of_texts({"readings": "\n".join(read(r, t) for t in r.text.split(NEXT))})
    except Exception as e:  # whatever it is, the reader has failed
        return (Finding("reader", r.reader, "error", f"{type(e).__name__}: {e}"),), {}


def read(r: Reading, text: str) -> str:
    """Return what a reader makes of one text, or why it refuses it."""
    return said(lambda: "\n".join(READERS[r.reader](text, r.told)))
