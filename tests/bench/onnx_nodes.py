"""Run ONNX's node tests through levels and write ``docs/onnx.md``.

``python -m tests.bench.onnx_nodes graph loop`` prints what does not pass, by reason.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_node_model_tests
from onnx.backend.test.runner import Runner, _normalize_tensor

from didyma.onnx_backend import LEVELS, backend_for
from refimpl.errors import DidymaError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case; ``reason`` is empty if it passed."""

    name: str
    op: str
    reason: str
    folded: bool
    seconds: float


def cases() -> Sequence[TestCase]:
    """Every node test of the installed onnx."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_node_model_tests()


def run_case(case: TestCase, level: str) -> Outcome:
    """Run a case as ``BackendTest`` does."""
    start = time.perf_counter()
    reason, folded = "", False
    try:
        ready = backend_for(level).prepare(case.model, "CUDA" if level == "cuda" else "CPU")
        for inputs, want in case.data_sets or ():
            got = ready.run([_normalize_tensor(i) for i in inputs])
            Runner.assert_similar_outputs(
                [_normalize_tensor(w) for w in want], got, case.rtol, case.atol
            )
        folded = all(
            n.op == "constant" for m, _ in ready.ready.values() for n in m.entry.nodes
        ) and not any(m.entry.params for m, _ in ready.ready.values())
    except Exception as e:
        reason = why(e)
    op = case.model.graph.node[-1].op_type if case.model.graph.node else ""
    return Outcome(case.name, op, reason, folded, time.perf_counter() - start)


def why(e: Exception) -> str:
    """One line that cases with one cause share."""
    if isinstance(e, DidymaError):
        return f"{e.code}: {e.got} (want {e.want})"[:160]
    lines = [line for line in str(e).splitlines() if line.strip()] or [""]
    return f"{type(e).__name__}: {' '.join(lines[:6])}"[:200]


def group(name: str) -> str:
    """Operator of a case, as its name tells it."""
    return re.sub(r"^test_", "", name)


def run_level(level: str, chosen: Sequence[TestCase]) -> Iterator[Outcome]:
    """Run cases one after another."""
    for case in chosen:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield run_case(case, level)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("levels", nargs="*", default=["graph"], choices=LEVELS)
    parser.add_argument("-k", default="", help="only cases whose name contains this")
    parser.add_argument("-v", action="store_true", help="name every case that does not pass")
    args = parser.parse_args(argv)
    chosen = [c for c in cases() if args.k in c.name]
    for level in args.levels:
        outcomes = list(run_level(level, chosen))
        report(level, outcomes, args.v)
    return 0


def report(level: str, outcomes: Sequence[Outcome], verbose: bool) -> None:
    """Print a level's outcome by reason."""
    passed = [o for o in outcomes if not o.reason]
    spent = sum(o.seconds for o in outcomes)
    folded = sum(o.folded for o in passed)
    print(f"{level}: {len(passed)} of {len(outcomes)} pass, {folded} of them folded, {spent:.0f} s")
    by: dict[str, list[str]] = defaultdict(list)
    for o in outcomes:
        if o.reason:
            by[o.reason].append(o.name)
    for reason, names in sorted(by.items(), key=_most):
        print(f"{len(names):5} {reason}")
        if verbose:
            print("      " + " ".join(names))
    print(Counter(o.op for o in outcomes if o.reason).most_common(60))


def _most(item: tuple[str, list[str]]) -> int:
    return -len(item[1])


if __name__ == "__main__":
    sys.exit(main())
