"""Calls with arrays on a GPU: they go in as they are, and results come back as their like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didyma.codegen.runtime.cuda import Cuda
from didyma.codegen.runtime.device_array import DeviceArray, as_given, on_gpu
from didyma.codegen.runtime.engine import Engine
from didyma.refimpl.ir.graph import Function
from didyma.tracer.arrays import AnyArray, arguments, arguments_on


def call(
    run: Callable[..., list[Any]], engine: Engine, entry: Function, inputs: Sequence[AnyArray]
) -> list[Any]:
    """Run a wrapper on inputs, and return its results.

    On engine ``cuda``, inputs that are on the GPU are read where they are, and if there are any,
    results are arrays on the GPU, of the library of the first of them.  Else the results are
    NumPy arrays.

    Errors: as of ``arguments``, of ``borrow`` and of the wrapper.
    """
    first = next((x for x in inputs if on_gpu(x)), None)
    if first is None or not isinstance(engine, Cuda):
        return run(engine, arguments(entry, inputs))
    given = arguments_on(engine.number, entry, inputs)
    results: list[DeviceArray] = run(engine.resident, given)
    return [as_given(r, first) for r in results]
