"""Keys differ wherever a pick might; examples are laid out as their arguments say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen import plugins
from didyma.codegen.options import KernelOptions, MemoryOptions, Options
from didyma.codegen.select.inputs import PERIOD, example
from didyma.codegen.select.keys import Argument, bucket, function, hints, key_of
from didyma.refimpl.ir.types import DType
from tests.codegen.select.make import N, loop

X = Argument.contiguous("x", DType.F32, (6, 90))


def key(x: Argument = X, **other: object) -> str:
    return key_of(loop(), "host: one", {}, Options(), {"x": x}).digest


def test_equal_conditions_have_equal_keys() -> None:
    assert key() == key_of(loop(), "host: one", {}, Options()).digest
    assert key_of(replace(loop(), name="other"), "host: one", {}, Options()).digest == key()


@pytest.mark.parametrize(
    "x",
    [
        replace(X, strides=(96, 1)),
        replace(X, strides=(1, 6)),
        replace(X, offset=4),
        replace(X, alignment=4),
        replace(X, sizes=(90, 6)),
        replace(X, dtype=DType.I32),
    ],
    ids=["padded rows", "columns first", "offset", "alignment", "sizes", "dtype"],
)
def test_every_part_of_a_layout_is_part_of_the_key(x: Argument) -> None:
    assert key(x) != key()


def test_function_target_and_options_are_parts_of_the_key() -> None:
    usual = Options()
    keys = {
        key_of(f, target, {}, options).digest
        for f, target, options in [
            (loop(), "host: one", usual),
            (loop(6, 91), "host: one", usual),
            (loop(6, 90, dtype=DType.F64), "host: one", usual),
            (loop(), "host: two", usual),
            (loop(), "host: one", Options(kernels=KernelOptions(block=64))),
            (loop(), "host: one", Options(kernels=KernelOptions(vectorise=False))),
        ]
    }
    assert len(keys) == 6


@pytest.mark.parametrize("group", [plugins.TEMPLATES, plugins.RECIPES, plugins.ROUTINES])
def test_a_pick_beside_a_registered_part_is_not_used_without_it(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_CALLED", {})
    alone = key()
    plugins.add(group, "own", object())
    beside = key()
    plugins.remove(group, "own")
    assert beside != alone == key()


def test_options_that_make_no_kernels_are_no_part_of_the_key() -> None:
    for other in (
        Options(memory=MemoryOptions(planner="none")),
        Options(kernels=KernelOptions(streams=2)),
        Options(kernels=KernelOptions(choices="main: row(groups=8, lanes=32)")),
    ):
        assert key_of(loop(), "host: one", {}, other).digest == key()


def test_sizes_share_a_key_up_to_the_next_power_of_two() -> None:
    f = loop(N, 90)
    assert bucket(f, {"n": 600}) == bucket(f, {"n": 1024}) == {"n": 1024}
    keys = {n: key_of(f, "t", {"n": n}, Options()).digest for n in (512, 513, 1024, 4096)}
    assert keys[513] == keys[1024]
    assert len(set(keys.values())) == 3
    assert hints(f) == {"n": 1024}
    assert hints(f, {"n": 7}) == {"n": 7}


def test_a_function_is_known_by_what_it_computes() -> None:
    assert function(replace(loop(), name="f", attrs=())) == function(loop())
    assert function(loop(6, 91)) != function(loop())


def test_examples_have_the_layout_of_their_arguments() -> None:
    a = Argument("x", DType.F64, (3, 5), (8, 1), offset=2)
    b = Argument.contiguous("i", DType.I64, (4,))
    x, i = example([a, b], seed=1)
    assert (x.shape, x.strides) == ((3, 5), (64, 8))
    assert x.dtype == np.float64
    assert x.base is not None
    whole = x.base
    while whole.base is not None:
        whole = whole.base
    starts = [y.__array_interface__["data"][0] for y in (whole, x)]
    assert starts[1] - starts[0] == 2 * 8
    assert 0 <= i.min() <= i.max() < 5
    for first, again in zip((x, i), example([a, b], seed=1), strict=True):
        assert np.array_equal(first, again)
    assert not np.array_equal(x, example([a, b], seed=2)[0])


def test_numbers_of_long_examples_come_again_after_a_prime_number_of_others() -> None:
    (x,) = example([Argument.contiguous("x", DType.F32, (3, 400_000))], seed=1)
    flat = x.reshape(-1)
    assert np.array_equal(flat[PERIOD:], flat[: flat.size - PERIOD])
    assert np.unique(flat[:PERIOD]).size > 0.9 * PERIOD
    assert all(PERIOD % n for n in range(2, 1024))
    (y,) = example([Argument.contiguous("x", DType.F32, (3, 5))], seed=1)
    assert np.array_equal(y.reshape(-1), flat[:15])


def test_examples_leave_the_global_random_state_alone() -> None:
    np.random.seed(7)
    want = np.random.random(3)
    np.random.seed(7)
    example([X], seed=3)
    assert np.array_equal(want, np.random.random(3))
