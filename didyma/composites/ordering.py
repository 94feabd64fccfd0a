"""Sorting, made of ops: by comparing all pairs of few elements, else by merging.

The order is total: a NaN is greater than every number, zeros are equal whatever their signs, and
among equals the earlier element comes first, in descending order too.
"""

from __future__ import annotations

from didyma.composites.builder import Builder, Value
from didyma.composites.composite import like, scalar
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.types import DType, TensorType

FEW = 1024  # up to so many elements, all pairs are compared in one kernel


def argsort(b: Builder, x: Value, axis: int = -1, descending: bool = False) -> Value:
    """Return the positions (i64, of the shape of ``x``) of the sorted elements along an axis.

    Up to ``FEW`` elements, each one's rank is how many precede it.  More are merged from runs of
    1, 2, 4, ...: an element's rank in two runs is its place in its own, and by bisection the number
    of the other's that precede it (R. Cole, 1988, calls it a cross-rank), n log(n)**2 steps.
    """
    rank = b.type_of(x).rank
    at = axis % rank
    order = (*(i for i in range(rank) if i != at), at)
    rows = x if at == rank - 1 else b("permute_dims", (x,), axes=order)
    if rows.type.dtype is DType.BOOL:
        rows = b("cast", (rows,), dtype=DType.U8)
    shape = rows.type.shape
    flat = b("reshape", (rows,), shape=(dims.mul(*shape[:-1]), shape[-1]))
    find = _by_pairs if b.most(shape[-1]) <= FEW else _by_merging
    found = b("reshape", (find(b, flat, descending),), shape=shape)
    if at == rank - 1:
        return found
    return b("permute_dims", (found,), axes=tuple(order.index(i) for i in range(rank)))


def sort(b: Builder, x: Value, axis: int = -1, descending: bool = False) -> Value:
    """Return the elements along an axis in order."""
    at = axis % b.type_of(x).rank
    return b("gather_elements", (x, argsort(b, x, at, descending)), axis=at)


def top_k(
    b: Builder, x: Value, k: Dim, axis: int = -1, largest: bool = True
) -> tuple[Value, Value]:
    """Return the ``k`` greatest or least elements along an axis, in order, and their positions."""
    t = b.type_of(x)
    at = axis % t.rank
    order = argsort(b, x, at, largest)
    stops = tuple(k if i == at else n for i, n in enumerate(t.shape))
    starts, steps = (0,) * t.rank, (1,) * t.rank
    places = b("slice", (order,), starts=starts, stops=stops, steps=steps)
    return b("gather_elements", (x, places), axis=at), places


def _numbers(b: Builder, rows: Dim, n: Dim) -> Value:
    return b("iota", (), dtype=DType.I64, shape=(rows, n), axis=1)


def _precedes(b: Builder, x: Value, y: Value, descending: bool) -> Value:
    """Return whether ``x`` comes before ``y`` by value."""
    first, second = (y, x) if descending else (x, y)
    less = b("less", (first, second))
    if not x.type.dtype.is_float:
        return less
    number = b("logical_not", (b("isnan", (first,)),))
    return b("logical_or", (less, b("logical_and", (number, b("isnan", (second,))))))


def _by_pairs(b: Builder, x: Value, descending: bool) -> Value:
    rows, n = x.type.shape
    mine = b("reshape", (x,), shape=(rows, n, 1))
    other = b("reshape", (x,), shape=(rows, 1, n))
    here, there = (b("iota", (), dtype=DType.I64, shape=(1, n, n), axis=a) for a in (1, 2))
    behind = _precedes(b, mine, other, descending)
    before = _precedes(b, other, mine, descending)
    # An element is never compared with itself, which within an error bar could not be decided.
    sooner = b("logical_and", (b("less", (there, here)), b("logical_not", (behind,))))
    later = b("logical_and", (b("less", (here, there)), before))
    counted = b("cast", (b("logical_or", (sooner, later)),), dtype=DType.I64)
    places = b("sum", (counted,), axes=(2,), keepdims=False)
    return _moved(b, _numbers(b, rows, n), places)


def _moved(b: Builder, x: Value, places: Value) -> Value:
    """Return ``x`` with each element of a row at its new position."""
    base = b("broadcast_to", (scalar(b, 0, x.type.dtype),), shape=x.type.shape)
    return b("scatter", (base, places, x), axis=1, reduction="none")


def _by_merging(b: Builder, x: Value, descending: bool) -> Value:
    rows, n = x.type.shape
    order, width = _numbers(b, rows, n), scalar(b, 1, DType.I64)
    ones = b("broadcast_to", (width,), shape=(n,))
    end = b("sum", (ones,), axes=(0,), keepdims=False)
    levels = (b.most(n) - 1).bit_length()
    merge = b.add(_merge(b, x.type, order.type, levels, descending))
    ordered, _ = b.scan(merge, [order, width], [], [x, end], levels)
    return ordered


def _merge(
    outer: Builder, keys: TensorType, places: TensorType, steps: int, descending: bool
) -> Function:
    """Return the body of one level, which merges sorted runs of ``width`` elements in pairs."""
    b = outer.inner()
    order, width = b.param("order", places), b.param("width", TensorType(DType.I64, ()))
    x, end = b.param("x", keys), b.param("end", width.type)
    one = like(b, 1, width)
    ordered = b("gather_elements", (x, order), axis=1)
    at = _numbers(b, *places.shape)
    run = b("floor_divide", (at, width))
    odd = b("bitwise_and", (run, one))
    other = b("bitwise_xor", (run, one))

    def start_of(run: Value) -> Value:
        return b("minimum", (b("multiply", (run, width)), end))

    start, stop = start_of(other), start_of(b("add", (other, one)))
    search = b.add(_bisect(b, keys, places, descending))
    second = b("equal", (odd, one))
    found, _ = b.scan(search, [start, stop], [], [ordered, second], steps)
    into = b("subtract", (at, b("multiply", (odd, width))))
    place = b("add", (into, b("subtract", (found, start))))
    return b.function("merge", [_moved(b, order, place), b("add", (width, width))])


def _bisect(outer: Builder, keys: TensorType, places: TensorType, descending: bool) -> Function:
    """Return the body of one bisection step for the position of an element in the other run.

    An element of a pair's second run comes behind its equals in the first.
    """
    b = outer.inner()
    low, high = b.param("low", places), b.param("high", places)
    x, second = b.param("x", keys), b.param("second", places.with_dtype(DType.BOOL))
    middle = b("floor_divide", (b("add", (low, high)), like(b, 2, low)))
    theirs = b("gather_elements", (x, middle), axis=1)
    after = b("logical_not", (_precedes(b, x, theirs, descending),))
    before = _precedes(b, theirs, x, descending)
    further = b("where", (second, after, before))
    more = b("less", (low, high))
    up, down = (b("logical_and", (more, c)) for c in (further, b("logical_not", (further,))))
    beyond = b("add", (middle, like(b, 1, low)))
    return b.function("bisect", [b("where", (up, beyond, low)), b("where", (down, middle, high))])
