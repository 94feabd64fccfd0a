"""What stands in one kernel with a fold, a run or a movement: what it reads, and what reads it.

A kernel of one op alone shows little of a schedule.  So what the op works on is computed, of values
that are read twice or are the same all along an axis, and what follows reads these again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from didyma.fuzz.steering.opsets import PAIRED, UNARY
from didyma.fuzz.steering.sketch import Sketch
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import OPS

_FACTORS = (4, 8, 2, 3, 16)
VECTOR = 16  # elements of the widest access


def scaled(
    s: Sketch, shape: Sequence[Dim], most: int = 40, axes: Sequence[int] = ()
) -> tuple[Dim, ...]:
    """Return a shape with a symbol in place of one size or two, or a multiple or neighbour of one.

    Multiples are what wide accesses may divide, whatever the symbol is.  It stands on one of some
    ``axes``, if any are given; symbols above ``most`` are left out.
    """
    found = list(shape)
    for v in s.b.dims[: 1 + s.c.below(2)] if shape else ():
        n, at = dims.symbol(v.name), s.c.pick(axes or range(len(found)))
        if s.b.env[v.name] > most:
            continue
        many = dims.mul(n, s.c.pick(_FACTORS))
        less = dims.sub(many, 1) if v.lo else many
        found[at] = s.c.pick((n, many, dims.add(n, 1 + s.c.below(4)), less))
    return tuple(found)


def before(s: Sketch, x: str, axes: Sequence[int] = ()) -> tuple[str, str | None]:
    """Compute a value of the type of ``x`` of it; return it, and one that what follows may read.

    ``axes`` are those that are folded: along these the other value is mostly the same.
    """
    t = s.types()[x]
    match s.c.below(7):
        case 0:
            return x, None
        case 1:
            return _alone(s, x) or x, None
        case 2:  # one value, read at two places
            y = _alone(s, x) or x
            z = _alone(s, y)
            return _both(s, y, z or y) or y, None
        case 3 | 4:
            y = (s.c.chance(3) and _alone(s, x)) or x
            u = _spread(s, t, axes)
            beside = _padded(s, u) if s.c.chance(3) else s.value(u)
            beside = beside and (_alone(s, beside) if s.c.chance(2) else beside)
            made = beside and _both(s, y, beside)
            return made or y, beside
        case 5:
            return _moved(s, x) or x, None
        case _:
            other = s.value(t)
            test = other and s.apply(s.c.pick(("less", "equal", "greater_equal")), (x, other))
            chosen = test and other and s.apply("where", (test, x, _alone(s, other) or other))
            return chosen or x, other


def after(s: Sketch, made: str, beside: str | None = None) -> None:
    """Read a result: with what it was computed of, twice, or into another dtype."""
    match s.c.below(5):
        case 0:
            return
        case 1:
            s.on(s.c.pick(UNARY), made)
        case 2 if beside is not None and s.types()[beside].dtype is s.types()[made].dtype:
            both = _both(s, made, beside)
            if both is not None and s.c.chance(2):
                _both(s, both, beside)
        case 3:
            y = _alone(s, made)
            if y is not None:
                _both(s, made, y)
        case _:
            s.apply("cast", (made,), freeze({"dtype": s.c.pick((DType.F32, DType.I32, DType.F16))}))


def _spread(s: Sketch, t: TensorType, axes: Sequence[int]) -> TensorType:
    """Return the type of a value that is the same along axes of another: those folded, or any."""
    if axes and s.c.below(3):
        return t.with_shape(*(1 if a in axes else d for a, d in enumerate(t.shape)))
    return t.with_shape(*(1 if s.c.chance(2) else d for d in t.shape))


def _padded(s: Sketch, t: TensorType) -> str | None:
    """Return a value of a type whose first or last elements do not stand in memory."""
    long = [a for a, d in enumerate(t.shape) if isinstance(d, int) and d > 1]
    if not long:
        return s.value(t)
    axis, first = s.c.pick(long), s.c.chance(2)
    x = s.value(t.with_shape(*(dims.sub(d, int(a == axis)) for a, d in enumerate(t.shape))))
    x = x and (_alone(s, x) or x)
    fill = s.value(t.with_shape())
    ends = tuple(int(a == axis) for a in range(t.rank))
    low, high = (ends, (0,) * t.rank) if first else ((0,) * t.rank, ends)
    how = freeze({"low": low, "high": high, "mode": "constant"})
    return s.apply("pad", (x, fill), how) if x and fill else None


def _keeping(dtype: DType, ops: Sequence[str], arity: int) -> Iterator[str]:
    """Yield the ops that make of values of a dtype others of that dtype."""
    t = TensorType(dtype, (2,))
    for op in ops:
        record = OPS[op]
        fits = record.arity == (arity, arity) and dtype in record.dtypes and not record.attrs
        if fits and record.infer([t] * arity, {}) == t:
            yield op


def _alone(s: Sketch, x: str) -> str | None:
    some = tuple(_keeping(s.types()[x].dtype, UNARY, 1))
    return s.apply(s.c.pick(some), (x,)) if some else None


def _both(s: Sketch, x: str, y: str) -> str | None:
    some = tuple(_keeping(s.types()[x].dtype, PAIRED, 2))
    pair = (x, y) if s.c.below(3) else (y, x)
    return s.apply(s.c.pick(some), pair) if some else None


def _moved(s: Sketch, x: str) -> str | None:
    """Return a value of the type of ``x`` whose elements lie elsewhere in memory."""
    t = s.types()[x]
    if not t.rank:
        return None
    axis = s.c.pick((t.rank - 1, s.c.below(t.rank)))
    match s.c.below(3):
        case 0:
            return s.apply("flip", (x,), freeze({"axes": (axis,)}))
        case 1:
            turned = tuple(reversed(range(t.rank)))
            y = s.value(t.with_shape(*(t.shape[a] for a in turned)))
            return y and s.apply("permute_dims", (y,), freeze({"axes": turned}))
        case _:
            first, more = s.c.pick(((1 + s.c.below(4), 5), (0, VECTOR), (VECTOR, VECTOR)))
            long = tuple(dims.add(d, more) if a == axis else d for a, d in enumerate(t.shape))
            y = s.value(t.with_shape(*long))
            starts = tuple(first if a == axis else 0 for a in range(t.rank))
            stops = tuple(dims.add(a, d) for a, d in zip(starts, t.shape, strict=True))
            how = {"starts": starts, "stops": stops, "steps": (1,) * t.rank}
            return y and s.apply("slice", (y,), freeze(how))


_CROSSED: tuple[tuple[int, ...], ...] = (
    (32, 64), (64, 32), (36, 40), (33, 64), (48, 36), (2, 32, 32), (40, 8), (8, 72), (32, 3, 16),
    (67, 24), (4, 64), (17, 18),
)  # fmt: skip


def crossed(s: Sketch, form: str) -> None:
    """Read a matrix across, some of it along, too: what tiles of shared memory are for."""
    shape = s.c.pick(_CROSSED)
    t = TensorType(s.dtype([d for d in OPS["add"].dtypes if not d.is_packed]), shape)
    t = t.with_shape(*scaled(s, shape, 8)) if form == "symbolic" else t
    x = _part(s, t) if form == "part" else s.param(t)
    if x is None:
        return
    axes = (*range(t.rank - 2), t.rank - 1, t.rank - 2)
    axes = tuple(reversed(range(t.rank))) if s.c.chance(3) else axes
    x = before(s, x)[0] if form == "computed" else x
    if form == "twice":
        both = _twice(s, x, axes)
        after(s, both) if both else None
        return
    y = s.apply("permute_dims", (x,), freeze({"axes": axes}))
    if y is None:
        return
    u = s.types()[y]
    other = s.value(_spread(s, u, ())) if form == "spread" else s.value(u)
    if form != "alone" and other is not None:
        y = _both(s, y, other) or y
    after(s, y, other)
    if s.c.chance(3):
        _alone(s, x)


def _part(s: Sketch, t: TensorType) -> str | None:
    """Return the first or the last elements along each axis of a matrix of whole vectors."""
    sizes = [d for d in t.shape if isinstance(d, int)]
    if len(sizes) < t.rank:
        return None
    wide = [d - d % -VECTOR for d in sizes]
    x, last = s.param(t.with_shape(*wide)), s.c.chance(2)
    starts = tuple((w - d) * last for w, d in zip(wide, sizes, strict=True))
    stops = tuple(a + d for a, d in zip(starts, sizes, strict=True))
    how = {"starts": starts, "stops": stops, "steps": (1,) * t.rank}
    return x and s.apply("slice", (x,), freeze(how))


def _twice(s: Sketch, x: str, axes: tuple[int, ...]) -> str | None:
    """Read a matrix across at two places, of which one stands a few rows or columns further on."""
    t, by = s.types()[x], s.c.pick((4, 1, 8))
    at = s.c.pick((t.rank - 1, t.rank - 2))
    found, ones = list[str](), (1,) * t.rank
    for first in (0, by):
        starts = tuple(first if a == at else 0 for a in range(t.rank))
        stops = tuple(dims.sub(d, by - first) if a == at else d for a, d in enumerate(t.shape))
        part = s.apply("slice", (x,), freeze({"starts": starts, "stops": stops, "steps": ones}))
        turned = part and s.apply("permute_dims", (part,), freeze({"axes": axes}))
        found += [turned] if turned else []
    return _both(s, *found) if len(found) == 2 else None


FORMS = ("alone", "whole", "spread", "computed", "symbolic")
CROSSED = (*FORMS, "twice", "part")


_SIDES = (4, 8, 3, 16, 5, 17, 1, 32, 9, 33, 2, 24, 31, 7)


def products(s: Sketch, form: str) -> None:
    """Multiply matrices that are computed, batches of them, or such as are read across."""
    m, k, n = (s.c.pick(_SIDES) for _ in range(3))
    dtype = s.dtype([d for d in OPS["matmul"].dtypes if not d.is_packed])
    lead: tuple[int, ...] = s.c.pick(((), (), (2,), (3,))) if m * n * k < 4000 else ()
    sizes: tuple[Dim, ...] = (m, k, n)
    if form == "symbolic":
        sizes = scaled(s, sizes, 8)
    m_, k_, n_ = sizes
    x = s.param(TensorType(dtype, (*lead, m_, k_)))
    y = s.value(TensorType(dtype, (*(lead if s.c.chance(2) else ()), k_, n_)))
    if x is None or y is None:
        return
    beside: str | None = None
    if form != "alone":
        x, beside = before(s, x, (len(lead) + 1,))
        y = before(s, y)[0] if s.c.chance(2) else y
    made = s.apply("matmul", (x, y))
    if made is None:
        return
    if form == "spread":
        row = s.value(_spread(s, s.types()[made], (len(lead),)))
        made = (row and _both(s, made, row)) or made
    after(s, made, beside)
