"""NumPy's broadcasting, where only sizes that are 1 statically are broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import numpy as np

from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.expr import ZERO
from didyma.refimpl.ir.types import DType, Shape, TensorType
from didyma.refimpl.ops.rules import call_text, unequal_sizes
from didyma.refimpl.ops.spec import Chooser, Index

P = ParamSpec("P")
R = TypeVar("R")


def quiet(f: Callable[P, R]) -> Callable[P, R]:
    """Return a function that computes the same without NumPy's floating-point warnings."""

    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return f(*args, **kwargs)

    return inner


def broadcast(name: str, types: Sequence[TensorType]) -> tuple[Shape, str]:
    """Return the shape and device of an elementwise op's result, of broadcast operands.

    The operands are on one device.  Error: ``shape-mismatch``.

    >>> broadcast("add", [TensorType(DType.F32, (2, 1)), TensorType(DType.F32, (3,))])
    ((2, 3), '')
    """
    first = types[0]
    if all(t.shape == first.shape for t in types):
        return first.shape, first.device
    rank = max(t.rank for t in types)
    out: list[Dim] = []
    for axis in range(rank):
        size: Dim = 1
        for t in types:
            at = axis - rank + t.rank
            d: Dim = t.shape[at] if at >= 0 else 1
            if d == 1:
                continue
            if size not in (1, d):
                raise unequal_sizes(
                    call_text(name, types), size, d, axis - rank, "sizes that are equal or 1"
                )
            size = d
        out.append(size)
    return tuple(out), first.device


def operand_index(index: Index, t: TensorType) -> Index:
    """Return the index at which an operand is read for an element of a broadcast result."""
    tail = index[len(index) - t.rank :]
    return tuple(ZERO if d == 1 else i for i, d in zip(tail, t.shape, strict=True))


def partner(chooser: Chooser, t: TensorType, dtype: DType | None = None) -> TensorType:
    """Return a type that broadcasts into ``t``: itself, with ones, with fewer axes, a scalar."""
    shape = t.shape
    match chooser.below(4):
        case 1 if shape:
            mask = chooser.below(2 ** len(shape))
            shape = tuple(1 if mask >> i & 1 else d for i, d in enumerate(shape))
        case 2 if shape:
            shape = shape[chooser.below(len(shape)) + 1 :]
        case 3:
            shape = ()
        case _:
            pass
    return TensorType(dtype or t.dtype, shape, t.device)
