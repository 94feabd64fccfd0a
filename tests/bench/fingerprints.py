"""Fingerprints of everything that is made of random programs, to show that a change left it alone.

    python -m tests.bench.fingerprints --count 5000 --save before.jsonl
    python -m tests.bench.fingerprints --count 5000 --against before.jsonl

Each program is drawn from a seed, compiled and judged.  Its fingerprints are hashes of the loop
programs with folds written out, the kernels' loops, the planned program, the kernels' text, the
generated wrapper and the verdict: for each level how many elements were decided, the largest share
of a bar that was used, and every finding.  With ``--against`` the seeds whose fingerprints differ
are printed, and the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import check
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.unfold import unfolded
from tests.bench.programs import case_of


def _hash(*texts: str) -> str:
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()


def fingerprints(seed: int, engines: Sequence[str]) -> dict[str, str]:
    """Return hashes of what each stage makes of the program of a seed, by the stage's name."""
    case = case_of(seed)
    options = case.options(Options())
    c = compile(case.module, options)
    report = check(case.module, case.inputs(), [engine(name) for name in engines], options)
    verdict = [
        f"{x.name} {x.checked} {x.total} {x.worst!r} {x.off!r} {len(x.comparisons)}"
        for x in report.levels
    ]
    return {
        "graph": _hash(show(c.source), show(c.fused)),
        "loops": _hash(*(show(unfolded(p)) for p in c.loops.values())),
        "kernels": _hash(*map(show, c.kernels.values())),
        "program": _hash(show(c.program), show(c.unplanned)),
        "text": _hash(c.text.source),
        "wrapper": _hash(c.wrapper),
        "verdict": _hash(*verdict, *(f"{f.level} {f.where} {f.kind}" for f in report.findings)),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 1 if a program's fingerprint differs."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--start", type=int, default=0)
    p.add_argument("--engine", nargs="+", default=["host"], metavar="NAME")
    p.add_argument("--save", type=Path, help="append one JSON line a program")
    p.add_argument("--against", type=Path, help="compare with what --save wrote")
    a = p.parse_args(words)
    old = {}
    if a.against is not None:
        rows = map(json.loads, a.against.read_text(encoding="utf-8").splitlines())
        old = {r["seed"]: r for r in rows}
    differ: Counter[str] = Counter()
    compared = 0
    for seed in range(a.start, a.start + a.count):
        row = {"seed": seed, **fingerprints(seed, a.engine)}
        if a.save is not None:
            with a.save.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
        if seed in old:
            compared += 1
            stages = [k for k in row if row[k] != old[seed].get(k)]
            differ.update(stages)
            if stages:
                print(f"seed {seed}: {' '.join(stages)}", flush=True)
    print(f"{compared} compared; differing: {dict(differ) or 'none'}")
    return 1 if differ or (old and not compared) else 0


if __name__ == "__main__":
    sys.exit(main())
