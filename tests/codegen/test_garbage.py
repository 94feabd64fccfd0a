"""A compile puts off full collections of garbage, and leaves the collector as it found it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import didyma as dd
from didyma.codegen.garbage import RARE, full_collections_rare
from didyma.codegen.pipeline import compile
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    """Give the collector its thresholds back after a test."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def _double() -> Module:
    return dd.trace(dd.f32[4])(_twice).module


def _twice(x: dd.Tensor) -> dd.Tensor:
    return x + x


def _fail(stage: str) -> None:
    raise ZeroDivisionError(stage)


def test_a_compile_restores_the_thresholds_even_if_it_fails() -> None:
    gc.set_threshold(500, 7, 11)
    within = list[tuple[int, int, int]]()
    compile(_double(), on_stage=lambda _: within.append(gc.get_threshold()))
    assert set(within) == {(500, 7, RARE)}
    assert gc.get_threshold() == (500, 7, 11)
    with pytest.raises(ZeroDivisionError):
        compile(_double(), on_stage=_fail)
    assert gc.get_threshold() == (500, 7, 11)
    with pytest.raises(DidymaError):
        compile(_double(), until="nowhere")
    assert gc.get_threshold() == (500, 7, 11)


def test_a_collector_that_collects_less_or_not_at_all_is_left_so() -> None:
    gc.set_threshold(0, 7, 2 * RARE)
    with full_collections_rare():
        assert gc.get_threshold() == (0, 7, 2 * RARE)


def test_the_last_of_several_threads_restores_the_thresholds() -> None:
    gc.set_threshold(500, 7, 11)
    both_in, one_out = Barrier(2), Barrier(2)

    def short() -> None:
        with full_collections_rare():
            both_in.wait(60)
        one_out.wait(60)

    def long() -> tuple[int, int, int]:
        with full_collections_rare():
            both_in.wait(60)
            one_out.wait(60)
            return gc.get_threshold()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(short), pool.submit(long)
        first.result()
        assert second.result() == (500, 7, RARE)
    assert gc.get_threshold() == (500, 7, 11)
