"""Input values that somebody chose, among random ones; a tensor without axes fills its input."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from didyma.fuzz.graphs import inputs as random_inputs
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, DType, Tensor


def inputs(
    m: Module, env: Mapping[str, int], seeds: Sequence[int], given: Mapping[str, Tensor]
) -> tuple[Array, ...]:
    """Values of a module's parameters: those given by name, the others random."""
    drawn = random_inputs(m, dict(env), seeds)
    return tuple(
        np.broadcast_to(given[p.name].array(), a.shape).copy() if p.name in given else a
        for p, a in zip(m.entry.params, drawn, strict=True)
    )


def misfit(m: Module, env: Mapping[str, int], given: Mapping[str, Tensor]) -> str:
    """Say which of the values is none of its input; nothing if all are."""
    types = {p.name: p.type for p in m.entry.params}
    for name, t in given.items():
        if name not in types:
            return f"a value of %{name}, which is no input"
        want = types[name]
        if t.dtype is not want.dtype or t.shape not in ((), dims.values(want.shape, env)):
            return f"{t.type} for %{name}: {want}"
    return ""


def record(t: Tensor) -> dict[str, Any]:
    """Return a value as JSON has it."""
    data = base64.b64encode(t.data).decode("ascii")
    return {"dtype": str(t.dtype), "shape": t.shape, "data": data}


def recorded(found: Mapping[str, Any]) -> Tensor:
    """Read a value back; KeyError, TypeError or ValueError where it is none."""
    dtype, shape = DType(found["dtype"]), tuple(int(d) for d in found["shape"])
    t = Tensor(dtype, shape, base64.b64decode(found["data"], validate=True))
    t.array()
    return t


def shown(t: Tensor) -> bool | int | float | str:
    """A value as people read it: the number that fills its input, or the type of an array."""
    if t.shape:
        return str(t.type)
    number = t.array().astype(t.dtype.compute.numpy).item()
    return number if math.isfinite(number) else str(number)
