"""Judge ``call_with_numel`` of built programs, which takes the first elements of larger arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.refimpl.interp.graph import bind
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array

NAME = "call_with_numel"


def is_flat(m: Module, inputs: Sequence[Array]) -> bool:
    """Return whether a program has it: inputs are single elements, or rows of one size they tell.

    Then no other size is told, and no input has strides.
    """
    types = [p.type for p in m.entry.params]
    shapes = {t.shape for t in types} - {()}
    told = bind(m.entry, m, inputs).keys()
    return (
        all(t.strides is None for t in types)
        and len(told) == len(shapes) == 1
        and shapes == {(dims.symbol(name),) for name in told}
    )


def larger(inputs: Sequence[Array]) -> list[Array]:
    """Return arrays of two rows, of which the first elements are those of inputs."""
    return [np.stack((a, a[::-1])) if a.ndim else np.array(a) for a in inputs]
