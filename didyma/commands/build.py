"""``didyma build``: a program as a folder that runs where Didyma is not installed."""

from __future__ import annotations

import json as json_
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from didyma import logs, tuning
from didyma.artifacts import build as artifacts
from didyma.artifacts.build import HOST, Target
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.commands import check, common
from didyma.commands.explain import texts
from didyma.commands.judge import exit_code, guarded
from didyma.files import must_have_folder, read_module
from didyma.fuzz import disk
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.target import TARGETS
from didyma.show import verdict as show

NAMES = (HOST, *(name for name, t in TARGETS.items() if t.architecture))


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
    """Judge a file as `didyma check` does, for each target, and write its artifact.

    ``target`` are names with commas between: ``host``, which engine ``host`` judges, and
    architectures of GPUs, which engine ``simt`` judges and NVRTC compiles.  Nothing is written for
    a program that does not agree with the reference for a target, and the exit code says so.  The
    folder ``dump`` gets the texts of all levels for the first target, as of `explain`, in any case.
    Errors: ``unknown-target``, ``artifact-extern``, ``unwritable``, and those of `check`.
    """
    names = _names(target)
    must_have_folder(out)
    if dump is not None:
        must_have_folder(dump)
    common.require([_engine(name) for name in names])
    chosen = {name: _options(name, options) for name in names}
    m = read_module(file)
    made = {name: Target(compile(m, of, listen=logs.listener())) for name, of in chosen.items()}
    artifacts.contents(made)  # errors come before the judge
    if dump is not None:
        disk.write_files(dump, texts(made[names[0]].compiled))
    code, records = common.AGREE, dict[str, Any]()
    for name, t in made.items():
        task = check.prepared(file, (_engine(name),), given, seed, chosen[name], (), tries=tries)
        verdict = guarded(task, timeout)
        records[name] = show.record(verdict.report, verdict.memory)
        code = max(code, exit_code(verdict.report))
        picked = tuning.picked(t.compiled, chosen[name])
        made[name] = replace(t, verdict=_text(records[name]), choices=_text(picked))
    files = artifacts.contents(made) if code == common.AGREE else {}
    if files:
        artifacts.write(out, files)
    sizes = {name: len(data) for name, data in sorted(files.items())}
    if json:
        verdicts = {"verdict": records[names[0]], "verdicts": records}
        common.print_json({"folder": str(out), "files": sizes, **verdicts})
    else:
        _print(out, records, sizes)
    return code


def _print(out: Path, records: dict[str, Any], sizes: dict[str, int]) -> None:
    for name, record in records.items():
        if len(records) > 1:
            print(f"target {name}")
        show.table(record)
    if sizes:
        for name, nbytes in sizes.items():
            print(f"{name:{max(map(len, sizes))}}  {nbytes:>12,} bytes")
        print(f"written to {out}")


def _names(target: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(target.replace(" ", "").split(",")))
    if strange := [name for name in names if name not in NAMES]:
        want = f"some of {', '.join(NAMES)}, with commas between"
        raise DidymaError("unknown-target", f"--target {target}", got=strange[0], want=want)
    return names


def _engine(name: str) -> str:
    return name if name == HOST else "simt"


def _options(name: str, options: Options) -> Options:
    if name == HOST:
        return tuning.suited(options, engine(HOST))
    return options.changed({"target": name})


def _text(record: Any) -> bytes:
    return json_.dumps(record, indent=1).encode() + b"\n"
