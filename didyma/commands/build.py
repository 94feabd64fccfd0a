"""``didyma build``: a program as a folder that runs where Didyma is not installed."""

from __future__ import annotations

import json as json_
from collections.abc import Sequence
from pathlib import Path

from didyma import logs, tuning
from didyma.artifacts import build as artifacts
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.commands import check, common
from didyma.commands.explain import texts
from didyma.commands.judge import exit_code, guarded
from didyma.files import must_have_folder
from didyma.fuzz import disk
from didyma.refimpl.errors import DidymaError
from didyma.show import verdict as show

TARGETS = ("host",)


def build(
    file: Path,
    out: Path,
    target: str,
    given: Sequence[str],
    options: Options,
    seed: int,
    tries: int | None,
    timeout: float,
    dump: Path | None,
    json: bool,
) -> int:
    """Judge a file on engine ``host``, as `didyma check` does, and write its artifact.

    Nothing is written for a program that does not agree with the reference, and the exit code says
    so.  The folder ``dump`` gets the texts of all levels, as of `explain`, in any case.
    Errors: ``unknown-target``, ``artifact-extern``, ``unwritable``, and those of `check`.
    """
    if target not in TARGETS:
        want = f"one of {', '.join(TARGETS)}"
        raise DidymaError("unknown-target", f"--target {target}", got=target, want=want)
    must_have_folder(out)
    if dump is not None:
        must_have_folder(dump)
    common.require([target])
    options = tuning.suited(options, engine(target))
    task = check.prepared(file, (target,), given, seed, options, (), tries=tries)
    compiled = compile(task.module, options, listen=logs.listener())
    made = artifacts.contents(compiled, b"")  # errors come before the judge
    if dump is not None:
        disk.write_files(dump, texts(compiled))
    verdict = guarded(task, timeout)
    record = show.record(verdict.report, verdict.memory)
    code = exit_code(verdict.report)
    if code == common.AGREE:
        judged = json_.dumps(record, indent=1).encode() + b"\n"
        made = artifacts.contents(compiled, judged)
        artifacts.write(out, made)
    sizes = {name: len(data) for name, data in sorted(made.items())}
    if json:
        written = sizes if code == common.AGREE else {}
        common.print_json({"folder": str(out), "files": written, "verdict": record})
    else:
        show.table(record)
        if code == common.AGREE:
            for name, nbytes in sizes.items():
                print(f"{name:{max(map(len, sizes))}}  {nbytes:>12,} bytes")
            print(f"written to {out}")
    return code
