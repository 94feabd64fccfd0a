"""Schedule a function of loops by every recipe that suits it, as a compile would by one.

Graphs come to loops of few shapes, and a recipe asks of more than these what it needs.  So loops
are also written by hand: what recipes offer for them is told, and kernels must do the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from didyma.codegen.options import Options
from didyma.codegen.schedule.dispatch import first, recipes, schedule, works
from didyma.codegen.schedule.recipes.point import Point, show
from didyma.codegen.schedule.recipes.recipe import fits
from didyma.fuzz import offers
from didyma.fuzz.counters import threads
from didyma.fuzz.schedules.functions import Subject
from didyma.oracle.kernels import run_primfuncs
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array, TensorType

MOST = 1 << 12  # threads of a kernel that is run


def told(subject: Subject) -> str:
    """Return what recipes offer for a function; errors as of recipes."""
    return "\n".join(offers.of_loop(subject.func, _options(subject), switched=True))


def differing(subject: Subject) -> str:
    """Say by which recipe a function does something else, to the bit; empty if by none.

    Kernels of many threads are not run.
    """
    f, options, env = subject.func, _options(subject), dict(subject.env)
    want = _run((f,), subject)
    for way in dict.fromkeys(_ways(f, options)):
        kernels = schedule(f, options, way)
        if any(threads(k, env) > MOST for k in kernels):
            continue
        got = _run(kernels, subject)
        for name, a, b in zip(f.outputs, want, got, strict=True):
            if a.tobytes() != b.tobytes():
                return f"{name} is {b.tolist()} by {show(way)}, want {a.tolist()}"
    return ""


def _options(subject: Subject) -> Options:
    return Options().changed(dict(subject.options or ()))


def _ways(f: PrimFunc, options: Options) -> Iterator[tuple[Point, ...]]:
    """Yield the usual points of each recipe for each nest, beside the first ones of the others."""
    usual = first(f, options)
    for n, work in enumerate(works(f, options)):
        for _, recipe in fits(work, recipes(options)):
            if values := recipe.usual(work):
                yield (*usual[:n], Point.of(recipe.name, **values), *usual[n + 1 :])


def _run(kernels: tuple[PrimFunc, ...], subject: Subject) -> tuple[Array, ...]:
    f, buffers = subject.func, subject.buffers()
    known = {b.name: TensorType(b.dtype, b.shape) for b in f.params}
    inputs, results = [buffers[n] for n in f.inputs], [known[n] for n in f.outputs]
    return run_primfuncs(kernels, f, inputs, dict(subject.env), results)
