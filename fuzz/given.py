"""Input values that somebody chose, among random ones; a tensor without axes fills its input."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from didyma.fuzz.graphs import filled
from didyma.fuzz.graphs import inputs as random_inputs
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType


def inputs(
    m: Module, env: Mapping[str, int], seeds: Sequence[int], given: Mapping[str, Tensor]
) -> tuple[Array, ...]:
    """Values of a module's parameters: those given by name, the others random."""
    drawn = random_inputs(m, dict(env), seeds)
    return filled(m, drawn, given)


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
    """Return a value as JSON has it: its bytes, compressed where that makes them fewer."""
    packed = zlib.compress(t.data, 9)
    name, content = ("zlib", packed) if len(packed) < len(t.data) else ("data", t.data)
    text = base64.b64encode(content).decode("ascii")
    return {"dtype": str(t.dtype), "shape": t.shape, name: text}


def recorded(found: Mapping[str, Any]) -> Tensor:
    """Read a value back; KeyError, TypeError or ValueError where it is none."""
    dtype, shape = DType(found["dtype"]), tuple(int(d) for d in found["shape"])
    t = Tensor(dtype, shape, _bytes(found, int(TensorType(dtype, shape).nbytes)))
    t.array()
    return t


def _bytes(found: Mapping[str, Any], count: int) -> bytes:
    if "zlib" not in found:
        return base64.b64decode(found["data"], validate=True)
    try:
        packed = base64.b64decode(found["zlib"], validate=True)
        return zlib.decompressobj().decompress(packed, count + 1)
    except zlib.error as e:
        raise ValueError(str(e)) from e


def shown(t: Tensor) -> bool | int | float | str:
    """A value as people read it: the number that fills its input, or the type of an array."""
    if t.shape:
        return str(t.type)
    number = t.array().astype(t.dtype.compute.numpy).item()
    return number if math.isfinite(number) else str(number)
