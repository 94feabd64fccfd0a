"""What graphs cover: ops by dtype, rank, layout and neighbours, and decisions of the compiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from didyma.codegen.rules import rules
from didyma.fuzz.devices import DRAWN
from didyma.fuzz.domains.domain import Key
from didyma.fuzz.graphs import Case
from didyma.fuzz.keys import (
    ATTRIBUTE,
    DECISION,
    DTYPE,
    EXAMINED,
    MATTERED,
    PAIR,
    RANK,
    VALUE,
    of_graph,
    of_values,
)
from didyma.fuzz.lines import missed
from didyma.fuzz.result import Result
from didyma.refimpl.ir.graph import CONTROL
from didyma.refimpl.ir.types import Array

Counts: TypeAlias = dict[str, dict[str, int]]


def keys(case: Case, inputs: Sequence[Array]) -> tuple[Key, ...]:
    """Return what a case covers of ops, their neighbours and their values."""
    return tuple(of_graph(case.module) | of_values(case.module, inputs))


def of_dtypes(case: Case) -> list[tuple[str, str]]:
    """Return the pairs of op and dtype of a case: of the first operand, or what is chosen from."""
    return sorted((k[1], k[2]) for k in of_graph(case.module) if k[0] == DTYPE)


def possible() -> int:
    """Return how many pairs of op and dtype there are."""
    return sum(len(op.dtypes) for op in DRAWN.values())


def counts(covered: Mapping[Key, int], kind: str) -> Counts:
    """Return how many cases covered each pair of a kind of keys."""
    found: Counts = {}
    for key, n in sorted(covered.items()):
        if key[0] == kind:
            found.setdefault(key[1], {})[key[2]] = n
    return found


def summary(covered: Mapping[Key, int]) -> dict[str, Any]:
    """Return the counts of a campaign on graphs in brief."""
    kinds = Counter(k[0] for k in covered)
    return {
        "ops": len(counts(covered, DTYPE)),
        "pairs": kinds[DTYPE],
        "possible": possible(),
        "neighbours": kinds[PAIR],
        "decisions": kinds[DECISION],
    }


def report(r: Result) -> dict[str, Any]:
    """Return what a campaign covered, and what it never drew, fired or reached.

    Decisions are counted over all domains, the others over whole graphs.  Of a decision these are
    the programs in which it was made (``fired``), those in which it was looked at more closely
    (``examined``), and those of them in which a wrong result would have shown (``mattered``, see
    ``didyma.fuzz.mattered``).
    """
    graphs: Mapping[Key, int] = r.tallies["graphs"].covered if "graphs" in r.tallies else {}
    dtypes, pairs = counts(graphs, DTYPE), counts(graphs, PAIR)
    decided = _decisions(r)
    listed = {d.name: d.stage for d in rules()}
    return {
        "dtypes": dtypes,
        "ranks": counts(graphs, RANK),
        "attributes": counts(graphs, ATTRIBUTE),
        "neighbours": pairs,
        "values": counts(graphs, VALUE),
        "decisions": {
            stage: {n: decided[n] for n, s in listed.items() if s == stage}
            for stage in dict.fromkeys(listed.values())
        },
        "never": {
            "dtypes": [f"{op.name} {d}" for op in DRAWN.values() for d in op.dtypes
                       if str(d) not in dtypes.get(op.name, {})],
            "neighbours": _missing_pairs(pairs),
            "decisions": [n for n in listed if not decided[n]["fired"]],
            "mattered": [n for n in listed if decided[n]["fired"] and not decided[n]["mattered"]],
        },
        "lines": {name: list(at) for name, at in missed(r.reached).items()} if r.reached else {},
    }  # fmt: skip


def _decisions(r: Result) -> Mapping[str, dict[str, int]]:
    """Return how many programs of all domains had, examined and needed each decision."""
    found = {d.name: dict.fromkeys(_WORDS.values(), 0) for d in rules()}
    for t in r.tallies.values():
        for key, n in t.covered.items():
            if key[0] in _WORDS and key[1] in found:
                found[key[1]][_WORDS[key[0]]] += n
    return found


_WORDS = MappingProxyType({DECISION: "fired", EXAMINED: "examined", MATTERED: "mattered"})


def _missing_pairs(pairs: Counts) -> int:
    """Return how many pairs of an op and one that reads it were never drawn."""
    ops: Collection[str] = [*DRAWN, *CONTROL]
    return len(ops) ** 2 - sum(len(row) for row in pairs.values())
