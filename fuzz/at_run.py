"""Judge the choice among variants at run time, whatever a clock says.

A call that times variants must give the bits of the next call, which does not; and a pick for one
layout of the arguments must not be found for another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, TypeAlias

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.select.at_run import AtRun, Site, sites
from didyma.codegen.select.keys import arguments, hints, key_of
from didyma.oracle.compare import bitwise
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Level
from didyma.refimpl.ir.types import Array

NAME = "at-run"

Runner: TypeAlias = Callable[[AtRun], Callable[..., list[Any]]]  # what runs a program, given that


def judged(c: Compiled, inputs: Sequence[Array], engine: Engine, runner: Runner) -> Level:
    """Return the level ``at-run`` of a compiled module that has variants."""
    level = Recorder(NAME, engine.name)
    level.guard(engine.name, partial(_calls, c, inputs, engine, runner, level))
    for site in sites(c.program, c.text, c.loops, c.variants).values():
        level.checks += 1
        for name in _shared_layouts(site):
            message = f"another layout of {name} has the same key"
            level.find(site.function, "value", message)
    return level.level()


def _calls(
    c: Compiled, inputs: Sequence[Array], engine: Engine, runner: Runner, level: Recorder
) -> None:
    found = sites(c.program, c.text, c.loops, c.variants)
    chosen = AtRun(found, Options(), engine.name, clock=_clock(len(c.text.source)), wall=_seconds())
    run = runner(chosen)
    first, second = (run(engine, list(inputs)) for _ in range(2))
    rows = zip(c.source.entry.results, second, first, strict=True)
    level.compare(engine.name, [bitwise(*row) for row in rows])


def _clock(seed: int) -> Callable[[], float]:
    """Return a clock on which each run takes some time between 1 and 9 seconds."""
    chance, now = Random(seed), itertools.count()
    return lambda: 10.0 * next(now) + chance.uniform(0, 8)


def _seconds() -> Callable[[], float]:
    """Return a clock on which a second passes whenever it is asked."""
    now: Iterator[float] = itertools.count(0.0)
    return lambda: next(now)


def _shared_layouts(site: Site) -> Iterator[str]:
    """Yield arguments of which another order of strides does not change the key of a function."""
    env, options = hints(site.loop), Options()
    usual = key_of(site.loop, "", env, options).digest
    for a in arguments(site.loop, env):
        other = replace(a, strides=a.strides[::-1])
        if other != a and key_of(site.loop, "", env, options, {a.name: other}).digest == usual:
            yield a.name
