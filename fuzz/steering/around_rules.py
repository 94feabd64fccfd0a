"""Motifs around rewrite rules: what a rule looks for, and what nearly is that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from didyma.codegen.rules import rules
from didyma.fuzz.steering.company import after, before
from didyma.fuzz.steering.opsets import CONSTANTS, FORMS, MOVES, PAIRED, ROWS, TUNED, UNARY
from didyma.fuzz.steering.sketch import TRIES, Sketch
from didyma.fuzz.steering.twins import SPOILED, spoiled
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import ALL, PLAIN, Array, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind, Sample

MATCHES = tuple(m for d in rules() for m in d.matches if m.source != "constant")
FOLDED = tuple(dict.fromkeys(m.op for d in rules() for m in d.matches if m.source == "constant"))


def again(s: Sketch, op: str) -> None:
    """Draw an op on its own result and on its operand, each with attributes that differ little."""
    for _ in range(TRIES):
        sample = s.sampled(op, s.type(OPS[op].dtypes, 1 if op in TUNED else 0))
        if sample is None:
            continue
        args = [s.value(t) for t in sample.operands]
        known = [a for a in args if a]
        first = s.apply(op, known, sample.attrs) if len(known) == len(args) else None
        if first is None:
            continue
        twin = s.near(first)
        below = s.on(op, first)
        if below is not None:
            s.near(below)
        if twin is not None and s.c.chance(2):
            _joined(s, first, twin)
        return


def _joined(s: Sketch, a: str, b: str) -> None:
    """Let one op read two values."""
    have = s.types()
    if have[a] == have[b]:
        ops = ("concat", "subtract", "bitwise_xor", "not_equal", "where")
        op = s.c.pick([o for o in ops if have[a].dtype in OPS[o].dtypes] or ["concat"])
        if op == "concat":
            s.apply(op, (a, b), freeze({"axis": 0}))
        elif op == "where":
            cond = s.value(have[a].with_dtype(DType.BOOL))
            if cond is not None:
                s.apply(op, (cond, a, b))
        else:
            s.apply(op, (a, b))


TOGETHER = 3  # dtypes to which one value is converted: what it takes grows less than what it shows


def _chains(among: Sequence[DType], suits: Callable[[DType, DType], bool]) -> Iterator[str]:
    """Yield each dtype with some of those to convert it to, so that every pair is in one."""
    for a in among:
        others = [str(b) for b in among if a != b and suits(a, b)]
        for k in range(0, len(others), TOGETHER):
            yield " ".join((str(a), *others[k : k + TOGETHER]))


def _is_any(a: DType, b: DType) -> bool:
    del a, b
    return True


def _is_small(a: DType, b: DType) -> bool:
    return not (a in PLAIN and b in PLAIN)


CASTS = tuple(_chains(PLAIN, _is_any))
SMALL_CASTS = tuple(_chains(ALL, _is_small))


def casts(s: Sketch, chain: str) -> None:
    """Convert from one dtype to others, and on from each: back, to a wider one, to any."""
    source, *between = map(DType, chain.split())
    x = s.param(TensorType(source, s.shape(1, 2)))
    for via in between if x is not None else ():
        first = None if x is None else _cast(s, x, via)
        if first is None:
            return
        last = None
        for target in dict.fromkeys((source, s.c.pick(_WIDE), s.c.pick(PLAIN))):
            last = _cast(s, first, target) if target != via else last
        if last is not None and s.c.chance(2):
            _cast(s, last, s.c.pick(ALL))


_WIDE = (DType.F64, DType.F32, DType.I64, DType.U64)


def _cast(s: Sketch, x: str, dtype: DType) -> str | None:
    op = "saturating_cast" if s.c.chance(8) else "cast"
    return s.apply(op, (x,), freeze({"dtype": dtype}))


def corner(kind: str, dtype: DType) -> Array | None:
    """Return one value of a dtype by its description; None if the dtype has none."""
    if dtype is DType.BOOL:
        return np.array(kind != "0") if kind in ("0", "1") else None
    if dtype.is_int:
        least, most = dtype.limits
        whole = {
            "0": 0, "1": 1, "-1": -1, "2": 2, "most": most, "least": least, "width": dtype.bits,
            "below width": dtype.bits - 1, "near one": 3, "inexact": 2**24 + 1,
            "nan": most - 1, "inf": 2**53 + 1, "-inf": least + 1, "tiny": -dtype.bits, "half": 7,
        }  # fmt: skip
        value = whole.get(kind)
        return None if value is None or not least <= value <= most else np.array(value)
    numbers = {
        "0": 0.0, "-0": -0.0, "1": 1.0, "-1": -1.0, "2": 2.0, "half": 0.5, "nan": np.nan,
        "inf": np.inf, "-inf": -np.inf, "three tenths": 0.3, "inexact": 2.0**24 + 2,
        "most": 2.0**15, "least": -(2.0**31), "tiny": 1e-40, "near one": 1 + 2.0**-7,
        "width": 2.0**63, "below width": 88.72,
    }  # fmt: skip
    return np.array(numbers[kind])


def constants(s: Sketch, op: str, place: str, kind: str) -> None:
    """Give an op a constant of one value as one of its operands, then others near it."""
    at = min(int(place), OPS[op].arity[1] - 1)
    _with_constant(s, op, at, lambda dtype: corner(kind, dtype))


def _with_constant(
    s: Sketch,
    op: str,
    at: int,
    value_of: Callable[[DType], Array | None],
    dtypes: Sequence[DType] = (),
) -> str | None:
    """Use an op with one constant operand, then at the other side, and with other constants."""
    for _ in range(TRIES):
        sample = s.sampled(op, s.type(dtypes or OPS[op].dtypes))
        if sample is None or at >= len(sample.operands):
            continue
        t = sample.operands[at]
        value = value_of(t.dtype) if t.dtype in PLAIN else None
        if value is None:
            continue
        fixed = _formed(s, value, t, s.c.pick((*FORMS, *SPOILED)))
        args = [fixed if i == at else s.value(u) for i, u in enumerate(sample.operands)]
        known = [a for a in args if a]
        made = s.apply(op, known, sample.attrs) if len(known) == len(args) else None
        if made is None:
            continue
        if len(known) == 2:
            s.apply(op, known[::-1], sample.attrs)
        other = corner(s.c.pick(CONSTANTS), t.dtype)
        if other is not None:
            beside = _formed(s, other, t, s.c.pick((*FORMS, *SPOILED)))
            changed = [beside if i == at else a for i, a in enumerate(known)]
            s.apply(op, changed, sample.attrs)
            if len(known) == 2 and s.c.chance(2):  # two constants, one after the other
                s.apply(op, [made if i != at else beside for i in range(2)], sample.attrs)
        return made
    return None


def _formed(s: Sketch, value: Array, t: TensorType, form: str) -> str:
    """Add a value that is one constant, of a type or of one that broadcasts to it.

    It is that everywhere, or nearly.
    """
    near = spoiled(s, value, t, form) if form in SPOILED else None
    if near is not None:
        return near
    scalar = s.splat(value, t.with_shape())
    symbolic = bool(dims.free(t.shape))
    if (
        form in ("scalar", *SPOILED)
        or (symbolic and form in ("whole", "reshaped"))
        or not s.b.fits(t)
    ):
        return scalar
    if form == "whole":
        return s.splat(value, t)
    if form == "reshaped":
        shape = (1, *t.shape)
        flat = s.splat(value, t.with_shape(*shape))
        return s.apply("reshape", (flat,), freeze({"shape": t.shape})) or scalar
    shape = t.shape if form == "broadcast" else (2, *t.shape)
    return s.apply("broadcast_to", (scalar,), freeze({"shape": shape})) or scalar


def equals(s: Sketch, op: str, dtypes: Sequence[DType] = ()) -> None:
    """Give an op one operand twice, and two operands in both orders."""
    record = OPS[op]
    t = s.type(dtypes or record.dtypes)
    x, y = s.value(t), s.value(t)
    if x is None or y is None:
        return
    if record.arity == (2, 2):
        s.apply(op, (x, y))
        s.apply(op, (y, x))
        s.apply(op, s.c.pick(((x, x), (y, y))))
        inner = s.first_on((s.c.pick(UNARY), "negative", "abs"), x)
        if inner is not None:
            s.apply(op, s.c.pick(((x, inner), (inner, x))))
    elif op == "where":
        condition = s.value(t.with_dtype(DType.BOOL))
        truth = s.splat(np.array(s.c.chance(2)), TensorType(DType.BOOL))
        if condition is not None:
            s.apply(op, (condition, x, x))
            if t.dtype is DType.BOOL:  # a condition may be what it chooses
                s.apply(op, (x, x, y))
                s.apply(op, s.c.pick(((x, y, x), (x, y, condition))))
            s.apply(op, (condition, x, y))
            s.apply(op, (condition, y, x))
            s.apply(op, (s.c.pick((truth, condition)), x, s.c.pick((x, y))))
    else:
        s.apply(op, (x, y, y))
        s.apply(op, (y, x, x))


# Of dtypes: a rule may hold for some alone.
_CLASSES: Mapping[str, Callable[[DType], bool]] = MappingProxyType(
    {
        "signed": lambda d: d.is_int and d.is_signed,
        "unsigned": lambda d: d.is_int and not d.is_signed,
        "float": lambda d: d in (DType.F32, DType.F64),
        "half": lambda d: d in (DType.F16, DType.BF16),
        "bool": lambda d: d is DType.BOOL,
    }
)


def _of_class(op: str, kind: str) -> Sequence[DType]:
    return [d for d in OPS[op].dtypes if d in PLAIN and (not kind or _CLASSES[kind](d))]


def _turns(number: int) -> Sequence[str]:
    """Return what ``matched`` is to draw of a match: with each class of dtypes, or in any thrice.

    Movement is the same for every dtype, and has attributes that differ instead.
    """
    op = OPS[MATCHES[number].op]
    if MATCHES[number].same is not None and op.name == "where":
        return (f"{number} bool", f"{number} bool", str(number))
    if op.kind is not Kind.ELEMENTWISE or op.attrs or MATCHES[number].op == "where":
        return (str(number),) * 3
    return [f"{number} {kind}" for kind in _CLASSES if _of_class(op.name, kind)]


MATCHED = tuple(turn for number in range(len(MATCHES)) for turn in _turns(number))


def matched(s: Sketch, what: str) -> None:
    """Draw what a rewrite rule looks for, a match by number, and what nearly is that."""
    number, _, kind = what.partition(" ")
    m = MATCHES[int(number)]
    dtypes = _of_class(m.op, kind) if kind else OPS[m.op].dtypes
    if m.value is not None:
        value = np.array(m.value)
        known = dtypes if m.op != "where" else ()
        _with_constant(s, m.op, m.operand, lambda d: value if _holds(m.value, d) else None, known)
    elif m.same is not None:
        equals(s, m.op, dtypes)
    elif m.source:
        _twice(s, m.source, m.op, dtypes if kind else OPS[m.source].dtypes)
    elif m.kept:
        _unchanged(s, m.op)
    else:
        shape = s.c.pick(_ONES) if s.c.chance(2) else s.c.pick((s.c.pick(ROWS), s.shape(1, 4)))
        x = s.param(TensorType(s.dtype(OPS[m.op].dtypes), shape))
        made = None if x is None else s.on(m.op, x)
        if x is not None and made is not None:
            s.near(made)
            s.on(m.op, x)


def _holds(value: float | None, dtype: DType) -> bool:
    if value is None or dtype is DType.BOOL:
        return value in (0, 1)
    return dtype.is_float or (dtype.limits[0] <= value <= dtype.limits[1])


def _twice(s: Sketch, inner: str, outer: str, dtypes: Sequence[DType]) -> None:
    """Use one op on the result of another, and both again with attributes that differ little.

    Permutations of two axes are all the same when done twice, so that there are mostly three.
    """
    least = 0 if inner not in TUNED else 2 if s.c.chance(4) else 3
    for _ in range(TRIES):
        x = s.start(dtypes, least, 4)
        first = None if x is None else s.on(inner, x)
        if x is None or first is None:
            continue
        made = s.on(outer, first)
        if made is None:
            continue
        s.near(made)
        twin = s.near(first)
        for again_ in (twin, made):
            if again_ is not None:
                s.on(outer, again_)
        return


# Axes of one element among others: to move them alone moves nothing.
_ONES = ((1, 3, 2), (2, 1, 3), (3, 2, 1), (1, 4, 1, 3), (2, 1, 1, 3), (1, 5), (3, 1, 2, 1))
_EQUAL = ((4, 4), (3, 3, 2), (2, 3, 3), (3, 1, 3), (2, 2, 2), (1, 5, 1))


def _unchanged(s: Sketch, op: str) -> None:
    """Use a movement that keeps its operand's type: it may move nothing, or a little."""
    for _ in range(TRIES):
        t = s.type(OPS[op].dtypes, 1, 3)
        if s.c.chance(2):  # any order of equal axes has the same type; axes of one do not move
            t = t.with_shape(*s.c.pick(s.c.pick((_EQUAL, _ONES))))
        sample = _backwards(s, t) if op == "slice" and s.c.chance(2) else s.sampled(op, t)
        if sample is None or s.result(op, sample.operands, sample.attrs) != t:
            continue
        made = s.use(op, sample)
        if made is not None:
            s.near(made)
            s.on(s.c.pick(UNARY), made)
        return


