"""``didyma build``: a program as a folder that runs where Didyma is not installed."""

from __future__ import annotations

import json as json_
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from didyma import logs, tuning
from didyma.artifacts import build as artifacts
from didyma.artifacts import padded
from didyma.artifacts.build import HOST, Target
from didyma.artifacts.code import compile_kernels
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime import disk
from didyma.codegen.runtime.compiler import each_found
from didyma.codegen.runtime.fast import engine as fast
from didyma.codegen.runtime.registry import engine as registered
from didyma.commands import check, common
from didyma.commands.explain import texts
from didyma.commands.judge import exit_code, guarded
from didyma.files import read_module
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.target import TARGETS
from didyma.show import verdict as show

NAMES = (HOST, *(name for name, t in TARGETS.items() if t.architecture))
ENGINES = ("host", "host-fast")  # of the CPU


def build(
    file: Path,
    out: Path,
    target: str,
    engine: str | None,
    given: Sequence[str],
    buckets: Sequence[str],
    options: Options,
    seed: int,
    tries: int | None,
    timeout: float,
    dump: Path | None,
    json: bool,
) -> int:
    """Judge a file as `didyma check` does, for each target, and write its artifact.

    ``target`` are names with commas between: ``host`` and architectures of GPUs, which engine
    ``simt`` judges and NVRTC compiles.  What runs on the CPU is judged by ``engine`` and compiled
    by its compiler: ``host`` or ``host-fast``, or None for the faster that this machine has.
    With ``buckets``, such as ``n=0.25`` or ``n=16,64``, the program is compiled for inputs that are
    padded to them, and what it computes of padded inputs is judged, too.
    Nothing is written for a program that does not agree with the reference for a target, and the
    exit code says so.  The folder ``dump`` gets the texts of all levels for the first target, as
    of `explain`, in any case.  Errors: ``unknown-target``, ``bad-option``, ``artifact-extern``,
    ``unwritable``, and those of `check`.
    """
    names, on = _names(target), _on(engine)
    artifacts.require_place(out)
    if dump is not None:
        disk.must_have_folder(dump)
    common.require([_engine(name, on) for name in names])
    m = read_module(file)
    padding = padded.of(m, padded.parsed(buckets)) if buckets else None
    if padding is not None:
        options = options.changed({"memory.views": False})  # results are cut, and views of nothing
    chosen = {name: _options(name, on, options) for name in names}
    compiled = {
        name: compile(padding.module if padding else m, of, listen=logs.listener())
        for name, of in chosen.items()
    }
    made = {
        name: replace(_compiled(name, c, on), buckets=padding.buckets if padding else None)
        for name, c in compiled.items()
    }
    artifacts.contents(made)  # errors come before the judge
    if dump is not None:
        disk.write_files(dump, texts(made[names[0]].compiled))
    code, records = common.AGREE, dict[str, Any]()
    for name, t in made.items():
        task = check.prepared(
            file, (_engine(name, on),), given, seed, chosen[name], (), tries=tries
        )
        verdict = guarded(task if padding is None else padding.task(task), timeout)
        if padding is not None:
            verdict = replace(verdict, report=padding.report(verdict.report, task))
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


def _on(engine: str | None) -> str:
    """Return the engine that judges what runs on the CPU."""
    if engine is None:
        return ENGINES[any(each_found())]
    if engine not in ENGINES:
        want = " or ".join(ENGINES)
        raise DidymaError("bad-option", f"--engine {engine}", got="another engine", want=want)
    return engine


def _compiled(name: str, c: Compiled, on: str) -> Target:
    """Return a target with its machine code for the CPU, compiled behind a progress bar."""
    compiler = fast.compiler() if on == "host-fast" else None
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    err = Console(stderr=True)
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("compiling kernels", total=len(c.text.kernels) + 1)
        return Target(c, code=compile_kernels(c, name, compiler, partial(bar.advance, task)))


def _engine(name: str, on: str) -> str:
    return on if name == HOST else "simt"


def _options(name: str, on: str, options: Options) -> Options:
    if name == HOST:
        return tuning.suited(options, registered(on))
    return options.changed({"target": name})


def _text(record: Any) -> bytes:
    return json_.dumps(record, indent=1).encode() + b"\n"
