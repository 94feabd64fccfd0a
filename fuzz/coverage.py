"""What graphs cover: ops by dtype, rank, layout and neighbours, and decisions of the compiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from didyma.codegen.pipeline import Compiled
from didyma.codegen.rules import decided, rules
from didyma.fuzz.domains.domain import Key
from didyma.fuzz.graphs import Case
from didyma.fuzz.lines import missed
from didyma.fuzz.result import Result
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import CONTROL, Attr, Function
from didyma.refimpl.ir.types import Tensor
from didyma.refimpl.ops import OPS

Counts: TypeAlias = dict[str, dict[str, int]]

DTYPE, RANK, ATTRIBUTE, PAIR, DECISION = "dtype", "rank", "attribute", "pair", "decision"
MOST_RANK = 5  # of a drawn value


def keys(case: Case, made: Compiled | None, heard: Mapping[str, int]) -> tuple[Key, ...]:
    """Return what a case covers; ``heard`` are the decisions of the passes that compiled it."""
    found: dict[Key, None] = {}
    for f in case.module.functions:
        found |= dict.fromkeys(_of_nodes(f))
    decisions = Counter(heard) + (decided(made) if made is not None else Counter[str]())
    return (*found, *((DECISION, name) for name in sorted(decisions)))


def _of_nodes(f: Function) -> Iterator[tuple[str, str, str]]:
    types = f.types()
    maker = {r: n.op for n in f.nodes for r in n.results}
    for n in f.nodes:
        if n.op in OPS:
            first = types[n.args[0]] if n.args and n.op != "where" else n.types[0]
            yield DTYPE, n.op, str(first.dtype)
            symbolic = any(dims.free(types[v].shape) for v in (*n.args, *n.results))
            yield RANK, n.op, f"{len(first.shape)}{' symbolic' * symbolic}"
            for name, value in n.attrs:
                yield ATTRIBUTE, n.op, f"{name}: {_class(value)}"
        for a in n.args:
            if a in maker:
                yield PAIR, maker[a], n.op


def _class(value: Attr) -> str:
    """Return the class of an attribute: what it is like, not what it is."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return "negative" if value < 0 else "0" if value == 0 else "1" if value == 1 else "more"
        case tuple():
            return "empty" if not value else " ".join(sorted({_class(v) for v in value}))
        case Tensor():
            return "scalar" if not value.shape else "array"
        case str():
            return str(value)
        case _:
            return "symbolic"


def of_dtypes(case: Case) -> list[tuple[str, str]]:
    """Return the pairs of op and dtype of a case: of the first operand, or what is chosen from."""
    found = {k for f in case.module.functions for k in _of_nodes(f) if k[0] == DTYPE}
    return sorted((op, dtype) for _, op, dtype in found)


def possible() -> int:
    """Return how many pairs of op and dtype there are."""
    return sum(len(op.dtypes) for op in OPS.values())


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

    Decisions are counted over all domains, the others over whole graphs.
    """
    graphs: Mapping[Key, int] = r.tallies["graphs"].covered if "graphs" in r.tallies else {}
    dtypes, pairs = counts(graphs, DTYPE), counts(graphs, PAIR)
    fired = _decisions(r)
    listed = {d.name: d.stage for d in rules()}
    return {
        "dtypes": dtypes,
        "ranks": counts(graphs, RANK),
        "attributes": counts(graphs, ATTRIBUTE),
        "neighbours": pairs,
        "decisions": {
            stage: {n: fired[n] for n, s in listed.items() if s == stage}
            for stage in dict.fromkeys(listed.values())
        },
        "never": {
            "dtypes": [f"{op.name} {d}" for op in OPS.values() for d in op.dtypes
                       if str(d) not in dtypes.get(op.name, {})],
            "neighbours": _missing_pairs(pairs),
            "decisions": [n for n in listed if not fired[n]],
        },
        "lines": {name: list(at) for name, at in missed(r.reached).items()} if r.reached else {},
    }  # fmt: skip


def _decisions(r: Result) -> Counter[str]:
    fired: Counter[str] = Counter()
    for name, t in r.tallies.items():
        for key, n in t.covered.items():
            if name == "passes" and key[1:] == ("passes",):
                fired[key[0]] += n
            elif key[0] == DECISION:
                fired[key[1]] += n
    return fired


def _missing_pairs(pairs: Counts) -> int:
    """Return how many pairs of an op and one that reads it were never drawn."""
    ops: Collection[str] = [*OPS, *CONTROL]
    return len(ops) ** 2 - sum(len(row) for row in pairs.values())