def _backwards(s: Sketch, t: TensorType) -> Sample:
    """Return a slice that takes every element, some axes from behind."""
    ends = [(dims.add(d, -1), -1, -1) if s.c.chance(2) else (0, d, 1) for d in t.shape]
    starts, stops, steps = zip(*ends, strict=True)
    return Sample((t,), freeze({"starts": starts, "stops": stops, "steps": steps}))


def runs(s: Sketch, op: str, exclusive: str, reverse: str) -> None:
    """Run along an axis that is long enough to go in blocks, the last of which may be short.

    What is run along is at times a cast, which blocks make for themselves, and mostly if it rounds.
    """
    dtype = s.dtype([d for d in OPS[op].dtypes if d in PLAIN])
    rounds = dtype.compute is not dtype
    length = s.c.pick((9, 12, 13, 17, 24, 29, 35, 140, 67))
    shape = s.c.pick(((length,), (length, 3), (2, length), (2, length, 2), (5, 4, length)))
    source = s.dtype(PLAIN) if s.c.chance(1 if rounds else 3) else dtype
    x = s.param(TensorType(source, shape))
    if x is not None and source != dtype:
        x = _cast(s, x, dtype)
    if x is None:
        return
    axis = shape.index(length)
    y, beside = (x, None) if rounds and s.c.chance(2) else before(s, x, (axis,))
    flags = {"exclusive": exclusive == "true", "reverse": reverse == "true"}
    made = s.apply(op, (y,), freeze({"axis": axis, **flags}))
    if made is not None:
        after(s, made, beside)


