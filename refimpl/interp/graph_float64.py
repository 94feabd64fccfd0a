"""The interpreter of graphs in float64: their results if floats were not rounded on the way.

The centre of a bar is no such value.  Where operands are exact it is rounded as every correct
implementation rounds; where a bar is wide it is the middle of what may be, and what follows is
computed from that.  Here each op gets the values that the ops before it have in float64, and yields
the centre of its own bar, as of operands that are all but exact: so each op has one definition, and
no width reaches the next one.

Nothing is rounded to a narrower float where a program only stores it, for a person wants to know
how far the program is from exact arithmetic.  What an op does on purpose it does here too: a cast
rounds or saturates, integers wrap, and what no number of the dtype can hold is an infinity.
Decisions are taken by the float64 values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from didyma.refimpl.interp.graph_machine import Arrays, Step
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.bars import LEAST, Bar, Contract, centre_dtype, settle


def _all_but_exact(v: Array, dtype: DType) -> Bar:
    """A bar that is not exact, so that nothing is rounded, and wider than that by nothing."""
    return Bar(v, np.broadcast_to(LEAST if dtype.is_float else 0.0, v.shape))


class InFloat64(Arrays):
    """Runs functions of a module on centres."""

    def __init__(self, m: Module, env: Mapping[str, int]) -> None:
        super().__init__(m, env)
        self.contract = Contract(contraction=False)

    def apply(self, f: Function, step: Step, args: list[Array]) -> Sequence[Array]:
        """Return the centre of the bar of an op's result."""
        n = step.node
        types = self.prepare(f).types
        given = {a: types[a].dtype for a in n.args}
        bars = {a: _all_but_exact(v, given[a]) for a, v in zip(n.args, args, strict=True)}
        operands = [TensorType(given[a], v.shape) for a, v in zip(n.args, args, strict=True)]
        use = step.sized(self.env)
        bar = use.op.bar([bars[a] for a in n.args], operands, use.type, self.contract)
        dtype = use.type.dtype
        return (settle(_all_but_exact(bar.c, dtype), dtype).c,)

    def dtype(self, t: TensorType) -> np.dtype[Any]:
        """Return the NumPy dtype of centres (``bars.centre_dtype``)."""
        return centre_dtype(t.dtype)
