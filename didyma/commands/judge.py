"""Judge one program in a subprocess that is watched, for `didyma check` and `didyma replay`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from rich.console import Console

from didyma import logs, rounds
from didyma.codegen.memory.peak import peak, unplanned_total
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.registry import engine
from didyma.commands import common
from didyma.fuzz import given as given_
from didyma.fuzz import levels, watchdog
from didyma.fuzz.peers.judge import accepts
from didyma.fuzz.peers.peer import Peer
from didyma.fuzz.peers.registry import peer
from didyma.oracle.report import Agreement, Finding, Level, Report, Setting
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Tensor
from didyma.rounds import Round, Source
from didyma.show import verdict as show


@dataclass(frozen=True, slots=True)
class Task:
    """Everything that the judgement of one program depends on.

    ``seeds`` is one seed, from which ``tries`` rounds of inputs are drawn (by default more rounds
    the smaller the program is); or a seed for each parameter, which makes one round.
    """

    module: Module
    env: Mapping[str, int]
    seeds: int | tuple[int, ...]
    engines: tuple[str, ...]
    options: Options
    peers: tuple[str, ...] = ()
    model: bytes | None = None  # the ONNX model that the module was imported from
    free: frozenset[str] = frozenset()  # symbols whose size the user did not give
    given: Mapping[str, Tensor] = field(
        default_factory=dict[str, Tensor]
    )  # values that are not drawn
    tries: int | None = None
    ring: bool = True  # judge in the ring, too

    @property
    def source(self) -> Source:
        """How its inputs are drawn."""
        return Source(self.module, self.env, self.seeds, self.given)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds of inputs that it is judged on."""
        return rounds.schedule(self.source, self.tries)

    @property
    def setting(self) -> Setting:
        """The circumstances of the judgement, for its report."""
        seed = self.seeds if isinstance(self.seeds, int) else None
        return Setting(self.env, frozenset(self.env) - self.free, self.engines, seed)

    def inputs(self, r: Round) -> dict[str, Tensor]:
        """Return the values of all inputs in a round, by name."""
        named = zip(self.module.entry.params, self.source.values(r), strict=True)
        return {p.name: self.given.get(p.name) or Tensor.of(a) for p, a in named}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The report on every level, and the memory of the plan (empty if the compilation failed).

    ``task`` is what was judged, with the sizes and values that were chosen for it.  ``round`` is
    the one that disagreed, or else the first.
    """

    report: Report
    memory: Mapping[str, Any]
    task: Task | None = None
    round: Round | None = None


Judge: TypeAlias = Callable[[Task, Callable[[str], None]], Verdict]


def judge(task: Task, progress: Callable[[str], None]) -> Verdict:
    """Judge in this process; DidymaError where the program itself cannot be compiled."""
    progress("compile")
    engines = [engine(e) for e in task.engines]
    peers = [peer(p) for p in task.peers]
    made = levels.compiled(task.module, task.options, progress, listen=logs.listener())
    if not isinstance(made, levels.Failed):
        task = _fitted(task)
        for p in peers:
            task = _with_accepted_integers(task, p)
    planned = task.rounds
    seen = rounds.judged(
        made, task.source, planned, engines, task.setting, peers, progress, model=task.model,
        ring=task.ring, alive=partial(progress, ""),
    )  # fmt: skip
    memory = {} if isinstance(made, levels.Failed) else _memory(made, task)
    return Verdict(seen.report, memory, task, seen.failed or planned[0])


def _fitted(task: Task) -> Task:
    return replace(task, env=rounds.fitted(task.source, task.free).env)


def _with_accepted_integers(task: Task, peer: Peer) -> Task:
    """Fill the integer inputs that nobody chose with 1 or 0 where the peer refuses random ones.

    A model may read them as lengths or positions, and be undefined for others.
    """
    drawn = [p for p in task.module.entry.params if p.name not in task.given]
    integers = [p for p in drawn if p.type.dtype.is_int]
    model = task.model
    if model is None or not integers:
        return task

    def accepted(t: Task) -> bool:
        return accepts(peer, t.module, t.source.values(t.rounds[0]), model)

    tried = task
    for number in (1, 0):
        if accepted(tried):
            return tried
        fill = {p.name: Tensor.of(np.array(number, p.type.dtype.numpy)) for p in integers}
        tried = _fitted(replace(task, given=fill | dict(task.given)))
    return tried if accepted(tried) else task


def _memory(made: Compiled, task: Task) -> dict[str, Any]:
    return {
        "dims": dict(task.env),
        "inputs": {name: given_.shown(t) for name, t in task.given.items()},
        "planner": task.options.memory.planner_name,
        "planned_peak": peak(made.program, task.env),
        "unplanned_total": unplanned_total(made.program, task.env),
        "kernels": [k.name for k in made.program.kernels],
    }


def guarded(task: Task, timeout: float, run: Judge = judge, *, quiet: bool = False) -> Verdict:
    """Judge in a subprocess; a crash or a hang there is a finding of the level that was running.

    Unless ``quiet``, stderr shows the level that is running.
    """
    with Console(stderr=True, quiet=quiet).status("starting") as status:
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
        case watchdog.Died(kind, reason, word):
            during, at = rounds.parse_progress(word, task.rounds)
            level = Level(during, findings=(Finding(during, "process", kind, reason),))
            return Verdict(Report((level,), setting=task.setting), {}, task, at)


_EXITS = {
    Agreement.AGREE: common.AGREE,
    Agreement.DISAGREE: common.DISAGREE,
    Agreement.UNCHECKED: common.NOTHING_RAN,
}


def print_verdict(verdict: Verdict, json: bool) -> int:
    """Print a verdict and return its exit code."""
    record = show.record(verdict.report, verdict.memory)
    if json:
        common.print_json(record)
    else:
        show.table(record)
    return exit_code(verdict.report)


def exit_code(report: Report) -> int:
    """Return the exit code of a report."""
    return _EXITS[report.outcome]
