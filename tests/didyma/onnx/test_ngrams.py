"""TfIdfVectorizer on random pools, judged by ONNX Runtime; and pools that are none.

onnx's own evaluator takes weights in the order of columns, not of the pool: it judges counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from didyma.fuzz.peers import ort
from didyma.onnx.load import load_model
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from tests.didyma.onnx.models import model, value


def vectorizer(shape: tuple[int | str, ...], **attrs: Any) -> onnx.ModelProto:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attrs)
    x = value("x", *shape, type=TensorProto.INT32)
    return model([node], [x], [helper.make_empty_tensor_value_info("y")], 9)


def drawn(seed: int) -> dict[str, Any]:
    """Attributes: one to four distinct n-grams of each length up to 3, over the numbers 0 to 2."""
    rng = np.random.default_rng(seed)
    pool: list[int] = []
    starts: list[int] = []
    many = 0
    for n in (1, 2, 3):
        starts.append(len(pool))
        grams = rng.permutation(3**n)[: rng.integers(1, 4)]
        many += len(grams)
        pool += [int(g) // 3**k % 3 for g in grams for k in range(n)]
    shortest, longest = sorted(int(n) for n in rng.integers(1, 4, 2))
    return {
        "pool_int64s": pool,
        "ngram_counts": starts,
        "ngram_indexes": rng.permutation(many).tolist(),
        "min_gram_length": shortest,
        "max_gram_length": longest,
        "max_skip_count": int(rng.integers(0, 3)),
        "mode": ("TF", "IDF", "TFIDF")[seed % 3],
        "weights": rng.standard_normal(many).astype(np.float32).tolist(),
    }


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shape", [(7,), (2, 9), (3, 2)])
def test_counts_of_known_n_grams(seed: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(seed).integers(0, 3, shape).astype(np.int32)
    made = vectorizer(shape, **drawn(seed))
    (got,) = graph.run(load_model(made), [x])
    np.testing.assert_array_equal(got, ort.run_model(made, {"x": x})[0])
    if seed % 3 == 0:
        evaluator: Any = ReferenceEvaluator(made)
        np.testing.assert_array_equal(got, evaluator.run(None, {"x": x})[0])


def test_more_skips_than_can_be_counted() -> None:
    attrs = {**drawn(0), "max_skip_count": 1 << 40}
    load_model(vectorizer((9,), **attrs))
    with pytest.raises(DidymaError, match="skipped"):
        load_model(vectorizer(("c",), **attrs))


def test_rows_and_lengths_may_be_open() -> None:
    attrs = drawn(1)
    m = load_model(vectorizer(("n", "c"), **attrs))
    for n, length in ((1, 1), (2, 6)):
        x = np.random.default_rng(n).integers(0, 3, (n, length)).astype(np.int32)
        (got,) = graph.run(m, [x], {"n": n, "c": length})
        (want,) = graph.run(load_model(vectorizer(x.shape, **attrs)), [x])
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ngram_counts": [0, 9]},
        {"ngram_counts": [0, 0]},
        {"ngram_indexes": [0]},
        {"ngram_indexes": [0, -1]},
        {"weights": [1.0], "mode": "IDF"},
        {"ngram_indexes": [0, 1 << 60]},
        {"mode": "BM25"},
    ],
)
def test_pools_that_are_none(wrong: dict[str, Any]) -> None:
    attrs = {
        "pool_int64s": [1, 2, 3], "ngram_counts": [0, 1], "ngram_indexes": [0, 1], "mode": "TF",
        "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0,
    }  # fmt: skip
    load_model(vectorizer((4,), **attrs))
    with pytest.raises(DidymaError) as caught:
        load_model(vectorizer((4,), **{**attrs, **wrong}))
    assert caught.value.code.startswith("onnx-")
