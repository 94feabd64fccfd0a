"""Small pieces of graphs, each drawn around what a compiler may do with it.

A motif has axes, such as a producer and a consumer; each element of their product is drawn in
turn.  The axes come from the table of ops, so a new op is covered without a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from didyma.fuzz import control_bytes, control_sizes
from didyma.fuzz.devices import DRAWN
from didyma.fuzz.steering.around_rules import (
    CASTS,
    FOLDED,
    MATCHED,
    SMALL_CASTS,
    again,
    casts,
    constants,
    equals,
    folded,
    matched,
    runs,
)
from didyma.fuzz.steering.company import CROSSED, FORMS, after, before, crossed, products
from didyma.fuzz.steering.cores import KINDS as CORES
from didyma.fuzz.steering.cores import cores
from didyma.fuzz.steering.opsets import (
    CONSTANTS,
    EVERY,
    FOLDS,
    HEAVY,
    MOVES,
    PAIRED,
    ROWS,
    TUNED,
    UNARY,
)
from didyma.fuzz.steering.parts import KINDS as PARTS
from didyma.fuzz.steering.parts import parts
from didyma.fuzz.steering.places import KINDS as PLACES
from didyma.fuzz.steering.places import places
from didyma.fuzz.steering.rows import KINDS as ROW_KINDS
from didyma.fuzz.steering.rows import rows
from didyma.fuzz.steering.runs import chained
from didyma.fuzz.steering.sharing import KINDS as SHARED
from didyma.fuzz.steering.sharing import shared
from didyma.fuzz.steering.sketch import TRIES, Sketch
from didyma.fuzz.steering.structure import KINDS, structure
from didyma.fuzz.steering.sums import AXES as SUMMED
from didyma.fuzz.steering.sums import sums
from didyma.fuzz.steering.twins import PATTERNS, twins
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import ALL, PLAIN, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Op


@dataclass(frozen=True, slots=True)
class Motif:
    """A piece that is drawn for each element of the product of its axes.

    ``draw`` takes a sketch and one element of each axis.  ``weight`` is the number of turns that it
    has in a round.
    """

    name: str
    axes: tuple[Sequence[str], ...]
    draw: Callable[..., None]
    weight: int


def pair(s: Sketch, producer: str, consumer: str) -> None:
    """Let one op read the result of another."""
    backwards = s.c.chance(3)
    for _ in range(TRIES):
        made = _from_consumer(s, producer, consumer) if backwards else None
        if made or _from_producer(s, producer, consumer):
            return


def _from_producer(s: Sketch, producer: str, consumer: str) -> bool:
    first, second = OPS[producer], OPS[consumer]
    t = s.type(first.dtypes)
    sample = s.sampled(producer, t)
    if sample is None:
        return False
    between = s.result(producer, sample.operands, sample.attrs)
    if between is None or not _takes(second, between.dtype):
        return False
    after = s.sampled(consumer, between)
    if after is None or between not in after.operands:
        return False
    made = s.use(producer, sample)
    return made is not None and s.use(consumer, after, made) is not None


def _from_consumer(s: Sketch, producer: str, consumer: str) -> bool:
    """Draw the consumer first, so that any of its operands may come from the producer."""
    sample = s.sampled(consumer, s.type(OPS[consumer].dtypes))
    if sample is None or not sample.operands:
        return False
    wanted = s.c.pick(sample.operands)
    before = s.sampled(producer, wanted) if _takes(OPS[producer], wanted.dtype) else None
    if before is None or s.result(producer, before.operands, before.attrs) != wanted:
        return False
    made = s.use(producer, before)
    return made is not None and s.use(consumer, sample, made) is not None


def _takes(op: Op, dtype: DType) -> bool:
    return not op.arity[0] or dtype in op.dtypes


def fans(s: Sketch, fold: str, other: str) -> None:
    """Let a fold and another op read the same rows, and a third op read both."""
    shared = [d for d in OPS[fold].dtypes if d in OPS[other].dtypes] or list(OPS[fold].dtypes)
    x = s.start(shared, 1, 4)
    if x is None:
        return
    if s.c.chance(2):
        x = s.on(s.c.pick(UNARY), x) or x
    total = s.on(fold, x)
    beside = s.on(other, x)
    if total is None:
        return
    have = s.types()
    again_ = s.near(total) if s.c.chance(3) else None
    if have[total].dtype == have[x].dtype:
        back = _back(s, total, x)
        if back is not None and s.c.chance(2):
            s.on(fold, back)
    if beside is not None and again_ is None and s.c.chance(2):
        s.on(s.c.pick((*PAIRED, *FOLDS)), beside)


def _back(s: Sketch, total: str, x: str) -> str | None:
    """Combine a fold of rows with the rows."""
    have = s.types()
    fitting = [o for o in PAIRED if OPS[o].arity == (2, 2) and have[x].dtype in OPS[o].dtypes]
    pair_ = s.c.pick(((x, total), (total, x)))
    return s.apply(s.c.pick(fitting), pair_) if fitting else None


def moves(s: Sketch, first: str, second: str) -> None:
    """Move elements several times, then compute with them."""
    x = s.start(ALL if s.c.chance(4) else PLAIN, 2, 4)
    if x is None:
        return
    for op in (first, second, *((s.c.pick(MOVES),) if s.c.chance(2) else ())):
        x = s.on(op, x) or x
    if not s.c.chance(3):
        s.first_on((s.c.pick(EVERY), s.c.pick(UNARY), s.c.pick(FOLDS)), x)


def use(s: Sketch, what: str, layout: str) -> None:
    """Draw an op of one dtype on a value in one layout."""
    op, dtype = what.split()
    wanted = DType(dtype)
    for _ in range(TRIES):
        sample = s.sampled(op, s.type((wanted,), 1 if layout else 0, 4))
        if sample is None or not sample.operands:
            continue
        t = s.c.pick(sample.operands)
        made = _laid_out(s, t, layout)
        if made is not None and s.use(op, sample, made) is not None:
            return


def _laid_out(s: Sketch, t: TensorType, layout: str) -> str | None:
    """Return a value of a type whose elements stand in another order, or far apart, in memory."""
    if not layout or not t.rank:
        return s.value(t)
    axis = s.c.below(t.rank)
    ones = (1,) * t.rank
    match layout:
        case "permuted":
            axes = tuple(reversed(range(t.rank)))
            of = s.value(t.with_shape(*reversed(t.shape)))
            named = freeze({"axes": axes})
            return of and s.apply("permute_dims", (of,), named)
        case "strided":
            wide = (*t.shape[:axis], dims.mul(t.shape[axis], 2), *t.shape[axis + 1 :])
            of = s.value(t.with_shape(*wide))
            steps = (*ones[:axis], 2, *ones[axis + 1 :])
            starts = tuple(0 for _ in ones)
            named = freeze({"starts": starts, "stops": wide, "steps": steps})
            return of and s.apply("slice", (of,), named)
        case "offset":
            wide = (*t.shape[:axis], dims.add(t.shape[axis], 1), *t.shape[axis + 1 :])
            of = s.value(t.with_shape(*wide))
            starts = tuple(int(i == axis) for i in range(t.rank))
            named = freeze({"starts": starts, "stops": wide, "steps": ones})
            return of and s.apply("slice", (of,), named)
        case "broadcast":
            narrow = (*t.shape[:axis], 1, *t.shape[axis + 1 :])
            of = s.value(t.with_shape(*narrow))
            return of and s.apply("broadcast_to", (of,), freeze({"shape": t.shape}))
        case "flipped":
            of = s.value(t)
            return of and s.apply("flip", (of,), freeze({"axes": (axis,)}))
        case _:
            of = s.value(t.with_shape(dims.mul(*t.shape)))
            return of and s.apply("reshape", (of,), freeze({"shape": t.shape}))


LAYOUTS = ("", "permuted", "strided", "offset", "broadcast", "flipped", "reshaped")


def controlled(s: Sketch, kind: str) -> None:
    """Draw a branch, a loop, a call or a data-dependent size on a value."""
    x = s.start(PLAIN, 0, 3)
    if x is not None and s.b.fits(s.types()[x]):
        control_sizes.add(s.b, s.c, kind, (x, s.types()[x]))


def carried(s: Sketch, kind: str) -> None:
    """Draw a loop, a branch or a call around whose bytes are whose."""
    x = s.start(PLAIN, 0, 3)
    if x is not None and s.b.fits(s.types()[x]):
        control_bytes.add(s.b, s.c, kind, (x, s.types()[x]))
        if s.c.below(4):
            s.changes |= control_bytes.CHANGES.get(kind, {})


def anything(s: Sketch, _: str) -> None:
    """Draw a node of any op on any value."""
    if not s.b.pool:
        s.start(PLAIN)
    s.b.node(bytes(s.c.below(256) for _ in range(20)))


def chorus(s: Sketch, dtype: str, first: str) -> None:
    """Let several elementwise ops of one dtype read the same operands, full of corners."""
    wanted = DType(dtype)
    ops = [o for o in (*UNARY, *PAIRED) if wanted in OPS[o].dtypes]
    t = TensorType(wanted, s.c.pick(((16, 12), (160,), (5, 3, 16), (7, 31))))
    x, y = s.param(t), s.param(t)
    if x is None or y is None:
        return
    chosen = [ops[(int(first) * CHORUS + k) % len(ops)] for k in range(CHORUS)]
    for op in chosen:
        arity = OPS[op].arity[0]
        args: Sequence[str] = (x, y)[:arity] if arity < 3 else (x, y, y)
        if op == "where":
            cond = s.apply("less", (x, y)) or s.value(t.with_dtype(DType.BOOL))
            args = (cond or x, x, y)
        if OPS[op].attrs:
            s.on(op, x)
        else:
            s.apply(op, args)


def heavy(s: Sketch, what: str, before: str, after: str) -> None:
    """Draw an op that folds, looks up or scatters, with other ops before and after it."""
    op, *choice = what.split()
    record = OPS[op]
    for _ in range(TRIES):
        shape = s.c.pick(ROWS) if s.c.chance(2) else s.shape(2, 4)
        x = s.param(TensorType(s.dtype(record.dtypes), shape))
        if x is None:
            return
        x = _beside(s, before, x) or x
        made = s.on(op, x, dict(c.split("=") for c in choice))
        if made is not None:
            _beside(s, after, made)
            return


def _beside(s: Sketch, kind: str, x: str) -> str | None:
    if kind == "computed":
        return before(s, x)[0]
    if kind == "read":
        after(s, x)
        return None
    ops = {"unary": UNARY, "paired": PAIRED, "move": MOVES, "fold": FOLDS}.get(kind, ())
    return s.first_on((s.c.pick(ops), s.c.pick(ops)), x) if ops else None


CHORUS = 4


def _numbers(n: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(n))


def _motif(name: str, draw: Callable[..., Any], weight: int, *axes: Sequence[str]) -> Motif:
    return Motif(name, axes, draw, weight)


RUNS = (("cumulative_sum", "cumulative_prod"), ("false", "true"), ("false", "true"))
_BEFORE = ("", "unary", "move", "computed", "computed")
_AFTER = ("", "unary", "paired", "move", "fold", "read")
_PLAIN = tuple(str(d) for d in PLAIN)
_USES = tuple(f"{o.name} {d}" for o in DRAWN.values() if o.arity[0] for d in o.dtypes)
RULES = (
    _motif("matched", matched, 8, MATCHED),
    _motif("casts", casts, 4, CASTS),
    _motif("small casts", casts, 1, SMALL_CASTS),
    _motif("runs", runs, 1, *RUNS),
    _motif("folded", folded, 1, (*FOLDED, *["slice"] * 8)),
    _motif("constants", constants, 3, (*PAIRED, "pad", "matmul"), ("0", "1", "2"), CONSTANTS),
    _motif("again", again, 2, TUNED),
    _motif("moves", moves, 3, MOVES, MOVES),
    _motif("equals", equals, 1, PAIRED),
    _motif("twins", twins, 3, (*PAIRED, *["where"] * 4), PATTERNS),
    _motif("unary", pair, 1, UNARY, UNARY),
    _motif("control", controlled, 3, (*control_sizes.KINDS, *control_sizes.BETWEEN)),
    _motif("structure", structure, 3, tuple(KINDS)),
    _motif("rows", rows, 1, FOLDS, FOLDS, (*ROW_KINDS, *["interrupted"] * 3)),
    _motif("cores", cores, 5, (*CORES, "attention")),
    _motif("parts", parts, 1, PARTS),
)
MOTIFS: tuple[Motif, ...] = (
    _motif("pair", pair, 5, EVERY, EVERY),
    _motif("matched", matched, 3, MATCHED),
    _motif("again", again, 1, EVERY),
    _motif("casts", casts, 1, CASTS),
    _motif("small casts", casts, 1, SMALL_CASTS),
    _motif("twins", twins, 1, (*PAIRED, "where"), PATTERNS),
    _motif("constants", constants, 1, (*PAIRED, "pad", "matmul"), ("0", "1", "2"), CONSTANTS),
    _motif("chorus", chorus, 3, _PLAIN, _numbers(len(UNARY + PAIRED) // CHORUS + 1)),
    _motif("fans", fans, 3, FOLDS, EVERY),
    _motif("heavy", heavy, 6, HEAVY, _BEFORE, _AFTER),
    _motif("rows", rows, 4, FOLDS, FOLDS, ROW_KINDS),
    _motif("moves", moves, 2, MOVES, MOVES),
    _motif("use", use, 2, _USES, LAYOUTS),
    _motif("control", controlled, 2, control_sizes.KINDS),
    _motif("carried", carried, 3, control_bytes.KINDS),
    _motif("shared", shared, 2, tuple(SHARED)),
    _motif("places", places, 3, tuple(PLACES)),
    _motif("sums", sums, 3, (*FOLDS, "sum", "sum", "mean"), SUMMED),
    _motif("structure", structure, 1, tuple(KINDS)),
    _motif("crossed", crossed, 1, CROSSED),
    _motif("chained", chained, 1),
    _motif("cores", cores, 1, (*CORES, "attention")),
    _motif("anything", anything, 1, ("",)),
)
_ROW_KINDS = (*ROW_KINDS, *["odd", "once", "swept"] * 2, "picked")
POINTED = (
    _motif("sums", sums, 4, FOLDS, SUMMED),
    _motif("rows", rows, 8, ("max", "mean", "argmax"), ("sum", "max", "argmin"), _ROW_KINDS),
    _motif("places", places, 3, (*PLACES, "short rows", "guarded folds")),
    _motif("runs", runs, 3, *RUNS),
    _motif("heavy", heavy, 3, HEAVY, _BEFORE, _AFTER),
    _motif("moves", moves, 1, MOVES, MOVES),
    _motif("crossed", crossed, 2, CROSSED),
    _motif("products", products, 3, FORMS),
    _motif("fans", fans, 2, FOLDS, EVERY),
    _motif("use", use, 2, _USES, LAYOUTS),
)
ONCE = tuple(replace(m, weight=1) for m in {m.name: m for m in (*MOTIFS, *RULES)}.values())
