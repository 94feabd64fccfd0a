"""How small findings of planted faults become, and how long that takes.

    python -m tests.bench.minimiser [NAME ...] [--hunt 60] [--seconds 30] [--seed 0] [--save F]
    python -m tests.bench.minimiser --docs F

Each fault is planted in a copy of the source.  A campaign there, on graphs that have the ops that
the fault needs, ends with its first finding, which is then minimised.  ``--save`` adds a line of
JSON for each fault to a file; ``--docs`` writes the table of docs/findings.md from such a file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.minimise.run import minimise
from tests.bench.page import put
from tests.bench.page import table as page_table
from tests.mutants.copies import plant
from tests.mutants.faults import FAULTS, Fault
from tests.mutants.focused import Focused
from tests.mutants.grouping import FAULTS as GROUPED
from tests.mutants.mutant import ROOT


def child(engine: str, ops: Sequence[str], hunt: float, seconds: float, seed: int) -> Any:
    """Find a disagreement, minimise it, and return what that took; None if nothing is found."""
    domain = Focused((engine,), ops=frozenset(ops))
    plan = Plan((domain,), hunt, seed=seed, shrink_seconds=0.0, stop_after=1)
    r = run(plan)
    if not r.groups:
        return None
    first = r.groups[0].smallest
    m = minimise(Graphs((engine,)), first.case, seconds)
    e = m.example or first
    return {
        "found": [first.finding.level, first.finding.kind],
        "kept": [e.finding.level, e.finding.kind],
        "message": e.finding.message[:200],
        "hunt": round(r.seconds, 1),
        "before": list(first.size),
        "after": list(e.size),
        "changes": dict(e.case.changes),
        "judged": m.judged,
        "seconds": round(m.seconds, 1),
        "case": domain.text(e.case, Outcome((e.finding,), e.traits), "", seed),
    }


def planted(fault: Fault, hunt: float, seconds: float, seed: int) -> dict[str, Any]:
    """Plant a fault in a copy of the source, and minimise its first finding there."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        plant(where, fault)
        env = {**os.environ, "PYTHONPATH": f"{where}{os.pathsep}{ROOT}"}
        words = [fault.engine, *fault.ops, "--hunt", str(hunt), "--seconds", str(seconds)]
        command = [sys.executable, "-m", "tests.bench.minimiser", "--child", *words]
        done = subprocess.run(
            [*command, "--seed", str(seed)], cwd=where, env=env, capture_output=True, text=True
        )
        if done.returncode:
            return {"name": fault.name, "error": done.stderr[-500:]}
        return {"name": fault.name, **(json.loads(done.stdout) or {"missed": hunt})}


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of the page: a row for each fault, and the medians."""
    found = [r for r in rows if "after" in r]

    def middle(numbers: Iterable[float]) -> str:
        return f"{median(numbers):g}"

    lines = [
        (
            r["name"], ", ".join(r["kept"]),
            *(f"{r['before'][i]} → {r['after'][i]}" for i in (0, 1)),
            r["judged"], f"{r['seconds']:.1f}",
        )
        for r in found
    ]  # fmt: skip
    last = (
        f"median of {len(found)}", "",
        *(f"{middle(r['before'][i] for r in found)} → {middle(r['after'][i] for r in found)}"
          for i in (0, 1)),
        middle(r["judged"] for r in found), middle(r["seconds"] for r in found),
    )  # fmt: skip
    head = ("planted fault", "level, kind", "nodes", "elements", "judgements", "seconds")
    return list(page_table(head, [*lines, last]))


def main() -> None:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("names", nargs="*", help="faults, by a part of their names; all without")
    p.add_argument("--hunt", type=float, default=60.0, help="seconds to look for a finding")
    p.add_argument("--seconds", type=float, default=30.0, help="seconds to minimise it")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--save", type=Path)
    p.add_argument("--docs", type=Path, help="write the table of what --save wrote")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.child:
        print(json.dumps(child(a.names[0], a.names[1:], a.hunt, a.seconds, a.seed)))
        return
    if a.docs:
        rows = [json.loads(line) for line in a.docs.read_text(encoding="utf-8").splitlines()]
        put("minimised findings", table(rows), ROOT / "docs" / "findings.md")
        return
    for fault in (*FAULTS, *GROUPED):
        if a.names and not any(name in fault.name for name in a.names):
            continue
        row = planted(fault, a.hunt, a.seconds, a.seed)
        if a.save is not None:
            with a.save.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
        print(json.dumps({k: v for k, v in row.items() if k != "case"}), flush=True)


if __name__ == "__main__":
    main()
