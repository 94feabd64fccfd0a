"""Verdicts and times of ``didyma sanitize`` on the suite: ``python -m tests.bench.sanitizing``.

A second argument names kernels by a part of their name.  Times are of the processor, from the text
to the findings: two translations, and three orders of warps.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

from didyma.codegen.runtime.device_code import include_folders
from didyma.codegen.runtime.nvrtc import processor_time
from didyma.refimpl.errors import DidymaError
from tests.codegen.runtime.ptx.suite import Variant, variants


def main(part: str = "") -> int:
    """Judge kernels with the launch and the arguments that their files tell."""
    return report(part, _judged)


def _judged(v: Variant) -> tuple[bool, str]:
    done = v.judged()
    return v.right(done), ", ".join(f"{f.kind} {f.file}:{f.line}" for f in done.faults)


def report(part: str, judge: Callable[[Variant], tuple[bool, str]]) -> int:
    """Print each wrong verdict, then a summary; return how many were wrong.

    ``judge`` tells whether the verdict on a kernel is right, and what was found.
    """
    chosen = [v for v in variants() if part in v.name]
    chosen = [v for v in chosen if include_folders() or not v.needs_headers]
    wrong, seconds = list[Variant](), list[float]()
    for v in chosen:
        start = processor_time()
        try:
            right, why = judge(v)
        except DidymaError as e:
            right, why = False, str(e)
        seconds.append(processor_time() - start)
        if not right:
            wrong.append(v)
            print(f"{v.name}: wanted {' or '.join(v.kinds) or 'nothing'}, got {why or 'nothing'}")
    faulty = [v for v in chosen if v.fault]
    missed, alarms = (sum(bool(v.fault) == f for v in wrong) for f in (True, False))
    print(f"{len(faulty) - missed} of {len(faulty)} faults found")
    print(f"{alarms} alarms on {len(chosen) - len(faulty)} right kernels")
    print(f"seconds: median {statistics.median(seconds):.2f}, most {max(seconds):.2f}")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
