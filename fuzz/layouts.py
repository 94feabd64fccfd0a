"""Judge that inputs may lie as they please: results keep every bit.

Inputs are put into drawn places of larger arrays, whose other elements are anything: parts of rows,
steps, axes in another order.  The program that reads them there must give what the usual one gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from random import Random

import numpy as np

from didyma.codegen.layouts.layout import Layout, Placed, placed
from didyma.codegen.layouts.variant import variant
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.engine import Engine
from didyma.fuzz.levels import runner
from didyma.oracle.compare import bitwise
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Level
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

NAME = "layouts"
ALIGNED = 4  # elements: where a base may begin


def laid(a: Array, rng: Random) -> tuple[Array, Array]:
    """Return a larger array of any bits, and a view of it that has the elements of an array."""
    order = rng.sample(range(a.ndim), a.ndim) if rng.random() < 0.5 else [*range(a.ndim)]
    steps = [rng.choice((1, 1, 1, 2)) for _ in order]
    gaps = [rng.choice((0, 0, 4, 5)) for _ in order]
    starts = [rng.randint(0, g) for g in gaps]
    sizes = [a.shape[k] for k in order]
    shape = [n * s + g for n, s, g in zip(sizes, steps, gaps, strict=True)]
    bits = np.frombuffer(bytearray(rng.randbytes(a.itemsize * math.prod(shape))), np.uint8)
    if a.dtype == np.bool_:
        bits &= 1
    root = bits.view(a.dtype).reshape(shape)
    rows = zip(starts, sizes, steps, strict=True)
    view = root[tuple(slice(b, b + n * s, s) for b, n, s in rows)].transpose(np.argsort(order))
    view[...] = a
    return root, view


def place(root: Array, view: Array) -> tuple[Placed, Array] | None:
    """Return where a view of an array in row-major order lies, and its base; None if in none."""
    at, origin = (int(a.__array_interface__["data"][0]) for a in (view, root))
    start, strides = (at - origin) // root.itemsize, tuple(s // root.itemsize for s in view.strides)
    found = placed(view.shape, strides, (start, root.size - start), start % ALIGNED, ALIGNED)
    if isinstance(found, str):
        return None
    first = start - found.before
    last = first + math.prod(found.shape)
    assert 0 <= first <= last <= root.size, "a base outside of the memory"
    assert first % ALIGNED == 0, "a base that begins unaligned"
    return found, root.reshape(-1)[first:last].reshape(found.shape)


def judged(
    c: Compiled,
    options: Options,
    inputs: Sequence[Array],
    seeds: Sequence[int],
    engine: Engine,
) -> Level:
    """Return the level ``layouts`` of a compiled module; ``checks`` counts inputs that were read.

    The place of each input follows from its seed and its rank, whatever else the case has: what
    makes cases smaller keeps it.
    """
    level = Recorder(NAME, engine.name)
    level.guard(engine.name, partial(_judge, c, options, inputs, seeds, engine, level))
    return level.level()


def _judge(
    c: Compiled,
    options: Options,
    inputs: Sequence[Array],
    seeds: Sequence[int],
    engine: Engine,
    level: Recorder,
) -> None:
    layouts, bases = dict[str, Layout](), dict[str, Array]()
    params = c.source.entry.params
    for p, a, seed in zip(params, inputs, seeds, strict=True):
        packed = p.type.dtype.is_packed
        if a.ndim and not packed and (found := place(*laid(a, Random(seed)))) is not None:
            layouts[p.name], bases[p.name] = found[0].layout, found[1]
    made = variant(c, options, layouts)
    if made.compiled is None:
        return
    given = [
        bases[p.name] if p.name in made.taken else a for p, a in zip(params, inputs, strict=True)
    ]
    try:
        want = runner(c, engine)(engine, list(inputs))
    except DidymaError:  # such as an assertion of the program's
        return
    got = runner(made.compiled, engine)(engine, given)
    level.checks += len(made.taken)
    rows = zip(c.source.entry.results, want, got, strict=True)
    level.compare(engine.name, [bitwise(*row) for row in rows])
