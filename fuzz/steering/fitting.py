"""Which ops may read the results of which: one has to take a dtype that the other yields."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from didyma.fuzz.chooser import Dice
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import ALL, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Sample

_SHAPES = ((2, 3), (4,), (2, 4, 3, 3), (2, 4, 3), ())  # of operands, one of which any op takes
_TRIES = 2


def fits(producer: str, consumer: str, place: int | None = None) -> bool:
    """Return whether an op's result may be an operand of another, at a place or at any.

    >>> fits("equal", "where", 0), fits("equal", "exp"), fits("exp", "iota")
    (True, False, False)
    """
    return not yields(producer).isdisjoint(reads(consumer, place))


@cache
def yields(op: str) -> frozenset[DType]:
    """Return the dtypes of an op's results."""
    if any(a.kind == "dtype" for a in OPS[op].attrs):
        return frozenset(ALL)  # which an attribute says
    return frozenset(t.dtype for _, t in _uses(op))


@cache
def reads(op: str, place: int | None) -> frozenset[DType]:
    """Return the dtypes of an op's operands, or of the one at a place."""
    some = slice(place, None if place is None else place + 1)
    return frozenset(t.dtype for use, _ in _uses(op) for t in use.operands[some])


@cache
def _uses(op: str) -> tuple[tuple[Sample, TensorType], ...]:
    return tuple(_drawn(op))


def _drawn(op: str) -> Iterator[tuple[Sample, TensorType]]:
    """Yield uses of an op for each of its dtypes, with the types of their results."""
    record, c = OPS[op], Dice(0)
    for dtype in record.dtypes:
        for shape in _SHAPES * _TRIES:
            sample = record.sample(c, TensorType(dtype, shape))
            if sample is None:
                continue
            try:
                yield sample, record.infer(sample.operands, dict(sample.attrs))
            except DidymaError:
                continue
