"""A campaign on random graphs that have one of some ops, for faults that others cannot show.

It runs in a process whose Didyma is a copy with planted faults, and prints its result as JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.graphs import Case
from didyma.fuzz.records import record


@dataclass(frozen=True, slots=True)
class Focused(Graphs):
    """Random graphs with one of ``ops``, or any graphs if none are named."""

    ops: frozenset[str] = frozenset()

    def draw(self, seed: int, index: int) -> Case:
        """Return the first graph with such an op, of a sequence of its own for each index."""
        cases = (Graphs.draw(self, seed, index + (k << 32)) for k in count())
        return next(case for case in cases if not self.ops or self.ops & ops(case))


def ops(case: Case) -> set[str]:
    """Return the ops of a graph."""
    return {n.op for f in case.module.functions for n in f.nodes}


def main() -> None:
    """Run a campaign of one process."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("engine")
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--findings", type=Path)
    a = parser.parse_args()
    domain = Focused((a.engine,), ops=frozenset(a.ops))
    r = run(Plan((domain,), a.seconds, seed=a.seed, findings=a.findings))
    print(json.dumps(record(r, [domain])))


if __name__ == "__main__":
    main()
