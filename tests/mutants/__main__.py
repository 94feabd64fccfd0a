"""Plant each fault in a copy of the source, run a campaign there, and print what was found.

With ``--groups`` each campaign runs to its end, and what is printed is into how many groups it
parted the findings of one fault, and of two faults planted at once; the graphs of faults that name
ops have these ops.  With ``--memory`` the faults
are those of memory planners, planted in this process and hunted with random programs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutants.faults import FAULTS, Fault
from tests.mutants.grouping import FAULTS as GROUPED
from tests.mutants.grouping import PAIRS
from tests.mutants.memory import page

ROOT = Path(__file__).parents[2]
PACKAGES = ("refimpl", "codegen", "oracle", "fuzz", "didyma")


def plant(where: Path, *faults: Fault) -> None:
    """Copy the packages and change a place for each fault; the text to change is there once."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, where / package, symlinks=True, ignore=ignored)
    for fault in faults:
        path = where / fault.file
        text = path.read_text(encoding="utf-8")
        if (count := text.count(fault.old)) != 1:
            raise SystemExit(f"{fault.name}: its text occurs {count} times in {fault.file}")
        path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def campaign(faults: Sequence[Fault], *words: str) -> Any:
    """Run a Python module where faults are planted; return its JSON, or its last words."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        plant(where, *faults)
        env = {**os.environ, "PYTHONPATH": f"{where}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-m", *words, "--findings", str(where / "findings")]
        done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            return f"exit code {done.returncode}: {done.stderr[-500:]}"
        return json.loads(done.stdout)


def hunt(fault: Fault, seconds: float, seed: int) -> tuple[bool, str, float]:
    """Run a campaign on the planted fault: found at its level or not, what was said, seconds."""
    start = time.perf_counter()
    said = campaign(
        [fault], "didyma", "fuzz", "--seconds", str(seconds), "--seed", str(seed), "--engine",
        fault.engine, "--jobs", "1", "--stop-after", "1", "--json",
    )  # fmt: skip
    took = time.perf_counter() - start
    if isinstance(said, str):
        return False, said, took
    if not said["findings"]:
        return False, "nothing found", took
    first = said["findings"][0]
    words = f"{first['level']}: {first['where']}: {first['message']}"
    return first["level"] in fault.levels, words, took


def group(names: Sequence[str], seconds: float, seed: int) -> None:
    """Print into how many groups campaigns part the findings of one fault, and of two."""
    many = [(f,) for f in (*FAULTS, *GROUPED)] + [*PAIRS]
    for faults in many:
        name = " + ".join(f.name for f in faults)
        if names and not any(n in name for n in names):
            continue
        ops = {op for f in faults for op in f.ops} if all(f.ops for f in faults) else set[str]()
        said = campaign(
            faults, "tests.mutants.focused", faults[0].engine, *sorted(ops),
            "--seconds", str(seconds), "--seed", str(seed),
        )  # fmt: skip
        if isinstance(said, str):
            print(f"{name}: {said}", flush=True)
            continue
        counts = ", ".join(str(g["count"]) for g in said["groups"])
        print(f"{len(said['groups'])} groups ({counts} findings): {name}", flush=True)
        for g in said["groups"]:
            common = ", ".join(g["common"])
            print(f"    {g['level']} {g['kind']} {g['reason']} [{common}]", flush=True)


def main() -> None:
    """Hunt every fault, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="faults to plant; all of them without")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", action="store_true", help="faults of memory planners")
    parser.add_argument("--rounds", type=int, default=20, help="first seeds a fault of memory")
    parser.add_argument("--write", action="store_true", help="write docs/memory-fuzzing.md")
    parser.add_argument("--groups", action="store_true", help="count groups of findings")
    args = parser.parse_args()
    if args.groups:
        group(args.names, args.seconds, args.seed)
        return
    if args.memory:
        page.main(args.names, args.rounds, args.write)
    chosen = [f for f in FAULTS if not args.names or f.name in args.names]
    survivors = 0
    for fault in chosen:
        found, said, took = hunt(fault, args.seconds, args.seed)
        survivors += not found
        verdict = "found" if found else "MISSED"
        print(f"{verdict:7} {took:5.1f} s  {fault.name}: {said}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} faults found")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
