"""The motif of folds under low thresholds: few threads, each with many terms, or many with few."""

from __future__ import annotations

import numpy as np

from didyma.fuzz.steering.company import after, before, scaled
from didyma.fuzz.steering.sketch import Sketch
from didyma.fuzz.values import core
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import PLAIN, Tensor, TensorType
from didyma.refimpl.ops import OPS

AXES = ("first", "last", "middle", "all", "some")
# The last are whole for some threads, and not for as many in several parts or turns.
_SHAPES = (
    (12, 5), (6, 20), (24, 3), (10, 16), (5, 12, 4), (3, 6, 7), (15, 8), (4, 35), (3, 67),
    (2, 261), (3, 96), (160, 3), (2, 5, 64),
    # Such that a thread of many has all of its terms at once.
    (2, 1000), (700, 2), (1, 1500), (3, 520), (1030,), (515, 3),
)  # fmt: skip
_LOW = {
    "kernels.full": (4, 16, 256), "kernels.short": (0, 2, 4), "kernels.chain": (2, 4),
    "kernels.few": (4, 16), "kernels.split": (1, 2, 8), "kernels.edges": (1, 2),
}  # fmt: skip
SOME = 0.1  # of the places of an array


def sums(s: Sketch, op: str, where: str) -> None:
    """Fold axes of an array, with thresholds so low that every way to do it is taken."""
    s.changes |= {name: s.c.pick(some) for name, some in _LOW.items()}
    dtype = s.dtype([d for d in OPS[op].dtypes if d in PLAIN])
    shape = s.c.pick(_SHAPES)
    x = s.param(TensorType(dtype, scaled(s, shape) if s.c.chance(2) else shape))
    if x is None:
        return
    t = s.types()[x]
    if op.startswith("arg") and s.c.chance(2):
        let_repeat(s, x)
    axes = {
        "first": (0,), "last": (t.rank - 1,), "middle": (t.rank // 2,),
        "all": tuple(range(t.rank)), "some": tuple(range(1, t.rank)) or (0,),
    }[where]  # fmt: skip
    y, beside = before(s, x, axes)
    how = {"axis": axes[-1]} if op.startswith("arg") else {"axes": axes}
    total = s.apply(op, (y,), freeze({**how, "keepdims": s.c.chance(2)}))
    if total is not None:
        after(s, total, beside)


def let_repeat(s: Sketch, x: str) -> None:
    """Give a static array one corner at most places, and another at some, in no order.

    Whichever of the two a fold prefers, several of its threads find it.
    """
    t = s.types()[x]
    shape = tuple(d for d in t.shape if isinstance(d, int))
    some = core(t.dtype)
    if len(shape) == t.rank:
        usual, other = (some[min(s.c.below(some.size), s.c.below(some.size))] for _ in range(2))
        places = np.random.default_rng(s.c.below(2**16)).random(shape) < SOME
        drawn = np.full(shape, usual, t.dtype.numpy)
        drawn[places] = other
        s.given[x] = Tensor.of(drawn)
