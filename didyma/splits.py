"""Choose into how many parts products are cut, by the times of the kernels that this gives.

Kernels of a product whose terms are cut (``graph.parts``) are functions other than the product
itself, so a choice among the kernels of a function is none among these.  A split is a program as
one number of parts gives it.  Its time is the sum of those of the functions that differ among the
splits, each as often as it is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from didyma import tuning
from didyma.codegen.options import Options
from didyma.codegen.passes import parts
from didyma.codegen.passes.blocks import blocks
from didyma.codegen.pipeline import Lowered
from didyma.codegen.pipeline import compile as compile_module
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.select.cache import Pick
from didyma.codegen.select.choosers import Chooser, Pinned, Request, Tuned
from didyma.codegen.select.keys import hints
from didyma.fuzz.watchdog import get_ready
from didyma.refimpl.ir.graph import CALL, Module


@dataclass(frozen=True, slots=True)
class Split:
    """A program as options give it, the requests for its functions, and how often each runs."""

    options: Options
    lowered: Lowered
    requests: Mapping[str, Request]  # by the digests of their keys
    calls: Mapping[str, int]


def chosen(
    m: Module,
    options: Options,
    engine: Engine,
    given: str | Path | Mapping[str, Any] | Chooser,
) -> Options:
    """Return options with the number of parts that a chooser picks, where they leave it open.

    ``"cached"`` and ``"tuned"`` take the fastest split, the one of all functions that differ have
    picks in the cache, or are measured; a record takes its own.  Errors as of ``tuning.chooser``.
    """
    if options.graph.parts or options.kernels.schedules or given in ("heuristic", tuning.AT_RUN):
        return options
    if given == "tuned":
        get_ready(tuning.IMPORTS)
    picker = tuning.chooser(given, m)
    if isinstance(picker, Pinned):
        return options.changed({"graph.parts": picker.parts or 0})
    if not isinstance(picker, Tuned):
        return options

    def kept(s: Split, request: Request) -> Pick | None:
        found = picker.kept(request)
        if found is not None or picker.measure is None:
            return found
        return tuning.Tuner(s.lowered.fused, picker.cache).measure(request)

    return fastest([*splits(m, options, engine)], kept).options


def fastest(found: Sequence[Split], kept: Callable[[Split, Request], Pick | None]) -> Split:
    """Return the split that takes the least time; the first, if a function of it has no pick."""
    common = set[str].intersection(*({*s.requests} for s in found))

    def seconds(s: Split) -> float | None:
        picks = {d: kept(s, r) for d, r in s.requests.items() if d not in common}
        times = [s.calls[d] * p.seconds for d, p in picks.items() if p is not None]
        return sum(times) if len(times) == len(picks) else None

    times = {n: t for n, s in enumerate(found) if (t := seconds(s)) is not None}
    return found[min(times, key=lambda n: times[n]) if 0 in times else 0]


def splits(
    m: Module, options: Options, engine: Engine, sizes: Mapping[str, int] | None = None
) -> Iterator[Split]:
    """Yield the program as the options have it, and as other numbers of parts do that may pay."""
    usual = _split(m, options, engine, sizes)
    yield usual
    if options.graph.parts or "mma" not in options.device.families:
        return
    whole = _split(m, options.changed({"graph.parts": 1}), engine, sizes)
    seen = [{*usual.requests}]
    for number in parts.numbers(whole.lowered.fused, options.device):
        s = _split(m, options.changed({"graph.parts": number}), engine, sizes)
        if {*s.requests} not in seen:
            seen.append({*s.requests})
            yield s


def _split(m: Module, options: Options, engine: Engine, sizes: Mapping[str, int] | None) -> Split:
    lowered = compile_module(m, options, until="lower")
    fused, on = lowered.fused, tuning.target(engine)
    named = {
        name: Request(
            name, loop, options, engine.name, on, hints(loop, sizes), fused.function(name)
        )
        for name, loop in lowered.loops.items()
    }
    called = Counter(n.callee for f in blocks(fused).values() for n in f.nodes if n.op == CALL)
    calls = Counter[str]()
    for name, r in named.items():
        calls[r.key.digest] += called[name]
    return Split(options, lowered, {r.key.digest: r for r in named.values()}, calls)
