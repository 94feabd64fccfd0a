"""The motif of running sums and products of long lines, by blocks that wait for each other."""

from __future__ import annotations

from didyma.fuzz.steering.sketch import Sketch
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.types import DType, TensorType

_DTYPES = (DType.F32, DType.I32, DType.F64, DType.F16, DType.I64, DType.BF16)
_LINES: tuple[tuple[Dim, ...], ...] = (
    (300,), (1, 700), (3, 300), (2, 513), (4, 129), (2, 3, 140), (1031,), (2, 256),
)  # fmt: skip


def chained(s: Sketch) -> None:
    """Draw a running fold of lines that several blocks share, mostly of what is computed there."""
    s.changes |= {"target": SM_90A.name, "kernels.waits": True}
    s.changes["graph.long_run"] = s.c.pick((8, 128))
    t = TensorType(s.dtype(_DTYPES), s.c.pick(_LINES))
    x = s.param(t)
    if x is None:
        return
    if s.c.chance(2):
        x = s.first_on(("negative", "abs", "square"), x) or x
    op = s.c.pick(("cumulative_sum", "cumulative_sum", "cumulative_prod"))
    how = {"axis": t.rank - 1, "exclusive": s.c.chance(2), "reverse": s.c.chance(3)}
    y = s.apply(op, (x,), freeze(how))
    if y is not None and s.c.chance(3):
        s.apply("maximum", (x, y), freeze({}))
