"""Judge graphs that are padded: at larger sizes they compute what they do at their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from didyma.codegen.passes.padded import Padded, padded
from didyma.fuzz.graphs import Case
from didyma.oracle.compare import compare
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Level
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.concrete import concrete_type
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import Contract, exact
from didyma.refimpl.verify.graph import verify

MORE = 3  # by which a size is padded
NAME = "padded"  # of the level


def judged(case: Case, inputs: Sequence[Array]) -> Level | None:
    """Pad one size of a graph, with anything behind the inputs, and compare its first results.

    The padded size is a number, or for one graph in three the symbol.

    None for a graph that cannot be padded, or whose inputs the reference refuses.
    """
    grown = _grown(case)
    found = None if grown is None else _padded(case, grown)
    if grown is None or not isinstance(found, Padded):
        return None
    env = dict(case.env)
    return compared(case.module, found, inputs, env, {**env, grown: env[grown] + MORE})


def text(case: Case) -> str:
    """Return the padded graph of a case, or why it cannot be padded; empty without sizes."""
    grown = _grown(case)
    found = "" if grown is None else _padded(case, grown)
    return found if isinstance(found, str) else f"{show(found.module)}{found.given}"


def _grown(case: Case) -> str | None:
    """Return the size of a graph that is padded; None without one, or if results have others."""
    m, env = case.module, dict(case.env)
    free = sorted(control.input_symbols(m) & env.keys())
    results = m.entry.result_types()
    if not free or any(not {*dims.free(t.shape)} <= env.keys() for t in results):
        return None
    return free[sum(case.seeds) % len(free)]


def _padded(case: Case, grown: str) -> Padded | str:
    """Return the graph of a case in which a size is padded, or why it cannot be."""
    m, wide = case.module, dict(case.env)[grown] + MORE
    reaches = any(v.name == grown and wide <= v.hi for v in m.dims)
    fixed = sum(case.seeds) % 3 > 0 or not reaches
    try:
        return padded(m, {grown: wide if fixed else dims.symbol(grown)})
    except DidymaError as e:
        if e.code != "not-padded":
            raise
        return str(e)


def compared(
    m: Module,
    found: Padded,
    inputs: Sequence[Array],
    env: Mapping[str, int],
    wide: Mapping[str, int],
) -> Level | None:
    """Compare the first results of a padded graph, at larger sizes, with the bars of its source.

    ``inputs`` are those of the source at the sizes ``env``.  None where the reference refuses them.
    """
    results = m.entry.result_types()
    try:
        given = [exact(x) for x in inputs]
        bars = graph.bars(m.entry, m, given, env, Contract(), stored=True)
    except DidymaError as e:
        if e.code != "dim-out-of-range":
            raise
        return None
    shapes = [dims.values(p.type.shape, wide) for p in m.entry.params]
    sizes = [np.array(dims.evaluate(d, env), np.int64) for d in found.given]
    filled = [junk(a, s) for a, s in zip(inputs, shapes, strict=True)]
    level = Recorder(NAME)

    def run() -> None:
        verify(found.module)
        kept = {v.name for v in found.module.dims}
        at = {k: n for k, n in wide.items() if k in kept}
        got = graph.run(found.module, [*filled, *sizes], at)
        types = [concrete_type(t, env) for t in results]
        for name, bar, x, t in zip(m.entry.results, bars, got, types, strict=True):
            first = tuple(map(slice, (d for d in t.shape if isinstance(d, int))))
            level.compare(name, [compare(name, bar, np.asarray(x)[first], t)])

    with np.errstate(all="ignore"):
        level.guard(NAME, run)
    return level.level()


def junk(a: Array, shape: Sequence[int]) -> Array:
    """Return an array behind whose elements others lie: NaN where the dtype has it."""
    out = np.ones(shape, a.dtype)
    if np.issubdtype(a.dtype, np.floating):
        out[...] = np.nan
    out[tuple(map(slice, a.shape))] = a
    return out
