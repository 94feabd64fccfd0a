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

import numpy as np

from didyma.refimpl.interp.graph_machine import Machine, Step
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.bars import LEAST, Bar, Contract, centre_dtype, settle


def in_float64(m: Module, env: Mapping[str, int]) -> Machine[Array]:
    """Return a machine that runs functions of a module on centres (``bars.centre_dtype``)."""
    return _Exact(m, env)


def _all_but_exact(v: Array, dtype: DType) -> Bar:
    """A bar that is not exact, so that nothing is rounded, and wider than that by nothing."""
    return Bar(v, np.full(v.shape, LEAST if dtype.is_float else 0.0))


class _Exact(Machine[Array]):
    def __init__(self, m: Module, env: Mapping[str, int]) -> None:
        super().__init__(m, env)
        self.contract = Contract(contraction=False)

    def apply(self, f: Function, step: Step, args: list[Array]) -> Sequence[Array]:
        n = step.node
        types = self.prepare(f).types
        given = {a: types[a].dtype for a in n.args}
        bars = {a: _all_but_exact(v, given[a]) for a, v in zip(n.args, args, strict=True)}
        operands = [TensorType(given[a], v.shape) for a, v in zip(n.args, args, strict=True)]
        use = step.sized(self.env)
        bar = use.op.bar([bars[a] for a in n.args], operands, use.type, self.contract)
        dtype = use.type.dtype
        return (settle(_all_but_exact(bar.c, dtype), dtype).c,)

    def shape(self, value: Array) -> tuple[int, ...]:
        return value.shape

    def truth(self, value: Array) -> bool:
        return bool(value)

    def size(self, value: Array) -> int:
        return int(value)

    def take(self, value: Array, i: int) -> Array:
        return np.asarray(value[i, ...])

    def stack(self, slices: Sequence[Array], t: TensorType) -> Array:
        whole = np.empty([int(str(s)) for s in t.shape], centre_dtype(t.dtype))
        for i, s in enumerate(slices):
            whole[i] = s
        return whole
