"""What the ring costs: processor time of judging the same drawn graphs with it and without.

``python -m tests.bench.ring_cost [GRAPHS] [SEED] [ENGINE …]``
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from didyma.fuzz.domains.graphs import Graphs


def main(graphs: int = 100, seed: int = 12, *, engines: tuple[str, ...]) -> None:
    """Judge each graph twice, compiled once, in turn; print seconds and the share compared."""
    domain = Graphs(engines)
    judge = domain.judge()
    seconds = {True: 0.0, False: 0.0}
    known = floats = findings = 0
    for index in range(graphs):
        case = domain.draw(seed, index)
        judge(replace(case, ring=True))  # compiles, and makes the tables of the ring
        for ring in (True, False) if index % 2 else (False, True):
            began = time.process_time()
            o = judge(replace(case, ring=ring))
            seconds[ring] += time.process_time() - began
            known, floats = known + o.ring_checked, floats + o.ring_total
            findings += len(o.findings)
    plain, with_ring = seconds[False], seconds[True]
    print(f"{graphs} graphs on {'+'.join(engines)}, seed {seed}: {plain:.2f} s, {with_ring:.2f} s")
    print(f"in the ring {with_ring / plain:.2f} times as long; findings: {findings}")
    print(f"{known / max(floats, 1):.2%} of {floats:,} floats compared")


if __name__ == "__main__":
    counts = [int(n) for n in sys.argv[1:3]]
    main(*counts, engines=tuple(sys.argv[3:]) or ("simt",))
