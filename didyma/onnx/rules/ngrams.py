"""TfIdfVectorizer: counts of constant n-grams in sequences of integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.shaping import join
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, DType

MOST_SKIPS = 64  # each number of skipped items is counted separately
MOST_COLUMNS = 1 << 24


def _pools(c: Context) -> Iterator[Array]:
    """Yield the n-grams of each length n, from 1 on: [n-grams, n]."""
    pool, starts = c.attrs["pool_int64s"], [int(i) for i in c.attrs["ngram_counts"]]
    for n, (start, stop) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        if not 0 <= start <= stop <= len(pool) or (stop - start) % n:
            raise c.broken(f"{n}-grams from {start} to {stop} of {len(pool)}", f"{n} numbers each")
        yield np.array(pool[start:stop], np.int64).reshape(-1, n)


def _count(c: Context, x: Value, grams: Array, apart: int) -> Value:
    """Return the count of each n-gram in each row, its items ``apart`` elements apart.

    The result has the shape [rows, n-grams].
    """
    length, matches = x.type.shape[1], None
    n = grams.shape[1]
    starts = dims.maximum(dims.sub(length, (n - 1) * apart), 0)
    for k in range(n):
        at = c.emit("add", c.iota(starts), k * apart)
        items = c.reshape(c.emit("gather", x, at, axis=1), x.type.shape[0], starts, 1)
        same = c.emit("equal", items, c.constant(grams[:, k].reshape(1, 1, -1)))
        matches = same if matches is None else c.emit("logical_and", matches, same)
    assert matches is not None
    return c.emit("sum", c.cast(matches, DType.I64), axes=(1,), keepdims=False)


def _tf_idf(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.cast(c.operand(x, 0), DType.I64)
    rows = v if v.type.rank == 2 else c.reshape(v, 1, *v.type.shape)
    if "pool_int64s" not in c.attrs or rows.type.rank != 2:
        raise c.error(f"n-grams of {v.type}", "a sequence of integers, or several")
    shortest, longest = c.integer("min_gram_length"), c.integer("max_gram_length")
    skips = range(min(c.integer("max_skip_count"), c.bounds(rows.type.shape[1])[1]) + 1)
    if len(skips) > MOST_SKIPS:
        raise c.error(f"n-grams with up to {len(skips) - 1} items skipped", f"at most {MOST_SKIPS}")
    indices = np.array(c.attrs["ngram_indexes"], np.int64)
    counts: list[Value] = []
    for grams in _pools(c):
        count = c.constant(np.zeros((1, len(grams)), np.int64))
        count = c.emit("broadcast_to", count, shape=(rows.type.shape[0], len(grams)))
        n = grams.shape[1]
        if shortest <= n <= longest:
            for skip in skips if n > 1 else skips[:1]:
                count = c.emit("add", count, _count(c, rows, grams, skip + 1))
        counts.append(count)
    total = join(c, counts, 1)
    if indices.shape != total.type.shape[1:] or (indices < 0).any():
        raise c.broken(f"{indices.size} ngram_indexes", f"one, from 0, for each of {total.type}")
    if (indices >= MOST_COLUMNS).any():
        raise c.error(f"a result of {indices.max() + 1} columns", f"at most {MOST_COLUMNS}")
    y = _in_columns(c, _weighted(c, total), indices)
    return [y if v.type.rank == 2 else c.reshape(y, y.type.shape[1])]


def _weighted(c: Context, counts: Value) -> Value:
    """Return the counts, or 1 for each that is not 0, times the weights of the n-grams."""
    mode = c.choice("mode", "TF", "IDF", "TFIDF")
    if mode == "IDF":
        counts = c.emit("minimum", counts, 1)
    y = c.cast(counts, DType.F32)
    if mode == "TF" or "weights" not in c.attrs:
        return y
    weights = np.array(c.attrs["weights"], np.float32)
    if weights.shape != y.type.shape[1:]:
        raise c.broken(f"{weights.size} weights", f"{y.type.shape[1]}, one for each n-gram")
    return c.emit("multiply", y, c.constant(weights))


def _in_columns(c: Context, y: Value, indices: Array) -> Value:
    """Return the number of each n-gram in the column that ``indices`` names; others are 0."""
    source = np.full(int(indices.max(initial=-1)) + 1, len(indices), np.int64)
    source[indices] = np.arange(len(indices))
    nothing = c.emit("broadcast_to", c.scalar(0, y), shape=(y.type.shape[0], 1))
    return c.emit("gather", join(c, [y, nothing], 1), c.constant(source), axis=1)


HANDLERS: dict[str, Handler] = {"TfIdfVectorizer": _tf_idf}
