"""Positions of extremes: ``argmin`` and ``argmax``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np

from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import NUMBERS, Array, DType, TensorType
from didyma.refimpl.ops.attributes import attributes, boolean, integer
from didyma.refimpl.ops.bars import Bar, Contract, settle
from didyma.refimpl.ops.choose import flag
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.reduce import reduced, source
from didyma.refimpl.ops.rules import attr_error, check_axis
from didyma.refimpl.ops.spec import Chooser, Fold, Index, Kind, Op, Read, Rules, Sample, Use

_Name = Literal["argmin", "argmax"]


@attributes
class Search:
    """The axis to search, and whether the result has it."""

    axis: int = integer("axis to search")
    keepdims: bool = boolean("keep the searched axis, with size 1")


def _infer(name: _Name, types: Sequence[TensorType], a: Search) -> TensorType:
    (t,) = types
    check_axis(name, a.axis, t.rank)
    if t.shape[a.axis] == 0:
        raise attr_error(name, "axis", a.axis, "an axis with at least one element")
    return reduced(t, (a.axis,), a.keepdims).with_dtype(DType.I64)


def _position(name: _Name, x: Array, a: Search) -> Array:
    if x.shape[a.axis] == 0:
        found = np.zeros((*x.shape[: a.axis], 1, *x.shape[a.axis + 1 :]), np.int64)
        return found if a.keepdims else found.squeeze(a.axis)
    best = np.argmin if name == "argmin" else np.argmax
    return np.asarray(best(x, axis=a.axis, keepdims=a.keepdims)).astype(np.int64)


def _eval(name: _Name, args: Sequence[Array], a: Search, _result: TensorType) -> Array:
    compute = DType.of(args[0]).compute.numpy
    return _position(name, args[0].astype(compute, copy=False), a)


def _bar(name: _Name, args: Sequence[Bar], use: Use[Search], _contract: Contract) -> Bar:
    b = settle(args[0], use.types[0].dtype)
    c = _position(name, b.c, use.attrs)
    if not b.e.any():
        return Bar(c, np.zeros(c.shape))
    return Bar(c, np.where(_decided(name, b, c, use.attrs), 0.0, np.inf))


def _decided(name: _Name, b: Bar, c: Array, a: Search) -> Array:
    """Return where the same element wins for all values inside the bars."""
    at = c if a.keepdims else np.expand_dims(c, a.axis)
    sign = 1 if name == "argmax" else -1
    wide = sign * b.c.astype(np.longdouble)
    winner = np.take_along_axis(wide, at, a.axis)
    error = np.take_along_axis(b.e, at, a.axis)
    shape = tuple(-1 if i == a.axis else 1 for i in range(b.c.ndim))
    place = np.reshape(np.arange(int(b.c.shape[a.axis])), shape)
    worst, best = winner - error, wide + b.e
    exact = (b.e == 0) & (error == 0)
    beaten = (best < worst) | ((best == worst) & (place > at)) | exact | (place == at)
    # A NaN wins over whatever follows, and over what cannot be NaN before it.
    nan_wins = np.isnan(winner) & (error < np.inf) & ((place > at) | (b.e < np.inf))
    return np.asarray(np.all(beaten | nan_wins, axis=a.axis, keepdims=a.keepdims))


def _element(name: _Name, at: Index, reads: Sequence[Read], use: Use[Search]) -> Fold:
    (t,), axis = use.types, use.attrs.axis

    def body(k: Index) -> Expr:
        return reads[0](source(at, k, (axis,), t.rank, use.attrs.keepdims))

    return Fold(name, (ex.of_dim(t.shape[axis]),), body)


def _sample(ch: Chooser, t: TensorType) -> Sample | None:
    live = [a for a, n in enumerate(t.shape) if n != 0]
    if t.dtype not in NUMBERS or not live:
        return None
    axis = live[-1 - ch.below(len(live))]
    return Sample((t,), freeze({"axis": axis, "keepdims": flag(ch)}))


def _search(name: _Name, doc: str, answer: int) -> Op:
    return Op(
        name=name,
        doc=doc,
        special=(
            "The first of equals; zeros of both signs are equal. If there is a NaN, the first NaN. "
            "A statically empty axis is an error; one that is found empty in the run gives 0."
        ),
        kind=Kind.REDUCTION,
        dtypes=NUMBERS,
        rules=Rules(
            Search,
            partial(_infer, name),
            partial(_eval, name),
            partial(_bar, name),
            partial(_element, name),
        ),
        sample=_sample,
        example=example([[3, 1, 4, 1, 4]], answer, DType.I32, DType.I64, axis=0, keepdims=False),
    )


ALL: tuple[Op, ...] = (
    _search("argmin", "Position (i64) of the smallest element along ``axis``.", 1),
    _search("argmax", "Position (i64) of the largest element along ``axis``.", 2),
)
