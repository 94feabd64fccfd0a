"""Judgements in tests: a kernel that is not correct fails with its lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging.contracts import Declared
from didyma.judging.judge import Judgement, Outcome, judge, located
from didyma.judging.making import Launch, make_task, read_source
from didyma.judging.specs import as_program, load_spec
from didyma.judging.task import Draw, Task
from didyma.refimpl.errors import DidymaError
from didyma.show import judge_kernel as show
from didyma.tracer.tracing import Program

Extent: TypeAlias = int | str | Sequence[int | str]
Spec: TypeAlias = Program | str | Path | Callable[..., Any]

_PTX = re.compile(r"^\s*\.version\b", re.MULTILINE)
_FILE = "kernel"


def task_of(
    source: str | Path,
    spec: Spec,
    launches: Sequence[Launch],
    contract: Declared,
    draw: Draw,
    timeout: float,
    memory: Mapping[str, str],
) -> Task:
    """Return the task of a kernel as a test gives it: its text, or a file of it.

    Errors: ``bad-option`` for a timeout without end, those of reading files, specifications and
    tasks.
    """
    _must_last("timeout", timeout)
    if isinstance(source, Path):
        read = read_source(source)
        own = f"-I{source.resolve().parent}"
        launches = [replace(x, flags=(own, *x.flags)) for x in launches]
    else:
        read = Source(source, f"{_FILE}.ptx" if _PTX.search(source) else f"{_FILE}.cu")
    given = load_spec(spec) if isinstance(spec, str | Path) else as_program(spec, "the spec")
    kept = [f"{k}={v}" for k, v in memory.items()]
    return make_task(read, given.module, launches, contract, draw, timeout, kept)


def extent(given: Extent) -> str:
    """Return blocks or threads as the command line writes them.

    >>> extent((8, "cdiv(n, 8)"))
    '8,cdiv(n, 8)'
    """
    row = [given] if isinstance(given, int | str) else given
    return ",".join(map(str, row))


def draw_of(
    sizes: Mapping[str, int | Sequence[int]] | None,
    where: Sequence[str],
    values: Mapping[str, tuple[float, float]] | None,
    rounds: int,
    seed: int,
    seconds: float | None,
) -> Draw:
    """Return what the judge may draw.

    Errors: ``bad-option`` for no rounds, a negative seed, and seconds that no clock shows.
    """
    _must("rounds", rounds, rounds >= 1, "a number from 1 on")
    _must("seed", seed, seed >= 0, "a number from 0 on")
    if seconds is not None:
        _must_last("seconds", seconds)
    rows = (sizes or {}).items()
    chosen = {k: (v,) if isinstance(v, int) else tuple(v) for k, v in rows}
    usual = Draw(chosen, tuple(where), values or {}, rounds, seed)
    return usual if seconds is None else replace(usual, seconds=seconds)


def _must_last(option: str, seconds: float) -> None:
    """Require seconds that pass; DidymaError ``bad-option``."""
    _must(option, seconds, 0 < seconds < inf, "a positive number of seconds")


def _must(option: str, given: float, holds: bool, want: str) -> None:
    if not holds:
        raise DidymaError("bad-option", option, got=str(given), want=want)


class NotCorrectError(AssertionError):
    """A kernel is not correct, or a task cannot tell; ``seed`` is the one that showed it."""

    def __init__(self, text: str, seed: int) -> None:
        super().__init__(text)
        self.seed = seed


def require_correct(task: Task, seconds: float = 0.0) -> Judgement:
    """Judge a task, with new seeds until ``seconds`` have passed; return the first judgement.

    NotCorrectError with the findings where the first judgement is another than "correct", or a
    later one, whose rounds end with the seconds, shows that the kernel is not.
    """
    __tracebackhide__ = True
    end = monotonic() + seconds
    first = found = judge(task)
    _require(found, Outcome.CORRECT)
    while (left := end - monotonic()) > 0:
        draw = replace(found.task.draw, seed=found.task.draw.seed + 1, seconds=left)
        found = judge(replace(task, draw=draw))
        _require(found, Outcome.CORRECT, Outcome.CANNOT_TELL)  # of few rounds, and the first told
    return first


def _require(found: Judgement, *allowed: Outcome) -> None:
    __tracebackhide__ = True
    if found.outcome not in allowed:
        task = found.task
        text = "\n".join(show.lines(show.record(located(found), task.source.file)))
        raise NotCorrectError(text, task.draw.seed)
