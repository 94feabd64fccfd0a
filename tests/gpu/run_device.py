"""The conformance suite and fuzzed programs on a machine with a GPU, without pytest.

    python3 -m tests.gpu [--engine cuda] [--also host] [--programs 300] [--json FILE]

Prints one row for each group of cases, then what was wrong; ends with 1 if anything was.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from didyma.codegen.options import Options
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.registry import NAMES, engine
from didyma.fuzz.conform import Runner, suite
from didyma.fuzz.emission.judge import differing
from didyma.fuzz.graphs import BYTES, decode
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


def fuzzed(engines: Sequence[Engine], count: int, seed: int) -> tuple[dict[str, object], list[str]]:
    """Judge random programs at every level, then on the engines."""
    rng = random.Random(seed)
    nodes: list[int] = []
    findings: list[str] = []
    checked = total = 0
    start = time.perf_counter()
    for i in range(count):
        case = decode(rng.randbytes(BYTES))
        report = check(case.module, case.inputs(), engines, case.options(Options()))
        nodes.append(len(case.module.entry.nodes))
        compared = [c for level in report.levels[-len(engines) :] for c in level.comparisons]
        checked += sum(c.checked for c in compared)
        total += sum(c.total for c in compared)
        findings += [f"program {i}: {f}" for f in report.findings]
    return {
        "programs": count,
        "seed": seed,
        "median_nodes": sorted(nodes)[count // 2] if nodes else 0,
        "agree": count - len({f.split(":")[0] for f in findings}),
        "checked_share": round(checked / total, 6) if total else 1.0,
        "seconds": round(time.perf_counter() - start, 1),
    }, findings


def alike(chosen: Engine, count: int, seed: int) -> tuple[dict[str, object], list[str]]:
    """Compare random programs with ``simt`` bit for bit, where no contraction is allowed.

    Programs with functions such as ``exp``, with atomic updates of floats, or with an operation
    that shows the bits of a NaN, which nothing defines, are left out.
    """
    rng, simt = random.Random(seed), engine("simt")
    findings: list[str] = []
    done = elements = 0
    for i in range(count):
        case = decode(rng.randbytes(BYTES))
        options = case.options(Options()).changed({"kernels.contract": False})
        if any(n.op in SHOWS_NAN for f in case.module.functions for n in f.nodes):
            continue
        made = compiled(case.module, options)
        if isinstance(made, Failed) or not all(map(rounds_alike, made.program.kernels)):
            continue
        given = case.inputs()
        try:
            want, got = (runner(made, e)(e, given) for e in (simt, chosen))
        except (KernelFault, DidymaError) as e:
            findings.append(f"program {i}: {e}")
            continue
        done += 1
        elements += sum(w.size for w in want)
        findings += [
            f"program {i}: result {k} differs"
            for k, pair in enumerate(zip(want, got, strict=True))
            if differing(*pair, DType.of(pair[0]), 0.0).any()
        ]
    return {"programs": done, "of": count, "elements": elements, "differ": len(findings)}, findings


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
    parser.add_argument("--json", type=Path, help="write the outcomes there")
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels")
    options = parser.parse_args(argv)
    try:
        chosen = make(options.engine, options.cache)
        others = [engine(name) for name in options.also]
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
    fuzz, findings = fuzzed([*others, chosen], options.programs, options.seed)
    print(json.dumps(fuzz))
    bits, unlike = alike(chosen, options.programs, options.seed)
    print(json.dumps({"bit for bit with simt": bits}))
    findings += unlike
    for f in findings:
        print(f"FINDING {f}")
    if options.json:
        whole = {"conformance": report, "bits": bits, "fuzz": {**fuzz, "findings": findings}}
        options.json.write_text(json.dumps(whole, indent=2) + "\n")
    return 1 if wrong or findings else 0


if __name__ == "__main__":
    sys.exit(main())
