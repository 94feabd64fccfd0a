"""Ops along one axis: positions of extremes, running sums and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import NUMBERS, Array, DType, TensorType
from didyma.refimpl.ops.bar_sums import additions, fold
from didyma.refimpl.ops.bars import Bar, Contract, settle
from didyma.refimpl.ops.choose import flag
from didyma.refimpl.ops.folds import factors, product_bar
from didyma.refimpl.ops.movement import BarRule
from didyma.refimpl.ops.reduce import reduced, source
from didyma.refimpl.ops.rules import attr_error, check, get_axis, get_bool
from didyma.refimpl.ops.spec import (
    AttrMap,
    AttrSpec,
    Chooser,
    Example,
    Fold,
    Index,
    Kind,
    Op,
    Read,
    Sample,
)

_ARG = Literal["argmin", "argmax"]
_RUN = Literal["cumulative_sum", "cumulative_prod"]


def _arg_infer(name: _ARG) -> Callable[[Sequence[TensorType], AttrMap], TensorType]:
    def infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
        t = check(name, types, 1, dtypes=NUMBERS)
        axis = get_axis(name, attrs, "axis", t.rank)
        keepdims = get_bool(name, attrs, "keepdims")
        if t.shape[axis] == 0:
            raise attr_error(name, "axis", axis, "an axis with at least one element")
        return reduced(t, (axis,), keepdims).with_dtype(DType.I64)

    return infer


def _position(name: _ARG, x: Array, attrs: AttrMap) -> Array:
    axis = get_axis(name, attrs, "axis", x.ndim)
    keepdims = get_bool(name, attrs, "keepdims")
    if x.shape[axis] == 0:
        shape = [1 if a == axis else n for a, n in enumerate(x.shape) if keepdims or a != axis]
        return np.zeros(shape, np.int64)
    best = np.argmin if name == "argmin" else np.argmax
    return np.asarray(best(x, axis=axis, keepdims=keepdims)).astype(np.int64)


def _arg_eval(name: _ARG) -> Callable[[Sequence[Array], AttrMap, TensorType], Array]:
    def run(args: Sequence[Array], attrs: AttrMap, result: TensorType) -> Array:
        del result
        compute = DType.of(args[0]).compute.numpy
        return _position(name, args[0].astype(compute, copy=False), attrs)

    return run


def _arg_bar(name: _ARG) -> BarRule:
    def run(
        args: Sequence[Bar],
        attrs: AttrMap,
        types: Sequence[TensorType],
        result: TensorType,
        contract: Contract,
    ) -> Bar:
        del result, contract
        b = settle(args[0], types[0].dtype)
        c = _position(name, b.c, attrs)
        if not b.e.any():
            return Bar(c, np.zeros(c.shape))
        return Bar(c, np.where(_decided(name, b, c, attrs), 0.0, np.inf))

    return run


def _decided(name: _ARG, b: Bar, c: Array, attrs: AttrMap) -> Array:
    """Tell where no value inside the bars lets another element win."""
    axis = get_axis(name, attrs, "axis", b.c.ndim)
    at = c if get_bool(name, attrs, "keepdims") else np.expand_dims(c, axis)
    sign = 1 if name == "argmax" else -1
    wide = sign * b.c.astype(np.longdouble)
    winner = np.take_along_axis(wide, at, axis)
    error = np.take_along_axis(b.e, at, axis)
    shape = tuple(-1 if a == axis else 1 for a in range(b.c.ndim))
    place = np.reshape(np.arange(int(b.c.shape[axis])), shape)
    worst, best = winner - error, wide + b.e
    exact = (b.e == 0) & (error == 0)
    beaten = (best < worst) | ((best == worst) & (place > at)) | exact | (place == at)
    # A NaN wins over whatever follows, and over what cannot be NaN before it.
    nan_wins = np.isnan(winner) & (error < np.inf) & ((place > at) | (b.e < np.inf))
    return np.asarray(
        np.all(beaten | nan_wins, axis=axis, keepdims=get_bool(name, attrs, "keepdims"))
    )


def _arg_element(
    name: _ARG,
) -> Callable[[Index, Sequence[Read], Sequence[TensorType], AttrMap, TensorType], Fold]:
    def element(
        at: Index,
        reads: Sequence[Read],
        types: Sequence[TensorType],
        attrs: AttrMap,
        result: TensorType,
    ) -> Fold:
        del result
        t = types[0]
        axis = get_axis(name, attrs, "axis", t.rank)
        keepdims = get_bool(name, attrs, "keepdims")

        def body(k: Index) -> Expr:
            return reads[0](source(at, k, (axis,), t.rank, keepdims))

        return Fold(name, (ex.of_dim(t.shape[axis]),), body, _as_it_is)

    return element


def _as_it_is(total: Expr) -> Expr:
    return total


def _arg_sample(ch: Chooser, t: TensorType) -> Sample | None:
    live = [a for a, n in enumerate(t.shape) if n != 0]
    if t.dtype not in NUMBERS or not live:
        return None
    axis = live[-1 - ch.below(len(live))]
    return Sample((t,), freeze({"axis": axis, "keepdims": flag(ch)}))


def _run_infer(name: _RUN) -> Callable[[Sequence[TensorType], AttrMap], TensorType]:
    def infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
        t = check(name, types, 1, dtypes=NUMBERS)
        get_axis(name, attrs, "axis", t.rank)
        get_bool(name, attrs, "exclusive")
        get_bool(name, attrs, "reverse")
        return t

    return infer


@dataclass(frozen=True, slots=True)
class _Course:
    """Which elements a running fold joins."""

    axis: int  # counted from the end
    exclusive: bool
    reverse: bool

    def run(self, x: Array, ufunc: np.ufunc, start: float) -> Array:
        """Fold of every prefix (or suffix), in the operand's dtype."""
        line = np.moveaxis(x, self.axis, -1)
        if self.reverse:
            line = line[..., ::-1]
        out = np.asarray(ufunc.accumulate(line, axis=-1, dtype=x.dtype))
        if self.exclusive:
            first = np.full((*out.shape[:-1], min(1, out.shape[-1])), start, x.dtype)
            out = np.concatenate([first, out[..., :-1]], -1)
        if self.reverse:
            out = out[..., ::-1]
        return np.ascontiguousarray(np.moveaxis(out, -1, self.axis))

    def add(self, x: Array) -> Array:
        """Sum of every prefix."""
        return self.run(x, np.add, 0)

    def multiply(self, x: Array) -> Array:
        """Product of every prefix."""
        return self.run(x, np.multiply, 1)

    def counts(self, shape: tuple[int, ...]) -> Array:
        """Return how many elements each fold joins."""
        n = shape[self.axis]
        count = np.arange(n) + (0 if self.exclusive else 1)
        if self.reverse:
            count = count[::-1]
        return count.reshape(-1, *[1] * (-1 - self.axis))


