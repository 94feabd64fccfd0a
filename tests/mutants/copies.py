"""Faults planted in a copy of the source, for campaigns that have processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.mutants.faults import FAULTS, Fault
from tests.mutants.grouping import FAULTS as GROUPED
from tests.mutants.grouping import PAIRS
from tests.mutants.mutant import ROOT

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


def groups(names: Sequence[str], seconds: float, seed: int) -> Iterator[str]:
    """Yield into how many groups campaigns part the findings of one fault, and of two."""
    many = [(f,) for f in (*FAULTS, *GROUPED)] + [*PAIRS]
    for faults in many:
        name = " + ".join(f.name for f in faults)
        if names and not any(n in name for n in names):
            continue
        ops = {op for f in faults for op in f.ops} if all(f.ops for f in faults) else set[str]()
        result = campaign(
            faults, "tests.mutants.focused", faults[0].engine, *sorted(ops),
            "--seconds", str(seconds), "--seed", str(seed),
        )  # fmt: skip
        if isinstance(result, str):
            yield f"{name}: {result}"
            continue
        counts = ", ".join(str(g["count"]) for g in result["groups"])
        yield f"{len(result['groups'])} groups ({counts} findings): {name}"
        for g in result["groups"]:
            common = ", ".join(g["common"])
            yield f"    {g['level']} {g['kind']} {g['reason']} [{common}]"
