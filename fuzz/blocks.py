"""What recipes of schedules say of their blocks, against the kernels that they make.

A recipe says how many threads a block has and how many bytes these share, by which values are
chosen and refused.  Results may be right although it says too little, until a device has no room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Scheduled
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.point import Point
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import Kernel, loops
from didyma.refimpl.ir.loop import Allocate, Const, For, LoopKind, Scope
from didyma.refimpl.ir.walk import stmts


def block_of(k: Kernel) -> tuple[int, int] | None:
    """Return the threads of a kernel's block and the bytes that they share; None if not known."""
    every = [*stmts(loops(k).body)]
    bound = {s.axis: s.extent for s in every if isinstance(s, For) and s.kind is LoopKind.BOUND}
    extents = [e for axis, e in bound.items() if axis.startswith("threadIdx")]
    shared = [
        dims.mul(*s.buffer.shape, s.buffer.dtype.nbytes)
        for s in every
        if isinstance(s, Allocate) and s.buffer.scope is Scope.SHARED
    ]
    known = [int(e.value) for e in extents if isinstance(e, Const)]
    sizes = [n for n in shared if isinstance(n, int)]
    if len(known) < len(extents) or len(sizes) < len(shared):
        return None
    return math.prod(known), sum(sizes)


def wrong(
    made: Scheduled, options: Options, choices: Mapping[str, Sequence[Point]]
) -> Iterator[str]:
    """Yield what a recipe says too little of, of each function that is one kernel of one point.

    ``choices`` are the points of functions by name, of which fusion may make others now.
    """
    recipes = {r.name: r for r in dispatch.recipes(options)}
    for name, points in choices.items():
        kernels = made.kernels.get(name, ())
        if len(points) != 1 or len(kernels) != 1 or (got := block_of(kernels[0])) is None:
            continue
        (work,), (point,) = dispatch.works(made.loops[name], options), points
        said = recipes[point.recipe].block(work, point.table)
        if any(n > most for n, most in zip(got, said, strict=True)):
            yield f"{name} has {got} threads and shared bytes, and {point.recipe} says {said}"
