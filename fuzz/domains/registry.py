"""The domains that ``didyma fuzz`` knows by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from didyma.codegen.options import Options
from didyma.fuzz.domains.domain import Domain
from didyma.fuzz.domains.emission import Emission
from didyma.fuzz.domains.foreign import Foreign
from didyma.fuzz.domains.graphs import EngineChoice, Graphs
from didyma.fuzz.domains.indices import Indices
from didyma.fuzz.domains.lowering import Lowering
from didyma.fuzz.domains.parts import Parts
from didyma.fuzz.domains.passes import Passes
from didyma.fuzz.domains.plans import Plans
from didyma.fuzz.domains.programs import Programs
from didyma.fuzz.domains.schedules import Schedules
from didyma.fuzz.domains.targets import Targets
from didyma.refimpl.errors import DidymaError


@dataclass(frozen=True, slots=True)
class Setup:
    """What the user chose for a campaign: engines, by name or as objects, and options."""

    engines: tuple[EngineChoice, ...]
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class Entry:
    """A domain by name: what it judges, in a phrase, and how to make it.

    ``alone`` is true where no engine runs anything.
    """

    name: str
    judges: str
    make: Callable[[Setup], Domain[Any]]
    alone: bool = True


def _table(*entries: Entry) -> Mapping[str, Entry]:
    return {e.name: e for e in entries}


DOMAINS: Mapping[str, Entry] = _table(
    Entry(
        "graphs",
        "random graphs, at every level and on engines, of which slow ones judge a quarter",
        lambda s: Graphs(s.engines, s.options),
        alone=False,
    ),
    Entry(
        "lowering",
        "loops and kernels of random graphs, by the loop interpreter",
        lambda s: Lowering(s.options),
    ),
    Entry(
        "emission",
        "kernels of random expressions, as CUDA C on every engine",
        lambda s: Emission(s.engines),
        alone=False,
    ),
    Entry(
        "foreign",
        "kernels of plain CUDA C, as kernel text on every engine, against a compiler of C",
        lambda s: Foreign(s.engines),
        alone=False,
    ),
    Entry(
        "passes",
        "graph passes alone, on small graphs around rewrite rules",
        lambda s: Passes(s.options),
    ),
    Entry(
        "indices",
        "index arithmetic of random loop nests, by all of its values",
        lambda s: Indices(s.options),
    ),
    Entry(
        "schedules",
        "random schedules of random functions, against the functions without them",
        lambda s: Schedules(s.engines),
        alone=False,
    ),
    Entry(
        "forms",
        "blocks, vectors, producers and external calls of loop functions, by their definition",
        lambda s: Schedules(s.engines, forms=True),
        alone=False,
    ),
    Entry(
        "programs",
        "programs, memory plans and wrappers of graphs with control flow, kernels interpreted",
        lambda s: Programs(s.options),
    ),
    Entry(
        "targets",
        "graphs of long axes, compiled for GPUs and not run: launches, plans and texts",
        lambda s: Targets(s.options),
    ),
    Entry(
        "parts",
        "kernels, externs, passes and intrinsics of a caller's own, and arrays of others",
        lambda _: Parts(),
        alone=False,
    ),
    Entry("planners", "memory plans of random programs, arenas and traces", lambda _: Plans()),
)


def make(setup: Setup, names: Iterable[str] = ()) -> tuple[Domain[Any], ...]:
    """Return the domains of some names, of all if there are none, each once.

    DidymaError ``unknown-domain``.
    """
    return tuple(entry(name).make(setup) for name in dict.fromkeys(names) or DOMAINS)


def entry(name: str) -> Entry:
    """Return the entry of a name; DidymaError ``unknown-domain``."""
    if name not in DOMAINS:
        raise DidymaError(
            "unknown-domain", f"domain {name}", got=name, want=f"one of {', '.join(DOMAINS)}"
        )
    return DOMAINS[name]
