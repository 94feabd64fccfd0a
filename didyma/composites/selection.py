"""Functions made of ops whose results have data-dependent sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from didyma.composites.builder import Builder, Value
from didyma.composites.composite import Emit, like, scalar
from didyma.composites.ordering import argsort
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType

V = TypeVar("V")
NOWHERE = 2**62  # an index out of range of every axis: an update there is dropped


class Sizing(Emit[V], Protocol[V]):
    """An ``Emit`` that can also bind sizes at run time."""

    def bind(self, count: V, most: Dim, wish: str = "u", /) -> Dim:
        """Bind a fresh symbol of at most ``most`` to an i64 scalar; return it as a size."""
        ...


def _flat(b: Emit[V], x: V) -> V:
    t = b.type_of(x)
    return x if t.rank == 1 else b("reshape", (x,), shape=(t.numel,))


def _numbers(b: Emit[V], n: Dim) -> V:
    return b("iota", (), dtype=DType.I64, shape=(n,), axis=0)


def _truth(b: Emit[V], x: V) -> V:
    if b.type_of(x).dtype is DType.BOOL:
        return x
    return b("not_equal", (x, like(b, 0, x)))


def _counted(b: Sizing[V], mask: V) -> Dim:
    (n,) = b.type_of(mask).shape
    ones = b("cast", (mask,), dtype=DType.I64)
    return b.bind(b("sum", (ones,), axes=(0,), keepdims=False), n)


def _before(b: Emit[V], mask: V) -> V:
    """Return how many elements before each one are true."""
    ones = b("cast", (mask,), dtype=DType.I64)
    return b("cumulative_sum", (ones,), axis=0, exclusive=True, reverse=False)


def _packed(b: Emit[V], u: Dim, mask: V, to: V, values: V) -> V:
    """Return the values where the mask is true, each at its position ``to``."""
    index = b("where", (mask, to, scalar(b, NOWHERE, DType.I64)))
    base = b("broadcast_to", (like(b, 0, values),), shape=(u,))
    return b("scatter", (base, index, values), axis=0, reduction="none")


def places(b: Sizing[V], mask: V) -> V:
    """Return the indices of the true elements of a vector, in order: i64[u]."""
    (n,) = b.type_of(mask).shape
    return _packed(b, _counted(b, mask), mask, _before(b, mask), _numbers(b, n))


def nonzero(b: Sizing[V], x: V) -> tuple[V, ...]:
    """Return the indices of nonzero elements (NaN is one), in row-major order, for each axis."""
    t = b.type_of(x)
    at = places(b, _flat(b, _truth(b, x)))
    if t.rank == 1:
        return (at,)
    found: list[V] = []
    for axis in range(t.rank):
        along = b("iota", (), dtype=DType.I64, shape=t.shape, axis=axis)
        found.append(b("gather", (_flat(b, along), at), axis=0))
    return tuple(found)


def compress(b: Sizing[V], x: V, condition: V, axis: int | None = None) -> V:
    """Return the slices along an axis where a vector is true; of flattened ``x`` if it is None.

    A condition shorter than the axis is false for the rest.
    """
    if axis is None:
        x, axis = _flat(b, x), 0
    return b("gather", (x, places(b, _truth(b, condition))), axis=axis % b.type_of(x).rank)


@dataclass(frozen=True, slots=True)
class Unique:
    """Distinct values, their first positions and counts, and the index of each element in them."""

    values: Value
    indices: Value
    inverse: Value
    counts: Value


def unique(b: Builder, x: Value, by_value: bool = True) -> Unique:
    """Return the distinct elements of flattened ``x``, sorted by value or by first position.

    NaNs are distinct from each other and come last; zeros are equal whatever their signs.
    """
    flat = _flat(b, x)
    (n,) = flat.type.shape
    at = _numbers(b, n)
    order = argsort(b, flat)
    ordered = b("gather", (flat, order), axis=0)
    left = b("maximum", (b("subtract", (at, like(b, 1, at))), like(b, 0, at)))
    differs = b("not_equal", (ordered, b("gather", (ordered, left), axis=0)))
    new = b("logical_or", (differs, b("equal", (at, like(b, 0, at)))))
    u = _counted(b, new)
    group = b("cumulative_sum", (b("cast", (new,), dtype=DType.I64),), axis=0, exclusive=False,
              reverse=False)  # fmt: skip
    group = b("subtract", (group, like(b, 1, group)))
    firsts = _packed(b, u, new, group, order)
    inverse = b("scatter", (_zeros(b, n), order, group), axis=0, reduction="none")
    if not by_value:
        marks = b("scatter", (_zeros(b, n), firsts, _ones(b, u)), axis=0, reduction="none")
        first = b("equal", (marks, like(b, 1, marks)))
        label = b("gather", (_before(b, first), firsts), axis=0)
        inverse = b("gather", (label, inverse), axis=0)
        firsts = _packed(b, u, first, _before(b, first), at)
    counts = b("scatter", (_zeros(b, u), inverse, _ones(b, n)), axis=0, reduction="add")
    return Unique(b("gather", (flat, firsts), axis=0), firsts, inverse, counts)


def _zeros(b: Emit[V], n: Dim) -> V:
    return b("broadcast_to", (scalar(b, 0, DType.I64),), shape=(n,))


def _ones(b: Emit[V], n: Dim) -> V:
    return b("broadcast_to", (scalar(b, 1, DType.I64),), shape=(n,))


def _first(b: Emit[V], mask: V, numbers: V) -> V:
    """Return the first number along the last axis where the mask is true, or ``NOWHERE``."""
    at = b("where", (mask, numbers, scalar(b, NOWHERE, DType.I64)))
    return b("min", (at,), axes=(b.type_of(at).rank - 1,), keepdims=False)


def non_max_suppression(
    b: Builder,
    boxes: Value,
    scores: Value,
    most: int,
    overlap: float,
    least: float | None = None,
    centred: bool = False,
) -> Value:
    """Return rows (batch, class, box) of the selected boxes, best first in each class: i64[u, 3].

    Of boxes [batch, n, 4] and scores [batch, classes, n], again and again the one of the highest
    score is taken, and those that overlap it by more than ``overlap`` (intersection over union)
    are dropped, until ``most`` are taken; a score must exceed ``least``.  A box is two corners, or
    if ``centred`` a centre and the sizes.  As ONNX defines NonMaxSuppression.
    """
    batch, classes, n = scores.type.shape
    if isinstance(n, int):
        most = min(most, n)
    alive = b("greater_equal", (scores, scores))  # a NaN is never taken
    if least is not None:
        alive = b("greater", (scores, like(b, least, scores)))
    captures = [*_edges(b, boxes, centred), scores]
    inner = b.inner()
    state = inner.param("alive", alive.type)
    edges = [inner.param(f"edge{i}", v.type) for i, v in enumerate(captures[:4])]
    chosen = _choose(inner, state, edges, inner.param("scores", scores.type), overlap)
    step = b.add(inner.function("suppress", chosen))
    _, taken, best = b.scan(step, [alive], [], captures, most)
    mask = b("reshape", (_last(b, taken),), shape=(dims.mul(batch, classes, most),))
    at = places(b, mask)
    columns: list[Value] = []
    for axis in range(2):
        shape = (batch, classes, most)
        along = b("iota", (), dtype=DType.I64, shape=shape, axis=axis)
        columns.append(b("gather", (_flat(b, along), at), axis=0))
    columns.append(b("gather", (_flat(b, _last(b, best)), at), axis=0))
    (u,) = at.type.shape
    return b("concat", [b("reshape", (c,), shape=(u, 1)) for c in columns], axis=1)


def _last(b: Builder, x: Value) -> Value:
    return b("permute_dims", (x,), axes=(1, 2, 0))


def _edges(b: Builder, boxes: Value, centred: bool) -> list[Value]:
    """Return the lower and upper ends along both axes, each [batch, n]."""
    batch, n, _ = boxes.type.shape
    columns: list[Value] = []
    for i in range(4):
        ends = ((0, 0, i), (batch, n, i + 1))
        part = b("slice", (boxes,), starts=ends[0], stops=ends[1], steps=(1, 1, 1))
        columns.append(b("reshape", (part,), shape=(batch, n)))
    pairs = [(columns[0], columns[2]), (columns[1], columns[3])]
    if centred:
        halves = [b("multiply", (c, like(b, 0.5, c))) for c in columns[2:]]
        pairs = [
            (b("subtract", (c, h)), b("add", (c, h)))
            for c, h in zip(columns[:2], halves, strict=True)
        ]
    ends_ = [(b("minimum", p), b("maximum", p)) for p in pairs]
    return [ends_[0][0], ends_[0][1], ends_[1][0], ends_[1][1]]


def _choose(
    b: Builder, alive: Value, edges: Sequence[Value], scores: Value, overlap: float
) -> list[Value]:
    """Return the body of one round: the boxes left, whether any was taken, and which."""
    batch, classes, n = scores.type.shape
    ranked = b("where", (alive, scores, like(b, float("-inf"), scores)))
    # Among those alive, even of a score of -inf: the first of the best.
    top = b("equal", (ranked, b("max", (ranked,), axes=(2,), keepdims=True)))
    numbers = b("iota", (), dtype=DType.I64, shape=(1, 1, n), axis=2)
    best = _first(b, b("logical_and", (top, alive)), numbers)
    taken = b("any", (alive,), axes=(2,), keepdims=False)
    mine = [
        b("reshape", (b("gather_elements", (e, best), axis=1),), shape=(batch, classes, 1))
        for e in edges
    ]
    theirs = [b("reshape", (e,), shape=(batch, 1, n)) for e in edges]
    zero = like(b, 0, scores)
    sides: list[Value] = []
    for i in (0, 2):
        low = b("maximum", (mine[i], theirs[i]))
        high = b("minimum", (mine[i + 1], theirs[i + 1]))
        sides.append(b("maximum", (b("subtract", (high, low)), zero)))
    shared = b("multiply", (sides[0], sides[1]))
    areas = [
        b("multiply", (b("subtract", (v[1], v[0])), b("subtract", (v[3], v[2]))))
        for v in (mine, theirs)
    ]
    union = b("subtract", (b("add", (areas[0], areas[1])), shared))
    over = b("greater", (b("divide", (shared, union)), like(b, overlap, scores)))
    itself = b("equal", (numbers, b("reshape", (best,), shape=(batch, classes, 1))))
    gone = b("logical_or", (over, itself))
    left = b("logical_and", (alive, b("logical_not", (gone,))))
    return [left, taken, best]
