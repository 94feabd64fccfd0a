"""Attention as people write it, over queries, keys, values and what else a form takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import didyma as dd
from didyma.tracer.types import Element, Spec

Form: TypeAlias = Callable[..., dd.Tensor]


def scores(q: dd.Tensor, k: dd.Tensor) -> dd.Tensor:
    """Return scaled scores."""
    return q @ dd.matrix_transpose(k) / math.sqrt(80)


def powers(x: dd.Tensor) -> dd.Tensor:
    """Return exponentials of what numbers lack to the largest of their row."""
    return dd.exp(x - dd.max(x, axis=-1, keepdims=True))


def softmax(x: dd.Tensor) -> dd.Tensor:
    """Return the softmax along the last axis, op by op."""
    return powers(x) / dd.sum(powers(x), axis=-1, keepdims=True)


def _by_inverse(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    p = powers(scores(q, k))
    return (p * (1.0 / dd.sum(p, axis=-1, keepdims=True))) @ v


def _divided_last(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    p = powers(scores(q, k))
    return (p @ v) / dd.sum(p, axis=-1, keepdims=True)


def _rounded_then_divided(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    p, own = powers(dd.astype(scores(q, k), dd.f32)), _element(v)
    mean = dd.astype(dd.astype(p, own) @ v, dd.f32) / dd.sum(p, axis=-1, keepdims=True)
    return dd.astype(mean, own)


def _without_kept_axes(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    s = scores(q, k)
    p = dd.exp(s - dd.expand_dims(dd.max(s, axis=-1), axis=-1))
    return (p / dd.expand_dims(dd.sum(p, axis=-1), axis=-1)) @ v


def _by_logarithm(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.exp(dd.log_softmax(scores(q, k), -1)) @ v


def _by_logsumexp(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    s = scores(q, k)
    top = dd.max(s, axis=-1, keepdims=True)
    log = dd.log(dd.sum(dd.exp(s - top), axis=-1, keepdims=True)) + top
    return dd.exp(s - log) @ v


def _dropped(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, by: dd.Tensor) -> dd.Tensor:
    return (softmax(scores(q, k)) * by) @ v


def _causal_and_dropped(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, by: dd.Tensor) -> dd.Tensor:
    rows, columns = (x.shape[-2] for x in (q, k))
    seen = dd.reshape(dd.arange(rows), (rows, 1)) >= dd.arange(columns)
    return (softmax(dd.where(seen, scores(q, k), -float("inf"))) * by) @ v


def _kept(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    wide = softmax(dd.astype(scores(q, k), dd.f32))
    return dd.astype(wide * (dd.astype(mask, dd.f32) * (1 / 0.9)), _element(v)) @ v


def _dropped_then_divided(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, by: dd.Tensor) -> dd.Tensor:
    p = powers(scores(q, k))
    return ((p * by) @ v) / dd.sum(p, axis=-1, keepdims=True)


def _rows_kept(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    mask = mask[:1]
    s = dd.where(mask, scores(q, k), -float("inf"))
    none = dd.logical_not(dd.any(mask, axis=-1, keepdims=True))
    return dd.where(none, 0.0, softmax(s)) @ v


def _guarded(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    w = softmax(dd.where(mask, scores(q, k), -float("inf")))
    return dd.where(dd.isnan(w), 0.0, w) @ v


def _guarded_and_kept(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    w = softmax(dd.where(mask, scores(q, k), -float("inf")))
    return (dd.where(dd.isnan(w), 0.0, w) * dd.astype(mask, _element(v))) @ v


def _element(x: dd.Tensor) -> Element:
    return next(e for e in (dd.f16, dd.bf16, dd.f32) if e.dtype is x.dtype)


PLAIN: Mapping[str, Form] = MappingProxyType({
    "by inverse": _by_inverse, "divided last": _divided_last,
    "rounded, then divided": _rounded_then_divided, "without kept axes": _without_kept_axes,
    "by logarithm": _by_logarithm, "by logsumexp": _by_logsumexp,
})  # fmt: skip
FACTORS: Mapping[str, Form] = MappingProxyType({
    "dropped": _dropped, "dropped, then divided": _dropped_then_divided,
    "causal and dropped": _causal_and_dropped,
})  # fmt: skip
MASKS: Mapping[str, Form] = MappingProxyType({
    "kept": _kept, "guarded": _guarded, "guarded and kept": _guarded_and_kept,
    "rows kept": _rows_kept,
})  # fmt: skip


def forms(q: Spec, k: Spec, v: Spec, pairs: Spec, mask: Spec) -> dict[str, dd.Program]:
    """Trace each form: of queries, keys and values, and a factor or a mask for each pair."""
    every = [(PLAIN, ()), (FACTORS, (pairs,)), (MASKS, (mask,))]
    return {name: dd.trace(q, k, v, *more)(f) for table, more in every for name, f in table.items()}
