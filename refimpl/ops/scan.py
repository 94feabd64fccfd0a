"""Running folds along one axis: ``cumulative_sum`` and ``cumulative_prod``.

Element i of a line of the result folds elements 0 to i of the operand's line; ``exclusive`` leaves
out element i itself, and ``reverse`` folds the elements from i to the end.

* *Special values*: those of IEEE addition and multiplication, in any order, so that a NaN makes
  every later element NaN.  ``special`` in the records at the end of this file is the written rule.
* *Value*: ``_eval``, by NumPy's ``accumulate`` in the compute dtype, rounded once.
* *Bar*: ``_sum_bar`` counts a rounding for each addition of the longest chain that the contract
  allows, ``_prod_bar`` one for each multiplication; integers wrap and are exact.
* *Loop rule*: ``_element``, a fold for each element, which a compiler may split into blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import NUMBERS, Array, DType, TensorType
from didyma.refimpl.ops import ring
from didyma.refimpl.ops.attributes import attributes, boolean, integer
from didyma.refimpl.ops.bar_sums import additions, coarser, fold
from didyma.refimpl.ops.bars import BITS, Bar, Contract
from didyma.refimpl.ops.choose import flag
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.folds import factors, product_bar
from didyma.refimpl.ops.rules import check_axis
from didyma.refimpl.ops.spec import Chooser, Fold, FoldOp, Index, Kind, Op, Read, Rules, Sample, Use


@attributes
class Running:
    """Which elements of the operand's line each element of the result folds."""

    axis: int = integer("axis to run along")
    exclusive: bool = boolean("leave out the element itself")
    reverse: bool = boolean("run from the end")


Along: TypeAlias = Callable[[Array, Running], Array]
OfFloats: TypeAlias = Callable[[Bar, Running, DType, Contract], Bar]


def _along(accumulate: Callable[[Array], Array], empty: float, x: Array, a: Running) -> Array:
    """Fold every prefix (or suffix) of each line.

    ``accumulate`` folds every prefix along the last axis; ``empty`` is the fold of no elements.
    """
    line = np.moveaxis(x, a.axis, -1)
    if a.reverse:
        line = line[..., ::-1]
    out = accumulate(line)
    if a.exclusive:
        first = np.full((*out.shape[:-1], min(1, out.shape[-1])), empty, x.dtype)
        out = np.concatenate([first, out[..., :-1]], -1)
    if a.reverse:
        out = out[..., ::-1]
    return np.ascontiguousarray(np.moveaxis(out, -1, a.axis))


def _by(ufunc: np.ufunc, line: Array) -> Array:
    """Return the fold of every prefix by a ufunc, in the operand's dtype."""
    return np.asarray(ufunc.accumulate(line, axis=-1, dtype=line.dtype))


_sums = partial(_along, partial(_by, np.add), 0)
_products = partial(_along, partial(_by, np.multiply), 1)
_some = partial(_along, partial(_by, np.logical_or), 0)
_ring_sums = partial(_along, partial(ring.running_sum, axis=-1), 0)
_ring_products = partial(_along, partial(ring.running_product, axis=-1), ring.UNIT)


def _counts(a: Running, shape: tuple[int, ...]) -> Array:
    """Return how many elements each element of the result folds, in a shape to broadcast."""
    count = np.arange(shape[a.axis]) + (0 if a.exclusive else 1)
    if a.reverse:
        count = count[::-1]
    return count.reshape(-1, *[1] * (len(shape) - 1 - a.axis))


def _infer(name: str, types: Sequence[TensorType], a: Running) -> TensorType:
    check_axis(name, a.axis, types[0].rank)
    return types[0]


def _eval(along: Along, args: Sequence[Array], a: Running, result: TensorType) -> Array:
    x = args[0].astype(result.dtype.compute.numpy, copy=False)
    with np.errstate(all="ignore"):
        return along(x, a).astype(result.dtype.numpy)


def _bar(
    along: Along, of_floats: OfFloats, args: Sequence[Bar], use: Use[Running], contract: Contract
) -> Bar:
    """Return the bar; integers wrap, and are undecided where an element that they fold is."""
    (b,), a, dtype = args, use.attrs, use.result.dtype
    if dtype.is_float:
        return of_floats(b, a, dtype, contract)
    return Bar(along(b.c, a), np.where(_some(b.e > 0, a), np.inf, 0.0))


