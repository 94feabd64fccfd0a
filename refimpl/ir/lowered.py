"""The passes that turn loop functions into those that kernels are written from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.blocks import without_blocks
from didyma.refimpl.ir.returns import without_returns
from didyma.refimpl.ir.tensors import without_producers, without_realizes
from didyma.refimpl.ir.unfold import unfolded
from didyma.refimpl.ir.walk import stmts

LOWERING: Mapping[str, Callable[[ir.PrimFunc], ir.PrimFunc]] = {
    "store-returns": without_returns,
    "flatten-blocks": without_blocks,
    "realize-producers": without_producers,
    "flatten-storage": without_realizes,
}


_REMOVED = (ir.BlockRealize, ir.Compute, ir.ProducerRealize, ir.BufferRealize, ir.Return)


def lowered(f: ir.PrimFunc) -> ir.PrimFunc:
    """Return a function after all passes of ``LOWERING``, without what they remove."""
    if _is_lowered(f):  # as most are: one walk in place of one for each pass
        return f
    for run in LOWERING.values():
        f = run(f)
    return f


def _is_lowered(f: ir.PrimFunc) -> bool:
    own = not any(isinstance(s, _REMOVED) for s in stmts(f.body))
    return own and all(map(_is_lowered, f.functions))


def written_out(f: ir.PrimFunc) -> ir.PrimFunc:
    """Return a function of loops, conditions, stores and calls: lowered, and without folds."""
    return unfolded(lowered(f))
