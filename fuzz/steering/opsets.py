"""Ops and dtypes in groups, which come from the table of ops: a new op joins them by itself."""

from __future__ import annotations

from didyma.fuzz.devices import DRAWN
from didyma.refimpl.ir.types import ALL
from didyma.refimpl.ops.spec import Kind, Op, Work

EVERY = tuple(DRAWN)
UNARY = tuple(o.name for o in DRAWN.values() if o.kind is Kind.ELEMENTWISE and o.arity == (1, 1))
PAIRED = tuple(
    o.name for o in DRAWN.values() if o.kind is Kind.ELEMENTWISE and o.arity in ((2, 2), (3, 3))
)
MOVES = tuple(
    o.name for o in DRAWN.values() if o.kind in (Kind.INJECTIVE, Kind.RESHAPE) and o.arity[0]
)
FOLDS = tuple(o.name for o in DRAWN.values() if o.kind is Kind.REDUCTION)
TUNED = tuple(o.name for o in DRAWN.values() if o.attrs and o.arity[0])
DTYPES = tuple(str(d) for d in ALL)
CONSTANTS = (
    "0", "-0", "1", "-1", "2", "half", "nan", "inf", "-inf", "most", "least", "tiny", "near one",
    "width", "below width", "three tenths", "inexact",
)  # fmt: skip
FORMS = ("scalar", "whole", "broadcast", "reshaped", "larger")


def _chosen(op: Op) -> tuple[str, ...]:
    """Return an op's name with each choice of its first attribute that has some, such as a mode."""
    spec = next((a for a in op.attrs if a.kind in ("str", "bool")), None)
    if spec is None:
        return (op.name,)
    return tuple(f"{op.name} {spec.name}={c}" for c in spec.choices or ("false", "true"))


HEAVY = tuple(
    name
    for o in DRAWN.values()
    if o.kind in (Kind.OPAQUE, Kind.REDUCTION) or o.work is Work.LOOKUP or o.name == "permute_dims"
    for name in _chosen(o)
)
# Shapes with axes that schedules treat as long.
ROWS = ((20, 24), (3, 40), (40, 3), (8, 12), (5, 6, 16), (70, 4), (17, 18), (2, 130), (33, 9))
