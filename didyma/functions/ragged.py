"""Attention within sequences of different lengths, which lie one behind the other."""

from __future__ import annotations

import math

import numpy as np

from didyma.functions.axes import rank, shape
from didyma.functions.creation import arange
from didyma.functions.neural import scaled_dot_product_attention
from didyma.functions.public import public, wrong
from didyma.functions.reductions import all, max, min
from didyma.functions.shaping import astype, permute_dims, reshape
from didyma.functions.sizes import item
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.tracer.tensor import Tensor, apply, common, scalar, within
from didyma.tracer.types import i64

NAME = "dd.varlen_attention"


@public
def varlen_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor | None = None,
    /,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: int | None = None,
    checked: bool = True,
) -> Tensor:
    """Attention of sequences that lie one behind the other: each sees the keys of its own alone.

    ``q`` is [queries, heads, depth], ``k`` [keys, heads, depth], ``v`` [keys, heads, width], and
    the result [queries, heads, width].  Sequence *i* has the queries from ``cu_seqlens_q[i]`` on,
    up to ``cu_seqlens_q[i + 1]``, and its keys from ``cu_seqlens_k[i]``; if not given, these are
    the same.  Sequences may be empty.  With ``is_causal``, the last query of a sequence sees all
    its keys, the one before it all but the last, and so on; with a ``window``, keys that are so
    many or more before the last that it may so see are hidden.  A query that sees no key gives 0.
    A value that is not finite spoils its feature for all queries of its head.

    Offsets are integers that begin with 0, never fall, and end with the number of queries or keys.
    Where they do not, a call is refused with ``dim-out-of-range``, for which it waits until a GPU
    has looked at them; with ``checked=False`` results are then undefined.  ``scale`` and
    ``enable_gqa`` are those of ``dd.scaled_dot_product_attention``.
    Example: ``dd.varlen_attention(q, k, v, offsets, is_causal=True)``.
    Errors: ``bad-call``, ``bad-operand``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    for x in (q, k, v):
        if rank(x) != 3:
            raise wrong(NAME, str(x.value.type), "tensors [length, heads, depth]")
    own = cu_seqlens_k is None
    keys = cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
    rows, columns = shape(q)[0], shape(k)[0]
    _check_types(cu_seqlens_q, keys)
    if own and not dims.equal(rows, columns):
        got = f"{dims.text(rows)} queries, {dims.text(columns)} keys"
        raise wrong(NAME, got, "as many keys as queries", "give cu_seqlens_k, the offsets of keys")
    cu_seqlens_q, keys = astype(cu_seqlens_q, i64), astype(keys, i64)
    if checked:
        good = _rise(cu_seqlens_q, rows)
        if not own:
            good = apply("logical_and", good, _rise(keys, columns))
        one = item(good, least=1, most=1, name="offsets_rise")  # a call with another is refused
        cu_seqlens_q, keys = cu_seqlens_q[1 - one :], keys[1 - one :]
    row, column = arange(rows), arange(columns)
    first = _first(cu_seqlens_q, keys, row)
    end = _end(cu_seqlens_q, keys, row)
    near = row if own else row + (end - _end(cu_seqlens_q, cu_seqlens_q, row))
    last = end - 1
    if is_causal:
        last = row if own else apply("minimum", last, near)
    if window is not None:
        first = apply("maximum", first, near - (window - 1))

    def seen(score: Tensor, *places: Tensor) -> Tensor:
        never = scalar(score, -math.inf)
        for op, ends in (("less_equal", last), ("greater_equal", first)):
            score = apply("where", apply(op, column, reshape(ends, (rows, 1))), score, never)
        return score

    q, k, v = (permute_dims(x, (1, 0, 2)) for x in (q, k, v))
    out = scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=enable_gqa, score_mod=seen)
    out = permute_dims(out, (1, 0, 2))
    if own:
        return out
    some = reshape(apply("less_equal", first, last), (rows, 1, 1))
    return apply("where", some, out, scalar(out, 0))


def _check_types(queries: Tensor, keys: Tensor) -> None:
    """Refuse offsets that are no vectors of integers of one length."""
    for x in (queries, keys):
        if not x.value.type.dtype.is_int:
            raise DidymaError("bad-operand", NAME, got=str(x.value.type), want="integers")
        if rank(x) != 1:
            raise wrong(NAME, str(x.value.type), "offsets with one axis")
    sizes = [shape(x)[0] for x in (queries, keys)]
    if not dims.equal(*sizes):
        got = " and ".join(f"{dims.text(n)} offsets" for n in sizes)
        raise DidymaError("shape-mismatch", NAME, got=got, want="as many of queries as of keys")


def _rise(offsets: Tensor, end: Dim) -> Tensor:
    """Return whether offsets begin with 0, never fall, and end where they should."""
    b = common(offsets)
    total = Tensor(b, within(b, arange(dims.add(end, 1))))[-1]
    ends = apply("logical_and", offsets[0] == 0, offsets[-1] == total)
    return apply("logical_and", ends, all(offsets[1:] >= offsets[:-1]))


def _first(queries: Tensor, keys: Tensor, row: Tensor) -> Tensor:
    """Return the first key of the sequence of each row, which begins last of those up to it."""
    begun = apply("less_equal", queries, reshape(row, (-1, 1)))
    return max(apply("where", begun, keys, scalar(keys, 0)), axis=1)


def _end(queries: Tensor, keys: Tensor, row: Tensor) -> Tensor:
    """Return the end of the keys of the sequence of each row, which ends first of those after."""
    to_come = apply("greater", queries, reshape(row, (-1, 1)))
    return min(apply("where", to_come, keys, scalar(keys, np.iinfo(np.int64).max)), axis=1)


__all__ = ["varlen_attention"]