def _sum_bar(b: Bar, a: Running, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of running sums of floats.

    Each addition of the longest chain rounds; small sums of whole numbers are exact.
    """
    finite = np.isfinite(b.c)
    rough = (np.rint(b.c) != b.c) & finite
    parts = np.stack([b.c, b.e, np.where(finite, np.abs(b.c) + b.e, 0), rough])
    c, e, mass, rough = _sums(parts, replace(a, axis=a.axis + 1))
    exact = (rough == 0) & (mass <= 2.0 ** BITS[contract.kept(dtype)])
    known = (e == 0) & (exact | (_counts(a, c.shape) <= 1))
    terms = additions(c.shape[a.axis], contract) * coarser(dtype, contract)
    return fold(c, e.astype(np.float64), mass, terms, 0, dtype, known)


def _prod_bar(b: Bar, a: Running, dtype: DType, _contract: Contract) -> Bar:
    """Return the bar of running products of floats: each multiplication rounds, in any order."""

    join, some = partial(_products, a=a), partial(_some, a=a)
    return product_bar(join(b.c), factors(b, _counts(a, b.c.shape), join, some), dtype)


def _ring(
    along: Along, _bars: Sequence[Bar], payloads: Sequence[Array], use: Use[Running], _out: Bar
) -> Array:
    return along(payloads[0], use.attrs)


def _element(op: FoldOp, at: Index, reads: Sequence[Read], use: Use[Running]) -> Fold:
    """Return a fold with ``op``, of i + 1 steps for element i."""
    axis, reverse = use.attrs.axis, use.attrs.reverse
    i, n = at[axis], ex.of_dim(use.result.shape[axis])
    own = ex.index(0 if use.attrs.exclusive else 1)
    extent = ex.add(ex.sub(ex.sub(n, i), ex.ONE), own) if reverse else ex.add(i, own)
    first = ex.add(i, ex.sub(ex.ONE, own)) if reverse else ex.ZERO

    def body(k: Index) -> Expr:
        return reads[0]((*at[:axis], ex.add(first, k[0]), *at[axis + 1 :]))

    return Fold(op, (extent,), body)


def _sample(ch: Chooser, t: TensorType) -> Sample | None:
    if t.dtype not in NUMBERS or t.rank == 0:
        return None
    axis = t.rank - 1 - ch.below(t.rank)
    return Sample((t,), freeze({"axis": axis, "exclusive": flag(ch), "reverse": flag(ch)}))


def _cumulative(name: str, doc: str, special: str, rules: Rules[Running], answer: list[int]) -> Op:
    return Op(
        name=name,
        doc=doc,
        special=special + " Integers wrap in the operand's dtype.",
        kind=Kind.OPAQUE,
        dtypes=NUMBERS,
        rules=rules,
        sample=_sample,
        rereads=True,
        pending=name == "cumulative_sum",
        example=example([[2, 3, 4]], answer, DType.I32, axis=0, exclusive=False, reverse=False),
    )


ALL: tuple[Op, ...] = (
    _cumulative(
        "cumulative_sum",
        "Sum of each element and those before it along ``axis``. The order of additions is free.",
        "NaN and infinities as in IEEE addition; a zero's sign is not set. An empty sum is 0.",
        Rules(
            Running,
            infer=partial(_infer, "cumulative_sum"),
            eval=partial(_eval, _sums),
            bar=partial(_bar, _sums, _sum_bar),
            element=partial(_element, "add"),
            ring=partial(_ring, _ring_sums),
        ),
        [2, 5, 9],
    ),
    _cumulative(
        "cumulative_prod",
        "Product of each element and those before it along ``axis``, multiplied in any order.",
        "NaN, infinities and zeros as in IEEE multiplication. An empty product is 1.",
        Rules(
            Running,
            infer=partial(_infer, "cumulative_prod"),
            eval=partial(_eval, _products),
            bar=partial(_bar, _products, _prod_bar),
            element=partial(_element, "mul"),
            ring=partial(_ring, _ring_products),
        ),
        [2, 6, 24],
    ),
)
