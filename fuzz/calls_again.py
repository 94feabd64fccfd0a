"""Judge that a compiled program forgets one call before the next, whatever their sizes.

What is loaded once and called again with other sizes must give the bits that it gives when it is
loaded for that call alone: what an engine or a wrapper keeps between calls must depend on all sizes
that it was made for.  Inputs that its signature excludes must be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.oracle.compare import bitwise
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Level
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.types import Array

NAME = "calls"

Run: TypeAlias = Callable[..., list[Any]]  # of an engine and inputs
Outcome: TypeAlias = tuple[str, Sequence[Array]]  # the code of an error, and results


def other_sizes(
    declared: Sequence[DimVar], env: Mapping[str, int], most: int
) -> Iterator[dict[str, int]]:
    """Yield bindings that differ in every size from one another where they can: less, then more.

    No size is above ``most``, so that inputs stay small.
    """
    known = [v for v in declared if v.name in env]
    if any(env[v.name] > v.lo for v in known):
        yield {v.name: max(v.lo, env[v.name] // 2) for v in known}
    if any(env[v.name] < min(v.hi, most) for v in known):
        yield {v.name: max(env[v.name], min(v.hi, most, 2 * env[v.name] + 1)) for v in known}


def judged(
    results: Sequence[str],
    calls: Sequence[Sequence[Array]],
    engine: Engine,
    load: Callable[[], Run],
    wrong: Iterable[tuple[str, Sequence[Array]]] = (),
) -> Level:
    """Return the level ``calls``: of one load that is called in turn, beside a load for each.

    ``wrong`` are inputs that a call must refuse, each with what is wrong with it.
    """
    level = Recorder(NAME, engine.name)
    level.guard(engine.name, partial(_in_turn, results, calls, engine, load, level))
    level.guard(engine.name, partial(_refuses, wrong, engine, load, level))
    return level.level()


def _in_turn(
    results: Sequence[str],
    calls: Sequence[Sequence[Array]],
    engine: Engine,
    load: Callable[[], Run],
    level: Recorder,
) -> None:
    shared = load()
    for number, inputs in enumerate(calls):
        code, got = _outcome(shared, engine, inputs)
        if not number:
            continue  # the first call of a load is what other levels judge
        alone, want = _outcome(load(), engine, inputs)
        if code != alone:
            said = f"call {number + 1} raises {code or 'nothing'}, and alone {alone or 'nothing'}"
            level.find(engine.name, "error", said)
            return
        rows = zip(results, want, got, strict=True)
        level.compare(engine.name, [bitwise(*row) for row in rows])


def _refuses(
    wrong: Iterable[tuple[str, Sequence[Array]]],
    engine: Engine,
    load: Callable[[], Run],
    level: Recorder,
) -> None:
    run = load()
    for what, inputs in wrong:
        level.checks += 1
        code, _ = _outcome(run, engine, inputs)
        if not code:
            level.find(engine.name, "error", f"a call is not refused though {what}")
            return


def _outcome(run: Run, engine: Engine, inputs: Sequence[Array]) -> Outcome:
    try:
        return "", run(engine, list(inputs))
    except DidymaError as e:
        return e.code, ()
    except KernelFault as e:
        return type(e).__name__, ()
