"""Plant each fault in a copy of the source, run a campaign there, and print what was found.

With ``--memory`` the faults are those of memory planners, planted in this process and hunted with
random programs.
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
from pathlib import Path

from tests.mutants.faults import FAULTS, Fault
from tests.mutants.memory import page

ROOT = Path(__file__).parents[2]
PACKAGES = ("refimpl", "codegen", "oracle", "fuzz", "didyma")


def plant(fault: Fault, where: Path) -> None:
    """Copy the packages and change the one place; the text to change must be there once."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, where / package, symlinks=True, ignore=ignored)
    path = where / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        count = text.count(fault.old)
        raise SystemExit(f"{fault.name}: its text occurs {count} times in {fault.file}, want once")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def hunt(fault: Fault, seconds: float, seed: int) -> tuple[bool, str, float]:
    """Run a campaign on the planted fault: found at its level or not, what was said, seconds."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        plant(fault, where)
        start = time.perf_counter()
        command = [
            sys.executable, "-m", "didyma", "fuzz", "--seconds", str(seconds), "--seed", str(seed),
            "--engine", fault.engine, "--jobs", "1", "--stop-after", "1", "--json",
            "--findings", str(where / "findings"),
        ]  # fmt: skip
        env = {**os.environ, "PYTHONPATH": str(where)}
        done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True)
        took = time.perf_counter() - start
        if done.returncode not in (0, 1):
            return False, f"exit code {done.returncode}: {done.stderr[-500:]}", took
        found = json.loads(done.stdout)["findings"]
        if not found:
            return False, "nothing found", took
        first = found[0]
        said = f"{first['level']}: {first['where']}: {first['message']}"
        return first["level"] in fault.levels, said, took


def main() -> None:
    """Hunt every fault, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="faults to plant; all of them without")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", action="store_true", help="faults of memory planners")
    parser.add_argument("--rounds", type=int, default=20, help="first seeds a fault of memory")
    parser.add_argument("--write", action="store_true", help="write docs/memory-fuzzing.md")
    args = parser.parse_args()
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
