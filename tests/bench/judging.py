"""How ``didyma judge`` does on kernels with known verdicts: ``python -m tests.bench.judging``.

It judges right kernels, each with its planted faults, and a family of right kernels that differ in
order, accumulators and intrinsics; it prints verdicts, lines, and processor times.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from random import Random

from didyma.codegen.runtime.nvrtc import processor_time
from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging.judge import Judgement, Outcome, judge, located
from didyma.judging.making import make_task
from tests.bench.found import FOUND
from tests.bench.idioms import IDIOMS
from tests.bench.judged_kernels import MORE, family
from tests.bench.layers import LAYERS
from tests.bench.parts import PARTS
from tests.bench.training import TRAINING
from tests.didyma.judging.kernels import KERNELS, Fault, Judged

CLOSE = 3  # lines
ALL = {**KERNELS, **MORE, **IDIOMS, **FOUND, **LAYERS, **TRAINING, **PARTS}


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
    """Return the lines that a judgement names, as its report does."""
    faults = [n for f, _ in found.faults for n in f.lines]
    traced = found.suspect
    faulty = all(w.faulty for w in found.wrong)
    if traced is None or (faulty and traced.edit is None and not traced.searched):
        return faults
    return [*faults, traced.line, *traced.also, *(e.line for e in traced.others)]


def known(part: str = "", jobs: int = 1) -> tuple[list[str], list[float]]:
    """Judge kernels with known verdicts that have ``part`` in their names.

    Returns what went wrong, and the times.
    """
    chosen = {name: kernel for name, kernel in ALL.items() if part in name}
    names = [(name, label) for name, k in chosen.items() for label in ("unedited", *k.faults)]
    wrong: list[str] = []
    times: list[float] = []
    with ProcessPoolExecutor(jobs) as pool:
        for (name, label), (outcome, far, seconds) in zip(
            names, pool.map(_known, names), strict=True
        ):
            times.append(seconds)
            print(f"{name}, {label}: {outcome}, {far} lines off, {seconds:.2f} s", flush=True)
            if outcome is not (Outcome.CORRECT if label == "unedited" else Outcome.WRONG):
                wrong.append(f"{name}, {label}: {outcome}")
            elif far > CLOSE:
                wrong.append(f"{name}, {label}: {far} lines off")
    return wrong, times


def _known(which: tuple[str, str]) -> tuple[Outcome, int, float]:
    """Return the verdict on a kernel, how far its line is off, and the processor time."""
    name, label = which
    kernel = ALL[name]
    fault = kernel.faults.get(label)
    text, at = edited(kernel, fault) if fault else (kernel.text, 0)
    begun = processor_time()
    found = judged(kernel, text)
    far = min((abs(n - at) for n in lines_of(found)), default=999) if fault else 0
    return found.outcome, far, processor_time() - begun


def accepted(count: int, jobs: int = 1) -> list[str]:
    """Judge so many kernels of the family, drawn; return the right ones that were not accepted."""
    names = [*family()]
    Random(0).shuffle(names)
    with ProcessPoolExecutor(jobs) as pool:
        found = zip(names[:count], pool.map(_family, names[:count]), strict=True)
        return [f"{name}: {why}" for name, why in found if why]


def _family(name: str) -> str:
    """Return why a kernel of the family was not accepted; empty if it was."""
    kernel = family()[name]
    found = judged(kernel, kernel.text, rounds=8, most=1 << 12)
    if found.outcome is Outcome.CORRECT:
        return ""
    return f"{found.outcome} {found.wrong[:1]} {found.faults[:1]}"


def main(words: Sequence[str] | None = None) -> None:
    """Print a summary of both parts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--right", type=int, default=200, help="how many of the family")
    parser.add_argument("--known", default="", help="part of the names of kernels")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args(words)
    wrong, times = known(asked.known, asked.jobs)
    if times:
        worst, median = max(times), statistics.median(times)
        print(f"known verdicts: {len(times)} kernels, {len(wrong)} not as expected: {wrong}")
        print(f"processor time a kernel: median {median:.2f} s, most {worst:.2f} s", flush=True)
    refused = accepted(asked.right, asked.jobs)
    print(f"right kernels: {asked.right}, {len(refused)} not accepted: {refused}")


if __name__ == "__main__":
    main()
