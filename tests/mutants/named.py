"""Faults that people planted, as targets of the engine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from didyma.refimpl.errors import DidymaError
from tests.mutants import faults, grouping
from tests.mutants.faults import Fault
from tests.mutants.memory import page as memory
from tests.mutants.mutant import ROOT, Mutant, Site
from tests.mutants.target import Target


def every() -> Iterator[Target]:
    """Yield every named fault: of compilers, of groups of findings, slips, of memory planning."""
    for f in (*faults.FAULTS, *grouping.FAULTS, *slips()):
        mutant = planted(f)
        yield Target(mutant.id, "named", f.name, mutant, f.levels, f.engine)
    for i, m in enumerate(memory.faults()):
        yield Target(f"memory {m.number}: {m.name}", "named", m.name, memory=i)


def slips() -> tuple[Fault, ...]:
    """Return the slips, where their module is there."""
    if importlib.util.find_spec("tests.mutants.slips") is None:
        return ()
    return tuple(importlib.import_module("tests.mutants.slips").FAULTS)


def planted(f: Fault) -> Mutant:
    """Return a named fault as a mutant; DidymaError ``bad-option`` unless its text occurs once."""
    source = (ROOT / f.file).read_text(encoding="utf-8")
    if (count := source.count(f.old)) != 1:
        raise DidymaError("bad-option", f.name, got=f"its text {count} times in {f.file}",
                          want="once", help="mend the fault in tests/mutants")  # fmt: skip
    at = source.index(f.old)
    site = Site(at, at + len(f.old), f.new, "named", f.name, at, at + len(f.old))
    return Mutant("named", f.file, source, site)
