"""Count the sectors of memory that neighbouring threads touch, as a GPU moves them.

A GPU moves memory in sectors of 32 bytes.  The threads of a warp whose elements lie side by side
share sectors; those whose elements lie apart move one each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from didyma.oracle.accesses import Value, evaluate
from didyma.refimpl.ir.loop import Expr, For, LoopKind, PrimFunc, Ramp, Var
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmts

SECTOR = 32  # bytes
WARP = 32  # threads
_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


@dataclass(slots=True)
class FirstWarp:
    """The threads of a kernel's first warp, in the first round of every loop.

    ``values`` has the variables of loops and of lets; an access that depends on data is at None.
    """

    values: dict[str, Value]
    threads: int = 1

    @classmethod
    def of(cls, f: PrimFunc, sizes: Mapping[str, int]) -> FirstWarp:
        """Return the first warp of a kernel at some sizes; one thread where it binds none."""
        every = [s for s in stmts(f.body) if isinstance(s, For)]
        values: dict[str, Value] = {**sizes, **{s.var.name: 0 for s in every}}
        bound = {s.axis: evaluate(s.extent, sizes) for s in every if s.kind is LoopKind.BOUND}
        along = [_size(bound.get(axis, 1)) for axis in _AXES]
        threads = max(1, min(WARP, math.prod(along)))
        lane = np.arange(threads)
        for axis, n in zip(_AXES, along, strict=True):
            values |= {s.var.name: lane % max(1, n) for s in every if s.axis == axis}
            lane = lane // max(1, n)
        return cls(values, threads)

    def let(self, var: Var, value: Expr) -> None:
        """Note what a variable is in these threads."""
        self.values[var.name] = evaluate(value, self.values)

    def sectors(self, index: Iterable[Expr], shape: Sequence[int], nbytes: int, width: int) -> int:
        """Return how many sectors an access touches; 0 where its place depends on data.

        ``nbytes`` are those of an element, and ``width`` those that each thread accesses.
        """
        at: int | Array = 0
        for e, n in zip(index, shape, strict=True):
            i = evaluate(e.base if isinstance(e, Ramp) else e, self.values)
            if i is None:
                return 0
            at = at * n + i
        first = np.broadcast_to(np.asarray(at) * nbytes, (self.threads,))
        return np.unique(np.concatenate([first // SECTOR, (first + width - 1) // SECTOR])).size


def _size(n: Value) -> int:
    return n if isinstance(n, int) else WARP