def _by_symbol(s: Sketch) -> None:
    """Cut a constant at a symbolic size, so that it is no constant."""
    v = s.c.pick(s.b.dims)
    n = dims.symbol(v.name)
    rest: tuple[int, ...] = s.c.pick(((), (3,)))
    size = v.hi + 1
    x = s.constant(TensorType(s.dtype(PLAIN), (size, *rest)))
    some: Sequence[tuple[Dim, Dim]] = (
        (0, n), (n, dims.add(n, 1)), (dims.sub(size, n), size),
    )  # fmt: skip
    ends = s.c.pick(some)
    named: dict[str, Attr] = {
        "starts": (ends[0], *(0 for _ in rest)),
        "stops": (ends[1], *rest),
        "steps": (1, *(1 for _ in rest)),
    }
    made = s.apply("slice", (x,), freeze(named))
    if made is not None:
        s.on(s.c.pick((*UNARY, *PAIRED)), made)


def folded(s: Sketch, op: str) -> None:
    """Use an op on constants alone, then its result with a value that is not known."""
    if op == "slice" and s.b.dims:
        _by_symbol(s)
    for _ in range(TRIES):
        sample = s.sampled(op, s.type(OPS[op].dtypes, 0, 3))
        if sample is None or any(dims.free(t.shape) for t in sample.operands):
            continue
        value = _repeated if s.c.chance(3) else Sketch.constant
        made = s.apply(op, [value(s, t) for t in sample.operands], sample.attrs)
        if made is not None:
            s.on(s.c.pick((*PAIRED, *MOVES)), made)
        return


def _repeated(s: Sketch, t: TensorType) -> str:
    """Add a constant of one element, repeated in the shape of a type."""
    one = s.constant(t.with_shape())
    return s.apply("broadcast_to", (one,), freeze({"shape": t.shape})) or one
