"""Which importer a node goes to; nodes whose operands are known sizes are worked out at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from didyma.onnx import known
from didyma.onnx.context import Context
from didyma.onnx.opset_upgrades import modern
from didyma.onnx.rules import (
    arithmetic,
    casts,
    convolution,
    deformable,
    indexing,
    interpolation,
    neural,
    ngrams,
    pooling,
    products,
    quantisation,
    random,
    recurrent,
    resize,
    shaping,
    signal,
    slicing,
    suppression,
)
from didyma.onnx.values import Item, Known

Handler: TypeAlias = Callable[[Context, Sequence[Item | None]], Sequence[Item] | None]

HANDLERS: dict[str, Handler] = {
    **arithmetic.HANDLERS,
    **casts.HANDLERS,
    **convolution.HANDLERS,
    **deformable.HANDLERS,
    **indexing.HANDLERS,
    **interpolation.HANDLERS,
    **neural.HANDLERS,
    **ngrams.HANDLERS,
    **pooling.HANDLERS,
    **products.HANDLERS,
    **quantisation.HANDLERS,
    **random.HANDLERS,
    **recurrent.HANDLERS,
    **resize.HANDLERS,
    **shaping.HANDLERS,
    **signal.HANDLERS,
    **slicing.HANDLERS,
    **suppression.HANDLERS,
}
SMALL = 1 << 10  # elements of a known tensor that is worked out at import


def import_node(c: Context, op: str, inputs: Sequence[Item | None]) -> Sequence[Item] | None:
    """Import one node; None where the operator, or this use of it, has no importer."""
    c, inputs = modern(c, op, inputs)
    if op in known.HANDLERS and (sizes := _small_ints(inputs)) is not None:
        found = known.HANDLERS[op](c, sizes)
        if found is not None:
            return [found]
    return HANDLERS[op](c, inputs) if op in HANDLERS else None


def _small_ints(inputs: Sequence[Item | None]) -> list[Known | None] | None:
    """Return the operands if each is absent or a small known tensor of integers."""
    small: list[Known | None] = []
    for i in inputs:
        if i is not None and not isinstance(i, Known):
            return None
        if i is not None and (i.dtype.is_float or i.dtype.is_packed or i.array.size > SMALL):
            return None
        small.append(i)
    return small
