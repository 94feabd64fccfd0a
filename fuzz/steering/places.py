"""The motif of values that one kernel reads at several places, with guards around them or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np

from didyma.fuzz import values
from didyma.fuzz.steering.company import after, before
from didyma.fuzz.steering.opsets import PAIRED, UNARY
from didyma.fuzz.steering.sketch import Sketch
from didyma.fuzz.steering.sums import let_repeat
from didyma.fuzz.values import Distribution
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import CALL, PRIMITIVE, Attr, Function, Node, Param
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import NUMBERS, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS

BEST, TERMS, COMPARED = "best", "odd terms", "compared"  # kinds whose schedules are rare
_FLOATS = tuple(d for d in OPS["scatter"].dtypes if d.is_float)  # not updated by atomic sums
_REDUCTIONS = next(a.choices for a in OPS["scatter"].attrs if a.name == "reduction")


def places(s: Sketch, kind: str) -> None:
    """Draw a value of which elements at several places meet."""
    KINDS[kind](s)


def _met(s: Sketch, a: str, b: str) -> None:
    """Combine two values, then perhaps the result with one more op."""
    dtype = s.types()[a].dtype
    ops = [o for o in PAIRED if OPS[o].arity == (2, 2) and dtype in OPS[o].dtypes]
    made = s.apply(s.c.pick(ops), s.c.pick(((a, b), (b, a)))) if ops else None
    if made is not None and s.c.chance(3):
        s.on(s.c.pick(UNARY), made)


def _long(s: Sketch, most: int = 3) -> str | None:
    t = s.type(OPS["add"].dtypes, 1, most)
    return s.value(t) if all(isinstance(d, int) and d > 1 for d in t.shape) else None


def _guarded(s: Sketch) -> None:
    """Pad or join one value twice in the same way, with something else beside it each time."""
    x = _long(s)
    if x is None:
        return
    x = before(s, x)[0] if s.c.chance(2) else x
    t = s.types()[x]
    axis = s.c.below(t.rank)
    one = t.with_shape(*(1 + s.c.below(2) if a == axis else d for a, d in enumerate(t.shape)))
    first, made = s.c.chance(2), list[str]()
    ends = tuple(int(a == axis) for a in range(t.rank))
    none = (0,) * t.rank
    low, high = (ends, none) if first else (none, ends)
    for _ in range(2 + s.c.below(2)):
        other = s.value(one)
        if other is None or s.c.chance(2):
            fill = s.value(t.with_shape())
            how = freeze({"low": low, "high": high, "mode": "constant"})
            done = s.apply("pad", (x, fill), how) if fill else None
        else:
            done = s.apply("concat", (other, x) if first else (x, other), freeze({"axis": axis}))
        made += [done] if done else []
    have = s.types()
    alike = [v for v in made if have[v] == have[made[0]]]
    if len(alike) > 1 and s.c.chance(2):  # each behind its own guard, and behind one more
        test = s.value(have[alike[0]].with_dtype(DType.BOOL))
        if test is not None:
            s.apply("where", (test, *s.c.pick((alike[:2], alike[1::-1]))))
    for v in alike[1:]:
        _met(s, alike[0], v)


def _folded(s: Sketch) -> None:
    """Read a fold behind two guards, each of another choice; what it folds is not all in memory."""
    x = _long(s)
    if x is None:
        return
    t, axis = s.types()[x], s.c.below(s.types()[x].rank)
    ends = [tuple(int(end and a == axis) for a in range(t.rank)) for end in (True, False)]
    low, high = ends if s.c.chance(2) else ends[::-1]
    fill = s.value(t.with_shape())
    padded = fill and s.apply(
        "pad", (x, fill), freeze({"low": low, "high": high, "mode": "constant"})
    )
    fold = freeze({"axes": (axis,), "keepdims": s.c.chance(2)})
    y = padded and s.apply(s.c.pick(("sum", "max", "min")), (padded,), fold)
    if not y:
        return
    u, made = s.types()[y], list[str]()
    for _ in range(2):
        test, other = s.value(u.with_dtype(DType.BOOL)), s.value(u)
        sides = (y, other) if s.c.chance(2) else (other, y)
        chosen = test and other and s.apply("where", (test, *(a for a in sides if a)))
        made += [chosen] if chosen else []
    if len(made) == 2:
        _met(s, *made)


def _own(s: Sketch) -> None:
    """Combine a value with one of its elements, or rows: the first, the last, one inside."""
    x = _long(s)
    if x is None:
        return
    t = s.types()[x]
    cut = [s.c.chance(2) for _ in t.shape] if s.c.chance(3) else [True] * t.rank
    sizes = [int(d) for d in t.shape if isinstance(d, int)]
    starts = tuple(
        s.c.pick((0, 0, d - 1, d // 2)) if c else 0 for c, d in zip(cut, sizes, strict=True)
    )
    stops = tuple(a + 1 if c else d for a, c, d in zip(starts, cut, sizes, strict=True))
    how = freeze({"starts": starts, "stops": stops, "steps": (1,) * t.rank})
    part = s.apply("slice", (x,), how)
    if part is not None and s.c.chance(3):
        part = s.on(s.c.pick(UNARY), part) or part
    if part is not None and s.types()[part].dtype == t.dtype:
        _met(s, x, part)


def _scattered(
    s: Sketch,
    some: Sequence[int] = (3, 5, 40, 1),
    rests: Sequence[tuple[int, ...]] = ((), (2,), (8,)),
) -> None:
    """Scatter updates to few places, so that several meet, and the first alone at some.

    Few updates are looked at by each element, and many are sorted: the last are of whole rows.
    """
    many, rest = s.c.pick(some), s.c.pick(rests)
    dtype = s.c.pick(_FLOATS if many > 5 and s.c.below(3) else OPS["scatter"].dtypes)
    size = s.c.pick((2, 4, 7, 8))
    x = _target(s, TensorType(dtype, (size, *rest)))
    new = s.param(TensorType(dtype, (many, *rest)))
    line = (1,) * len(rest) if many > 5 or s.c.chance(2) else rest
    at = s.param(TensorType(s.c.pick((DType.I64, DType.I32)), (many, *line)))
    if x is None or new is None or at is None:
        return
    _aim(s, at, size)
    if rest and s.c.chance(4):  # one number for each row
        one = s.param(TensorType(dtype, (many, *(1,) * len(rest))))
        new = (one and s.apply("broadcast_to", (one,), freeze({"shape": (many, *rest)}))) or new
    at = at if line == rest else s.apply("broadcast_to", (at,), freeze({"shape": (many, *rest)}))
    if at is None:
        return
    how = s.c.pick(("none", *[s.c.pick(_REDUCTIONS)] * (3 if many > 5 else 1)))
    how = how if dtype in NUMBERS else "none"
    new, beside = before(s, new, (0,)) if s.c.chance(2) else (new, None)
    x = before(s, x)[0] if s.c.chance(3) else x
    made = s.apply("scatter", (x, at, new), freeze({"axis": 0, "reduction": how}))
    if made is not None:
        after(s, made, beside)


def _target(s: Sketch, t: TensorType) -> str | None:
    """Return what is updated, at times of numbers to which nothing may be added, as -0."""
    x = s.param(t) if t.dtype.is_float and s.c.chance(3) else None
    if x is None:
        return s.value(t)
    shape = tuple(int(d) for d in t.shape if isinstance(d, int))
    drawn = values.array(s.c.below(2**16), t.dtype, shape, None, Distribution.NEUTRAL)
    s.given[x] = Tensor.of(drawn)
    return x


def _aim(s: Sketch, at: str, size: int) -> None:
    """Let indices point at elements of an axis, some from its end or beyond either, or none."""
    first = s.c.pick((0, -1, -size - 1))
    last = size + s.c.below(2)
    t = s.types()[at]
    shape = tuple(int(d) for d in t.shape if isinstance(d, int))
    drawn = values.array(s.c.below(2**16), DType.I64, shape, None, Distribution.BITS)
    s.given[at] = Tensor.of((drawn % (last - first) + first).astype(t.dtype.numpy))


def _gathered(s: Sketch) -> None:
    """Scatter few updates inside a kernel, which computes on: each element looks for its own.

    Where one update alone meets an element it is the first of them, the last, or one between.
    """
    dtype = s.c.pick(OPS["scatter"].dtypes)
    many, size = s.c.pick((1, 2, 3, 5)), s.c.pick((2, 3, 4))
    t = TensorType(dtype, (size,))
    x, new = _target(s, t), s.param(t.with_shape(many))
    at = s.param(TensorType(s.c.pick((DType.I64, DType.I32)), (many,)))
    after = [op for op in UNARY if dtype in OPS[op].dtypes and not OPS[op].attrs]
    if x is None or new is None or at is None or not after:
        return
    _aim(s, at, size)
    have = s.types()
    reductions = _REDUCTIONS if dtype in NUMBERS else ("none",)
    how: dict[str, Attr] = {
        "axis": 0,
        "reduction": s.c.pick(("none", "none", s.c.pick(reductions))),
    }
    scatter = Node(("r0",), "scatter", ("a0", "a1", "a2"), (t,), freeze(how))
    last = s.c.pick(after)
    done = OPS[last].infer([t], {})
    params = tuple(Param(f"a{k}", have[v]) for k, v in enumerate((x, at, new)))
    nodes = (scatter, Node(("r1",), last, ("r0",), (done,)))
    f = s.b.function(Function("", params, nodes, ("r1",), ((PRIMITIVE, 1),)), "gathered")
    s.b.controlled = True
    s.b.emit(CALL, (x, at, new), (done,), {"callee": f.name})


def _looked_up(s: Sketch) -> None:
    """Look up rows of a table, of which whole warps of threads, but no even number, take some."""
    rest: tuple[int, ...] = s.c.pick(((), (8,), (4,), (2, 2)))
    many = 32 * s.c.pick((1, 3, 5, 7)) // math.prod(rest)
    size = s.c.pick((5, 7, 40))
    table = s.value(TensorType(s.dtype(OPS["add"].dtypes), (size, *rest)))
    at = s.param(TensorType(s.c.pick((DType.I64, DType.I32)), (many,)))
    if table is None or at is None:
        return
    _aim(s, at, size)
    made = s.apply("gather", (table, at), freeze({"axis": 0}))
    if made is not None:
        after(s, made)


def _short(s: Sketch) -> None:
    """Combine rows, perhaps shorter than vectors, with what all rows or all columns share.

    At times there is one row, read from both ends.
    """
    if s.c.chance(4):
        x = s.param(TensorType(s.dtype(OPS["add"].dtypes), (s.c.pick((130, 72, 33, 255)),)))
        back = x and s.apply("flip", (x,), freeze({"axes": (0,)}))
        if x and back:
            _met(s, x, back)
        return
    names = [dims.symbol(v.name) for v in s.b.dims if v.lo < 4 <= v.hi]
    m: Dim = s.c.pick(names) if names and s.c.below(4) else s.c.pick((1, 2, 3, 5))
    t = TensorType(s.dtype(OPS["add"].dtypes), (s.c.pick((130, 72, 33)), m))
    x = s.param(t)
    y = s.value(s.c.pick((t.with_shape(m), t.with_shape(t.shape[0], 1))))
    if x is not None and y is not None:
        _met(s, x, y)


def _ending(s: Sketch) -> None:
    """Use the first rows of a longer value, or a shorter one that something else goes on behind.

    Rows stand in memory where those of the result stand, as far as there are any.
    """
    rest: tuple[int, ...] = s.c.pick(((), (), (4,), (8,), (3,)))
    first, more = s.c.pick((12, 16, 5, 33)), s.c.pick((4, 8, 3, 20))
    t = TensorType(s.dtype(OPS["add"].dtypes), (first + more, *rest))
    short, ends = t.with_shape(first, *rest), (more, *(0 for _ in rest))
    none = (0,) * t.rank
    made, other = None, s.value(t.with_shape(more, *rest))
    x = s.param(t if (longer := s.c.chance(3)) else short)
    if x is None:
        return
    if longer:
        cut = {"starts": none, "stops": short.shape, "steps": (1,) * t.rank}
        made = s.apply("slice", (x,), freeze(cut))
    elif other is not None and s.c.chance(2):
        made = s.apply("concat", (x, other), freeze({"axis": 0}))
    elif (fill := s.value(t.with_shape())) is not None:
        made = s.apply("pad", (x, fill), freeze({"low": none, "high": ends, "mode": "constant"}))
    beside = None if made is None else s.param(s.types()[made])
    if made is not None and beside is not None:
        _met(s, made, beside)


def _alike(s: Sketch) -> None:
    """Scatter updates that are each one number for a row into rows whose elements differ.

    The resulting rows are used with something else of the same elements.
    """
    size, many, rest = s.c.pick((4, 7)), s.c.pick((3, 5, 40)), s.c.pick((8, 16))
    dtype = s.dtype([d for d in OPS["scatter"].dtypes if d in NUMBERS])
    t = TensorType(dtype, (size, rest))
    x, new = s.param(t), s.param(t.with_shape(many, 1))
    at = s.param(TensorType(s.c.pick((DType.I64, DType.I32)), (many, 1)))
    beside = s.param(t)
    if x is None or new is None or at is None or beside is None:
        return
    _aim(s, at, size)
    whole = freeze({"shape": (many, rest)})
    new, at = s.apply("broadcast_to", (new,), whole), s.apply("broadcast_to", (at,), whole)
    how = freeze({"axis": 0, "reduction": s.c.pick(_REDUCTIONS)})
    made = s.apply("scatter", (x, at, new), how) if new and at else None
    if made is not None:
        _met(s, made, beside)


def _terms(s: Sketch) -> None:
    """Fold long rows that no access of several elements divides, so that blocks may share one."""
    s.changes |= {"kernels.edges": 1, "kernels.vectorise": True}
    op = s.c.pick(("sum", "sum", "max", "argmax", "prod"))
    dtypes = [d for d in OPS[op].dtypes if d in NUMBERS]
    t = TensorType(s.dtype(dtypes), s.c.pick(((3, 259), (2, 1021), (3, 515), (4, 130))))
    x = s.param(t)
    if x is None:
        return
    x, beside = before(s, x, (1,)) if s.c.chance(2) else (x, None)
    how = {"axis": 1} if op.startswith("arg") else {"axes": (1,)}
    made = s.apply(op, (x,), freeze({**how, "keepdims": s.c.chance(2)}))
    if made is not None:
        after(s, made, beside)


def _compared(s: Sketch) -> None:
    """Fold the terms alone whose place equals that of the result, which a comparison says.

    So a scatter is written by hand.  A term may depend on its own number, on the place, or on both,
    and others may change the fold.
    """
    lead = s.c.pick(((), (), (2,)))
    size, many = s.c.pick((3, 8)), s.c.pick((5, 40, 70))
    axis, shape = len(lead), (*lead, size, many)
    op = s.c.pick(("sum", "sum", "max", "min", "prod"))
    t = TensorType(s.dtype([d for d in OPS[op].dtypes if d in NUMBERS]), shape)
    at = s.param(TensorType(DType.I64, (*s.c.pick((lead, (1,) * axis)), 1, many)))
    ends = (t.with_shape(), t.with_shape(size, 1))
    term = s.value(s.c.pick((t.with_shape(many), t.with_shape(many), *ends, t)))
    every = np.array(s.c.pick(_NEUTRAL[op]), np.float64)
    other = s.splat(every, ends[0]) if s.c.below(4) else s.value(s.c.pick(ends))
    if at is None or term is None or other is None:
        return
    _aim(s, at, size)
    place = s.apply("iota", (), freeze({"axis": axis, "dtype": DType.I64, "shape": shape}))
    test = place and s.apply("equal", s.c.pick(((place, at), (at, place))))
    if test and s.c.chance(4):
        more = s.value(TensorType(DType.BOOL, s.c.pick(((many,), (size, 1)))))
        test = (more and s.apply("logical_and", (test, more))) or test
    by = s.value(s.c.pick((ends[1], t.with_shape(many)))) if s.c.chance(3) else None
    term = (by and s.apply("multiply", (term, by))) or term
    met = test and s.apply("where", (test, term, other))
    how = freeze({"axes": (axis + 1,), "keepdims": s.c.chance(3)})
    made = met and s.apply(op, (met,), how)
    if made:
        after(s, made)


# Numbers that change nothing of a fold, or little.
_NEUTRAL: Mapping[str, Sequence[float]] = MappingProxyType(
    {"sum": (0.0, -0.0, 1.0), "prod": (1.0, 0.0), "max": (0.0,), "min": (0.0,)}
)


def _best(s: Sketch) -> None:
    """Find the place of the best term of each row, of terms that all rows compute with one line."""
    rows_, length = s.c.pick(((4, 64), (8, 96), (6, 40), (2, 1020), (3, 260), (16, 128), (4, 260)))
    t = TensorType(DType.F32, (rows_, length))
    x, line = s.param(t), s.param(t.with_shape(s.c.pick((1, 1, rows_)), length))
    if x is None or line is None:
        return
    for v in (x, line):
        if s.c.chance(2):
            let_repeat(s, v)
    both = s.apply(s.c.pick(("add", "subtract", "multiply", "maximum")), (x, line))
    op = s.c.pick(("argmax", "argmin"))
    made = both and s.apply(op, (both,), freeze({"axis": 1, "keepdims": s.c.chance(2)}))
    if made and s.c.chance(2):
        after(s, made)


KINDS: Mapping[str, Callable[[Sketch], None]] = MappingProxyType(
    {
        "short rows": _short,
        "guarded": _guarded,
        "guarded folds": _folded,
        "own elements": _own,
        "scattered": _scattered,
        "scattered rows": partial(_scattered, some=(3, 5), rests=((8,), (16,))),
        "sorted": partial(_scattered, some=(40, 70), rests=((),)),
        "sorted rows": partial(_scattered, some=(40, 70), rests=((8,), (16,))),
        "gathered": _gathered,
        "looked up": _looked_up,
        "ending": _ending,
        "same updates": _alike,
        COMPARED: _compared,
        BEST: _best,
        TERMS: _terms,
    }
)
