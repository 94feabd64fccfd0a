"""The motif of folds under low thresholds: few threads, each with many terms, or many with few."""

from __future__ import annotations

from didyma.fuzz.steering.opsets import UNARY
from didyma.fuzz.steering.sketch import Sketch
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import PLAIN, TensorType
from didyma.refimpl.ops import OPS

AXES = ("first", "last", "middle", "all", "some")
_SHAPES = (
    (12, 5), (6, 20), (24, 3), (10, 16), (5, 12, 4), (3, 6, 7), (15, 8), (4, 35), (3, 67),
    (2, 261),
)  # fmt: skip
_LOW = {
    "kernels.full": (4, 16, 256), "kernels.short": (0, 2, 4), "kernels.chain": (2, 4),
    "kernels.few": (4, 16), "kernels.split": (1, 2, 8), "kernels.edges": (1, 2),
}  # fmt: skip


def sums(s: Sketch, op: str, where: str) -> None:
    """Fold axes of an array, with thresholds so low that every way to do it is taken."""
    s.changes |= {name: s.c.pick(some) for name, some in _LOW.items()}
    dtype = s.dtype([d for d in OPS[op].dtypes if d in PLAIN])
    x = s.param(TensorType(dtype, s.c.pick(_SHAPES)))
    if x is None:
        return
    if s.c.chance(3):
        x = s.on(s.c.pick(UNARY), x) or x
    t = s.types()[x]
    axes = {
        "first": (0,), "last": (t.rank - 1,), "middle": (t.rank // 2,),
        "all": tuple(range(t.rank)), "some": tuple(range(1, t.rank)),
    }[where]  # fmt: skip
    how = {"axis": axes[-1]} if op.startswith("arg") else {"axes": axes}
    total = s.apply(op, (x,), freeze({**how, "keepdims": s.c.chance(2)}))
    if total is not None and s.c.chance(3):
        s.on(s.c.pick(UNARY), total)
