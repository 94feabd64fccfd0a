"""Kernels with known verdicts on engine ``cuda``, beside ``ptx``: ``python -m tests.gpu.judging``.

Right kernels must agree in all rounds; of wrong ones, rounds that ``ptx`` finds without faults must
have its verdict.  Prints each difference, then how many rounds were compared; ends with 1 if any
differs.
"""

from __future__ import annotations

import sys
from time import monotonic

from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging.judge import Judgement, Outcome, judge
from didyma.judging.making import make_task
from tests.bench.found import FOUND
from tests.bench.idioms import IDIOMS
from tests.bench.judged_kernels import MORE
from tests.didyma.judging.kernels import KERNELS, Judged

SECONDS = 330.0  # after which no further kernel is judged


def judged(kernel: Judged, text: str) -> Judgement:
    """Judge a text of a kernel without looking for lines."""
    source = Source(text, "k.cu")
    return judge(make_task(source, kernel.spec.module, kernel.launch, kernel.contract, kernel.draw))


def main() -> int:
    """Judge right and wrong kernels; return the exit code."""
    begun, kernels, rounds, wrong = monotonic(), 0, 0, 0
    for name, kernel in {**KERNELS, **MORE, **IDIOMS, **FOUND}.items():
        faults = [(label, kernel.text.replace(f.old, f.new)) for label, f in kernel.faults.items()]
        for label, text in (("unedited", kernel.text), *faults):
            if monotonic() - begun > SECONDS:
                break
            found = judged(kernel, text)
            device = next(b for b in found.others if b.engine == "cuda")
            kernels, rounds = kernels + 1, rounds + device.rounds
            if (
                device.outside
                or device.differ
                or (label == "unedited" and found.outcome is not Outcome.CORRECT)
            ):
                wrong += 1
                print(f"{name}, {label}: {found.outcome}: {device.outside} {device.differ[:1]}")
    seconds = monotonic() - begun
    print(f"{kernels} kernels, {rounds} rounds on cuda, {wrong} not as expected, {seconds:.0f} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
