"""Places of best terms, found group by group, are those of NumPy, and little is loaded twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.runtime.simt import Simt
from didyma.codegen.runtime.simt.access import Traffic
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

ROWS, LENGTH = 4, 160
OPTIONS = Options().changed({"target": "sm_90a"})
Draw = Callable[[np.random.Generator], tuple[Array, Array]]


def products(own: Any, dtype: Any, rows: int = ROWS, length: int = LENGTH) -> Any:
    """Trace the place of the best product in each row."""

    def place(x: dd.Tensor, w: dd.Tensor) -> Any:
        return own(dd.astype(x, dd.f32) * w, axis=-1)

    made: Any = dd.trace(dtype[rows, length], dd.f32[length])(place)
    return made


def built(program: Any, engine: Any = "simt", **values: int) -> Any:
    """Compile with a point of the recipe for the only function."""
    text = f"champion({', '.join(f'{k}={v}' for k, v in values.items())})"
    usual = cast("Any", dd.compile(program, engine=engine, options=OPTIONS))
    (name,) = usual.choices["choices"]
    return cast("Any", dd.compile(program, engine=engine, options=OPTIONS, choose={name: text}))


def _few(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return small integers, of which the best comes often: the first counts."""
    x, w = rng.integers(-3, 4, (ROWS, LENGTH)), rng.integers(-2, 3, LENGTH)
    return x.astype(np.float32), w.astype(np.float32)


def _with_nans(rng: np.random.Generator) -> tuple[Array, Array]:
    x, w = _few(rng)
    x[rng.random(x.shape) < 0.02] = np.nan
    return x, w


def _infinite(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return rows of which no term is better than what a fold starts from."""
    x, w = _few(rng)
    x[::2] = -np.inf
    x[1::2] = np.inf
    return x, np.ones_like(w)


def _zeros(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return zeros of both signs, which are equal."""
    x, w = _few(rng)
    return np.where(x > 0, np.float32(0), np.float32(-0.0)), np.abs(w)


@pytest.mark.parametrize("draw", [_few, _with_nans, _infinite, _zeros])
@pytest.mark.parametrize(
    ("results", "lanes", "size"), [(1, 32, 16), (4, 32, 4), (2, 64, 2), (4, 32, 16)]
)
def test_the_place_is_that_of_the_first_best_term(
    draw: Draw, results: int, lanes: int, size: int
) -> None:
    """Of ten groups of 16 terms, too, of which 22 of 32 threads have none."""
    x, w = draw(np.random.default_rng(1))
    for own, truth in ((dd.argmax, np.argmax), (dd.argmin, np.argmin)):
        exe = built(products(own, dd.f32), results=results, lanes=lanes, size=size)
        with np.errstate(invalid="ignore"):
            want = truth(x * w, axis=-1)
        assert np.array_equal(exe(x, w), want)


@pytest.mark.parametrize(("dtype", "kind"), [(dd.i8, np.int8), (dd.bf16, ml_dtypes.bfloat16)])
def test_narrow_terms_are_compared_in_f32(dtype: Any, kind: Any) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.integers(-99, 99, (8, 512)).astype(kind), rng.normal(size=512).astype(np.float32)
    exe = built(products(dd.argmax, dtype, 8, 512), results=8, lanes=32, size=8)
    assert np.array_equal(exe(x, w), np.argmax(x.astype(np.float32) * w, axis=-1))


@pytest.mark.parametrize("results", [1, 2, 4])
def test_what_rows_have_in_common_is_loaded_once_for_the_results_of_a_thread(results: int) -> None:
    """Beside that, each thread of a block loads a term of one of the best groups again."""
    traffic, rows, length, lanes, size = Traffic(), 4, 4096, 32, 8
    exe = built(
        products(dd.argmax, dd.f32, rows, length), Simt(traffic=traffic),
        results=results, lanes=lanes, size=size,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    exe(rng.normal(size=(rows, length)).astype(np.float32), np.ones(length, np.float32))
    read = {name: n // 4 for (_, name), n in traffic.read.items()}
    again = rows // results * lanes
    assert read["w"] == length * rows // results + again
    assert read["x"] == length * rows + again


def test_results_that_are_no_multiple_of_a_block_are_refused() -> None:
    with pytest.raises(DidymaError) as caught:
        built(products(dd.argmax, dd.f32, 5), results=4, lanes=32, size=4)
    assert caught.value.code == "bad-choice"


def test_a_block_may_have_fewer_threads_than_its_results_have_terms_of_best_groups() -> None:
    """Eight groups of 16 terms, which 32 threads take in four turns."""
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(8, 512)).astype(np.float32), rng.normal(size=512).astype(np.float32)
    exe = built(products(dd.argmin, dd.f32, 8, 512), results=8, lanes=32, size=16)
    assert np.array_equal(exe(x, w), np.argmin(x * w, axis=-1))
