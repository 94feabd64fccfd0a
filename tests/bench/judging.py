"""How ``didyma judge`` does on kernels with known verdicts: ``python -m tests.bench.judging``.

It judges right kernels, each with its planted faults, and a family of right kernels that differ in
order, accumulators and intrinsics; it prints verdicts, lines, and processor times.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from time import process_time

from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging.judge import Judgement, Outcome, judge, located
from didyma.judging.making import make_task
from tests.bench.found import FOUND
from tests.bench.idioms import IDIOMS
from tests.bench.judged_kernels import MORE, family
from tests.didyma.judging.kernels import KERNELS, Fault, Judged

CLOSE = 3  # lines


def judged(kernel: Judged, text: str, rounds: int = 16, most: int = 1 << 16) -> Judgement:
    """Judge a text of a kernel as the command does."""
    source = Source(text, "k.cu")
    draw = replace(kernel.draw, rounds=rounds, most=most)
    task = make_task(source, kernel.spec.module, kernel.launch, kernel.contract, draw)
    return located(judge(task))


def edited(kernel: Judged, fault: Fault) -> tuple[str, int]:
    """Return the text with a fault, and its line."""
    assert kernel.text.count(fault.old) == 1, fault
    text = kernel.text.replace(fault.old, fault.new)
    rows = zip(kernel.text.split("\n"), text.split("\n"), strict=False)
    return text, next(k for k, (a, b) in enumerate(rows, 1) if a != b)


def lines_of(found: Judgement) -> list[int]:
    """Return the lines that a judgement names."""
    faults = [n for f, _ in found.faults for n in f.lines]
    traced = found.suspect
    if traced is None or (faults and traced.edit is None):
        return faults
    return [*faults, traced.line, *(e.line for e in traced.others)]


def known() -> tuple[list[str], list[float]]:
    """Judge kernels with known verdicts; return what went wrong, and the times."""
    wrong: list[str] = []
    times: list[float] = []
    for name, kernel in {**KERNELS, **MORE, **IDIOMS, **FOUND}.items():
        for label, fault in [("unedited", None), *kernel.faults.items()]:
            text, at = edited(kernel, fault) if fault else (kernel.text, 0)
            begun = process_time()
            found = judged(kernel, text)
            times.append(process_time() - begun)
            want = Outcome.WRONG if fault else Outcome.CORRECT
            far = min((abs(n - at) for n in lines_of(found)), default=999) if fault else 0
            print(f"{name}, {label}: {found.outcome}, {far} lines off, {times[-1]:.2f} s")
            if found.outcome is not want:
                wrong.append(f"{name}, {label}: {found.outcome}")
            elif far > CLOSE:
                wrong.append(f"{name}, {label}: {far} lines off")
    return wrong, times


def main(words: Sequence[str] | None = None) -> None:
    """Print a summary of both parts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--right", type=int, default=200, help="how many of the family")
    count = parser.parse_args(words).right
    wrong, times = known()
    worst, median = max(times), statistics.median(times)
    print(f"known verdicts: {len(times)} kernels, {len(wrong)} not as expected: {wrong}")
    print(f"processor time a kernel: median {median:.2f} s, most {worst:.2f} s")
    chosen = [*family().items()]
    Random(0).shuffle(chosen)
    chosen = chosen[:count]
    refused: list[str] = []
    for k, (name, kernel) in enumerate(chosen):
        found = judged(kernel, kernel.text, rounds=8, most=1 << 12)
        if found.outcome is not Outcome.CORRECT:
            refused.append(f"{name}: {found.outcome} {found.wrong[:1]} {found.faults[:1]}")
        if k % 20 == 19:
            print(f"{k + 1} of {len(chosen)}", flush=True)
    print(f"right kernels: {len(chosen)}, {len(refused)} not accepted: {refused}")


if __name__ == "__main__":
    main()
