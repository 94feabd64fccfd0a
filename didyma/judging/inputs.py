"""Rounds of inputs: sizes, and values of every kind that the contract allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from math import prod

import numpy as np

from didyma.fuzz.values import Distribution
from didyma.judging import layouts
from didyma.judging.task import Task
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, DType
from didyma.rounds import EVERY, PAIRS, Round, Source

RARE = "a special value in a row"
# The greatest or least of a row stands anywhere, far from all others.
PEAK = "a peak in a row"
BELOW = "far below zero"
_NEGATED = 0.5  # of the rows of numbers between zero and one
_LARGER = 2  # times as large as in rounds of ordinary numbers may a size be in others
_ROW = 2  # elements of the shortest rows of which a maximum is told from its elements
# Sums of products of such numbers are small, where those of larger ones leave a range or saturate.
# What is added so that nothing is divided by zero shows in rows that are smaller still, or zero.
NEAR = "near zero"
NEARER = (2.0**-4, 2.0**-14, 0.0)
SPECIAL = {RARE: (np.nan, np.inf, np.nan, -np.inf), PEAK: (200.0, 150.0, 120.0, -200.0)}
_AT_ENDS = 1 / 8  # of the elements of a range
_ENDS = 1 / 3  # of the rows of a range, in ordinary rounds
_SPREADS = (0.0, 2.0**-6, 1.0)  # of a range that was given, from an end of it
# Ordinary numbers, and whole ones whose sums are exact, stand beside each special kind.
_KINDS: tuple[Distribution | str, ...] = (
    Distribution.NORMAL, Distribution.SMALL, RARE, BELOW, Distribution.SPARSE,
    Distribution.UNIT, Distribution.NEUTRAL, PEAK, Distribution.SMALL, Distribution.SCALES,
    "far from zero", EVERY, RARE, PAIRS, NEAR, Distribution.MIXED,
    Distribution.BITS,
)  # fmt: skip
# Maxima that start from 0 and sums of squares that cancel show only far from zero; products of
# inputs are far below it only where the inputs are on both sides.
_SHIFTS = {BELOW: (-200.0, -200.0), "far from zero": (200.0, -200.0)}
ORDINARY = frozenset((Distribution.NORMAL, Distribution.SMALL, Distribution.UNIT, NEAR))


@dataclass(frozen=True, slots=True)
class Case:
    """A round: its number, the sizes, and the kind of the values.

    It may be ``smaller`` than it was drawn, for want of time.
    """

    number: int
    env: Mapping[str, int]
    kind: Distribution | str
    smaller: bool = False

    @property
    def ordinary(self) -> bool:
        """Whether all values are ordinary numbers."""
        return self.kind in ORDINARY

    @property
    def finite(self) -> bool:
        """Whether all values of floats are finite, and none is there to overflow."""
        return self.ordinary or self.kind in (PEAK, *_SHIFTS)

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={n}" for k, n in self.env.items())
        drawn = f" (smaller, for round {self.number + 1})" if self.smaller else ""
        return f"{sizes or 'fixed sizes'}, values: {self.kind!s}{drawn}"


def cases(m: Module, envs: Sequence[Mapping[str, int]]) -> list[Case]:
    """Return a round for each binding of sizes, of which some kinds need large or small ones.

    A part of a row that a kernel leaves out shows by a peak, if rows have so many parts, and
    the choice among equal elements by whole numbers, if one thread has several.  What a thread
    without an element brings to a maximum shows where all are negative, if rows are short.  What
    goes from tile to tile shows by ordinary numbers, if one size after the other is large.
    """
    kinds = [kind for _, kind in zip(envs, cycle(_KINDS), strict=False)]
    rest = set(range(len(envs)))
    for kind in (PEAK, Distribution.SMALL, BELOW):
        if kind in kinds:
            at = kinds.index(kind)
            best = max(rest, key=lambda k: (*_suits(kind, m, envs[k]), k == at, -k))
            kinds[at], kinds[best] = kinds[best], kind
            rest -= {best}
    for name in envs[0] if envs else ():
        usual = [k for k, kind in enumerate(kinds) if kind in ORDINARY]
        least = _LARGER * max((envs[k][name] for k in usual), default=0)
        large = [k for k in rest if envs[k][name] > least]
        if large and (others := rest.intersection(usual)):
            best = max(large, key=lambda k: (envs[k][name], -k))
            at = max(others, key=lambda k: (prod(envs[k].values()), -k))
            kinds[at], kinds[best] = kinds[best], kinds[at]
            rest -= {best}
    return [Case(k, env, kind) for k, (env, kind) in enumerate(zip(envs, kinds, strict=True))]


def cheaper(case: Case, planned: Sequence[Case]) -> list[Case]:
    """Return a round, and others with its values at sizes of planned rounds, none zero or one."""
    large = [c.env for c in planned if min(c.env.values(), default=0) >= _ROW]
    return [case, *(replace(case, env=env, smaller=True) for env in large if env != case.env)]


def _suits(kind: Distribution | str, m: Module, env: Mapping[str, int]) -> tuple[int, ...]:
    """Return how well some sizes suit a kind of values: whether none is too small, then more.

    Where short rows tell most, the more of them the better: of some, nothing may be computed.
    """
    least, product = min(env.values(), default=0), prod(env.values())
    if kind != BELOW:
        return least, product
    rows = [dims.evaluate(p.type.shape[-1], env) for p in m.entry.params if p.type.shape]
    return least >= _ROW, -max(rows, default=0), product


def values(task: Task, case: Case, again: int = 0) -> tuple[Array, ...]:
    """Draw the inputs of a round; ``again`` draws others of the same kind."""
    source = Source(task.spec, case.env, task.draw.seed + 1000 * again)
    shift = _SHIFTS.get(case.kind)
    kind = Distribution.NORMAL if shift or case.kind in (*SPECIAL, NEAR) else case.kind
    known = kind if isinstance(kind, Distribution) else None
    drawn = source.values(Round(case.number, str(kind), known))
    if shift:
        drawn = tuple(_shifted(x, shift[i % 2]) for i, x in enumerate(drawn))
    if case.kind is Distribution.UNIT and drawn:
        of = (task.draw.seed, case.number)
        drawn = (_with_negative_rows(drawn[0], of), *drawn[1:])
    if case.kind == NEAR:
        drawn = tuple(_near_zero(x, (task.draw.seed, case.number, i)) for i, x in enumerate(drawn))
    if case.kind in SPECIAL:
        drawn = tuple(_with_special(x, case.kind, (task.draw.seed, case.number, i))
                      for i, x in enumerate(drawn))  # fmt: skip
    params, extents = task.spec.entry.params, _indexed(task.spec, case.env)
    made = tuple(
        task.contract.promised(
            _ranged(task, p.name, _within(x, extents.get(p.name, 0)), case, (again, i))
        )
        for i, (p, x) in enumerate(zip(params, drawn, strict=True))
    )
    return shared(task, case.env, made)


def shared(task: Task, env: Mapping[str, int], arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Return inputs of which elements that share memory, by their strides, have one value."""
    steps = layouts.strides(task, env)
    return tuple(
        np.ascontiguousarray(layouts.seen(layouts.spread(x, steps[p.name]), x.shape, steps[p.name]))
        if p.name in steps and x.size else x
        for p, x in zip(task.spec.entry.params, arrays, strict=True)
    )  # fmt: skip


