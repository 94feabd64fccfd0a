"""Products with exponentials between them that are not one kernel, and why they stay apart."""

from __future__ import annotations

from didyma.codegen.options import Options
from didyma.codegen.passes.fuse import fuse
from didyma.codegen.pipeline import Fused
from didyma.refimpl.ir.graph import Module


def told(c: Fused, options: Options) -> tuple[str, ...]:
    """Return a sentence for each value that looks like an attention, but is computed in parts."""
    before = _before_fusion(c)
    if before is None or not any(n.op == "matmul" for f in before.functions for n in f.nodes):
        return ()
    said = dict[str, str]()

    def hear(reason: str, value: str) -> None:
        said[value] = reason

    fuse(before, options, apart=hear)
    return tuple(
        f"%{value}: products and exponentials stay apart: {reason}"
        for value, reason in said.items()
    )


def _before_fusion(c: Fused) -> Module | None:
    """Return the module that the pass ``fuse`` was given; None if it did not run."""
    names = [name for name, _ in c.passes]
    if "fuse" not in names:
        return None
    at = names.index("fuse")
    return c.passes[at - 1][1] if at else c.source
