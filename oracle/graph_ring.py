"""The interpreter of graphs in the ring: each float carries a payload beside its error bar.

The payload of a result is the same in every correct implementation, or UNKNOWN where it hangs on
what the bars leave undecided.

An implementation may compute what hangs on constants alone before the program runs, and write the
rounded number in their place, whose payload is another.  With ``folds``, elementwise ops of
constants therefore yield the payload of the number that IEEE yields, in programs before and after
such a rewrite alike.  The top bit of a payload marks elements that are constants, also infinite
ones and NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from didyma.refimpl.interp.graph import bind
from didyma.refimpl.interp.graph_bars import MOVEMENT, Bars, Estimate, settled_operands
from didyma.refimpl.interp.graph_machine import SizedOp, Step
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS, ring
from didyma.refimpl.ops.bars import Bar, Contract, exact
from didyma.refimpl.ops.ring import UNKNOWN
from didyma.refimpl.ops.spec import Kind, Work

_MARK = np.uint64(1 << 63)
_UNKNOWN_CONSTANT = UNKNOWN - np.uint64(1)  # the mark, and a payload that no number has


@dataclass(frozen=True, slots=True)
class RingEstimate(Estimate):
    """A value with its bar, its payloads (of floats) and, with ``folds``, what IEEE yields."""

    payload: Array = ring.ZERO
    value: Array | None = None

    def unknown(self, *, sure: bool) -> RingEstimate:
        """Return the estimate with every element undecided."""
        bar = Bar(self.bar.c, np.full(self.bar.c.shape, np.inf))
        return replace(self, bar=bar, sure=sure, payload=np.full(bar.c.shape, UNKNOWN))


def payloads(
    f: Function,
    m: Module,
    inputs: Sequence[Array],
    dims: Mapping[str, int] | None = None,
    contract: Contract | None = None,
    *,
    stored: bool = False,
    folds: bool = False,
) -> tuple[RingEstimate, ...]:
    """Return the results of a function, with payloads; arguments and errors as of ``estimates``.

    Payloads of integers and bools are 0.

    >>> from didyma.refimpl.ir.text import parse_module
    >>> m = parse_module(
    ...     "module { func @main(%x: f32[3]) -> (%z) {"
    ...     "  %y = sum(%x, axes=(0,), keepdims=false) : f32[] } }".replace("%z", "%y")
    ... )
    >>> (y,) = payloads(m.entry, m, [np.float32([1e30, 1.0, -1e30])])
    >>> y.bar.c, bool(y.payload == ring.embed(1))
    (array(0.), True)
    """
    env = bind(f, m, inputs, dims)
    machine = _Ring(m, env, contract or Contract(), stored, folds)
    with np.errstate(all="ignore"):
        results = machine.call(f, [_given(np.asarray(a), folds) for a in inputs])
    return tuple(
        replace(r, payload=_unmarked(r.payload), value=None) for r in map(_ringed, results)
    )


def _given(a: Array, folds: bool) -> RingEstimate:
    payload = ring.embed(a) if DType.of(a).is_float else np.zeros(a.shape, np.uint64)
    return RingEstimate(exact(a), payload=np.asarray(payload), value=a if folds else None)


def _ringed(t: Estimate) -> RingEstimate:
    assert isinstance(t, RingEstimate)
    return t


def _constant(p: Array) -> Array:
    return np.asarray(np.where(p == UNKNOWN, _UNKNOWN_CONSTANT, p | _MARK))


def _marked(p: Array) -> Array:
    return np.asarray((p >= _MARK) & (p != UNKNOWN))


def _unmarked(p: Array) -> Array:
    return np.asarray(np.where(p >= _UNKNOWN_CONSTANT, UNKNOWN, p & ~_MARK))


class _Ring(Bars):
    """Runs functions on bars and payloads."""

    def __init__(
        self, m: Module, env: Mapping[str, int], contract: Contract, stored: bool, folds: bool
    ) -> None:
        super().__init__(m, env, contract, stored)
        self.folds = folds

    def apply(self, f: Function, step: Step, args: list[Estimate]) -> Sequence[Estimate]:
        (out,) = super().apply(f, step, args)
        given = [_ringed(t) for t in args]
        use = step.sized(self.env)
        value = None
        if self.folds:
            value = use.op.view([t.value for t in given if t.value is not None], use.type)
        payload = self.payload(f, step, given, out.bar)
        found = RingEstimate(out.bar, out.sure, payload, value, reach=out.reach)
        if self.folds and not _chooses(step):
            found = replace(found, payload=_folded(step, use, given, found))
        return (found if out.sure else found.unknown(sure=False),)

    def payload(self, f: Function, step: Step, args: Sequence[RingEstimate], out: Bar) -> Array:
        """Return the payloads of the result of an op; those of constants are marked if it moves."""
        use = step.sized(self.env)
        raw = [t.payload for t in args]
        moves = self.folds and bool(raw) and _chooses(step)
        if not use.type.dtype.is_float and not moves:
            return np.full(out.c.shape, _MARK if step.node.op == "constant" else ring.ZERO)
        if self.folds and not moves:
            raw = [_unmarked(p) for p in raw]
        types = self.operands(f, step, args)
        bars = settled_operands(step.node, [t.bar for t in args], types)
        found = use.op.ring(bars, raw, types, use.type, out)
        return _constant(found) if self.folds and step.node.op == "constant" else found

    def take(self, value: Estimate, i: int) -> Estimate:
        t = _ringed(super().take(value, i))
        slice_ = None if t.value is None else np.asarray(t.value[i, ...])
        return replace(t, payload=t.payload[i, ...], value=slice_)

    def stack(self, slices: Sequence[Estimate], t: TensorType) -> Estimate:
        whole = super().stack(slices, t)
        payload = np.zeros(whole.bar.c.shape, np.uint64)
        value = np.zeros(whole.bar.c.shape, t.dtype.numpy) if self.folds else None
        for i, s in enumerate(map(_ringed, slices)):
            payload[i] = s.payload
            if value is not None:
                value[i] = s.value
        return RingEstimate(whole.bar, whole.sure, payload, value)


def _chooses(step: Step) -> bool:
    """Return whether each element of a node's result is one of its operands'."""
    op = OPS[step.node.op]
    return op.name == "where" or (op.kind in MOVEMENT and op.work is not Work.ROUNDS)


def _folded(step: Step, use: SizedOp, args: Sequence[RingEstimate], out: RingEstimate) -> Array:
    """Give elements that hang on constants alone the payloads of their numbers, and mark them.

    Not those that bars leave open because the sign of NaN, or a NaN cast to an integer, is
    unspecified.
    """
    marks = [_marked(t.payload) for t in args]
    if not all(bool(m.any()) for m in marks):
        return out.payload
    if OPS[step.node.op].kind is Kind.ELEMENTWISE:
        nans = [np.asarray(t.value != t.value) for t in args]
        unspecified = np.logical_or.reduce(np.broadcast_arrays(*nans)) & (out.bar.e > 0)
        known = np.logical_and.reduce(np.broadcast_arrays(*marks)) & ~unspecified
    else:  # sums of floats are not folded
        known = np.asarray(not use.type.dtype.is_float and all(bool(m.all()) for m in marks))
    number = ring.embed(out.value) if use.type.dtype.is_float else ring.ZERO
    return np.asarray(np.where(known, _constant(number), out.payload))