def _indexed(m: Module, env: Mapping[str, int]) -> dict[str, int]:
    """Return, for inputs that are indices of an axis, the least extent of such an axis.

    The indices may be the inputs in another dtype or shape.
    """
    types, found = m.entry.types(), dict[str, int]()
    same = ("cast", "reshape", "broadcast_to", "permute_dims")
    whole = {n.results[0]: n.args[0] for n in m.entry.nodes if n.op in same}
    for n in m.entry.nodes:
        if n.op not in ("gather", "gather_elements", "scatter"):
            continue
        name = n.args[1]
        while name in whole:
            name = whole[name]
        axis = n.attr["axis"]
        assert isinstance(axis, int)
        extent = dims.evaluate(types[n.args[0]].shape[axis], env)
        found[name] = min(extent, found.get(name, extent))
    return found


def _within(x: Array, extent: int) -> Array:
    """Return indices inside of an axis: kernels need not count from its end, as NumPy does."""
    return x % np.asarray(extent, x.dtype) if extent > 0 and DType.of(x).is_int else x


def _shifted(x: Array, by: float) -> Array:
    return np.asarray(x.astype(np.float64) + by).astype(x.dtype) if DType.of(x).is_float else x


def _with_negative_rows(x: Array, of: tuple[int, ...]) -> Array:
    """Return an array of which about half of the rows are negated, if they are of floats."""
    if not DType.of(x).is_float or not x.size:
        return x
    rows = x.reshape(-1, x.shape[-1] if x.ndim else 1)
    chosen = np.random.default_rng(of).random((len(rows), 1)) < _NEGATED
    return np.asarray(np.where(chosen & (len(rows) > 1), -rows, rows)).reshape(x.shape)


