"""The domain of parts: what callers hand to a compile, and what surrounds programs, by definition.

Programs that are drawn have no kernels, intrinsics, routines, external functions and passes of a
caller's own, so a kind of case draws each, small enough that what it must do follows from the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any

from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome
from didyma.fuzz.parts import (
    arrays,
    codegens,
    externs,
    files,
    intrinsics,
    kernels,
    loops,
    modules,
    passes,
    plain,
    prelude,
    replays,
    texts,
    watched,
)
from didyma.oracle.report import Finding

# Which run the few kernels that cases have, the second one case in so many of each kind.
ENGINES, SELDOM = ("host", "simt"), 4
JUDGES: Mapping[str, Callable[[Random, Engine], Iterator[str]]] = MappingProxyType({
    "kernel": kernels.judged, "externs": externs.judged, "passes": passes.judged,
    "intrinsics": intrinsics.judged, "arrays": arrays.judged, "prelude": prelude.judged,
    "codegens": codegens.judged, "plain": plain.judged, "replays": replays.judged,
    "modules": modules.judged, "texts": texts.judged, "watched": watched.judged,
    "loops": loops.judged, "files": files.judged,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A part of some kind, which is drawn by a seed as it is judged."""

    kind: str
    seed: int


@dataclass(frozen=True, slots=True)
class Parts(Domain[Case]):
    """Parts of a caller's own; kinds take turns."""

    @property
    def name(self) -> str:
        """``parts``."""
        return "parts"

    @property
    def floor(self) -> float:
        """Hundreds of cases share a second."""
        return 0.05

    def draw(self, seed: int, index: int) -> Case:
        """Return the part of a campaign's seed and an index."""
        return Case([*JUDGES][index % len(JUDGES)], (seed << 64) + index)

    def judge(self) -> Judge[Case]:
        """Start the engines."""
        return partial(_outcome, tuple(map(engine, ENGINES)))

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how many parts of each kind were judged."""
        return {k[1]: n for k, n in sorted(covered.items())}


def _outcome(engines: Sequence[Engine], case: Case) -> Outcome:
    """Return the first thing that is wrong with a part."""
    quick, slow = engines
    seldom = case.seed // len(JUDGES) % SELDOM == 0
    wrong = next(_wrong(slow if seldom else quick, case), None)
    found = () if wrong is None else (Finding("parts", case.kind, "wrong", wrong),)
    return Outcome(found, size=1, checked=1, total=1, covered=(("kind", case.kind),))


def _wrong(runs: Engine, case: Case) -> Iterator[str]:
    try:
        yield from JUDGES[case.kind](Random(case.seed), runs)
    except Exception as e:  # whatever it is, what is judged has failed
        yield f"{type(e).__name__}: {e}"
