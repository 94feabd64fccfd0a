"""Tune a softmax of 4096 rows of 1,000 and a product of 512 on ``host``, and measure what is asked.

``python -m tests.bench.tuning`` prints for each program: the table of ``didyma tune``; the time of
the pick and of the model's choice as whole programs in one process, in interleaved rounds; how long
another process takes to answer from the cache; whether two commands at once agree; and what is left
of a command that is killed again and again.  ``-k NAME`` takes one program, and ``--seconds`` are
those of one tuning.  ``-k at-run`` prints what running sums of symbolic sizes pick by themselves:
a thread that adds up all of a short line, or threads that share a long one; then whether a forced
pick is obeyed, and whether a compile with the recorded picks times nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import didyma as dd
from didyma.codegen.runtime.host import Host
from didyma.codegen.select.cache import Cache
from didyma.codegen.select.race import compare, race
from didyma.refimpl.ir.target import PORTABLE
from didyma.show import tune as show

PROCESSES = 9  # that answer from the cache
KILLS = 5
WORST = 1.03  # time of the pick, as a multiple of the model's choice's
ANSWER = """
import json, sys, time
from pathlib import Path
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select import Cache, Tuned
from didyma.codegen.select.choosers import choose_all
from didyma.files import read_module
from didyma.tuning import target

file, cache = map(Path, sys.argv[1:])
lowered = compile(read_module(file), Options(), until="lower")
host = target(engine("host"))
clocks = time.perf_counter, time.process_time
began = [c() for c in clocks]
found = choose_all(lowered.loops, Options(), Tuned(Cache(cache)), "host", host)
spent = [c() - b for c, b in zip(clocks, began)]
print(json.dumps({"seconds": spent, "choices": [str(c) for c in found.values()]}))
"""


def softmax_of(x: dd.Tensor) -> dd.Tensor:
    """Each row's shares."""
    return dd.softmax(x, axis=1)


