"""The motif of rows that are folded, used with the result, and folded again.

Softmax and the norms are such programs, and so are their gradients; what is drawn is near to them:
other folds, other ops between them, and at times another fold, axis or shape that keeps kernels
apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from didyma.codegen.options import USUAL
from didyma.fuzz import values
from didyma.fuzz.steering.company import before, scaled
from didyma.fuzz.steering.opsets import PAIRED, UNARY
from didyma.fuzz.steering.sketch import Sketch
from didyma.fuzz.steering.sums import let_repeat
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.types import FLOATS, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS

KINDS = (
    "", "reshaped", "crosswise", "picked", "weighted", "several", "grouped", "interrupted",
    "mirrored", "regrouped", "joined", "odd", "once", "swept",
)  # fmt: skip
CLUSTERED = "clustered"  # a kind for targets with clusters alone
ANNOUNCED = "announced"  # and one for targets of which it is known how many blocks run at once
OPTION = "graph.rows"
_SHAPES: tuple[tuple[Dim, ...], ...] = (
    (5, 7), (3, 40), (2, 3, 5), (6, 6), (4, 2, 3, 5), (3, 130), (1, 9), (9, 1), (70, 4), (4, 0),
    (0, 4), (2, 3, 4, 4), (33, 9), (2, 600), (3, 67),
    (2, 3, 133),
)  # fmt: skip
# What an access of several elements does not divide: rows with edges, of every remainder.
_ODD: tuple[tuple[Dim, ...], ...] = (
    (5, 37), (3, 133), (9, 67), (2, 3, 45), (4, 259), (2, 1031), (6, 21), (3, 42), (7, 70),
)  # fmt: skip
_MANY: tuple[tuple[Dim, ...], ...] = (
    (40, 7), (13, 16), (33, 9), (4, 5, 12), (70, 4), (25, 67), (16, 64), (8, 130), (2, 12, 2, 6),
)  # fmt: skip
# Rows that some threads share evenly, and not so many times over.
_EVEN: tuple[tuple[Dim, ...], ...] = ((3, 96), (5, 48), (2, 160), (1, 768), (2, 640), (3, 384))
# Rows of 8 KiB or more, as the blocks of a cluster share.
_LONG: tuple[tuple[Dim, ...], ...] = ((1, 1031), (1, 1040), (1, 1290), (1, 1536))
# More rows than run at once, so that a block, of a warp or more, may announce those of a later one.
_LATER: tuple[tuple[Dim, ...], ...] = ((300, 20), (270, 22), (280, 3, 7), (560, 9))
_MOST = 6000  # elements of these
_WHOLE = {
    name: USUAL[name]
    for name in ("graph.fuse", "graph.level", "graph.kernel_cost", "graph.outputs")
}
_CENTRES = ("subtract", "subtract", "divide", "multiply")
_STEPS = ("exp", "square", "multiply", "abs", "sqrt", "negative")
_FOLDS = ("mean", "sum", "max")
_LARGEST = ("max", "exp", "sum")
# The last two are none that one pass can do.
_PAIRS = (
    _LARGEST, _LARGEST, ("mean", "square", "sum"), ("mean", "square", "mean"),
    ("max", "exp", "prod"), ("mean", "square", "max"),
)  # fmt: skip
_PACKED = tuple(d for d in OPS["cast"].dtypes if d.is_packed)
SPECIAL = 3  # one of so many arrays has rows of special values


def rows(s: Sketch, first: str, second: str, kind: str) -> None:
    """Draw a fold of rows, what reads it with the rows, another fold, and what reads that."""
    s.changes |= {OPTION: True, "kernels.edges": s.c.pick((1, 4))}
    if kind in ("once", "swept"):
        (_once if kind == "once" else _swept)(s)
        return
    if kind == "picked" and s.c.below(4):
        _picked(s)
        return
    t = _type(s, first, second, kind)
    x = s.param(t)
    if x is None:
        return
    if s.c.chance(SPECIAL):
        _make_special(s, x)
    elif s.c.chance(2) and (first.startswith("arg") or second.startswith("arg")):
        let_repeat(s, x)
    axes = _axes(s, t.rank)
    if kind == "picked":
        axes = (t.rank - 1,)
    if kind == "odd":  # and neighbours in them lie together
        s.changes |= {**_WHOLE, "kernels.edges": 1, "kernels.vectorise": True}
        x, axes = _shifted(s, x), (t.rank - 1,)
    if kind == CLUSTERED:
        s.changes |= {**_WHOLE, "target": SM_90A.name, "kernels.held": s.c.pick((0, 4, 64))}
        axes = (t.rank - 1,)
    elif kind == ANNOUNCED:
        s.changes |= {**_WHOLE, "target": SM_90A.name}
        axes = (t.rank - 1,)
    elif s.c.chance(3):  # a stage computes what it reads
        x = before(s, x, axes)[0]
    y = _used(s, x, _folded(s, first, x, axes, kind))
    if y is not None and s.c.chance(2):
        y = s.on(s.c.pick(_STEPS), y) or y
    if kind == "several" and y is not None:
        y = _used(s, y, _folded(s, s.c.pick((first, second)), x, axes, "")) or y
    if y is None or s.types()[y].shape != t.shape:
        return
    if kind == "weighted":
        y = _used(s, y, s.value(TensorType(s.types()[y].dtype, t.shape[-1:]))) or y
    if kind == "mirrored":  # the rows are read at a second place
        y = _used(s, y, s.apply("flip", (x,), freeze({"axes": (s.c.below(t.rank),)}))) or y
    if kind == "joined":  # some rows read one operand, others another
        y = _used(s, y, _joined(s, y, axes)) or y
    if kind == "interrupted":
        y = _interrupted(s, x, y, axes) or y
    if kind == "regrouped":  # the result has the rows in another shape
        if s.c.chance(2):
            y = _used(s, y, _folded(s, second, s.c.pick((x, y)), axes, "")) or y
        z = _reshaped(s, y)
        if z is not None:
            s.on(s.c.pick(UNARY), z)
        return
    if kind == "grouped":
        y = _reshaped(s, y) or y
    if s.c.chance(12):
        axes = _axes(s, s.types()[y].rank)
    last = _used(s, s.c.pick((x, y, y)), _folded(s, second, y, axes, kind))
    if kind == "picked":
        _pick(s, last or y, axes)
    elif last is not None and s.c.chance(12):
        s.apply("cast", (last,), freeze({"dtype": s.c.pick(_PACKED)}))
    elif last is not None and s.c.chance(3):
        s.on(s.c.pick(UNARY), last)


def _type(s: Sketch, first: str, second: str, kind: str) -> TensorType:
    """Draw the type of rows that two folds can fold."""
    if kind == CLUSTERED:
        return TensorType(s.c.pick((DType.F64, DType.I64)), s.c.pick(_LONG))
    shared = [d for d in OPS[first].dtypes if d in OPS[second].dtypes]
    if kind == ANNOUNCED:
        s.b.most_elements = _MOST
        return TensorType(s.dtype((*FLOATS, DType.I32)), s.c.pick(_LATER))
    shape = _of(s, _ODD if kind == "odd" else (*_SHAPES, *_EVEN[:3]))
    if kind == "odd" and s.b.dims and s.c.chance(2):  # rows may end before their first access
        shape = (s.c.pick((5, 9, 3)), dims.symbol(s.c.pick(s.b.dims).name))
    return TensorType(s.dtype(shared or OPS[first].dtypes), shape)


def _once(s: Sketch) -> None:
    """Draw a softmax's sum or a variance of rows that no thread holds, in one pass or in two."""
    s.changes |= {**_WHOLE, "kernels.held": 0, "kernels.online": s.c.pick((1, 2, 4, 8))}
    if s.c.below(4):  # no one pass does for rows with edges
        s.changes |= {"kernels.edges": USUAL["kernels.edges"]}
    first, step, second = s.c.pick(_PAIRS)
    t = TensorType(s.dtype(FLOATS), _of(s, s.c.pick((_SHAPES, _EVEN, _EVEN))))
    x = s.param(t)
    if x is None:
        return
    if s.c.chance(2):
        _make_special(s, x)
        _begin_empty(s, x)
    else:
        _let_rise(s, x)
    axes = (t.rank - 1,) if s.c.below(3) else _axes(s, t.rank)
    kept = freeze({"axes": axes, "keepdims": True})
    centre = _centre(s, first, x, axes)
    y = None if centre is None else s.apply("subtract", (x, centre))
    if y is not None and step == "square" and s.c.chance(4):  # nearly a square
        other = s.c.pick((x, s.apply("subtract", (x, s.param(t) or x)) or x))
        y = s.apply("multiply", s.c.pick(((y, other), (other, y))))
    elif y is not None:
        y = s.on(step, y)
    total = None if y is None else s.apply(second, (y,), kept)
    if total is not None and s.c.chance(2):
        s.apply(s.c.pick(_CENTRES), (s.c.pick((x, y or x)), total))


