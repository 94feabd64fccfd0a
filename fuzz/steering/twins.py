"""Values that are nearly the same, or nearly constant: what rewrite rules must tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from didyma.fuzz.steering.opsets import PAIRED
from didyma.fuzz.steering.sketch import Sketch
from didyma.fuzz.values import corners
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import CALL, IF, SCAN, Attr
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS

# Which operands of an op are the same value; an op of two operands reads the first two.
PATTERNS = ("xyx", "xxy", "yxx", "xyy", "xxx", "yxy")
SPOILED = ("padded", "joined", "chosen", "but one")
_RUN_AGAIN = (CALL, IF, SCAN)  # a loop with other bounds might not end
NO_ATTRS: Mapping[str, Attr] = MappingProxyType({})


def twins(s: Sketch, op: str, pattern: str) -> None:
    """Give an op the same value, or nearly the same, as several operands; then its result again."""
    record = OPS[op]
    # Only truth values may be every operand of a choice.
    t = s.type((DType.BOOL,) if op == "where" and s.c.chance(2) else record.dtypes)
    x = s.value(t)
    y = None if x is None else s.value(t) if s.c.chance(2) else beside(s, x, op)
    if x is None or y is None:
        return
    named = {"x": x, "y": y}
    args = [named[k] for k in pattern[: record.arity[0]]]
    if op == "where" and t.dtype is not DType.BOOL:
        condition = s.value(t.with_dtype(DType.BOOL))
        args = [condition or x, *args[1:]]
    made = s.apply(op, args)
    if made is None or s.types()[made] != t:
        return
    for k in range(record.arity[0]):
        if s.c.chance(2):  # the op again on its own result and one of its operands
            s.apply(op, [made if i == k else a for i, a in enumerate(args)])


def exchanged(s: Sketch) -> None:
    """Run the last branch, call or scan again, two operands of one type in each other's places.

    What binds a size is not run again: a size is bound once.
    """
    last = next((n for n in reversed(s.b.nodes) if n.op in _RUN_AGAIN), None)
    if last is None or last.attr.get("binds") or last.attr.get("index"):
        return
    have = s.types()
    places = [
        (i, j)
        for j, b in enumerate(last.args)
        for i, a in enumerate(last.args[:j])
        if a != b and have[a] == have[b]
    ]
    if places:
        i, j = s.c.pick(places)
        args = list(last.args)
        args[i], args[j] = args[j], args[i]
        s.b.emit(last.op, args, last.types, last.attr)


def beside(s: Sketch, x: str, op: str = "") -> str | None:
    """Return a value of the type of a value whose elements are nearly those: shifted, say."""
    t = s.types()[x]
    match s.c.below(5):
        case 0 if t.rank:
            return s.apply("flip", (x,), freeze({"axes": (s.c.below(t.rank),)}))
        case 1 if t.rank:
            return _shifted(s, x, t)
        case 2 if t.rank > 1 and t.shape[-1] == t.shape[-2]:
            axes = (*range(t.rank - 2), t.rank - 1, t.rank - 2)
            return s.apply("permute_dims", (x,), freeze({"axes": axes}))
        case 3 if t.dtype in OPS["negative"].dtypes:
            return s.apply(s.c.pick(("negative", "abs")), (x,))
        case _:
            other = s.value(t)
            ops = [o for o in PAIRED if OPS[o].arity == (2, 2) and t.dtype in OPS[o].dtypes]
            if other is None or not ops:
                return other
            chosen = op if op in ops and s.c.chance(2) else s.c.pick(ops)
            made = s.apply(chosen, s.c.pick(((x, other), (other, x))))
            return made if made is not None and s.types()[made] == t else other


def _shifted(s: Sketch, x: str, t: TensorType) -> str | None:
    """Return a value moved by one place along an axis, with one other element at its end."""
    axis = s.c.below(t.rank)
    size = t.shape[axis]
    if not isinstance(size, int) or size < 2:
        return s.apply("flip", (x,), freeze({"axes": (axis,)}))
    back = s.c.chance(2)
    starts = tuple(int(i == axis and not back) for i in range(t.rank))
    stops = tuple(dims.add(d, -1) if i == axis and back else d for i, d in enumerate(t.shape))
    ones = (1,) * t.rank
    part = s.apply("slice", (x,), freeze({"starts": starts, "stops": stops, "steps": ones}))
    end = s.value(_resized(t, axis, 1))
    if part is None or end is None:
        return part
    return s.apply("concat", (end, part) if back else (part, end), freeze({"axis": axis}))


def spoiled(s: Sketch, value: Array, t: TensorType, form: str) -> str | None:
    """Return a value of a static type that is one constant but for some elements.

    ``form`` says how the other elements come in.  None where the type has no such value.
    """
    long = [a for a, d in enumerate(t.shape) if isinstance(d, int) and d > 1]
    if not long or 0 in t.shape or dims.free(t.shape) or not s.b.fits(t):
        return None
    axis, first = s.c.pick(long), s.c.chance(2)
    less, one = (_resized(t, axis, n) for n in (dims.add(t.shape[axis], -1), 1))
    match form:
        case "padded":
            ends = [tuple(int(i == axis and end) for i in range(t.rank)) for end in (1, 0)]
            low, high = ends if first else ends[::-1]
            args = (_spread(s, value, less), s.value(t.with_shape()))
            return _applied(s, "pad", args, {"low": low, "high": high, "mode": "constant"})
        case "joined":
            args = (_spread(s, value, less), s.value(one))
            return _applied(s, "concat", args if first else args[::-1], {"axis": axis})
        case "chosen":
            args = (_spread(s, value, t), s.value(t))
            condition = s.value(t.with_dtype(DType.BOOL))
            return _applied(s, "where", (condition, *(args if first else args[::-1])))
        case _:  # one element differs in the constant itself, at an end or inside
            full = np.full(dims.values(t.shape, {}), value).astype(t.dtype.numpy)
            some = corners(t.dtype)
            at = s.c.pick((0, -1, full.size // 2, full.size // 2))
            full.flat[at] = some[s.c.below(min(some.size, 20))]
            return s.b.op("constant", (), t, value=Tensor.of(full))


def _resized(t: TensorType, axis: int, size: Dim) -> TensorType:
    return t.with_shape(*t.shape[:axis], size, *t.shape[axis + 1 :])


def _spread(s: Sketch, value: Array, t: TensorType) -> str | None:
    scalar = s.splat(value, t.with_shape())
    return s.apply("broadcast_to", (scalar,), freeze({"shape": t.shape}))


def _applied(
    s: Sketch, op: str, args: Sequence[str | None], attrs: Mapping[str, Attr] = NO_ATTRS
) -> str | None:
    known = [a for a in args if a is not None]
    return s.apply(op, known, freeze(attrs)) if len(known) == len(args) else None
