"""The passes that turn loop functions into those that kernels are written from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from didyma.refimpl.ir.blocks import without_blocks
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.tensors import without_producers, without_realizes
from didyma.refimpl.ir.unfold import unfolded

LOWERING: Mapping[str, Callable[[PrimFunc], PrimFunc]] = {
    "flatten-blocks": without_blocks,
    "realize-producers": without_producers,
    "flatten-storage": without_realizes,
}


def lowered(f: PrimFunc) -> PrimFunc:
    """Return a function after all passes of ``LOWERING``, without what they remove."""
    for run in LOWERING.values():
        f = run(f)
    return f


def written_out(f: PrimFunc) -> PrimFunc:
    """Return a function of loops, conditions, stores and calls: lowered, and without folds."""
    return unfolded(lowered(f))
