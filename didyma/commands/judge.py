"""Every level of one program, judged in a watched child: what `check` and `replay` share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from rich.console import Console

from didyma import fitting
from didyma.codegen.memory.peak import peak, unplanned_total
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.registry import engine
from didyma.commands import common
from didyma.fuzz import given as given_
from didyma.fuzz import levels, watchdog
from didyma.oracle.report import Finding, Level, Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, Tensor
from didyma.show import verdict as show

_LAW = re.compile(r"[DGLP]-")


@dataclass(frozen=True, slots=True)
class Task:
    """All that one judgement depends on."""

    module: Module
    env: Mapping[str, int]
    seeds: tuple[int, ...]
    engines: tuple[str, ...]
    options: Options
    peers: tuple[str, ...] = ()
    model: bytes | None = None  # the ONNX model that the module was imported from
    free: frozenset[str] = frozenset()  # symbols whose size nobody chose
    given: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])  # values not drawn


@dataclass(frozen=True, slots=True)
class Verdict:
    """What every level says, and what the plan needs (empty if no program came to be).

    ``given`` are the values that were not drawn.
    """

    report: Report
    memory: Mapping[str, Any]
    given: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])


Judge: TypeAlias = Callable[[Task, Callable[[str], None]], Verdict]


def judge(task: Task, progress: Callable[[str], None]) -> Verdict:
    """Judge in this process; DidymaError where the program cannot be compiled by its own fault."""
    progress("compile")
    engines = [engine(e) for e in task.engines]
    made = levels.compiled(task.module, task.options, progress)
    if isinstance(made, levels.Failed):
        # The source is lawful: where a law is broken, or the compiler fails, that is a finding.
        if isinstance(made.error, DidymaError) and not _LAW.match(made.error.code):
            raise made.error
        return Verdict(made.report(), {})

    task = _welcome(_fitted(task))
    arrays = _values(task, task.env)
    report = levels.judged(made, arrays, engines, progress=progress)
    if task.peers:
        from didyma.fuzz.peers import ort

        progress(ort.NAME)
        whole = ort.level(task.module, arrays, task.env, task.model)
        levels_ = (*report.levels, whole, ort.by_kernel(made.fused, arrays, task.env))
        report = Report(levels_, report.refused)
    return Verdict(report, _memory(made, task), task.given)


def _values(task: Task, env: Mapping[str, int]) -> Sequence[Array]:
    return given_.inputs(task.module, env, task.seeds, task.given)


def _fitted(task: Task) -> Task:
    """Choose sizes at which the reference runs."""
    env = fitting.fit_run(task.module, task.env, task.free, lambda env: _values(task, env))
    return replace(task, env=env)


def _welcome(task: Task) -> Task:
    """Fill the integers that nobody chose with 1 or 0 where the peer refuses those drawn.

    A model may take them for lengths or places, and have no meaning for others.
    """
    drawn = [p for p in task.module.entry.params if p.name not in task.given]
    whole = [p for p in drawn if p.type.dtype.is_int]
    if not task.peers or task.model is None or not whole:
        return task
    from didyma.fuzz.peers import ort

    tried = task
    for number in (1, 0):
        if ort.takes(task.module, _values(tried, tried.env), task.model):
            return tried
        fill = {p.name: Tensor.of(np.array(number, p.type.dtype.numpy)) for p in whole}
        tried = _fitted(replace(task, given=fill | dict(task.given)))
    return tried if ort.takes(task.module, _values(tried, tried.env), task.model) else task


def _memory(made: Compiled, task: Task) -> dict[str, Any]:
    return {
        "dims": dict(task.env),
        "inputs": {name: given_.shown(t) for name, t in task.given.items()},
        "planner": task.options.planner,
        "planned_peak": peak(made.program, task.env),
        "unplanned_total": unplanned_total(made.program, task.env),
        "kernels": [k.name for k in made.program.kernels],
    }


def guarded(task: Task, timeout: float, run: Judge = judge) -> Verdict:
    """Judge in a child: a crash or a hang there is a finding of the level it happened in."""
    with Console(stderr=True).status("starting") as status:
        answer = watchdog.guarded(
            run, (task,), timeout, lambda word: status.update(f"judging: {word}")
        )
    match answer:
        case Verdict():
            return answer
        case watchdog.Raised(MemoryError() as error, _):
            raise DidymaError(
                "too-large", "input sizes", got=str(error) or "no memory left",
                want="values that fit in memory", help="bind smaller sizes with --dim NAME=N",
            )  # fmt: skip
        case watchdog.Raised(error, trace):
            if isinstance(error, DidymaError):
                raise error
            raise RuntimeError(f"the judge failed\n{trace}")
        case watchdog.Died(kind, reason, during):
            level = Level(during)
            level.findings.append(Finding(during, "process", kind, reason))
            return Verdict(Report((level,)), {})


def tell(verdict: Verdict, json: bool) -> int:
    """Print a verdict and return its exit code."""
    report = verdict.report
    if json:
        common.print_json(show.verdict_record(report, verdict.memory))
    else:
        show.verdict(report, verdict.memory)
    if not report.agree:
        return common.DISAGREE
    compared = (c for level in report.levels for c in level.comparisons)
    return common.AGREE if any(c.checked for c in compared) else common.NOTHING_RAN
