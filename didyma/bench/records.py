"""Records of benchmarks, in the format of pytest-benchmark, and what two of them differ in.

Counters are integers of a benchmark's ``extra_info``.  A time counts only as its ratio to the
benchmark of its group whose ``extra_info`` has a true ``baseline``, in the same record: times of
two runs on a shared machine say nothing about each other.  It is the least of all rounds, which
other work on the machine disturbs least.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from didyma.codegen.runtime import disk
from didyma.refimpl.errors import DidymaError

RATIO = "ratio"
COUNTERS = "counters"  # all of them, in a limit
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType({"bytes": ("read", "written")})

_LIMIT = re.compile(r"(?P<name>[a-z_]+):\+(?P<share>\d+(?:\.\d+)?)%")


@dataclass(frozen=True, slots=True)
class Measured:
    """One benchmark: its counters, its least seconds, and those as a multiple of its baseline.

    ``ratio`` is None without a baseline, and for the baseline itself.
    """

    name: str
    group: str
    seconds: float
    counters: Mapping[str, int]
    ratio: float | None

    def quantities(self) -> dict[str, float]:
        """Return what may be compared with other records, by name."""
        return {**self.counters, **({} if self.ratio is None else {RATIO: self.ratio})}


@dataclass(frozen=True, slots=True)
class Change:
    """A quantity of a benchmark in two records; ``failed`` if it grew by more than is allowed."""

    benchmark: str
    quantity: str
    before: float
    after: float
    failed: bool

    @property
    def growth(self) -> float:
        """Return by which share of what it was the quantity grew; infinity for one that was 0."""
        if self.after == self.before:
            return 0.0
        return (self.after - self.before) / self.before if self.before else math.inf


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two records: how many benchmarks both have, what changed, and what only one of them has.

    ``quantities`` are the names of all that was compared.
    """

    compared: int
    quantities: frozenset[str]
    changes: tuple[Change, ...]
    lost: tuple[str, ...]
    new: tuple[str, ...]


def limits(text: str) -> dict[str, float]:
    """Return the share by which each quantity may grow, of ``NAME:+P%`` with commas between.

    ``counters`` is every counter and ``bytes`` all that is read and written.  Of several limits for
    a quantity the last holds.

    Errors: ``bad-option``.

    >>> limits("bytes:+0%,ratio:+5%")
    {'bytes': 0.0, 'ratio': 0.05}
    """
    found: dict[str, float] = {}
    for item in text.split(",") if text else ():
        match = _LIMIT.fullmatch(item.strip())
        if match is None:
            raise DidymaError(
                "bad-option", "--fail-on", got=item, want="NAME:+P%, several with commas between",
                help="such as bytes:+0%,ratio:+5%",
            )  # fmt: skip
        found.pop(match["name"], None)
        found[match["name"]] = float(match["share"]) / 100
    return found


def covers(name: str, quantity: str) -> bool:
    """Return whether a limit of this name is one for a quantity.

    >>> covers("bytes", "read"), covers("counters", "spills"), covers("counters", "ratio")
    (True, True, False)
    """
    every = name == COUNTERS and quantity != RATIO
    return every or quantity in GROUPS.get(name, (name,))


def read(path: Path) -> list[Measured]:
    """Read a record; DidymaError ``unreadable-file``, or ``not-a-record`` for something else."""
    text = disk.read_text(path)
    try:
        rows = json.loads(text)["benchmarks"]
        return list(_measured(rows))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        got = f"no JSON: {e}" if isinstance(e, ValueError) else f"JSON of something else ({e})"
        raise DidymaError(
            "not-a-record", str(path), got=got,
            want="what pytest --benchmark-json or didyma bench count --save writes",
        ) from None  # fmt: skip


def _measured(rows: Sequence[Mapping[str, Any]]) -> Iterator[Measured]:
    base = {r["group"]: float(r["stats"]["min"]) for r in rows if r["extra_info"].get("baseline")}
    for r in rows:
        counters = {k: v for k, v in r["extra_info"].items() if type(v) is int}
        seconds, against = float(r["stats"]["min"]), base.get(r["group"])
        of_base = None if not against or r["extra_info"].get("baseline") else seconds / against
        yield Measured(str(r["name"]), str(r["group"]), seconds, counters, of_base)


def compare(
    before: Sequence[Measured], after: Sequence[Measured], allowed: Mapping[str, float]
) -> Comparison:
    """Return what differs between two records.

    A quantity that only one of them has is left out, as registers are where there is no NVRTC.
    """
    old, new = ({m.name: m for m in ms} for ms in (before, after))
    both = [name for name in old if name in new]
    changes = tuple(c for name in both for c in _changes(old[name], new[name], allowed))
    known = (old[name].quantities().keys() & new[name].quantities().keys() for name in both)
    lost, added = (tuple(n for n in a if n not in b) for a, b in ((old, new), (new, old)))
    return Comparison(len(both), frozenset[str]().union(*known), changes, lost, added)


def _changes(a: Measured, b: Measured, allowed: Mapping[str, float]) -> Iterator[Change]:
    before, after = a.quantities(), b.quantities()
    for name in before:
        if name in after and before[name] != after[name]:
            shares = [share for limit, share in allowed.items() if covers(limit, name)]
            most = shares[-1] if shares else None
            failed = most is not None and after[name] > before[name] * (1 + most)
            yield Change(a.name, name, before[name], after[name], failed)


def record(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a record whose benchmarks have ``name``, ``group``, counters and seconds.

    Seconds are 0 where only counters were measured.
    """
    made = [
        {
            "name": r["name"],
            "group": r["group"],
            "extra_info": dict(r.get("extra_info", {})),
            "stats": {"min": r.get("seconds", 0.0)},
        }
        for r in rows
    ]
    return json.dumps({"benchmarks": made}, indent=1) + "\n"
