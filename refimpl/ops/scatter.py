"""Scatter: updates replace elements selected by index, or are combined with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np

from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import BYTES, NUMBERS, Array, DType, TensorType
from didyma.refimpl.ops import ring
from didyma.refimpl.ops.attributes import attributes, choice, integer
from didyma.refimpl.ops.bar_sums import fold
from didyma.refimpl.ops.bars import BITS, LEAST, Bar, Contract, as_error, centre_dtype, settle
from didyma.refimpl.ops.choose import pick
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.folds import factors, product_bar
from didyma.refimpl.ops.index import (
    INDICES,
    check_elements,
    check_indices,
    fitting_shape,
    index_domains,
    position,
)
from didyma.refimpl.ops.payloads import where_decided
from didyma.refimpl.ops.ring import UNKNOWN
from didyma.refimpl.ops.rules import dtype_error, shape_error
from didyma.refimpl.ops.spec import (
    Chooser,
    Domains,
    Index,
    Kind,
    Op,
    Read,
    Rules,
    Sample,
    Scatter,
    Use,
)

Reduction: TypeAlias = Literal["none", "add", "mul", "min", "max"]
FoldPayloads: TypeAlias = Callable[[Array, Array], Array]
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)
_UFUNC = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


@attributes
class Put:
    """The axis that indices count along, and how updates are combined with elements."""

    axis: int = integer("axis to place along")
    reduction: Reduction = choice("how an update meets what is there", REDUCTIONS)


def _infer(types: Sequence[TensorType], a: Put) -> TensorType:
    t, indices, updates = types
    check_indices("scatter", types)
    if updates.dtype is not t.dtype:
        raise dtype_error("scatter", types, updates.dtype, (t.dtype,))
    check_elements("scatter", types, a.axis)
    if indices.shape != updates.shape:
        raise shape_error("scatter", types, f"{updates} updates", "an index for each update")
    if a.reduction != "none" and t.dtype not in NUMBERS:
        raise dtype_error("scatter", types, t.dtype, NUMBERS)
    return t


Where = tuple[tuple[Array, ...], Array]


def _where(indices: Array, shape: tuple[int, ...], axis: int) -> Where:
    """Return the targets of the updates in range, in row-major order, and which are in range."""
    n = shape[axis]
    wide = indices.astype(np.int64)
    counts = (wide >= -n) & (wide < n)
    at: list[Array] = [np.asarray(a) for a in np.indices(indices.shape)]
    at[axis] = np.where(wide < 0, wide + n, wide)
    return tuple(a[counts] for a in at), counts


def _combined(x: Array, at: tuple[Array, ...], updates: Array, reduction: Reduction) -> Array:
    out = x.copy()
    if reduction == "none":
        out[at] = updates  # in order: the last one stays
        return out
    _UFUNC[reduction].at(out, at, updates)
    if reduction in ("min", "max") and out.dtype.kind == "f" and bool((out == 0).any()):
        wins = reduction == "max"  # of two zeros the positive one is larger
        winner = (x == 0) & (np.signbit(x) != wins)
        np.logical_or.at(winner, at, (updates == 0) & (np.signbit(updates) != wins))
        zero = np.where(winner == wins, 0.0, -0.0).astype(out.dtype)
        out = np.where(out == 0, zero, out)
    return out


def _eval(args: Sequence[Array], a: Put, result: TensorType) -> Array:
    compute = result.dtype.compute.numpy
    x, indices, updates = args
    at, counts = _where(indices, x.shape, a.axis)
    if a.reduction == "none":
        return _combined(x, at, updates[counts], a.reduction)
    with np.errstate(all="ignore"):
        out = _combined(x.astype(compute), at, updates[counts].astype(compute), a.reduction)
        return out.astype(result.dtype.numpy)


def _bar(args: Sequence[Bar], use: Use[Put], _contract: Contract) -> Bar:
    (x, i, u), axis = args, use.attrs.axis
    at, counts = _where(i.c, x.c.shape, axis)
    updates = Bar(u.c[counts], u.e[counts])
    out = _reduced(x, at, updates, use.attrs.reduction, use.result.dtype)
    if not i.e.any():
        return out
    return Bar(out.c, np.where(_lines(i, x.c.shape, axis), np.inf, out.e))


def _lines(i: Bar, shape: tuple[int, ...], axis: int) -> Array:
    """Return which elements are on a line with an update of unknown place, which may hit any."""
    line = np.zeros(shape, np.bool_)
    places = [np.indices(i.c.shape)[a][i.e > 0] for a in range(len(shape)) if a != axis]
    np.moveaxis(line, axis, -1)[tuple(places)] = True
    return line


def _reduced(x: Bar, at: tuple[Array, ...], u: Bar, reduction: Reduction, dtype: DType) -> Bar:
    if reduction == "none":
        return Bar(_combined(x.c, at, u.c, "none"), _combined(x.e, at, u.e, "none"))
    if reduction in ("min", "max"):
        return _extremes(settle(x, dtype), at, settle(u, dtype), reduction, dtype)
    hit = np.zeros(x.c.shape, np.int64)
    np.add.at(hit, at, 1)
    if not dtype.is_float:
        unsure = _combined((x.e > 0).astype(np.int64), at, (u.e > 0).astype(np.int64), "add")
        e = np.where(unsure > 0, np.inf, 0.0)
        return Bar(_combined(x.c, at, u.c, reduction), e)
    out = _sums(x, at, u, hit, dtype) if reduction == "add" else _products(x, at, u, hit, dtype)
    c = np.where(hit > 0, out.c, x.c).astype(out.c.dtype)
    e = np.where(hit > 0, out.e, x.e)
    if reduction == "add":  # who adds the sum of the updates, which starts at +0, loses a -0
        e = np.where((hit > 0) & (c == 0) & (e == 0), LEAST, e)
    return Bar(c, e)


def _sums(x: Bar, at: tuple[Array, ...], u: Bar, hit: Array, dtype: DType) -> Bar:
    """Return the bar of sums of elements and updates; partial sums may be stored as ``dtype``."""

    def run(a: Array, b: Array) -> Array:
        return _combined(a, at, b, "add")

    size_x, size_u = (np.where(np.isfinite(b.c), np.abs(b.c) + b.e, 0.0) for b in (x, u))
    mass = run(size_x.astype(centre_dtype(dtype)), size_u.astype(centre_dtype(dtype)))
    rough = run(_rough(x), _rough(u))
    c, e = run(x.c, u.c), run(x.e, u.e)
    exact = (e == 0) & (rough == 0) & (mass <= 2.0 ** BITS[dtype])
    most = int(hit.max(initial=0))
    return _stored(fold(c, e, mass, most, 0, dtype, exact), mass, hit, exact, dtype)


_TOP = {DType.F16: 65504.0, DType.BF16: 2.0**127}


def _rough(b: Bar) -> Array:
    return np.asarray((np.rint(b.c) != b.c) & np.isfinite(b.c), np.float64)


def _stored(b: Bar, mass: Array, hit: Array, exact: Array, dtype: DType) -> Bar:
    """Widen a bar by the rounding of all partial results but the last to ``dtype``."""
    if dtype is dtype.compute:
        return b
    unit = 2.0 ** -BITS[dtype]
    smallest = 2.0**-24 if dtype is DType.F16 else 2.0**-133
    steps = np.maximum(hit, 1)
    e = b.e + as_error((steps * unit / (1 - np.minimum(steps * unit, 0.5))) * mass)
    e = np.where(exact, b.e, e + steps * smallest)
    e = np.where(np.isfinite(b.c), e, b.e)
    return Bar(b.c, np.where(np.isfinite(b.c) & (mass >= _TOP[dtype]), np.inf, e))


def _products(x: Bar, at: tuple[Array, ...], u: Bar, hit: Array, dtype: DType) -> Bar:
    """Return the bar of products of elements and updates."""
    joined = Bar(np.concatenate([x.c.ravel(), u.c]), np.concatenate([x.e.ravel(), u.e]))
    split, shape = x.c.size, x.c.shape

    def run(values: Array) -> Array:
        return _combined(values[:split].reshape(shape), at, values[split:], "mul")

    def some(flags: Array) -> Array:
        ints = flags.astype(np.int64)
        return np.asarray(_combined(ints[:split].reshape(shape), at, ints[split:], "max") > 0)

    facts = factors(joined, hit + 1, run, some)
    out = product_bar(_combined(x.c, at, u.c, "mul"), facts, dtype)
    if dtype is dtype.compute:
        return out
    # Partial products may each have been stored as dtype: rounded, lost or overflown.
    unit = 2.0 ** -BITS[dtype]
    smallest = 2.0**-24 if dtype is DType.F16 else 2.0**-133
    steps = np.minimum(hit * unit, 0.5)
    e = out.e + as_error(steps / (1 - steps) * facts.high * 2 + hit * smallest * facts.worst * 2)
    risky = ~facts.special & (facts.worst * 2 >= _TOP[dtype])
    lost = np.isinf(out.c) & (facts.least < smallest)
    e = np.where(np.isfinite(out.c), np.where(risky, np.inf, e), np.where(lost, np.inf, out.e))
    return Bar(out.c, e)


def _extremes(x: Bar, at: tuple[Array, ...], u: Bar, reduction: Reduction, dtype: DType) -> Bar:
    c = _combined(x.c, at, u.c, reduction)
    if not (x.e.any() or u.e.any()):
        return Bar(c, np.zeros(c.shape))
    wide = c.dtype if dtype.is_float else np.dtype(np.longdouble)
    cx, cu = x.c.astype(wide), u.c.astype(wide)
    low = _combined(cx - x.e, at, cu - u.e, reduction)
    high = _combined(cx + x.e, at, cu + u.e, reduction)
    unknown = _combined(x.e == np.inf, at, u.e == np.inf, "max")
    same = low == high
    e = np.where(same, 0.0, as_error(np.fmax(np.abs(high - c), np.abs(c - low))))
    e = np.where(unknown, np.inf, e)
    if dtype.is_float:
        known = ~_combined(x.e > 0, at, u.e > 0, "max")
        e = np.where((c == 0) & (e == 0) & ~known, LEAST, e)
        e = np.where(known, 0.0, e)
        sure = _combined(np.isnan(x.c) & (x.e < np.inf), at, np.isnan(u.c) & (u.e < np.inf), "max")
        e = np.where(sure, 0.0, e)
    return Bar(c, e)


def _ring(bars: Sequence[Bar], payloads: Sequence[Array], use: Use[Put], _out: Bar) -> Array:
    (x, i, u), axis, reduction = bars, use.attrs.axis, use.attrs.reduction
    p, _, q = payloads
    at, counts = _where(i.c, x.c.shape, axis)
    if reduction in ("min", "max"):
        found = _ring_extremes(x, p, at, Bar(u.c[counts], u.e[counts]), q[counts], reduction)
    elif reduction == "none":
        found = _combined(p, at, q[counts], "none")
    else:
        found = _one_by_one(p, at, q[counts], ring.add if reduction == "add" else ring.multiply)
    return where_decided(~_lines(i, x.c.shape, axis), found) if i.e.any() else found


def _one_by_one(p: Array, at: tuple[Array, ...], q: Array, fold: FoldPayloads) -> Array:
    """Combine elements with updates, in rounds in which no two meet."""
    line, places = p.reshape(-1).copy(), np.ravel_multi_index(at, p.shape)
    while places.size:
        targets, first = np.unique(places, return_index=True)
        line[targets] = fold(line[targets], q[first])
        places, q = np.delete(places, first), np.delete(q, first)
    return line.reshape(p.shape)


def _ring_extremes(
    x: Bar, p: Array, at: tuple[Array, ...], u: Bar, q: Array, reduction: Reduction
) -> Array:
    sign = 1 if reduction == "max" else -1
    best = _combined(sign * x.c - x.e, at, sign * u.c - u.e, "max")
    loses, beaten = sign * x.c + x.e < best, sign * u.c + u.e < best[at]
    most = _combined(np.where(loses, ring.ZERO, p), at, np.where(beaten, ring.ZERO, q), "max")
    least = _combined(np.where(loses, UNKNOWN, p), at, np.where(beaten, UNKNOWN, q), "min")
    return where_decided(most == least, most)


def _element(_at: Index, reads: Sequence[Read], use: Use[Put]) -> Scatter:
    axis, reduction = use.attrs.axis, use.attrs.reduction
    n = ex.of_dim(use.result.shape[axis])

    def target(u: Index) -> tuple[Index, Expr]:
        i = position(reads[1](u))
        low = ex.compare("ge", i, ex.sub(ex.ZERO, n))
        counts = ex.all_of([low, ex.compare("lt", i, n)])
        return (*u[:axis], ex.mod(i, n), *u[axis + 1 :]), counts

    extents = tuple(ex.of_dim(d) for d in use.types[2].shape)
    op = "set" if reduction == "none" else reduction
    return Scatter(op, reads[0], extents, target, reads[2])


def _domains(types: Sequence[TensorType], a: Put) -> Domains:
    return index_domains(types, a.axis)


def _sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.rank == 0 or t.dtype not in BYTES:
        return None
    axis = ch.below(t.rank)
    shape = fitting_shape(ch, t, axis)
    reduction = pick(ch, REDUCTIONS) if t.dtype in NUMBERS else "none"
    indices = TensorType(pick(ch, INDICES), shape, t.device)
    named = freeze({"axis": axis, "reduction": reduction})
    return Sample((t, indices, t.with_shape(*shape)), named)


SCATTER = Op(
    name="scatter",
    doc=(
        "The operand with updates put in along ``axis`` by an index each (i32 or i64): "
        "result[a, indices[a, i, b], b] = updates[a, i, b], or combined with it by ``reduction``. "
        "As ScatterElements in ONNX. Off ``axis``, updates are as large as the operand, or "
        "(static sizes) smaller."
    ),
    special=(
        "A negative index counts from the end, once; an update out of range is dropped. With none "
        "the last update in row-major order stays. add and mul follow IEEE and round after each "
        "update, in any order, and add does not set the sign of a zero that an update meets; min "
        "and max give NaN if either is NaN, and -0 is below +0. "
        "Integers wrap. bool and f8 take none alone."
    ),
    kind=Kind.OPAQUE,
    arity=(3, 3),
    dtypes=BYTES,
    rules=Rules(
        Put, infer=_infer, eval=_eval, bar=_bar, element=_element, ring=_ring, domains=_domains
    ),
    sample=_sample,
    example=example(
        [[1, 2, 3], [0, -1, 0, 5], [10, 20, 30, 40]],
        [41, 2, 23],
        (DType.I32, DType.I64, DType.I32),
        axis=0,
        reduction="add",
    ),
)

ALL: tuple[Op, ...] = (SCATTER,)