def _course(attrs: AttrMap, rank: int) -> _Course:
    axis = get_axis("running", attrs, "axis", rank) - rank
    exclusive = get_bool("running", attrs, "exclusive")
    return _Course(axis, exclusive, get_bool("running", attrs, "reverse"))


def _run_eval(name: _RUN) -> Callable[[Sequence[Array], AttrMap, TensorType], Array]:
    def run(args: Sequence[Array], attrs: AttrMap, result: TensorType) -> Array:
        x = args[0].astype(result.dtype.compute.numpy, copy=False)
        course = _course(attrs, x.ndim)
        with np.errstate(all="ignore"):
            out = course.add(x) if name == "cumulative_sum" else course.multiply(x)
            return out.astype(result.dtype.numpy)

    return run


def _sum_bar(b: Bar, course: _Course, dtype: DType, contract: Contract) -> Bar:
    finite = np.isfinite(b.c)
    rough = (np.rint(b.c) != b.c) & finite
    parts = np.stack([b.c, b.e, np.where(finite, np.abs(b.c) + b.e, 0), rough])
    c, e, mass, rough = course.add(parts)  # the axis is counted from the end
    exact = (rough == 0) & (mass <= 2.0 ** (53 if dtype is DType.F64 else 24))
    known = (e == 0) & (exact | (course.counts(c.shape) <= 1))
    terms = additions(c.shape[course.axis], contract)
    return fold(c, e.astype(np.float64), mass, terms, 0, dtype, known)


def _prod_bar(b: Bar, course: _Course, dtype: DType) -> Bar:
    def some(x: Array) -> Array:
        return course.run(x, np.logical_or, 0)

    facts = factors(b, course.counts(b.c.shape), course.multiply, some)
    return product_bar(course.multiply(b.c), facts, dtype)


