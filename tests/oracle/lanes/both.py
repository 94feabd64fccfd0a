"""Run a loop program by its definition and by the fast interpreter, and compare them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from didyma.oracle import lanes
from didyma.refimpl.interp import loop
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array
from tests.codegen.graphs import same_bits


def outcome(interpret: Callable[..., Any], *args: Any) -> tuple[LoopFault | None, Any]:
    """Return the fault with which a run ends, if it does, and what it returns."""
    try:
        return None, interpret(*args)
    except LoopFault as fault:
        return fault, None


def differences(
    f: PrimFunc,
    buffers: Mapping[str, Array],
    dims: Mapping[str, int],
    externals: Mapping[str, Routine] | None = None,
) -> tuple[str, LoopFault | None]:
    """Run a function in place by the fast interpreter and on copies by the definition.

    Returns how they differ, in bits or in faults, and the fast one's fault.  Racing programs have
    no one result, so for them nothing is compared.
    """
    different, fault, _ = _compared(f, buffers, dims, externals)
    return different, fault


def _compared(
    f: PrimFunc,
    buffers: Mapping[str, Array],
    dims: Mapping[str, int],
    externals: Mapping[str, Routine] | None,
) -> tuple[str, LoopFault | None, Any]:
    copies = {name: a.copy() for name, a in buffers.items()}
    fault, returned = outcome(lanes.run, f, buffers, dims, externals)
    if fault is not None and fault.kind == "race":
        return "", fault, None
    defined, meant = outcome(loop.run, f, copies, dims, externals)
    if fault is not None or defined is not None:
        agree = fault is not None and defined is not None and fault.kind == defined.kind
        return "" if agree else f"fast: {fault}, defined: {defined}", fault, None
    different = [n for n, a in buffers.items() if not same_bits(a, copies[n])]
    if f.returns is not None and not same_bits(np.asarray(returned), np.asarray(meant)):
        different.append(f"returned {returned}, defined {meant}")
    return ", ".join(different), None, returned


def run(
    f: PrimFunc,
    buffers: Mapping[str, Array],
    dims: Mapping[str, int],
    externals: Mapping[str, Routine] | None = None,
) -> Any:
    """Run a function in place, and return, as ``lanes.run`` does; the definition must agree."""
    different, fault, returned = _compared(f, buffers, dims, externals)
    assert not different
    if fault is not None:
        raise fault
    return returned


def same_bytes(a: Array, b: Array) -> bool:
    """Return whether two arrays have the same bytes in every field."""
    fields = [(a[n], b[n]) for n in a.dtype.names] if a.dtype.names else [(a, b)]
    return a.dtype == b.dtype and all(x.tobytes() == y.tobytes() for x, y in fields)
