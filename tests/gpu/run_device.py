"""The conformance suite and fuzzed programs on a machine with a GPU, without pytest.

    python3 -m tests.gpu [--engine cuda] [--also host] [--programs 300] [--jobs 1] [--json FILE]

Prints one row for each group of cases, then what was wrong; ends with 1 if anything was.  Programs
are shared among ``--jobs`` processes, which may use one GPU together; each takes no new program
once ``--seconds`` are over, and the counts are of those that it took.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import reduce
from multiprocessing import get_context
from pathlib import Path

from didyma.codegen.options import Options
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.registry import NAMES, engine
from didyma.fuzz.conform import Runner, suite
from didyma.fuzz.emission.judge import differing
from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.levels import Failed, check, compiled, runner
from didyma.loop_checks import is_exact
from didyma.oracle.conformance import LaunchOutcome, conform
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.loop import Atomic, PrimFunc
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import stmts

SHOWS_NAN = ("bitcast", "copysign", "signbit")


def make(name: str, cache: Path | None) -> Engine:
    """Make the engine; the cache is that of compiled kernels on the GPU."""
    if name == "cuda" and cache is not None:
        from didyma.codegen.runtime.cuda import Cuda

        return Cuda(cache=cache)
    return engine(name)


def table(outcomes: Sequence[LaunchOutcome], seconds: float) -> str:
    """Lay out how many cases of each group agree."""
    all_ = Counter(o.group for o in outcomes)
    right = Counter(o.group for o in outcomes if not o.wrong)
    rows = [f"{'group':<20}{'agree':>8}{'of':>8}"]
    rows += [f"{g:<20}{right[g]:>8}{n:>8}" for g, n in all_.items()]
    rows.append(f"{'all':<20}{right.total():>8}{all_.total():>8}   in {seconds:.1f} s")
    rows += [f"WRONG {o.group}: {o.name}: {o.wrong}" for o in outcomes if o.wrong]
    return "\n".join(rows)


@dataclass(frozen=True, slots=True)
class Programs:
    """What became of random programs: judged at every level, and beside ``simt`` to the bit.

    ``checked`` of ``elements`` were inside bars on the engines; ``exact`` programs, of ``alike``
    elements, were compared with ``simt``.
    """

    programs: int
    checked: int
    elements: int
    exact: int
    alike: int
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """The programs of one process, on the engines of these names."""

    engines: tuple[str, ...]
    cache: Path | None
    count: int
    seed: int
    seconds: float


def share(s: Share) -> Programs:
    """Judge random programs at every level, then on the engines, and some beside ``simt``."""
    engines, simt = [make(name, s.cache) for name in s.engines], engine("simt")
    rng, end = random.Random(s.seed), time.perf_counter() + s.seconds
    findings = list[str]()
    done = checked = elements = exact = same = 0
    while done < s.count and time.perf_counter() < end:
        case = decode(rng.randbytes(BYTES))
        where = f"seed {s.seed}, program {done}"
        report = check(case.module, case.inputs(), engines, case.options(Options()))
        compared = [c for level in report.levels[-len(engines) :] for c in level.comparisons]
        checked += sum(c.checked for c in compared)
        elements += sum(c.total for c in compared)
        findings += [f"{where}: {f}" for f in report.findings]
        n, unlike = alike(case, engines[-1], simt)
        exact, same, done = exact + (n > 0), same + n, done + 1
        findings += [f"{where}: {x}" for x in unlike]
    return Programs(done, checked, elements, exact, same, tuple(findings))


def alike(case: Case, chosen: Engine, simt: Engine) -> tuple[int, list[str]]:
    """Compare a program with ``simt`` to the bit, where no contraction is allowed.

    Return the elements compared: none of programs with functions such as ``exp``, with atomic
    updates of floats, or with an operation that shows the bits of a NaN, which nothing defines.
    """
    options = case.options(Options()).changed({"kernels.contract": False})
    if any(n.op in SHOWS_NAN for f in case.module.functions for n in f.nodes):
        return 0, []
    made = compiled(case.module, options)
    if isinstance(made, Failed) or not all(map(rounds_alike, made.program.kernels)):
        return 0, []
    try:
        want, got = (runner(made, e)(e, case.inputs()) for e in (simt, chosen))
    except (KernelFault, DidymaError) as e:
        return 0, [str(e)]
    return sum(w.size for w in want), [
        f"result {k} differs from that of simt"
        for k, pair in enumerate(zip(want, got, strict=True))
        if differing(*pair, DType.of(pair[0]), 0.0).any()
    ]


def together(whole: Share, jobs: int) -> Programs:
    """Share programs among processes, and return what became of all of them."""
    counts = [whole.count * (i + 1) // jobs - whole.count * i // jobs for i in range(jobs)]
    shares = [
        replace(whole, count=n, seed=whole.seed * 1000 + i) for i, n in enumerate(counts) if n
    ]
    if len(shares) < 2:
        return share(whole)
    with ProcessPoolExecutor(len(shares), mp_context=get_context("spawn")) as pool:
        return reduce(added, pool.map(share, shares))


def added(a: Programs, b: Programs) -> Programs:
    """Return what became of the programs of both."""
    return Programs(
        a.programs + b.programs,
        a.checked + b.checked,
        a.elements + b.elements,
        a.exact + b.exact,
        a.alike + b.alike,
        a.findings + b.findings,
    )


def rounds_alike(k: Kernel) -> bool:
    """Return whether every engine computes the same bits by a kernel."""
    return (
        isinstance(k, PrimFunc)
        and is_exact(k)
        and not any(isinstance(s, Atomic) and s.value.dtype.is_float for s in stmts(k.body))
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if every case agrees, 1 if not, 4 if the engine cannot run here."""
    parser = argparse.ArgumentParser(description="Run the conformance suite on an engine.")
    parser.add_argument("--engine", default="cuda", choices=NAMES)
    parser.add_argument("--also", nargs="*", default=[], choices=NAMES, help="for the programs")
    parser.add_argument("--programs", type=int, default=300, help="fuzzed programs to judge")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the programs")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for the programs")
    parser.add_argument("--json", type=Path, help="write the outcomes there")
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels")
    options = parser.parse_args(argv)
    try:
        chosen = make(options.engine, options.cache)
    except EngineMissing as e:
        print(e, file=sys.stderr)
        return e.exit_code
    cases = list(suite())
    start = time.perf_counter()
    outcomes = conform(cases, Runner(chosen))
    seconds = time.perf_counter() - start
    print(table(outcomes, seconds))
    wrong = [{"group": o.group, "name": o.name, "wrong": o.wrong} for o in outcomes if o.wrong]
    report = {
        "engine": options.engine,
        "cases": len(outcomes),
        "agree": len(outcomes) - len(wrong),
        "seconds": seconds,
        "wrong": wrong,
    }
    print(json.dumps({k: v for k, v in report.items() if k != "wrong"}))
    names = (*options.also, options.engine)
    start = time.perf_counter()
    fuzz = together(
        Share(names, options.cache, options.programs, options.seed, options.seconds), options.jobs
    )
    counts = {k: v for k, v in asdict(fuzz).items() if k != "findings"}
    print(json.dumps({**counts, "seconds": round(time.perf_counter() - start, 1)}))
    for f in fuzz.findings:
        print(f"FINDING {f}")
    if options.json:
        whole = {"conformance": report, "programs": asdict(fuzz)}
        options.json.write_text(json.dumps(whole, indent=2) + "\n")
    return 1 if wrong or fuzz.findings else 0


if __name__ == "__main__":
    sys.exit(main())
