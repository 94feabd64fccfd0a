"""Whether tasks can tell right answers from cheats: ``python -m tests.bench.decoys PATH…``.

Each path is a task, as ``--spec`` takes it, or a folder of such.  Zeros, a constant, copies of
inputs, stale memory and the mean take the place of a kernel's answer, as in ``didyma judge``, and
so does the right answer rounded to bf16.  It prints what no round has refused, task by task.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging import inputs
from didyma.judging.contracts import Declared
from didyma.judging.decoys import Decoys
from didyma.judging.rounds import truth
from didyma.judging.sizes import bindings
from didyma.judging.specs import load_spec
from didyma.judging.task import Draw, Task
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops import bars

ROUNDED = "the answer rounded to bf16"


def undetected(spec: Module, draw: Draw) -> tuple[list[str], bool]:
    """Return which answers no round of a task refuses, and whether results have floats to round.

    Errors: those of drawing sizes and of the reference.
    """
    task = Task(Source("", "none.cu"), spec, (), Declared(), draw)
    decoys, rounded, floats = Decoys(spec, task.contract), False, False
    for case in inputs.cases(spec, bindings(spec, (), draw)):
        arrays = inputs.values(task, case)
        right = truth(task, case, arrays)
        if not case.finite:
            continue
        decoys.meet(arrays, right, interpreter.run(spec, inputs.values(task, case, again=1)))
        for bar, t in zip(right, spec.entry.result_types(), strict=True):
            if t.dtype is DType.F32:
                floats = True
                with np.errstate(all="ignore"):
                    fake = bar.c.astype(np.float32).astype(DType.BF16.numpy).astype(np.float32)
                    rounded |= not bars.judge(bar, fake, t.dtype).ok.all()
    kept = decoys.accepted + ([ROUNDED] if floats and not rounded else [])
    return kept, floats


def tasks(paths: Sequence[str]) -> Iterator[Path]:
    """Yield the tasks that paths and folders name."""
    for p in map(Path, paths):
        yield from sorted([*p.rglob("*.py"), *p.rglob("*.json")]) if p.is_dir() else [p]


def main(paths: Sequence[str]) -> None:
    """Print a line for each task that is not read or cannot tell, and the counts."""
    read, telling, floating = 0, 0, 0
    for path in tasks(paths):
        try:
            kept, floats = undetected(load_spec(path).module, Draw())
        except DidymaError as e:
            print(f"{path.name}: not read: {e.code}: {e.got}", flush=True)
            continue
        read, telling, floating = read + 1, telling + (not kept), floating + floats
        if kept:
            print(f"{path.name}: cannot tell the answer from {', '.join(kept)}", flush=True)
    print(f"{read} tasks read, {floating} of them with f32 results; {telling} refuse every cheat")


if __name__ == "__main__":
    main(sys.argv[1:])
