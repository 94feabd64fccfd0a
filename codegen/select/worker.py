"""What runs in a child process: build and judge candidates, and time those that are right.

Each function says what it is about to do, so that the parent knows whose fault a crash is, and
tells what came of it at once, so that nothing is lost with the process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from didyma.codegen.options import Options
from didyma.codegen.plugins import Called, receive
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.registry import ahead
from didyma.codegen.runtime.registry import engine as engine_by_name
from didyma.codegen.select.choice import Candidate, Choice, build
from didyma.codegen.select.inputs import example
from didyma.codegen.select.keys import arguments
from didyma.codegen.select.race import Clock, decide
from didyma.codegen.select.runs import Bench
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.loop import PrimFunc

Judge: TypeAlias = Callable[[Candidate, Engine], str]  # returns why it is wrong; empty: right
Checks: TypeAlias = Callable[[Candidate], str]  # likewise, of what needs no engine
Say: TypeAlias = Callable[[str], None]


@runtime_checkable
class Remarks(Protocol):
    """An engine whose compiler remarks on what makes kernels slow."""

    def remarks(self, text: KernelText) -> tuple[str, ...]:
        """Return the remarks for which a candidate is not timed."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """A function to tune, as a child process gets it: at some sizes, on an engine by its name.

    ``source`` is the function in the graph, which templates and codegens ask for; ``parts`` are
    what calls registered in the parent, which a child registers before it begins.
    """

    loop: PrimFunc
    options: Options
    engine: str
    env: Mapping[str, int]
    seed: int
    source: Function | None = None
    parts: tuple[Called, ...] = ()

    def build(self, choice: Choice) -> Candidate:
        """Make the kernels of a choice; errors as of ``choice.build``."""
        return build(self.loop, self.options, choice, self.source)


def examine(task: Task, judge: Judge, choices: Sequence[Choice], seconds: float, say: Say) -> None:
    """Build choices and judge what they do on the engine; say what ``_each`` says."""
    receive(task.parts)
    engine = engine_by_name(task.engine)
    _each(task, lambda c: judge(c, engine) or _serial(c, engine), choices, seconds, say)


def check(task: Task, checks: Checks, choices: Sequence[Choice], seconds: float, say: Say) -> None:
    """Build, compile and check choices, as far as that needs no engine; say what ``_each`` says."""
    receive(task.parts)
    compile_ = ahead(task.engine, task.options.device)

    def run(c: Candidate) -> str:
        compile_(c.text)
        return checks(c)

    _each(task, run, choices, seconds, say)


def _each(task: Task, judge: Checks, choices: Sequence[Choice], seconds: float, say: Say) -> None:
    """Say ``{"begin": TEXT}`` and ``{"choice", "reason"}`` of each choice.

    The first one is judged in any case, the others begin within this many seconds.
    """
    end = time.monotonic() + seconds
    for n, choice in enumerate(choices):
        if n and time.monotonic() > end:
            return
        say(json.dumps({"begin": str(choice)}))
        say(json.dumps({"choice": str(choice), "reason": _reason(task, judge, choice)}))


def _reason(task: Task, judge: Checks, choice: Choice) -> str:
    try:
        return judge(task.build(choice))
    except (DidymaError, KernelFault) as e:
        return " ".join(str(e).split())
    except MemoryError:
        return "more memory than there is"


def _serial(c: Candidate, engine: Engine) -> str:
    """Return why products that should run beside each other will not, as a compiler remarks."""
    remarks = engine.remarks(c.text) if isinstance(engine, Remarks) else ()
    return "; ".join(dict.fromkeys(remarks))


def clock_of(engine: str) -> Clock:
    """Return the clock by which an engine is timed.

    Kernels of ``host`` and ``simt`` run on the calling thread, so that the processor time of this
    process is their time, whatever else the machine does.
    """
    return time.process_time if engine in ("host", "simt") else time.perf_counter


def measure(
    task: Task, choices: Sequence[Choice], seconds: float, rest: float, say: Say
) -> tuple[str, dict[str, float]]:
    """Time choices against each other, the first being the usual one, each sample after a rest.

    Returns the text of the pick, and the median seconds of each choice by its text.
    """
    receive(task.parts)
    engine = engine_by_name(task.engine, checked=False)
    by_name = {a.name: a for a in arguments(task.loop, task.env)}
    inputs = example([by_name[name] for name in task.loop.inputs], task.seed)
    bench = Bench.of(engine, task.loop, task.env, inputs)
    runs: dict[str, Callable[[], None]] = {}

    def begin(name: str) -> None:
        say(json.dumps({"begin": name}))

    def before(name: str) -> None:
        begin(name)
        time.sleep(rest)

    for choice in choices:
        begin(str(choice))
        candidate = task.build(choice)
        runs[str(choice)] = bench.runner(candidate)
    clock = clock_of(task.engine)
    return decide(runs, str(choices[0]), clock, seconds, before, wait=engine.join)