def _near_zero(x: Array, of: tuple[int, ...]) -> Array:
    """Return an array of floats whose rows are scaled; one row alone is not made zero."""
    if not DType.of(x).is_float or not x.size:
        return x
    rows = x.reshape(-1, x.shape[-1] if x.ndim else 1)
    scales = np.array(NEARER[:1] if len(rows) == 1 else NEARER)
    chosen = np.random.default_rng(of).choice(scales, (len(rows), 1))
    return np.asarray(rows * chosen.astype(x.dtype)).reshape(x.shape)


def _with_special(x: Array, kind: str, of: tuple[int, ...]) -> Array:
    """Return an array of floats in which most rows have one special value somewhere."""
    if not DType.of(x).is_float or not x.size:
        return x
    rng = np.random.default_rng(of)
    rows = x.reshape(-1, x.shape[-1] if x.ndim else 1).copy()
    which = np.flatnonzero(rng.random(len(rows)) < 0.9)
    at = rng.integers(0, rows.shape[1], which.size)
    some = np.array(SPECIAL[kind])[rng.integers(0, 4, which.size)]
    rows[which, at] = some.astype(x.dtype)
    return rows.reshape(x.shape)


def _ranged(task: Task, name: str, x: Array, case: Case, of: tuple[int, ...]) -> Array:
    """Return values in the range that the user gave an input.

    In rounds that are not ordinary, rows of them lie at an end of the range, or near one, and
    some elements of the others do.  Of what has one axis, each element is a row in half of these.
    In ordinary rounds but the first, so do some rows, since ends show what other values hide: a
    slope of zero lets far elements count.
    """
    if name not in task.draw.ranges:
        return x
    low, high = task.draw.ranges[name]
    rng = np.random.default_rng((task.draw.seed, case.number, *of))
    share = rng.random(x.shape)
    if case.ordinary:
        rows = x.shape if x.ndim == 1 else (*x.shape[:-1], 1)
        at_end = (rng.random(rows) < _ENDS) & (case.number > 0)
        share = np.where(at_end, rng.integers(0, 2, rows), share)
    else:
        each = x.ndim == 1 and case.number % 2 == 1
        rows = x.shape if each else (*x.shape[:-1], 1)[: x.ndim]
        end, spread = rng.integers(0, 2, rows), rng.choice(_SPREADS, rows)
        ends, some = rng.integers(0, 2, x.shape), rng.random(x.shape) < _AT_ENDS
        share = end + spread * (np.where(some, ends, share) - end)
    if DType.of(x).is_float:
        return np.asarray(low + (high - low) * share).astype(x.dtype)
    count = int(high) - int(low) + 1
    above = np.minimum(np.floor(share * count), count - 1).astype(np.int64)
    return np.asarray(int(low) + above).astype(x.dtype)