def _centre(s: Sketch, first: str, x: str, axes: tuple[int, ...]) -> str | None:
    """Fold rows; at times nearly so: of another array, or with a mean by another count."""
    kept, t = freeze({"axes": axes, "keepdims": True}), s.types()[x]
    of = s.param(t) if s.c.chance(6) else x
    if of is None or first != "mean" or s.c.below(3):
        return None if of is None else s.apply(first, (of,), kept)
    total = s.apply("sum", (of,), kept)
    count = math.prod(d for a in axes if isinstance(d := t.shape[a], int)) + s.c.pick((0, 0, 1))
    by = s.splat(np.array(count), t.with_shape())
    return None if total is None else s.apply("divide", (total, by))


def _picked(s: Sketch) -> None:
    """Draw an element of each row that is picked by an index, and used with two folds of the row.

    Cross entropies are such.
    """
    s.changes |= {**_WHOLE, "kernels.held": USUAL["kernels.held"]}
    t = TensorType(s.dtype((*FLOATS, DType.I32)), _of(s, s.c.pick((_SHAPES[:4], _EVEN, _ODD))))
    x = s.param(t)
    if x is None:
        return
    y, kept = x, freeze({"axes": (t.rank - 1,), "keepdims": True})
    for fold in (s.c.pick(_FOLDS), "sum"):
        terms = s.on(s.c.pick(_STEPS), y) if s.c.chance(2) else y
        total = s.apply(fold, (terms or y,), kept)
        y = y if total is None else s.apply(s.c.pick(_CENTRES), (y, total)) or y
    at = s.value(TensorType(s.c.pick((DType.I64, DType.I32)), (*t.shape[:-1], 1)))
    if at is not None:
        s.apply("gather_elements", (y, at), freeze({"axis": t.rank - 1}))


