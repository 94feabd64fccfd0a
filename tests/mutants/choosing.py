"""Which mutants a run hunts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.mutants import named, sources
from tests.mutants.checks import Text
from tests.mutants.mutant import Mutant
from tests.mutants.target import Target


@dataclass(frozen=True, slots=True)
class Choice:
    """What the options ask for: generated mutants, all or a sample of them, and named faults.

    ``names`` are words of named faults; ``only`` is a pattern for the id, name, file or operator of
    either kind.
    """

    sample: int = 0
    all: bool = False
    named: bool = False
    names: tuple[str, ...] = ()
    only: str = ""
    seed: int = 0

    def generated(self, files: Sequence[Mutant], texts: Sequence[Text]) -> list[Target]:
        """Return the generated mutants, of files and of the kernels of drawn programs."""
        if not (self.sample or self.all):
            return []
        pool = [m for m in (*files, *sources.of_kernels(texts)) if self.matches(target(m), m)]
        return [target(m) for m in sources.sample(pool, 0 if self.all else self.sample, self.seed)]

    def planted(self) -> list[Target]:
        """Return the named faults."""
        if not (self.named or self.names):
            return []
        found = (t for t in named.every() if self.matches(t, t.mutant))
        return [t for t in found if not self.names or any(n in t.name for n in self.names)]

    def matches(self, t: Target, m: Mutant | None) -> bool:
        """Return whether the pattern, if there is one, matches."""
        operator = m.site.operator if m else ""
        words = (t.id, t.name, m.file if m else "", operator)
        return not self.only or any(fnmatchcase(w, f"*{self.only}*") for w in words)


def target(m: Mutant) -> Target:
    """Return a generated mutant as a target."""
    return Target(m.id, m.group, f"{m.file}:{m.line} {m.site.scope}: {m.site.operator}", m)


def once(targets: Iterable[Target]) -> Iterator[Target]:
    """Yield each target once: kernels of two programs may be equal."""
    seen: set[str] = set()
    for t in targets:
        if t.id not in seen:
            seen.add(t.id)
            yield t
