"""Onnx's nine light CNNs: expected outputs on levels, and the graph's speed.

``python -m tests.bench.light`` runs graph and host on each, with the tolerances of onnx's own
test, and times graph against ``onnx.reference.ReferenceEvaluator`` in the same process;
``-k NAME`` takes some, ``--levels graph`` leaves host out, whose loops by TinyCC take minutes,
``--save FILE`` keeps the table and ``--docs`` writes it into ``docs/measurements.md``.  Times are
of the clock, on host of the processor.  On a busy machine ``OPENBLAS_NUM_THREADS=1`` holds for both
sides: the evaluator's BLAS is held up where a thread of it waits for a processor.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator

from didyma.onnx_backend import backend_for
from didyma.refimpl.ir.types import Array
from tests.bench import page

RTOL, ATOL = 1e-3, 1e-7  # of onnx.backend.test.case.test_case.TestCase
LEVELS = ("graph", "host")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """A model: whether each level passes, and seconds of a run."""

    name: str
    passes: Mapping[str, bool]
    seconds: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """How often graph runs while the evaluator runs once."""
        return self.seconds["reference"] / self.seconds["graph"]


def folder() -> Path:
    """Where the installed onnx keeps the models."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def inputs(model: onnx.ModelProto) -> dict[str, Array]:
    """Inputs as onnx's own test makes them."""
    own = {i.name for i in model.graph.initializer}
    make: Any = Runner.generate_dummy_data
    return {
        i.name: make(i, seed=0, name="", random=False)
        for i in model.graph.input
        if i.name not in own
    }


def expected(path: Path) -> list[Array]:
    """Outputs that onnx keeps beside a model."""
    found: list[Array] = []
    while (file := path.with_name(f"{path.stem}_output_{len(found)}.pb")).exists():
        proto = onnx.TensorProto.FromString(file.read_bytes())
        found.append(numpy_helper.to_array(proto))
    return found


def timed(
    run: Callable[[], T], clock: Callable[[], float], enough: float = 10.0, seconds: float = 1.0
) -> tuple[T, float]:
    """Results of a first run, and the best time of it and, if it took not long, of more."""
    before = clock()
    found = run()
    best, start = clock() - before, clock()
    while best < enough:
        before = clock()
        run()
        best = min(best, clock() - before)
        if clock() - start >= seconds:
            break
    return found, best


def measure(path: Path, levels: Sequence[str] = LEVELS) -> Row:
    """Run one model on levels and in the evaluator."""
    model = onnx.load_model_from_string(path.read_bytes())
    feeds = inputs(model)
    want = expected(path)
    passes: dict[str, bool] = {}
    seconds: dict[str, float] = {}
    for level in levels:
        ready = backend_for(level).prepare(model)
        ready.prepare(feeds)
        clock = time.process_time if level == "host" else time.perf_counter
        found, seconds[level] = timed(partial(ready.run, list(feeds.values())), clock)
        try:
            Runner.assert_similar_outputs(want, found, RTOL, ATOL)
            passes[level] = True
        except AssertionError as e:
            print(f"{path.stem} on {level}: {' '.join(str(e).split())[:200]}", file=sys.stderr)
            passes[level] = False
    evaluator: Any = ReferenceEvaluator(model)
    _, seconds["reference"] = timed(partial(evaluator.run, None, feeds), time.perf_counter)
    return Row(path.stem, passes, seconds)


def table(rows: Sequence[Row]) -> list[str]:
    """Lines of a table, the geometric mean last."""
    levels = list(rows[0].passes)
    head = ["model", *(f"{x} passes" for x in levels), *(f"{x} s" for x in rows[0].seconds)]
    lines = [f"| {' | '.join([*head, 'graph is faster'])} |"]
    lines.append("|---" * (len(head) + 1) + "|")
    for r in rows:
        cells = [r.name, *("yes" if r.passes[x] else "NO" for x in levels)]
        cells += [f"{s:.3f}" for s in r.seconds.values()]
        lines.append(f"| {' | '.join([*cells, f'{r.ratio:.1f} times'])} |")
    return [*lines, "", f"Geometric mean: {mean(rows):.1f} times."]


def mean(rows: Sequence[Row]) -> float:
    """Geometric mean of the ratios."""
    return math.exp(float(np.mean([math.log(r.ratio) for r in rows])))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only models whose name contains this")
    parser.add_argument(
        "--levels", nargs="+", choices=LEVELS, default=LEVELS, help="run host, or graph alone"
    )
    parser.add_argument("--save", type=Path, help="write the table into a file")
    parser.add_argument("--docs", action="store_true", help="write the table into the docs")
    args = parser.parse_args(argv)
    paths = sorted(p for p in folder().glob("*.onnx") if args.k in p.stem)
    if not paths:
        parser.error(f"no model's name contains {args.k!r}")
    rows: list[Row] = []
    for path in paths:
        rows.append(measure(path, [x for x in LEVELS if x == "graph" or x in args.levels]))
        print(table(rows[-1:])[2], flush=True)
    lines = table(rows)
    print("\n".join(["", *lines]))
    if args.save:
        args.save.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if args.docs:
        page.put("light models", lines, page.ROOT / "docs" / "measurements.md")
    return 0 if all(all(r.passes.values()) for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
