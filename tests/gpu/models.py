"""Real models on a GPU: judged at every level, then timed end to end.

    python3 -m tests.gpu.models FOLDER ... [--engine cuda] [--seconds 300] [--log FILE]

Every ``.onnx`` file within the folders is judged at every level and on the engine, the smallest
first.  Those that agree are run with their arrays on the GPU (on ``host`` with arrays of NumPy),
and by ONNX Runtime on the processor where it is installed, which is what there is to compare with.

Each model has a process of its own, and at most ``--seconds`` for all of it.  Stderr says when
each stage and level begins, so that one that takes long is seen.  Prints a line for each model, and
ends with 1 if any disagreed, or took too long.  With ``--log`` the lines are kept in a file, and
models with a line there are not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.runtime.registry import engine
from didyma.commands import common
from didyma.commands.judge import Task, Verdict, guarded, judge
from didyma.files import read_module
from didyma.oracle.report import Agreement
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.types import Array

SEED, ROUNDS, WARM = 1, 20, 4


@dataclass(frozen=True, slots=True)
class Row:
    """What is kept of a model: the line printed, whether it agrees, and seconds of all of it."""

    file: str
    engine: str
    line: str
    agrees: bool
    seconds: float


def told(task: Task, progress: Callable[[str], None]) -> Verdict:
    """Judge, and say on stderr when each stage and level begins."""
    begin = time.perf_counter()

    def say(word: str) -> None:
        print(f"{time.perf_counter() - begin:8.1f} s {word}", file=sys.stderr, flush=True)
        progress(word)

    return judge(task, say)


def judged(file: Path, name: str, seconds: float) -> Verdict:
    """Judge a model with its open sizes at their least, in one round of inputs."""
    m = read_module(file)
    env = common.bindings(m, ())
    task = Task(m, env, SEED, (name,), Options(), free=frozenset(env), tries=1)
    return guarded(task, seconds, told, quiet=True)


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
    """Judge and time a model, print the line on it, and return whether it agrees."""
    try:
        v = judged(file, name, seconds)
    except DidymaError as e:
        print(f"{file.name}: refused: {e.code}: {e.got}", flush=True)
        return True
    task = v.task
    levels = " ".join(x.name for x in v.report.levels if x.agree)
    for f in v.report.findings:
        print(f"  {f.level}: {f.where}: {f.message}"[:300], file=sys.stderr, flush=True)
    if task is None or v.report.outcome is not Agreement.AGREE:
        print(f"{file.name}: {v.report.outcome}; agree: {levels}", flush=True)
        return False
    drawn = task.source.values(task.rounds[0])
    given = {p.name: a for p, a in zip(task.module.entry.params, drawn, strict=True)}
    taken, other = own(task, given, name), peer(file, given)
    beside = "" if other is None else f", onnxruntime on the processor {other:.2f} ms"
    print(f"{file.name}: agrees on {levels}; {taken:.2f} ms{beside}", flush=True)
    return True


def alone(file: Path, name: str, seconds: float) -> Row:
    """Report on a model in a process of its own, which has so many seconds."""
    command = [sys.executable, "-m", "tests.gpu.models", "--alone", str(file), "--engine", name]
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, "--seconds", str(seconds)],
            stdout=subprocess.PIPE, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        line, agrees = done.stdout.strip(), done.returncode == 0
        line = line or f"{file.name}: ended with {done.returncode}"
    except subprocess.TimeoutExpired:
        line, agrees = f"{file.name}: not done within {seconds:g} s", False
    return Row(file.name, name, line, agrees, round(time.perf_counter() - begin, 1))


def kept(log: Path | None, name: str) -> dict[str, Row]:
    """Return what a log has of an engine, by the model."""
    lines = log.read_text("utf-8").splitlines() if log is not None and log.exists() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return {r.file: r for r in rows if r.engine == name}


def main(argv: Sequence[str] | None = None) -> int:
    """Report on every model, the smallest first; 1 if one disagreed."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("folders", nargs="*", type=Path)
    p.add_argument("--engine", default="cuda")
    p.add_argument("--seconds", type=float, default=300)
    p.add_argument("--log", type=Path)
    p.add_argument("--alone", type=Path, metavar="FILE", help="one model, in this process")
    args = p.parse_args(argv)
    try:
        engine(args.engine)
    except EngineMissing as e:
        print(e, file=sys.stderr)
        return common.ENGINE_MISSING
    if args.alone is not None:
        return int(not report(args.alone, args.engine, args.seconds))
    files = sorted(
        (f for d in args.folders for f in d.rglob("*.onnx")), key=lambda f: f.stat().st_size
    )
    rows = kept(args.log, args.engine)
    for f in files:
        if f.name not in rows:
            print(f"{f.name}:", file=sys.stderr, flush=True)
            r = rows[f.name] = alone(f, args.engine, args.seconds)
            if args.log is not None:
                with args.log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps(asdict(r)) + "\n")
        r = rows[f.name]
        print(f"{r.line} ({r.seconds:g} s)", flush=True)
    return int(not all(rows[f.name].agrees for f in files))


if __name__ == "__main__":
    sys.exit(main())
