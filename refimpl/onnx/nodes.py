"""Which importer a node goes to; nodes whose operands are known sizes are worked out at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from refimpl.onnx import known, math, movement, neural, windows
from refimpl.onnx.load import Context
from refimpl.onnx.values import Item, Known

Handler: TypeAlias = Callable[[Context, Sequence[Item | None]], Sequence[Item]]

HANDLERS: dict[str, Handler] = {
    **math.HANDLERS,
    **movement.HANDLERS,
    **neural.HANDLERS,
    **windows.HANDLERS,
}
SMALL = 1 << 10  # elements of a known tensor that is worked out at import


def import_node(c: Context, op: str, inputs: Sequence[Item | None]) -> Sequence[Item]:
    """Import one node; DidymaError ``onnx-unsupported`` names an operator that is not known."""
    if op in known.HANDLERS and (sizes := _small_ints(inputs)) is not None:
        found = known.HANDLERS[op](c, sizes)
        if found is not None:
            return [found]
    if op not in HANDLERS:
        names = ", ".join(sorted(HANDLERS))
        raise c.bad(f"the operator {op}", f"one of: {names}")
    return HANDLERS[op](c, inputs)


def _small_ints(inputs: Sequence[Item | None]) -> list[Known | None] | None:
    """Return the operands if each is absent or a small known tensor of integers."""
    small: list[Known | None] = []
    for i in inputs:
        if i is not None and not isinstance(i, Known):
            return None
        if i is not None and (not i.dtype.is_int or i.array.size > SMALL):
            return None
        small.append(i)
    return small