def _swept(s: Sketch) -> None:
    """Draw what is computed of rows that are folded, and sums across the rows of the same elements.

    Gradients of norms are such: of the input, and of a weight and a bias.
    """
    s.changes |= {**_WHOLE, "kernels.split": 1, "kernels.held": USUAL["kernels.held"]}
    s.changes["kernels.block"] = s.c.pick((32, 32, 256))  # of few threads there are several
    shape = s.c.pick(_MANY)
    shape = scaled(s, shape, 20, (0,)) if s.c.chance(2) else shape  # rows have a known length
    t = TensorType(s.dtype((*FLOATS, DType.I32)), shape)
    x = s.param(t)
    g = s.param(t) if s.c.below(3) else x
    if x is None or g is None:
        return
    axes = (t.rank - 1,) if s.c.below(3) else tuple(range(1 + s.c.below(t.rank - 1), t.rank))
    found = _used(s, x, _folded(s, s.c.pick(_FOLDS), x, axes, ""))
    y = found or x
    if s.c.chance(2):
        y = _used(s, y, _folded(s, s.c.pick(_FOLDS), s.on(s.c.pick(_STEPS), y) or y, axes, "")) or y
    both = s.apply("multiply", (g, y)) or y
    if s.c.chance(2):
        _used(s, both, _folded(s, "sum", both, axes, ""))
    _sweep(s, s.c.pick((both, both, y, x)), axes)
    if s.c.chance(2):
        _sweep(s, s.c.pick((g, y, both)), axes)


