"""Products that are cut into parts, or held to one thread, are the same products."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS, blas, convolution


def conv(x: Array, w: Array, **attrs: tuple[int, ...] | int) -> Array:
    t = OPS["conv"].infer([TensorType(DType.of(a), a.shape) for a in (x, w)], attrs)
    return OPS["conv"].apply(attrs).eval([x, w], t)


@pytest.mark.parametrize("gathered", [1, 3_000, 100_000])
@pytest.mark.parametrize("groups", [1, 2])
def test_windows_gathered_by_parts(
    gathered: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, (2, 4, 17, 13)).astype(np.float64)  # sums of them are exact
    w = rng.integers(-9, 9, (6, 4 // groups, 3, 2)).astype(np.float64)
    attrs: dict[str, tuple[int, ...] | int] = {
        "strides": (2, 1), "dilations": (2, 3), "low": (1, 0), "high": (2, 1), "groups": groups
    }  # fmt: skip
    monkeypatch.setattr(convolution, "GATHERED", 1 << 40)
    whole = conv(x, w, **attrs)
    monkeypatch.setattr(convolution, "GATHERED", gathered)
    assert (conv(x, w, **attrs) == whole).all()
    padded = np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 1)])
    each = 4 // groups
    for n, o, i, j in ((0, 0, 0, 0), (1, 5, 7, 10), (0, 3, 3, 4)):
        c = o // (6 // groups) * each
        seen = padded[n, c : c + each, 2 * i : 2 * i + 5 : 2, j : j + 4 : 3]
        assert whole[n, o, i, j] == (seen * w[o]).sum()


SEEN: list[int] = []


class Noting(np.ndarray):
    """An array that notes on how many threads it is multiplied."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Array) -> Array:
        del method
        SEEN.append(threads())
        return np.asarray(ufunc(*(np.asarray(x) for x in inputs)))


def threads() -> int:
    (pool, *_) = ThreadpoolController().select(user_api="blas").lib_controllers
    return pool.num_threads or 0


@contextmanager
def on_threads(count: int) -> Generator[None]:
    """Let the BLAS have so many threads, if it can."""
    pools = ThreadpoolController().select(user_api="blas").lib_controllers
    before = [p.num_threads for p in pools]
    for p in pools:
        p.set_num_threads(count)
    SEEN.clear()
    try:
        yield
    finally:
        for p, n in zip(pools, before, strict=True):
            p.set_num_threads(n or 1)


@pytest.mark.skipif(
    not ThreadpoolController().select(user_api="blas").lib_controllers, reason="no BLAS to ask"
)
@pytest.mark.parametrize(
    ("size", "many", "alone"), [(8, 1 << 30, False), (128, 1 << 30, True), (128, 1 << 21, False)]
)
def test_middling_products_have_one_thread(
    size: int, many: int, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blas, "MANY", many)
    a = np.ones((size, size), np.float32).view(Noting)
    with on_threads(2):
        most = threads()
        assert (blas.matmul(a, a) == size).all()
        assert threads() == most
    assert {1 if alone else most} == set(SEEN)
