"""What a campaign fuzzes: a domain draws cases, judges them, and proposes smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from didyma.fuzz.steering.meter import Key as Key  # for domains
from didyma.fuzz.steering.meter import Wish
from didyma.oracle.report import Finding

C = TypeVar("C")

Judge: TypeAlias = Callable[[C], "Outcome"]
# Yields smaller cases of a case; is sent whether the one just yielded shows the finding too.
Shrinker: TypeAlias = Callable[[C], Generator[C, bool, None]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of judging one case.

    The first of the ``findings`` names the case's fault; ``traits`` are what the case does, by
    which findings are grouped.  ``size`` counts nodes, or whatever a case of the domain is made
    of; ``checked`` of ``total`` elements could be decided.  ``covered`` are the keys that the case
    covers.  ``unexpected`` is an error of the judge itself, which is a finding as well.
    ``ring_checked`` of ``ring_total`` floats could be compared in the ring.  ``counters`` are exact
    (``fuzz/counters.py``), of domains that count anything.
    """

    findings: tuple[Finding, ...] = ()
    traits: frozenset[str] = frozenset()
    size: int = 0
    checked: int = 0
    total: int = 0
    covered: tuple[Key, ...] = ()
    unexpected: str = ""
    ring_checked: int = 0
    ring_total: int = 0
    counters: Mapping[str, int] = field(default_factory=dict[str, int])


class Domain(Protocol[C]):
    """A kind of cases.  pickle takes both the domain and its cases, which print as they compare."""

    @property
    def name(self) -> str:
        """The name under which outcomes are counted; no two domains of a campaign share one."""
        ...

    def draw(self, seed: int, index: int) -> C:
        """Return the case of a campaign's seed that has an index: always the same."""
        ...

    def wanted(self) -> Mapping[Wish, Key]:
        """Return what a meter may wish for, each with the key that it is meant to cover."""
        return {}

    def draw_wished(self, seed: int, index: int, wishes: Sequence[Wish]) -> C:
        """Return the case of a seed and an index that has what is wished for: always the same."""
        del wishes
        return self.draw(seed, index)

    def judge(self) -> Judge[C]:
        """Return a function that judges cases; called once in each process.

        What cannot be judged at all, such as on an engine that is missing, raises DidymaError here.
        """
        ...

    @property
    def floor(self) -> float:
        """The least share of a campaign's time, from 0 to 1, beside whatever other domains."""
        return 0.1

    @property
    def usual(self) -> bool:
        """Whether the compiler has no option of a user, so that kept counters hold."""
        return True

    @property
    def free(self) -> int:
        """One case in so many is drawn without wishes."""
        return 4

    def failure(self, case: C, kind: str, message: str) -> Finding:
        """Return the finding that a process died at a case, or that judging it raised an error.

        ``kind`` is ``crash``, ``hang`` or ``error``.
        """
        del case
        return Finding(self.name, "process", kind, message)

    def without_engines(self) -> Domain[C] | None:
        """Return the domain without what may end a process by itself; None if nothing is left.

        What it finds of a case at which a process died is the cause of that.
        """
        return None

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[C]]]:
        """Return what makes a case smaller, in turn: each ends at a share of the time."""
        del finding
        return ()

    def size(self, case: C) -> tuple[int, ...]:
        """Return a key that orders cases by size; the first number is what reports call nodes."""
        del case
        return (0,)

    def text(self, case: C, found: Outcome, message: str, seed: int) -> str:
        """Return the content of a file that holds a case and what was found of it."""
        lines = [f"campaign seed {seed}", *map(str, found.findings[:1]), *message.splitlines()]
        return "".join(f"# {line}\n" for line in lines) + f"{case!r}\n"

    def replay(self, case: C, file: str) -> str:
        """Return the command that judges a case again, which was saved to ``file`` if that is set.

        It is empty where there is none but that which draws the case anew.
        """
        del case, file
        return ""

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return what a report says of the keys that cases covered, as a record of JSON types."""
        return {"keys": len(covered)}
