"""Launches of a kernel side by side: copies of its grid, each on memory of its own.

Most of the time of a small launch is spent on each instruction, whatever the number of its lanes.
A kernel that reads its copy's number may do something else in each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.launch import Pointer, Region, Value, launch
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.sanitize import Argument, bytes_of, written_before
from didyma.refimpl.ir.types import Array


def side_by_side(
    kernel: Kernel,
    shape: Shape,
    args: Sequence[Argument],
    own: Sequence[Array | None],
    shared: int,
    seconds: float,
) -> tuple[list[Array | None], Array, Array, Array]:
    """Run all copies of a grid; return the bytes of their own arrays after that, and which ended.

    The last results tell which were given up, since they jump back far more often than the first,
    and which have made accesses out of bounds or misaligned.

    ``own`` has, for each argument, a row of bytes for each copy, or nothing for a number and for an
    array that all copies read.  Nothing else that the checks of memory find is told, and races
    are not looked for.  What runs longer than some ``seconds`` of processor time is
    stopped, and so are other copies that run for twice as long as the first one.
    """
    regions, given = list[Region](), list[Value]()
    for a, rows in zip(args, own, strict=True):
        if not a.value.ndim:
            given.append(a.value.tobytes())
            continue
        given.append(Pointer(len(regions), a.start, own=rows is not None))
        if rows is None:
            regions.append(Region(a.name, bytes_of(a.value), written_before(a), fixed=True))
        else:
            regions += [Region(a.name, row.copy(), written_before(a)) for row in rows]
    done = launch(kernel, shape, regions, given, shared, 0, seconds)
    left = [
        np.stack([r.data for r in regions[p.region :][: len(rows)]])
        if isinstance(p, Pointer) and rows is not None else None
        for p, rows in zip(given, own, strict=True)
    ]  # fmt: skip
    return left, done.copies, done.given_up, done.strayed