@dd.trace(dd.f32[512, 512], dd.f32[512, 512])
def matmul(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    """A square product."""
    return dd.matmul(x, y)


PROGRAMS: Mapping[str, dd.Program] = {
    "softmax": dd.trace(dd.f32[4096, 1000])(softmax_of), "matmul": matmul
}  # fmt: skip
AT_RUN = "at-run"


def command(file: Path, cache: Path, seconds: float) -> list[str]:
    """The command that tunes a file."""
    words = ("tune", str(file), "--cache", str(cache), "--seconds", str(seconds), "--json")
    return [sys.executable, "-m", "didyma", *words]


def tuned(file: Path, cache: Path, seconds: float) -> list[dict[str, Any]]:
    """Tune a file; the records of its functions."""
    words = command(file, cache, seconds)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["functions"]
    return found


def raced(program: dd.Program, choices: Mapping[str, str], seconds: float) -> str:
    """Time whole programs with the pick and with the model's choice."""
    rng = np.random.default_rng(0)
    params = program.module.entry.params
    inputs = [rng.standard_normal([int(n) for n in p.type.shape]).astype("f4") for p in params]
    programs = {"model": dd.compile(program), "pick": dd.compile(program, choose=choices)}

    def run(name: str) -> None:
        programs[name](*inputs)

    times = race(
        {name: partial(run, name) for name in programs}, "model", time.process_time, seconds
    )
    kept = min(map(len, times.values()))
    found = compare(times["model"][:kept], times["pick"][:kept])
    middle = {name: 1e3 * statistics.median(row) for name, row in times.items()}
    verdict = "never slower by 3 %" if found.ratio <= WORST else "SLOWER THAN THE MODEL'S CHOICE"
    return (
        f"run of both: model {middle['model']:.2f} ms, pick {middle['pick']:.2f} ms, median ratio "
        f"{found.ratio:.3f} in {kept} rounds: {verdict}"
    )


def answered(file: Path, cache: Path) -> str:
    """Time answers of the cache in processes of their own."""
    rows: list[dict[str, Any]] = []
    for _ in range(PROCESSES):
        words = [sys.executable, "-c", ANSWER, str(file), str(cache)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
    assert len({tuple(r["choices"]) for r in rows}) == 1
    passed, spent = (sorted(1e3 * r["seconds"][n] for r in rows) for n in (0, 1))
    return (
        f"answer of the cache in {PROCESSES} processes: median {statistics.median(passed):.1f} ms, "
        f"longest {passed[-1]:.1f} ms; of processor time {spent[-1]:.1f} ms at most"
    )


def both(file: Path, cache: Path, seconds: float) -> str:
    """Tune twice at once, in an empty cache."""
    pair = [
        subprocess.Popen(command(file, cache, seconds), stdout=-1, stderr=-3, text=True)
        for _ in range(2)
    ]
    found = [json.loads(p.communicate()[0])["functions"] for p in pair]
    choices = [[(f["key"], f["choice"]) for f in row] for row in found]
    agree = choices[0] == choices[1] == [(p.key, p.choice) for p in Cache(cache).picks()]
    return f"two at once: {'agree' if agree else 'DISAGREE'}: {choices[0]} {choices[1]}"


def killed(file: Path, cache: Path, seconds: float) -> str:
    """Kill a tuner while it judges, read every row, go on, and end it at last."""
    rng, kept = random.Random(0), list[int]()
    rows = set[tuple[str, ...]]()
    for _ in range(KILLS):
        with subprocess.Popen(command(file, cache, seconds), stdout=-3, stderr=-1) as p:
            assert p.stderr is not None
            p.stderr.readline()  # a candidate is judged
            time.sleep(rng.uniform(0, 0.3))
            p.send_signal(signal.SIGKILL)
        now = verdicts(cache)
        assert rows <= now, "a row is lost"
        rows = now
        kept.append(len(now))
    tuned(file, cache, seconds)
    assert rows <= verdicts(cache), "a row is lost"
    count = len(Cache(cache).picks())
    return f"killed {KILLS} times: rows {kept}, none lost or damaged; then picks: {count}"


def verdicts(cache: Path) -> set[tuple[str, ...]]:
    """All verdicts of a cache, whose file must be whole."""
    with closing(sqlite3.connect(cache)) as c:
        assert c.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = {*c.execute("SELECT key, text, choice, reason FROM verdicts")}
    assert all(isinstance(x, str) for row in rows for x in row)
    return rows


def measure(name: str, seconds: float, folder: Path) -> None:
    """Print what is asked of one program."""
    program, file = PROGRAMS[name], folder / f"{name}.dym"
    file.write_text(str(program), encoding="utf-8")
    found = tuned(file, folder / "picks", seconds)
    for row in found:
        show.table(row)
    print(raced(program, {f["function"]: f["choice"] for f in found}, seconds))
    print(answered(file, folder / "picks"))
    print(both(file, folder / f"both-{name}", seconds))
    print(killed(file, folder / f"killed-{name}", seconds), flush=True)


def running_of(x: dd.Tensor) -> dd.Tensor:
    """Each line's sums so far."""
    return dd.cumulative_sum(x, axis=1)


def picked_at_run() -> None:
    """Print which variant of running sums is picked at two sizes, forced, and read from a record.

    Both are kernels for a GPU, which ``host`` imitates here.
    """
    n, m = dd.dim("n", 1, 4096), dd.dim("m", 1, 4096)
    program = dd.trace(dd.f32[n, m])(running_of)
    inputs = [np.ones(shape, np.float32) for shape in ((256, 4), (1, 4096))]
    host = Host()
    host.targets = (PORTABLE,)

    def compiled(force: str = "", **how: Any) -> dd.Executable:
        options = dd.Options(kernels=dd.KernelOptions(variants=2, force=force))
        made = dd.compile(program, engine=host, options=options, **how)
        for x in inputs:
            made(x)
        return made

    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, XDG_CACHE_HOME=folder):
        run = compiled()
        print(run.metrics)
        picks = _picks(run)
        print(f"picks: {picks}: {'differ' if len({*picks}) == len(picks) else 'DO NOT DIFFER'}")
        for force in ("scan", "serial"):
            forced = compiled(force)
            obeyed = forced.metrics.count("\n") == 1 and {force} == {*_recipes(forced)}
            print(f"forced to {force}: {'obeyed, nothing timed' if obeyed else 'NOT OBEYED'}")
        record = json.loads(json.dumps(run.choices))
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, XDG_CACHE_HOME=folder):
        again = compiled(choose=record)
        same = _picks(again) == picks and again.metrics.count("\n") == 1
        print(f"recorded: {'the same, nothing timed' if same else 'DIFFERS OR TIMED'}\n")


def _picks(run: dd.Executable) -> list[str]:
    """The picks of the function of a program, by bucket."""
    (row,) = run.choices["choices"].values()
    return [b["choice"] for b in row.get("buckets", [row])]


def _recipes(run: dd.Executable) -> list[str]:
    return [p.partition("(")[0] for p in _picks(run)]


def main() -> None:
    """Measure the programs that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", choices=(*PROGRAMS, AT_RUN), help="one program")
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    if given.k in (None, AT_RUN):
        picked_at_run()
    if given.k == AT_RUN:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS if given.k is None else (given.k,):
            measure(name, given.seconds, Path(folder))


if __name__ == "__main__":
    main()
