"""Real models on a GPU: judged at every level, then timed end to end.

    python3 -m tests.gpu.models FOLDER ... [--engine cuda] [--seconds 120]

Every ``.onnx`` file within the folders is judged at every level and on the engine, with at most
``--seconds`` for each.  Those that agree are run with their arrays on the GPU (on ``host`` with
arrays of NumPy), and by ONNX Runtime on the processor where it is installed, which is what there is
to compare with.  Prints a line for each, and ends with 1 if any disagreed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.runtime.registry import engine
from didyma.commands import common
from didyma.commands.judge import Task, Verdict, guarded
from didyma.files import read_module
from didyma.oracle.report import Agreement
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.types import Array

SEED, ROUNDS, WARM = 1, 20, 4


def judged(file: Path, name: str, seconds: float) -> Verdict:
    """Judge a model with its open sizes at their least, in one round of inputs."""
    m = read_module(file)
    env = common.bindings(m, ())
    task = Task(m, env, SEED, (name,), Options(), free=frozenset(env), tries=1)
    return guarded(task, seconds)


def milliseconds(run: Callable[[], Any], finish: Callable[[], Any] = lambda: None) -> float:
    """Return the median wall time of a call."""
    taken = list[float]()
    for _ in range(WARM + ROUNDS):
        finish()
        start = time.perf_counter()
        run()
        finish()
        taken.append(time.perf_counter() - start)
    return 1e3 * statistics.median(taken[WARM:])


def own(task: Task, given: Mapping[str, Array], name: str) -> float:
    """Time a compiled model."""
    exe = dd.compile(dd.Program(task.module), engine=engine(name))
    if name != "cuda":
        return milliseconds(lambda: exe(**given))
    cupy = import_module("cupy")
    there = {k: cupy.asarray(a) for k, a in given.items()}
    return milliseconds(lambda: exe(**there), cupy.cuda.runtime.deviceSynchronize)


def peer(file: Path, given: Mapping[str, Array]) -> float | None:
    """Time ONNX Runtime on the processor; None without it, or if it refuses the inputs."""
    try:
        onnxruntime = import_module("onnxruntime")
    except ImportError:
        return None
    try:
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        return milliseconds(lambda: session.run(None, dict(given)))
    except Exception as e:  # of ONNX Runtime, which raises errors of its own
        print(f"  onnxruntime: {e}"[:200], flush=True)
        return None


def report(file: Path, name: str, seconds: float) -> bool:
    """Judge and time a model; return whether it agrees."""
    try:
        v = judged(file, name, seconds)
    except DidymaError as e:
        print(f"{file.name}: refused: {e.code}: {e.got}", flush=True)
        return True
    task = v.task
    levels = [x.name for x in v.report.levels if x.agree]
    for f in v.report.findings:
        print(f"  {f.level}: {f.where}: {f.message}"[:300], flush=True)
    if task is None or v.report.outcome is not Agreement.AGREE:
        print(f"{file.name}: {v.report.outcome}; agree: {' '.join(levels)}", flush=True)
        return False
    drawn = task.source.values(task.rounds[0])
    given = {p.name: a for p, a in zip(task.module.entry.params, drawn, strict=True)}
    taken, other = own(task, given, name), peer(file, given)
    beside = "" if other is None else f", onnxruntime on the processor {other:.2f} ms"
    print(f"{file.name}: agrees on {' '.join(levels)}; {taken:.2f} ms{beside}", flush=True)
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Report on every model, the smallest first; 1 if one disagreed."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("folders", nargs="+", type=Path)
    p.add_argument("--engine", default="cuda")
    p.add_argument("--seconds", type=float, default=120)
    args = p.parse_args(argv)
    try:
        engine(args.engine)
    except EngineMissing as e:
        print(e, file=sys.stderr)
        return common.ENGINE_MISSING
    files = sorted(
        (f for d in args.folders for f in d.rglob("*.onnx")), key=lambda f: f.stat().st_size
    )
    agree = [report(f, args.engine, args.seconds) for f in files]
    return int(not all(agree))


if __name__ == "__main__":
    sys.exit(main())
