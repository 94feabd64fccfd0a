"""Draw graphs whose inputs have strides: gaps, steps, axes turned, repeated and backwards."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from didyma.fuzz.graphs import Case
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Param
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import TensorType

MOST = 1 << 16  # elements between neighbours along an axis whose stride is a symbol


def declared(case: Case, rng: Random) -> Case:
    """Return a case that declares strides of some inputs; some strides are symbols of their own."""
    m = case.module
    drawn = _Drawn(rng, Names(v.name for v in m.dims))
    entry = replace(m.entry, params=tuple(map(drawn.param, m.entry.params)))
    made = replace(m, functions=(*m.functions[:-1], entry), dims=(*m.dims, *drawn.dims))
    return replace(case, module=made, env=(*case.env, *drawn.env))


class _Drawn:
    """Strides that were drawn, and the symbols among them with their values."""

    def __init__(self, rng: Random, names: Names) -> None:
        self.rng, self.names = rng, names
        self.dims: list[DimVar] = []
        self.env: list[tuple[str, int]] = []

    def param(self, p: Param) -> Param:
        """Return a parameter that may have strides."""
        t, rng = p.type, self.rng
        if t.dtype.is_packed or not t.rank or rng.random() < 0.25:
            return p
        order = [*range(t.rank)]
        if rng.random() < 0.5:
            rng.shuffle(order)
        step: Dim = rng.choice((1, 1, 1, 2, 3))
        offset: Dim = rng.choice((0, 0, 4, 3))
        strides: list[Dim] = [0] * t.rank
        for axis in reversed(order):
            match rng.choice(("forward", "forward", "symbol", "backward", "repeated")):
                case "repeated":
                    continue
                case "backward":
                    strides[axis] = dims.sub(0, step)
                    offset = dims.add(offset, _far(t, axis, step))
                case "symbol" if isinstance(step, int):
                    strides[axis] = step = self._symbol(step)
                case _:
                    strides[axis] = step
            step = dims.add(dims.mul(step, t.shape[axis]), rng.choice((0, 0, 4, 5)))
        return replace(p, type=replace(t, strides=tuple(strides), offset=offset))

    def _symbol(self, least: int) -> Dim:
        name = self.names.fresh("pitch")
        self.dims.append(DimVar(name, 0, MOST))
        self.env.append((name, least + self.rng.choice((0, 0, 1, 4))))
        return dims.symbol(name)


def _far(t: TensorType, axis: int, step: Dim) -> Dim:
    """Return how far the last position of an axis lies from the first."""
    return dims.mul(dims.sub(dims.maximum(t.shape[axis], 1), 1), step)
