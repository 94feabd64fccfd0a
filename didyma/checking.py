"""Programs judged at every level, from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from didyma import fitting, rounds
from didyma.codegen.memory.planners import Choice
from didyma.codegen.options import Options, choose
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.externs import Implementation
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import levels
from didyma.oracle.report import Report, Setting
from didyma.refimpl.errors import DidymaError
from didyma.running import require
from didyma.tracer.tracing import Program

ENGINES = ("simt", "host")


def check(
    program: Program,
    *,
    engines: str | Engine | Iterable[str | Engine] = ENGINES,
    sizes: Mapping[str, int] | None = None,
    seed: int = 1,
    tries: int | None = None,
    planner: Choice | None = None,
    options: Options | None = None,
    externs: Mapping[str, Implementation] | None = None,
) -> Report:
    """Judge every level on several rounds of inputs, until one disagrees.

    The values differ in kind from round to round; without ``tries``, small programs get many
    rounds, and large ones ``rounds.FEWEST``.  Sizes that are not given are chosen by
    ``fitting.default_sizes``.  Engines, planner and options are names or objects; ``externs`` are
    as of ``dd.compile``, and each is judged at a level of its own.

    It runs in this process: ``didyma check`` runs it in a subprocess, so that a crash is reported.

    Errors: ``bad-option`` for a size that is no input's, less than one try, a negative seed or no
    engine; ``dim-out-of-range``, ``unknown-engine``, ``unknown-planner``; EngineMissing.
    """
    m, chosen = require(program, "dd.check").module, _engines(engines)
    given = frozenset(sizes or {})
    env = fitting.default_sizes(m, sizes or {})
    source = rounds.Source(m, env, rounds.whole("seed", seed, 0))
    planned = rounds.schedule(source, tries)
    made = levels.compiled(m, choose(options, planner))
    if not isinstance(made, levels.Failed):
        source = rounds.fitted(source, frozenset(env) - given)
    setting = Setting(source.env, given, tuple(e.name for e in chosen), seed)
    return rounds.judged(made, source, planned, chosen, setting, externs=externs).report


def _engines(which: str | Engine | Iterable[str | Engine]) -> list[Engine]:
    many = (which,) if isinstance(which, str) or not isinstance(which, Iterable) else which
    chosen = [engine(e) for e in many]
    if not chosen:
        raise DidymaError("bad-option", "engines", got="none", want="at least one engine")
    return chosen
