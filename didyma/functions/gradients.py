"""Gradients of attention, for the backward pass of a program that trains."""

from __future__ import annotations

import math
from typing import NamedTuple

from didyma.composites import composite
from didyma.functions.axes import composed, rank, shape
from didyma.functions.creation import arange
from didyma.functions.neural import ScoreMod, for_heads, places
from didyma.functions.products import matmul
from didyma.functions.public import public, wrong
from didyma.functions.reductions import sum
from didyma.functions.shaping import astype, matrix_transpose, reshape
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.tracer.tensor import Tensor, apply, scalar
from didyma.tracer.types import Element, f32

NAME = "dd.scaled_dot_product_attention_backward"


class Gradients(NamedTuple):
    """Gradients of queries, keys and values, in their shapes and dtypes."""

    q: Tensor
    k: Tensor
    v: Tensor


@public
def scaled_dot_product_attention_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    /,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: int | None = None,
    score_mod: ScoreMod | None = None,
    score_mod_slope: ScoreMod | None = None,
) -> Gradients:
    """Gradients of ``out``, the attention of ``q``, ``k`` and ``v``, where ``grad`` is that of it.

    ``q`` is [..., queries, depth], ``k`` [..., keys, depth], ``v`` [..., keys, width], ``out`` and
    ``grad`` [..., queries, width], all of one dtype and with at least one axis before these;
    ``logsumexp``, f32 [..., queries], is that of the scores that each query sees.  With
    ``is_causal``, query *i* sees the keys up to *i*, and with a ``window`` those from
    ``i - window + 1`` on.  ``scale``, ``enable_gqa`` and ``score_mod`` are those of
    ``dd.scaled_dot_product_attention``.  Didyma does not differentiate: ``score_mod_slope``, which
    takes the same arguments as ``score_mod``, returns its derivative by the score.
    Example: ``dd.scaled_dot_product_attention_backward(grad, q, k, v, out, lse, is_causal=True)``.
    Errors: ``bad-call``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    given = (grad, q, k, v, out)
    if len({rank(x) for x in given} | {rank(logsumexp) + 1}) > 1 or rank(q) < 3:
        types = ", ".join(str(x.value.type) for x in (*given, logsumexp))
        raise wrong(NAME, types, "tensors [..., length, depth], and [..., queries]")
    if len({x.value.type.dtype for x in given}) > 1:
        types = ", ".join(str(x.value.type.dtype) for x in given)
        raise wrong(NAME, types, "one dtype")
    if (score_mod is None) != (score_mod_slope is None):
        given_one, other = ("score_mod", "score_mod_slope")[:: 1 if score_mod else -1]
        raise wrong(NAME, f"{given_one} without {other}", "both or neither",
                    "score_mod_slope(score, *indices) returns the derivative of score_mod by the "
                    "score, such as 1 for a term that is added")  # fmt: skip
    depth, element, own = shape(q)[-1], Element(q.value.type.dtype), shape(k)[-3]
    if enable_gqa:
        k, v = (for_heads(q, x, name) for x, name in ((k, "keys"), (v, "values")))
    if scale is None:
        if not isinstance(depth, int):
            raise wrong(NAME, f"a depth of {dims.text(depth)}", "a known depth, or a scale")
        scale = 1 / math.sqrt(depth)
    by = scale
    along = sum(astype(grad, f32) * astype(out, f32), axis=-1)
    rows, columns = arange(shape(q)[-2]), arange(shape(k)[-2])

    def seen(value: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return a value where a row sees a column, and 0 elsewhere, in the dtype of operands."""
        if window is not None:
            near = apply("less", apply("subtract", row, column), scalar(row, window))
            value = apply("where", near, value, scalar(value, 0))
        if is_causal:
            value = apply("where", apply("greater_equal", row, column), value, scalar(value, 0))
        return astype(value, element)

    def change(
        left: Tensor, right: Tensor, weight: Tensor, off: Tensor, slope: Tensor | float
    ) -> Tensor:
        """Return the gradients of scores, whose weights and slopes are given."""
        return weight * (astype(matmul(left, matrix_transpose(right)), f32) - off) * slope

    def scored(left: Tensor, right: Tensor, *, turned: bool) -> tuple[Tensor, Tensor | float]:
        """Return the scores of rows for columns, and by what a product of theirs changes them."""
        s = composed(composite.scores, left, right, by)
        if score_mod is None or score_mod_slope is None:
            return astype(s, f32), by
        at = places(s)
        at = [*at[:-2], *at[:-3:-1]] if turned else at
        return astype(score_mod(s, *at), f32), astype(score_mod_slope(s, *at), f32) * by

    by_row = (_column(rows), columns)
    score, slope = scored(q, k, turned=False)
    weight = apply("exp", score - _column(logsumexp))
    of_q = matmul(seen(change(grad, v, weight, _column(along), slope), *by_row), k)
    by_column = (rows, _column(columns))
    score, slope = scored(k, q, turned=True)
    weight = apply("exp", score - _row(logsumexp))
    of_k = matmul(seen(change(v, grad, weight, _row(along), slope), *by_column), q)
    of_v = matmul(seen(weight, *by_column), grad)
    if enable_gqa:
        of_k, of_v = (_of_heads(x, own) for x in (of_k, of_v))
    return Gradients(of_q, of_k, of_v)


def _of_heads(x: Tensor, own: Dim) -> Tensor:
    """Return the sums over neighbouring heads that share one of keys and values."""
    batch, (heads, rows, width) = shape(x)[:-3], shape(x)[-3:]
    times = dims.exact_quotient(heads, own)
    assert times is not None, "heads of queries share those of keys"
    parts = astype(reshape(x, (*batch, own, times, rows, width)), f32)
    return astype(sum(parts, axis=-3), Element(x.value.type.dtype))


def _column(x: Tensor) -> Tensor:
    """Return a tensor with a last axis of one more."""
    return reshape(x, (*shape(x), 1))


def _row(x: Tensor) -> Tensor:
    """Return a tensor with an axis of one before the last."""
    return reshape(x, (*shape(x)[:-1], 1, shape(x)[-1]))


__all__ = ["scaled_dot_product_attention_backward"]
