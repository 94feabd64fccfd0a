"""Faults that people planted, as targets of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tests.mutants import faults, form_slips, grouping, slips, step_proofs, step_slips
from tests.mutants.faults import Fault
from tests.mutants.memory import page as memory
from tests.mutants.mutant import ROOT, Mutant, Site
from tests.mutants.target import Target


def every() -> Iterator[Target]:
    """Yield every named fault: of compilers, of groups of findings, slips, of memory planning."""
    for f in (
        *faults.FAULTS,
        *grouping.FAULTS,
        *chain(*slips.SLIPS.values()),
        *step_slips.FAULTS,
        *form_slips.FAULTS,
        *step_proofs.FAULTS,
    ):
        yield target(f)
    for i, m in enumerate(memory.faults()):
        yield Target(f"memory {m.number}: {m.name}", "named", m.name, memory=i)


def target(f: Fault) -> Target:
    """Return a named fault as a mutant; one whose text does not occur once is stale."""
    source = (ROOT / f.file).read_text(encoding="utf-8")
    if (count := source.count(f.old)) != 1:
        stale = f"its text occurs {count} times in {f.file}"
        return Target(f.name, "named", f.name, levels=f.levels, stale=stale)
    at = source.index(f.old)
    site = Site(at, at + len(f.old), f.new, "named", f.name, at, at + len(f.old))
    mutant = Mutant("named", f.file, source, site)
    return Target(mutant.id, "named", f.name, mutant, f.levels, f.engine)
