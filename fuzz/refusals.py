"""Inputs that a call must refuse: by the signature, no sizes of its symbols go with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Param
from didyma.refimpl.ir.types import Array


def refused(params: Sequence[Param], inputs: Sequence[Array]) -> Iterator[tuple[str, list[Array]]]:
    """Yield inputs of which one is wrong, and what is wrong with it, in words.

    An axis is one longer than its size although other axes tell all symbols of that size, or an
    input has an axis too many, or the last is missing.  Inputs whose strides are declared, and
    packed ones, stay as they are.
    """
    alone = Counter(d.name for p in params for d in p.type.shape if isinstance(d, sympy.Symbol))
    for k, p in enumerate(params):
        if p.type.strides is not None or p.type.dtype.is_packed:
            continue
        shape = inputs[k].shape
        for axis, d in enumerate(p.type.shape):
            if all(alone[s] > _tells(d, s) for s in dims.free((d,))):
                longer = (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])
                yield f"{p.name}, axis {axis}, is one longer", _with(inputs, k, longer)
        yield f"{p.name} has an axis too many", _with(inputs, k, (*shape, 1))
    if inputs:
        yield "the last input is missing", [*inputs[:-1]]


def _tells(d: Dim, symbol: str) -> bool:
    """Return whether a size is the symbol itself."""
    return isinstance(d, sympy.Symbol) and d.name == symbol


def _with(inputs: Sequence[Array], k: int, shape: tuple[int, ...]) -> list[Array]:
    """Return inputs of which one has another shape, and no value."""
    return [*inputs[:k], np.zeros(shape, inputs[k].dtype), *inputs[k + 1 :]]