def _run_bar(name: _RUN) -> BarRule:
    def run(
        args: Sequence[Bar],
        attrs: AttrMap,
        types: Sequence[TensorType],
        result: TensorType,
        contract: Contract,
    ) -> Bar:
        del types
        (b,) = args
        dtype, course = result.dtype, _course(attrs, b.c.ndim)
        if dtype.is_float:
            if name == "cumulative_sum":
                return _sum_bar(b, course, dtype, contract)
            return _prod_bar(b, course, dtype)
        c = course.add(b.c) if name == "cumulative_sum" else course.multiply(b.c)
        return Bar(c, np.where(course.run(b.e > 0, np.logical_or, 0), np.inf, 0.0))

    return run


def _run_element(
    name: _RUN,
) -> Callable[[Index, Sequence[Read], Sequence[TensorType], AttrMap, TensorType], Fold]:
    def element(
        at: Index,
        reads: Sequence[Read],
        types: Sequence[TensorType],
        attrs: AttrMap,
        result: TensorType,
    ) -> Fold:
        del types
        axis = get_axis(name, attrs, "axis", result.rank)
        reverse, exclusive = (get_bool(name, attrs, n) for n in ("reverse", "exclusive"))
        i, n = at[axis], ex.of_dim(result.shape[axis])
        own = ex.index(0 if exclusive else 1)
        extent = ex.add(ex.sub(ex.sub(n, i), ex.ONE), own) if reverse else ex.add(i, own)
        first = ex.add(i, ex.sub(ex.ONE, own)) if reverse else ex.ZERO

        def body(k: Index) -> Expr:
            return reads[0]((*at[:axis], ex.add(first, k[0]), *at[axis + 1 :]))

        return Fold("add" if name == "cumulative_sum" else "mul", (extent,), body, _as_it_is)

    return element


def _run_sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.dtype not in NUMBERS or t.rank == 0:
        return None
    axis = t.rank - 1 - ch.below(t.rank)
    named = {"axis": axis, "exclusive": flag(ch), "reverse": flag(ch)}
    return Sample((t,), freeze({**named}))


def _arg(name: _ARG, doc: str, answer: int) -> Op:
    return Op(
        name=name,
        doc=doc,
        special=(
            "The first of equals; zeros of both signs are equal. If there is a NaN, the first NaN. "
            "A statically empty axis is an error; one that is found empty in the run gives 0."
        ),
        kind=Kind.REDUCTION,
        arity=(1, 1),
        attrs=(
            AttrSpec("axis", "int", "axis to search"),
            AttrSpec("keepdims", "bool", "keep the searched axis, with size 1"),
        ),
        dtypes=NUMBERS,
        infer=_arg_infer(name),
        eval=_arg_eval(name),
        bar=_arg_bar(name),
        element=_arg_element(name),
        sample=_arg_sample,
        example=Example(
            (np.array([3, 1, 4, 1, 4], np.int32),),
            np.array(answer, np.int64),
            freeze({"axis": 0, "keepdims": False}),
        ),
    )


def _cumulative(name: _RUN, doc: str, special: str, answer: list[int]) -> Op:
    return Op(
        name=name,
        doc=doc,
        special=special + " Integers wrap in the operand's dtype.",
        kind=Kind.OPAQUE,
        arity=(1, 1),
        attrs=(
            AttrSpec("axis", "int", "axis to run along"),
            AttrSpec("exclusive", "bool", "leave out the element itself"),
            AttrSpec("reverse", "bool", "run from the end"),
        ),
        dtypes=NUMBERS,
        infer=_run_infer(name),
        eval=_run_eval(name),
        bar=_run_bar(name),
        element=_run_element(name),
        sample=_run_sample,
        example=Example(
            (np.array([2, 3, 4], np.int32),),
            np.array(answer, np.int32),
            freeze({"axis": 0, "exclusive": False, "reverse": False}),
        ),
    )


ALL: tuple[Op, ...] = (
    _arg("argmin", "Position (i64) of the smallest element along ``axis``.", 1),
    _arg("argmax", "Position (i64) of the largest element along ``axis``.", 2),
    _cumulative(
        "cumulative_sum",
        "Sum of each element and those before it along ``axis``. The order of additions is free.",
        "NaN and infinities as in IEEE addition; a zero's sign is not set. An empty sum is 0.",
        [2, 5, 9],
    ),
    _cumulative(
        "cumulative_prod",
        "Product of each element and those before it along ``axis``, multiplied in any order.",
        "NaN, infinities and zeros as in IEEE multiplication. An empty product is 1.",
        [2, 6, 24],
    ),
)
