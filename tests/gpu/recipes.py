"""Workloads by every point of its recipes, each launched once on a GPU.

    python3 -m tests.gpu.recipes [--engine cuda] [--most 4] [WORKLOAD ...]

For compute-sanitizer, which watches each launch, on shapes that are small enough for it.  Rows that
begin between accesses are workloads, too, and a long line, though no benchmark has them.
``--most`` points of each recipe are tried for each function, the model's first ones.  Prints a line
for each workload, and ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import didyma as dd
from didyma.bench.workloads import WORKLOADS, Workload, arguments
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select.choice import ranked
from didyma.refimpl.ir.types import DType
from didyma.tuning import suited


def _odd(name: str, f: Callable[..., Any], dtype: DType, *shapes: tuple[int, ...]) -> Workload:
    """Return a workload of odd shapes, which are both its small and its large ones."""
    given = tuple((dtype, s) for s in shapes)
    return Workload(f"odd_{name}_{dtype.value}", "odd rows", f, given, given)


def _rms_norm(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x * dd.rsqrt(dd.mean(x * x, axis=-1, keepdims=True) + 1e-5) * w


ODD = tuple(
    made
    for d in (DType.BF16, DType.F32)
    for made in (
        _odd("softmax", partial(dd.softmax, axis=-1), d, (37, 133)),
        _odd("rms_norm", _rms_norm, d, (37, 133), (133,)),
        _odd("sums", partial(dd.sum, axis=1), d, (37, 133)),
        _odd("columns", partial(dd.sum, axis=0), d, (133, 37)),
        _odd("sum", dd.sum, d, (4999,)),
        _odd("argmax", partial(dd.argmax, axis=1), d, (37, 133)),
    )
)
LINE = _odd("line", partial(dd.cumulative_sum, axis=0), DType.F32, (20_011,))
CORPUS: Mapping[str, Workload] = {**WORKLOADS, **{w.name: w for w in (*ODD, LINE)}}


def pinned(w: Workload, options: Options, most: int) -> Iterator[tuple[str, Options]]:
    """Yield the options that pin each function to one of its choices, with the choice's text."""
    for name, loop in compile(w.program().module, options, until="lower").loops.items():
        tried = Counter[str]()
        for choice in ranked(loop, options):
            recipes = ", ".join(p.recipe for p in choice.points)
            tried[recipes] += 1
            if tried[recipes] <= most:
                yield str(choice), options.changed({"kernels.choices": f"{name}: {choice}"})


def judged(w: Workload, on: Engine, most: int) -> tuple[int, list[str]]:
    """Judge a workload's results by each choice; return how many there were, and what was wrong."""
    wrong, count, given = list[str](), 0, arguments(w)
    truth = dd.interpret(w.program(), *given)
    for text, options in pinned(w, suited(Options(), on), most):
        count += 1
        got = dd.compile(w.program(), engine=on, options=options)(*given)
        if not truth.contains(got):
            wrong.append(f"{w.name}: {text}: results outside their bars")
    return count, wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Run every workload; 1 if one was wrong."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--engine", default="cuda")
    p.add_argument("--most", type=int, default=4)
    p.add_argument("workloads", nargs="*", metavar="WORKLOAD", choices=[[], *CORPUS])
    args = p.parse_args(argv)
    on, wrong = engine(args.engine), list[str]()
    for w in [CORPUS[n] for n in args.workloads or CORPUS]:
        count, found = judged(w, on, args.most)
        print(f"{w.name}: {count} choices, {len(found)} wrong", flush=True)
        wrong += found
    for row in wrong:
        print("WRONG", row)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
