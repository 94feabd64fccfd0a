"""What a meter can wish for: pieces of a graph, each with the key that it is meant to cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from didyma.codegen.passes.branches import BRANCH
from didyma.codegen.passes.rows import JOINED as DECISION
from didyma.codegen.passes.sweep import SWEPT
from didyma.codegen.rules import rules as decisions
from didyma.fuzz import control, keys, values
from didyma.fuzz.devices import DRAWN
from didyma.fuzz.keys import PLACES, by_kind, kinds_of
from didyma.fuzz.steering.around_rules import FOLDED, MATCHES, folded, matched
from didyma.fuzz.steering.fitting import fits
from didyma.fuzz.steering.meter import Key, Wish
from didyma.fuzz.steering.motifs import pair, use
from didyma.fuzz.steering.opsets import EVERY
from didyma.fuzz.steering.places import BEST, COMPARED, TERMS, places
from didyma.fuzz.steering.rows import ANNOUNCED, CLUSTERED, KINDS, rows
from didyma.fuzz.steering.runs import chained
from didyma.fuzz.steering.sketch import TRIES, Sketch
from didyma.refimpl.ir.graph import IF, Attr
from didyma.refimpl.ir.types import PLAIN, Array, DType, Tensor
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind

PAIR, READ, USE, VALUE, RULE, FOLD = "pair", "read", "use", "value", "rule", "fold"
CHOSEN, JOINED, PLACED, CHAINED = "branch", "rows", "places", "chained"
# What kernels of some schedules are drawn by.
SCHEDULED: Mapping[Wish, str] = MappingProxyType(
    {
        (JOINED, "max", "sum", "once"): "rows_once",
        (JOINED, "max", "sum", "swept"): "rows_sweep",
        (JOINED, "max", "sum", "odd"): "rows",
        (PLACED, "sorted"): "segments",
        (PLACED, "sorted rows"): "segments_wide",
        (PLACED, "scattered rows"): "seek_wide",
    }
)
# Likewise where kernels are not run on the CPU, where there are no clusters and no block waits.
INTERPRETED: Sequence[Wish] = (
    *SCHEDULED, *((JOINED, "max", "sum", kind) for kind in (CLUSTERED, ANNOUNCED, "picked")),
    (CHAINED,), (PLACED, BEST), (PLACED, TERMS), (PLACED, "same updates"),
    (PLACED, COMPARED),
)  # fmt: skip


def operand(s: Sketch, producer: str, consumer: str, place: str) -> None:
    """Let one operand of an op be the result of another."""
    at, record = int(place), OPS[consumer]
    for _ in range(TRIES):
        sample = s.sampled(consumer, s.type(record.dtypes))
        if sample is None or at >= len(sample.operands):
            continue
        wanted = sample.operands[at]
        before = s.sampled(producer, wanted)
        if before is None or s.result(producer, before.operands, before.attrs) != wanted:
            continue
        made = s.use(producer, before)
        args = [made if i == at else s.value(t) for i, t in enumerate(sample.operands)]
        known = [a for a in args if a]
        if len(known) == len(args) and s.apply(consumer, known, sample.attrs):
            return


def valued(s: Sketch, op: str, kind: str) -> None:
    """Let an op read an input that has some values of a kind among others."""
    dtypes = [d for d in OPS[op].dtypes if d in PLAIN and _number(kind, d) is not None]
    for _ in range(TRIES if dtypes else 0):
        sample = s.sampled(op, s.type(dtypes, 0, 3))
        if sample is None or not sample.operands:
            continue
        t = sample.operands[s.c.below(len(sample.operands))]
        number = _number(kind, t.dtype) if t.dtype in PLAIN else None
        x = None if number is None else s.param(t)
        if x is None or number is None:
            continue
        if all(isinstance(d, int) for d in t.shape):
            shape = tuple(int(d) for d in t.shape if isinstance(d, int))
            array = values.array(s.c.below(2**16), t.dtype, shape)
            array.reshape(-1)[:: 2 + s.c.below(3)] = number
            s.given[x] = Tensor.of(array)
        else:
            s.given[x] = Tensor.of(number)
        s.use(op, sample, x)
        return


def chosen(s: Sketch) -> None:
    """Draw a branch whose condition is a constant."""
    x = s.start(PLAIN, 0, 3)
    if x is None or not s.b.fits(t := s.types()[x]):
        return
    condition = s.b.number(s.c.below(2), DType.BOOL)
    named: dict[str, Attr] = {"binds": ()}
    for side in ("then", "otherwise"):
        f = control.Body(s.b)
        y = f.param(t)
        named[side] = f.function(side, f.chain(s.c, y, t)).name
    s.b.emit(IF, (condition, x), (t,), named)


def _number(kind: str, dtype: DType) -> Array | None:
    """Return the first corner of a dtype that is of a kind; None if there is none."""
    if dtype is DType.BOOL:
        return None
    some = values.corners(dtype)
    of_kind = by_kind(some, dtype).get(kind)
    return None if of_kind is None or not of_kind.any() else np.asarray(some[np.argmax(of_kind)])


DRAWERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        PAIR: pair, READ: operand, USE: use, VALUE: valued, RULE: matched, FOLD: folded,
        CHOSEN: chosen, JOINED: rows, PLACED: places, CHAINED: chained,
    }
)  # fmt: skip
_VALUED = tuple(
    o for o in DRAWN.values()
    if (o.arity[0] and o.kind in (Kind.ELEMENTWISE, Kind.REDUCTION)) or o.name in ("matmul", "pad")
)  # fmt: skip


def _wanted() -> dict[Wish, Key]:
    found: dict[Wish, Key] = {}
    for producer in EVERY:
        for consumer in EVERY:
            if fits(producer, consumer):
                found[PAIR, producer, consumer] = keys.PAIR, producer, consumer
            for place in range(min(OPS[consumer].arity[0], PLACES) * (OPS[consumer].arity[0] > 1)):
                if fits(producer, consumer, place):
                    found[READ, producer, consumer, str(place)] = (
                        keys.OPERAND, producer, f"{consumer} {place}",
                    )  # fmt: skip
    for op in DRAWN.values():
        if op.arity[0]:
            found |= {(USE, f"{op.name} {d}", ""): (keys.DTYPE, op.name, str(d)) for d in op.dtypes}
    numbers = [d for d in PLAIN if d is not DType.BOOL]
    kinds: dict[DType, tuple[str, ...]] = {
        d: tuple(kinds_of(values.corners(d), d)) for d in numbers
    }
    for op in _VALUED:
        found |= {
            (VALUE, op.name, kind): (keys.VALUE, op.name, kind)
            for kind in dict.fromkeys(k for d in op.dtypes for k in kinds.get(d, ()))
        }
    for d in decisions():
        for m in d.matches:
            if m in MATCHES:
                found[RULE, str(MATCHES.index(m))] = keys.MATTERED, d.name
            elif m.op in FOLDED:
                found[FOLD, m.op] = keys.MATTERED, d.name
    found[CHOSEN,] = keys.MATTERED, BRANCH
    found |= {(JOINED, "max", "sum", kind): (keys.MATTERED, DECISION) for kind in KINDS}
    found[JOINED, "mean", "sum", "swept"] = keys.MATTERED, SWEPT
    found |= {wish: (keys.MATTERED, name) for wish, name in SCHEDULED.items()}
    return found


WANTED: Mapping[Wish, Key] = MappingProxyType(_wanted())


def grant(s: Sketch, wish: Wish) -> None:
    """Draw the piece that is wished for; nothing where it turns out not to fit."""
    name, *kind = wish
    DRAWERS[name](s, *kind)
