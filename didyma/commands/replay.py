"""``didyma replay``: findings judged again."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from didyma.codegen.memory import planner
from didyma.codegen.runtime.disk import STDIN
from didyma.commands import common
from didyma.commands.judge import Task, Verdict, exit_code, guarded, print_verdict
from didyma.fuzz import cases, saved
from didyma.fuzz import replay as findings
from didyma.fuzz.replay import Recorded
from didyma.refimpl.errors import DidymaError
from didyma.show import replay as show
from didyma.show.replay import Replayed


def replay(paths: Sequence[Path], engines: common.Engines, timeout: float, json: bool) -> int:
    """Judge findings again: files, those in folders, and `-` for stdin.

    One file gives its verdict in full, several give a table.  All are read before any is judged.
    Exit code: 1 if one disagrees, else 2 if one is refused, else 0, and 5 if nothing was judged.
    """
    every = list(files(paths))
    others = {path: cases.load(path, engines or ()) for path in every if saved.is_case(path)}
    recorded = {path: findings.load(path) for path in every if path not in others}
    for r in recorded.values():
        common.require(engines or r.engines)
        planner(r.options.memory.planner)
    if len(every) == len(recorded) == 1 and not any(p.is_dir() for p in paths):
        ((_, r),) = recorded.items()
        verdict = guarded(_task(r, engines), timeout)
        if not json:
            show.origin(r)
            show.inputs(r)
            verdict = _without_inputs(verdict)
        return print_verdict(verdict, json)
    replayed = list(_judged(recorded.items(), engines, timeout))
    outcomes = {path: o.findings for path, o in cases.judged(others, timeout).items()}
    record = show.record(replayed, outcomes)
    if json:
        common.print_json(record)
    else:
        show.table(record)
    codes = {r.code for r in replayed}
    codes |= {common.DISAGREE if found else common.AGREE for found in outcomes.values()}
    order = (common.DISAGREE, common.BAD_INPUT, common.AGREE)
    return next((code for code in order if code in codes), common.NOTHING_RAN)


def files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files, and the findings in the folders, each once.

    DidymaError ``unreadable-file`` for a path at which there is nothing.
    """
    seen: set[Path] = set()
    for path in paths:
        if path != STDIN and not path.exists():
            raise DidymaError(
                "unreadable-file", str(path), got=os.strerror(errno.ENOENT),
                want="a finding, or a folder of findings",
            )  # fmt: skip
        inside = sorted(path.glob("*.dym")) if path != STDIN and path.is_dir() else [path]
        for file in inside:
            if file not in seen:
                seen.add(file)
                yield file


def _judged(
    recorded: Collection[tuple[Path, Recorded]], engines: common.Engines, timeout: float
) -> Iterator[Replayed]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    err = Console(stderr=True)
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=len(recorded))
        for path, r in recorded:
            bar.update(task, description=path.name)
            try:
                verdict = guarded(_task(r, engines), timeout, quiet=True)
                yield Replayed(path, r, exit_code(verdict.report), verdict.report, verdict.memory)
            except DidymaError as e:
                yield Replayed(path, r, common.BAD_INPUT, error=e)
            bar.advance(task)


def _without_inputs(v: Verdict) -> Verdict:
    """Return a verdict that names no inputs, for those are printed already."""
    return replace(v, memory={**v.memory, "inputs": {}}) if v.memory else v


def _task(r: Recorded, engines: common.Engines) -> Task:
    return Task(r.module, r.env, r.seeds, engines or r.engines, r.options, given=r.values)
