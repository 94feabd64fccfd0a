"""Runs the body of a function by both loop interpreters, on arrays that give its parameters."""

from __future__ import annotations

from collections.abc import Mapping

from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.loop import Buffer, PrimFunc, Stmt
from didyma.refimpl.ir.types import Array, DType
from tests.oracle.lanes import both


def run(
    body: Stmt,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    dims: Mapping[str, int] | None = None,
) -> None:
    """Run a body whose parameters have the types of the arrays."""
    arrays = {**inputs, **outputs}
    params = tuple(Buffer(n, DType.of(a), a.shape) for n, a in arrays.items())
    declared = tuple(DimVar(n, 0, 1 << 20) for n in dims or {})
    f = PrimFunc("f", params, tuple(outputs), body, declared)
    both.run(f, arrays, dims or {})
