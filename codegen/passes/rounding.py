"""Values that a graph rounds to tf32, as ``didyma.composites.numeric.tf32`` writes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from didyma.refimpl.ir.fragments import HALF, KEPT
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import DType, Tensor

Source = Callable[[str], Node | None]  # the node that defines a value


def is_rounded(value: str, source: Source) -> bool:
    """Return whether a value is one that is rounded to tf32, and then moved perhaps."""
    while (n := source(value)) is not None and n.op in ("permute_dims", "reshape"):
        (value,) = n.args
    if n is None or n.op != "where":
        return False
    which, none, cut = (source(a) for a in n.args)
    kept = _first(_first(cut, "bitcast", source), "bitwise_and", source, KEPT)
    bits = _first(kept, "add", source, HALF)
    if which is None or which.op != "isnan" or bits is None or bits.op != "bitcast":
        return False
    number = _scalar(none)
    return bits.args == which.args and number is not None and bool(np.isnan(number))


def _first(n: Node | None, op: str, source: Source, other: int | None = None) -> Node | None:
    """Return what defines the first operand of a node of an op, whose second is a number, if so."""
    if n is None or n.op != op:
        return None
    if other is not None and _scalar(source(n.args[1])) != other:
        return None
    return source(n.args[0])


def _scalar(n: Node | None) -> float | None:
    """Return the number that a node repeats; None for any other node."""
    value = None if n is None or n.op != "constant" else n.attr["value"]
    if not isinstance(value, Tensor) or value.dtype not in (DType.F32, DType.U32) or value.shape:
        return None
    return float(np.frombuffer(value.data, value.dtype.numpy)[0])
