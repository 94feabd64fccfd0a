"""Judge modules that stand alone and pad their inputs to buckets of sizes.

A module's results are the first elements of what the program of padded inputs gives, whose lines an
engine runs one by one, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import numpy as np

from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.options import Options
from didyma.codegen.passes.padded import padded
from didyma.codegen.pipeline import Compiled, compile
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array

MOST = 3  # positions that a bucket may have beyond the size of a call


def chosen(
    m: Module, calls: Sequence[Sequence[Array]], rng: Random
) -> tuple[Compiled, Buckets] | None:
    """Compile a program for buckets of one of its sizes, some of which are larger than in calls.

    None for a program that cannot be padded.
    """
    free = sorted(control.input_symbols(m) & {v.name for v in m.dims})
    if not free or any(p.type.strides is not None for p in m.entry.params):
        return None
    name = rng.choice(free)
    try:
        found = padded(m, {name: dims.symbol(name)})
        sizes = {sizes_of(m, inputs)[name] for inputs in calls}
    except DidymaError as e:
        if e.code not in ("not-padded", "dim-mismatch", "dim-out-of-range", "unbound-dim"):
            raise
        return None
    (most,) = (v.hi for v in m.dims if v.name == name)
    row = sorted({min(most, n + rng.randint(0, MOST)) for n in sizes})
    results = tuple(t.shape for t in m.entry.result_types())
    made = compile(found.module, Options().changed({"memory.views": False}))
    return made, Buckets({name: tuple(row)}, found.given, results)


def sizes_of(m: Module, inputs: Sequence[Array]) -> Mapping[str, int]:
    """Return the sizes that the shapes of inputs tell."""
    pairs = zip(m.entry.params, inputs, strict=True)
    return dims.bind([(p.name, p.type.shape, a.shape) for p, a in pairs], m.dims)


def by_definition(
    m: Module, b: Buckets, run: Callable[[list[Array]], Sequence[Array]], inputs: Sequence[Array]
) -> list[Array]:
    """Pad inputs, run what takes padded ones, and return the first elements of its results."""
    sizes = sizes_of(m, inputs)
    wide = {**sizes, **{k: min(s for s in row if s >= sizes[k]) for k, row in b.sizes.items()}}
    given: list[Array] = []
    for p, a in zip(m.entry.params, inputs, strict=True):
        ends = dims.values(p.type.shape, wide)
        room = np.zeros(ends, a.dtype)
        room[tuple(slice(0, n) for n in a.shape)] = a
        given.append(room)
    given += [np.array(dims.evaluate(d, sizes), np.int64) for d in b.given]
    return [
        a[tuple(slice(0, _known(d, sizes, n)) for d, n in zip(shape, a.shape, strict=True))]
        for a, shape in zip(run(given), b.results, strict=True)
    ]


def _known(d: dims.Dim, sizes: Mapping[str, int], other: int) -> int:
    return dims.evaluate(d, sizes) if {*dims.free(d)} <= sizes.keys() else other
