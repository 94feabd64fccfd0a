"""Whether findings of one planted fault form one group, and those of two faults two.

    python -m tests.bench.grouping [NAME ...] [--seconds 60] [--seed 0]

The faults are those of ``tests.mutants.grouping``, alone and in pairs, planted in copies of the
source.  Graphs are drawn that have the ops of the one fault and of the other in turn; each finding
is minimised, and all are grouped.  Each finding of a pair is then judged where only one of the
faults is planted, which says whose it is.  A group with findings of both is merged wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from didyma.fuzz import again, replay, worker
from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.executor import WatchedExecutor, WorkerDiedError
from didyma.fuzz.groups import Example
from didyma.fuzz.minimise.run import HANG_SECONDS, minimise
from didyma.fuzz.recorded_groups import Found, causes
from tests.mutants.copies import plant
from tests.mutants.faults import Fault
from tests.mutants.focused import Focused
from tests.mutants.grouping import FAULTS, PAIRS
from tests.mutants.mutant import ROOT

SHRINK_SECONDS = 8.0


def hunt(engine: str, ops: Sequence[str], seconds: float, seed: int, folder: Path) -> None:
    """Write the findings of graphs to a folder; ``ops`` are the ops of each fault, with commas."""
    domains = [Focused((engine,), ops=frozenset(some.split(","))) for some in ops]
    packed = [worker.packed(d) for d in domains]
    end, index = time.monotonic() + seconds, 0
    with WatchedExecutor(1, HANG_SECONDS) as process:  # which a fault may end
        while time.monotonic() < end:
            at = index % len(domains)
            case = domains[at].draw(seed, index)
            index += 1
            judged = process.submit(worker.judge_one, packed[at], case)
            dead = isinstance(judged.exception(), WorkerDiedError)
            if dead or judged.result().findings:
                m = minimise(domains[at], case, SHRINK_SECONDS)
                if m.example is not None:
                    _write(domains[at], m.example, folder / f"{index}.dym", seed)


def _write(domain: Focused, e: Example, path: Path, seed: int) -> None:
    text = domain.text(e.case, Outcome((e.finding,), e.traits), "", seed)
    path.write_text(text, encoding="utf-8")


def fails(folder: Path) -> list[str]:
    """Return the names of the findings in a folder that fail here."""
    found = {path.name: replay.load(path) for path in sorted(folder.glob("*.dym"))}
    outcomes = again.judged(list(found.values()))
    return [name for name, o in zip(found, outcomes, strict=True) if o.findings]


def run(faults: Sequence[Fault], *words: str) -> str:
    """Run this module where faults are planted; return what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        plant(where, *faults)
        env = {**os.environ, "PYTHONPATH": f"{where}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-m", "tests.bench.grouping", *words]
        done = subprocess.run(
            command, cwd=where, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout


def measure(faults: Sequence[Fault], seconds: float, seed: int) -> dict[str, Any]:
    """Return the groups of faults planted together, and of how many faults each has findings."""
    with tempfile.TemporaryDirectory() as folder:
        ops = [",".join(f.ops) for f in faults]
        run(faults, "--child", "hunt", *ops, "--folder", folder, "--seconds", str(seconds),
            "--seed", str(seed), "--engine", faults[0].engine)  # fmt: skip
        whose = [set(json.loads(run([f], "--child", "fails", "--folder", folder))) for f in faults]
        found = [Found(path, replay.load(path)) for path in sorted(Path(folder).glob("*.dym"))]
        groups = [{path.name for path in c.files} for c in causes(found)]
        return {
            "faults": [f.name for f in faults],
            "findings": [len(names) for names in whose],
            "groups": len(groups),
            "merged": sum(len([w for w in whose if w & g]) > 1 for g in groups),
            "traits": [
                [c.group.level, c.group.kind, c.group.reason, sorted(c.group.common), len(c.files)]
                for c in causes(found)
            ],
        }


def main() -> None:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("names", nargs="*", help="parts of names of faults; all without")
    p.add_argument("--seconds", type=float, default=60.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--child", choices=("hunt", "fails"), help=argparse.SUPPRESS)
    p.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    p.add_argument("--engine", default="host", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.child == "hunt":
        hunt(a.engine, a.names, a.seconds, a.seed, a.folder)
    elif a.child == "fails":
        print(json.dumps(fails(a.folder)))
    else:
        for faults in [*PAIRS, *((f,) for f in FAULTS)]:
            if not a.names or any(name in f.name for name in a.names for f in faults):
                print(json.dumps(measure(faults, a.seconds, a.seed)), flush=True)


if __name__ == "__main__":
    main()
