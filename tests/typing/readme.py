"""The README's first program and its other styles, which both type checkers accept as they are.

mypy and basedpyright read this file with the rest of the tests; ``test_readme`` runs it.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import didyma as dd

n = dd.dim("n", 1, 4096)


@dd.trace(dd.f32[n, 512], dd.f32[512, 64], dd.f32[64])
def head(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x @ w + b, axis=-1)


print(head)


@dd.trace
def centred(
    x: Annotated[dd.Tensor, dd.f32[n, 4]],
) -> tuple[Annotated[dd.Tensor, dd.f32[n, 4]], Annotated[dd.Tensor, dd.f32[4]]]:
    mean = x.sum(axis=0) / x.shape[0]
    return x - mean, x[0]


def methods(x: dd.Tensor, rows: dd.Tensor) -> list[dd.Tensor]:
    """Return what users write most, for the checkers to read."""
    array = np.ones((4,), np.float32)
    return [
        x.sum(), x.max(axis=1, keepdims=True), x.T, x.reshape(-1), x.reshape((x.shape[0], 2, -1)),
        x[0], x[:, 1:-1], x[..., None], x[rows], x[x > 0], x[::-1], array * x, x + array, 2 * x,
        x.astype(dd.f16), x.astype(np.float32), x.astype("f64"), x.exp().clip(0, 1), -x, abs(x),
        x.shape[0] * x, x * x.size, x % 2, 1 / x, x @ x.mT, x == 1, ~(x < 2),
    ]  # fmt: skip
