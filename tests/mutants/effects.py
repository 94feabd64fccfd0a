"""Whether a mutant that survives changes what is compiled: the text, the plan, or nothing seen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.mutants import hunting
from tests.mutants.forking import Say, forked, limit_cpu
from tests.mutants.target import Target

if TYPE_CHECKING:
    from tests.mutants.engine import Engine

CASES = 40  # compiled with and without the mutant, those known to execute the line first
_GRAPHS = ("graphs on host", "graphs on simt", "control flow")  # checks whose cases are compiled
_PARTS = ("passes", "loops", "kernels", "bare", "program", "text", "wrapper")

Case: TypeAlias = tuple[str, int]  # check, index
Prints: TypeAlias = Mapping[Case, Mapping[str, str]]


def measure(engine: Engine, targets: Sequence[Target]) -> Iterator[tuple[Target, str]]:
    """Yield what each mutant of Python changes among cases that execute its line, or may."""
    of = {t.id: _cases(engine, t) for t in targets}
    chosen = [t for t in targets if of[t.id]]
    jobs = engine.plan.jobs
    planted = {
        e.work.id: _by_case(e.said)
        for e in forked(chosen, partial(_print, engine, of), jobs, idle=engine.in_time)
    }
    wanted = sorted({case for t in chosen for case in of[t.id]})
    chunks = [wanted[i : i + 20] for i in range(0, len(wanted), 20)]
    plain: dict[Case, Mapping[str, str]] = {}
    for e in forked(chunks, partial(_print_all, engine.plan.seed), jobs, idle=engine.in_time):
        plain.update(_by_case(e.said))
    for t in chosen:
        if t.id in planted:
            yield t, _difference(plain, planted[t.id])


def _difference(plain: Prints, planted: Prints) -> str:
    differing = [
        next(p for p in _PARTS if prints.get(p) != plain[case].get(p))
        for case, prints in planted.items()
        if case in plain and prints != plain[case]
    ]
    if not differing:
        return f"{len(planted)} programs compile to the same"
    first = min(differing, key=_PARTS.index)
    return f"{len(differing)} of {len(planted)} programs compile otherwise, from their {first} on"


def _cases(engine: Engine, t: Target) -> list[Case]:
    m = t.mutant
    if m is None or m.program >= 0 or not m.file.endswith(".py"):
        return []
    cases = engine.cases(t)
    found = [(name, i) for name in _GRAPHS if name in cases for i in cases[name].all[:CASES]]
    return found[:CASES]


def _by_case(said: Sequence[Any]) -> dict[Case, Mapping[str, str]]:
    return {(name, i): prints for name, i, prints in said}


def _print(engine: Engine, of: Mapping[str, Sequence[Case]], t: Target, say: Say) -> None:
    assert t.mutant is not None
    engine.planter.plant(t.mutant)
    _print_all(engine.plan.seed, of[t.id], say)


def _print_all(seed: int, cases: Sequence[Case], say: Say) -> None:
    checks = hunting.fresh("tests.mutants.checks")
    for name, index in cases:
        limit_cpu(hunting.GRACE)
        say((name, index, prints(checks.compiled(name, seed, index))))


def prints(made: object) -> dict[str, str]:
    """Return a hash of each part of what was compiled."""
    found: dict[str, str] = {}
    for part in _PARTS:
        text = repr(getattr(made, part, ""))
        found[part] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found