def _of(s: Sketch, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """Draw one of some shapes, or one with sizes that are not known."""
    if s.b.dims and s.c.chance(2):
        return s.shape(2, 3) if s.c.chance(2) else scaled(s, s.c.pick(shapes))
    return s.c.pick(shapes)


def _shifted(s: Sketch, x: str) -> str:
    """Return rows, at times each without its first elements, so that they begin elsewhere."""
    t = s.types()[x]
    size = t.shape[-1]
    if not isinstance(size, int) or size < 8 or s.c.below(3):
        return x
    first = 1 + s.c.below(3)
    cut = {"starts": (*(0 for _ in t.shape[1:]), first), "stops": t.shape}
    return s.apply("slice", (x,), freeze({**cut, "steps": (1,) * t.rank})) or x


def _axes(s: Sketch, rank: int) -> tuple[int, ...]:
    """Draw the axes of a fold: mostly the last, else all but one or any."""
    match s.c.below(4):
        case 0 | 1:
            return (rank - 1,)
        case 2:
            kept = s.c.below(rank)
            return tuple(a for a in range(rank) if a != kept)
        case _:
            first = s.c.below(rank)
            return tuple(range(first, rank - s.c.below(rank - first)))


def _folded(s: Sketch, op: str, x: str, axes: tuple[int, ...], kind: str) -> str | None:
    """Fold rows, so that the result can be read with them; "crosswise", at times with others."""
    t = s.types()[x]
    if t.dtype not in OPS[op].dtypes:
        return None
    keeps = kind != "crosswise" and not (kind == "reshaped" or s.c.chance(6))
    named = {"axis": axes[-1]} if op.startswith("arg") else {"axes": axes}
    total = s.apply(op, (x,), freeze({**named, "keepdims": keeps}))
    if total is None or keeps or kind == "crosswise":
        return total
    kept = tuple(1 if a in axes else d for a, d in enumerate(t.shape))
    return s.apply("reshape", (total,), freeze({"shape": kept}))


def _sweep(s: Sketch, x: str, axes: tuple[int, ...]) -> None:
    """Fold elements of rows over all axes but those along which rows run.

    At times no one kernel can do that: it is over some of those axes, or rows read what it is.
    """
    t = s.types()[x]
    outer = tuple(a for a in range(t.rank) if a not in axes)
    if len(outer) > 1 and s.c.chance(6):
        outer = outer[1:]
    op = s.c.pick(("sum", "sum", "max", "prod"))
    if not outer or t.dtype not in OPS[op].dtypes:
        return
    found = s.apply(op, (x,), freeze({"axes": outer, "keepdims": s.c.chance(4)}))
    match s.c.below(8) if found else 7:
        case 0:
            _used(s, x, found)
        case 1 | 2 if found:
            y = s.on(s.c.pick(_STEPS), found)
            if y and s.c.chance(2):
                _folded(s, "sum", y, (s.types()[y].rank - 1,), "")
        case _:
            pass


def _used(s: Sketch, x: str, total: str | None) -> str | None:
    """Combine rows with a value, cast to their dtype."""
    if total is None:
        return None
    dtype = s.types()[x].dtype
    if s.types()[total].dtype != dtype:
        total = s.apply("cast", (total,), freeze({"dtype": dtype}))
    ops = _CENTRES if s.c.chance(2) else PAIRED
    fitting = [o for o in ops if dtype in OPS[o].dtypes and OPS[o].arity == (2, 2)]
    if total is None or not fitting:
        return None
    if s.types()[total].rank == s.types()[x].rank and s.c.chance(8):
        total = s.apply("broadcast_to", (total,), freeze({"shape": s.types()[x].shape})) or total
    pair = (x, total) if s.c.below(3) else (total, x)
    return s.apply(s.c.pick(fitting), pair)


def _interrupted(s: Sketch, x: str, y: str, axes: tuple[int, ...]) -> str | None:
    """Run along rows, which takes a kernel of its own, and read the rows again with that."""
    if s.types()[y].dtype not in OPS["cumulative_sum"].dtypes:
        return None
    how = freeze({"axis": axes[-1], "exclusive": s.c.chance(2), "reverse": s.c.chance(2)})
    return _used(s, x, s.apply("cumulative_sum", (y,), how))


def _joined(s: Sketch, y: str, axes: tuple[int, ...]) -> str | None:
    """Join two operands along an axis of the rows, one of which has one element for each row."""
    t = s.types()[y]
    along = [(a, d) for a, d in enumerate(t.shape) if isinstance(d, int) and d > 1]
    along = [(a, d) for a, d in along if a not in axes]
    if not along:
        return None
    axis, size = s.c.pick(along)
    first, spread = 1 + s.c.below(size - 1), s.c.below(2)
    parts: list[str | None] = []
    for n in (first, size - first):
        whole = t.with_shape(*t.shape[:axis], n, *t.shape[axis + 1 :])
        kept = whole.with_shape(*(1 if a in axes else d for a, d in enumerate(whole.shape)))
        x = s.param(kept if len(parts) == spread else whole)
        x = x and (s.first_on(("negative", "abs"), x) or x)
        if x is not None and s.types()[x] == kept:
            x = s.apply("broadcast_to", (x,), freeze({"shape": whole.shape}))
        parts.append(x)
    known = [x for x in parts if x]
    return s.apply("concat", known, freeze({"axis": axis})) if len(known) == 2 else None


def _reshaped(s: Sketch, y: str) -> str | None:
    """Join or split axes of a value."""
    shape = s.types()[y].shape
    at = s.c.below(len(shape))
    size = shape[at]
    if isinstance(size, int) and size % 2 == 0 and size and s.c.chance(2):
        new = (*shape[:at], 2, size // 2, *shape[at + 1 :])
    else:
        new = (*shape[:at], *(dims.mul(*shape[at : at + 2]),), *shape[at + 2 :])
    made = s.apply("reshape", (y,), freeze({"shape": new}))
    back = None if made is None else s.apply("reshape", (made,), freeze({"shape": shape}))
    return back if s.c.chance(2) else made


def _pick(s: Sketch, y: str, axes: tuple[int, ...]) -> None:
    """Pick an element of each row by an index."""
    axis, shape = axes[-1], s.types()[y].shape
    if axis >= len(shape):
        return
    wide: Dim = 1 if s.c.below(4) else 2
    sizes = [*shape[:axis], wide, *shape[axis + 1 :]]
    if axis and isinstance(first := sizes[0], int) and first > 1 and s.c.chance(4):
        sizes[0] = first - 1  # of some rows
    index = TensorType(s.c.pick((DType.I64, DType.I32)), tuple(sizes))
    at = s.value(index)
    if s.c.chance(3) and s.types()[y].dtype in OPS["argmax"].dtypes:  # it comes of the row itself
        how = freeze({"axis": axis, "keepdims": True})
        at = s.apply(s.c.pick(("argmax", "argmin")), (y,), how) or at
    if at is not None:
        s.apply("gather_elements", (y, at), freeze({"axis": axis}))


def _begin_empty(s: Sketch, x: str) -> None:
    """Let other rows of an array that is given begin with nothing but -inf."""
    if x in s.given and s.given[x].array().size:
        drawn = s.given[x].array().copy()
        drawn.reshape(-1, drawn.shape[-1])[1:-1:2, : drawn.shape[-1] // 2] = -np.inf
        s.given[x] = Tensor.of(drawn)


def _let_rise(s: Sketch, x: str) -> None:
    """Give a static array rows that rise, so that each part of one has another largest element."""
    t = s.types()[x]
    shape = tuple(d for d in t.shape if isinstance(d, int))
    if len(shape) == t.rank:
        drawn = np.linspace(-3, 3, shape[-1]) + np.zeros(shape)
        s.given[x] = Tensor.of(drawn.astype(t.dtype.numpy))


def _make_special(s: Sketch, x: str) -> None:
    """Give a static array rows of one corner each: all NaN, all -inf, all of the largest number."""
    t = s.types()[x]
    shape = tuple(d for d in t.shape if isinstance(d, int))
    some = values.corners(t.dtype)
    if len(shape) < t.rank or not some.size:
        return
    drawn = values.array(s.c.below(2**16), t.dtype, shape)
    flat = drawn.reshape(-1, shape[-1]) if drawn.size else drawn[:0]
    for i in range(0, len(flat), 2):
        flat[i] = some[s.c.below(some.size)]
        if s.c.chance(3):
            flat[i, 0] = some[s.c.below(some.size)]
    if t.dtype.is_float and len(flat):
        flat[-1] = np.array(-np.inf).astype(t.dtype.numpy)
    s.given[x] = Tensor.of(drawn)
