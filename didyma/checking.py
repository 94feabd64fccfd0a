"""``dd.check``: judge a program at every level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from didyma import fitting, logs, loop_checks, rounds
from didyma.codegen.memory.planners import Choice
from didyma.codegen.options import Options, choose
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.externs import Implementation
from didyma.codegen.runtime.registry import engine, require_target
from didyma.fuzz import levels
from didyma.fuzz.peers.peer import Peer
from didyma.fuzz.peers.registry import peer
from didyma.loops import LoopProgram
from didyma.mappings import CALLS, mapping
from didyma.oracle.report import Report, Setting
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import TextKernel
from didyma.running import require
from didyma.schedules import Given, read
from didyma.show import brief
from didyma.tracer.tracing import Program

T = TypeVar("T")

ENGINES = ("simt", "host")


class Checked(Report):
    """The report of ``dd.check``, which prints as a few lines for people."""

    __slots__ = ()

    def __repr__(self) -> str:
        return brief.report(self)


def check(
    program: Program | LoopProgram,
    *,
    engines: str | Engine | Iterable[str | Engine] = ENGINES,
    sizes: Mapping[str, int] | None = None,
    seed: int = 1,
    tries: int | None = None,
    planner: Choice | None = None,
    options: Options | None = None,
    externs: Mapping[str, Implementation] | None = None,
    kernels: Mapping[str, TextKernel] | None = None,
    peers: str | Peer | Iterable[str | Peer] = (),
    ring: bool = True,
    schedules: Mapping[str, Given] | None = None,
) -> Checked:
    """Judge every level on several rounds of inputs, until one disagrees.

    Each round draws another kind of values; without ``tries``, small programs get many rounds, and
    large ones ``rounds.FEWEST``.  Sizes that are not given are chosen by ``fitting.default_sizes``.
    Engines and the planner are names or objects; ``externs`` are implementations of external
    functions as for ``dd.compile``, and each is judged at a level of its own.  ``kernels`` are
    texts for Primitive functions, likewise.  ``peers`` are other
    implementations, by name or as objects, judged on the rounds of ordinary numbers.  With ``ring``
    every level but those of compiled engines and peers is judged in the ring too, where no rounding
    hides a missing term.  ``schedules`` are those of ``dd.compile``.

    A loop function is judged by the definition of its loops, on a few rounds, and without those
    choices that are about graphs.  Its ``externs`` are as for ``dd.compile``.

    It runs in this process: ``didyma check`` runs it in a subprocess, so that a crash is reported.

    Errors: ``bad-option`` for a size that is no input's, less than one try, a negative seed or no
    engine; ``dim-out-of-range``, ``unknown-engine``, ``unknown-planner``, ``unknown-peer``,
    ``wrong-target``; EngineMissing.
    """
    chosen, steps = _made(engines, engine), read(schedules)
    texts, routines = mapping("kernels", kernels, "TextKernels"), mapping("externs", externs, CALLS)
    if not chosen:
        raise DidymaError("bad-option", "engines", got="none", want="at least one engine")
    wanted = choose(options, planner)
    for e in chosen:
        require_target(e, wanted.device)
    if isinstance(program, LoopProgram):
        with steps.placed():
            alone = loop_checks.check(
                program, chosen, sizes or {}, seed, steps.text, wanted.device, routines
            )
        return Checked(alone.levels, setting=alone.setting)
    required = require(program, "dd.check")
    m, wanted = required.module, wanted.with_codegens(required.kernels)
    others = _made(peers, peer)
    given = frozenset(sizes or {})
    env = fitting.default_sizes(m, sizes or {})
    source = rounds.Source(m, env, rounds.require_integer("seed", seed, 0))
    planned = rounds.schedule(source, tries)
    if steps.text:
        wanted = wanted.changed({"kernels.schedules": steps.text})
    with steps.placed():
        made = levels.compiled(m, wanted, kernels=texts, listen=logs.listener())
    if not isinstance(made, levels.Failed):
        source = rounds.fitted(source, frozenset(env) - given)
    setting = Setting(source.env, given, tuple(e.name for e in chosen), seed)
    r = rounds.judged(
        made, source, planned, chosen, setting, others, externs=routines, ring=ring
    ).report
    return Checked(r.levels, r.refused, r.setting, r.refusals)


def _made(which: str | T | Iterable[str | T], make: Callable[[str | T], T]) -> list[T]:
    """Make one or several objects, each given by name or as an object."""
    if isinstance(which, str) or not isinstance(which, Iterable):
        return [make(which)]
    return [make(one) for one in cast("Iterable[str | T]", which)]
