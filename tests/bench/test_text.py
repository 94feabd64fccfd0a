"""How fast texts are written, read and verified; and long campaigns of damage to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

import numpy as np
import pytest

from didyma.refimpl.ir.graph import Function, Module, Node
from didyma.refimpl.ir.text import parse, parse_loop, parse_module, show
from didyma.refimpl.ir.types import Tensor
from didyma.refimpl.verify import loop
from tests.refimpl.text.mutate import confused, damaged, outcome, texts, verdict
from tests.refimpl.verify.test_damage import sound_texts
from tests.refimpl.verify.test_sound import KERNEL

T = TypeVar("T")


class Benchmark(Protocol):
    """The part of pytest-benchmark's fixture that is used here."""

    def __call__(self, run: Callable[[], T]) -> T: ...

    def pedantic(self, run: Callable[[], T], *, rounds: int) -> T: ...


@pytest.fixture(scope="module")
def weights() -> Module:
    w = Tensor.of(np.random.default_rng(0).standard_normal(786_432).astype(np.float32))
    n = Node(("w",), "constant", (), (w.type,), (("value", w),))
    return Module((Function("main", (), (n,), ("w",)),))


def test_show_3_mb_of_weights(benchmark: Benchmark, weights: Module) -> None:
    assert len(benchmark(lambda: show(weights))) > 4_000_000


def test_parse_3_mb_of_weights(benchmark: Benchmark, weights: Module) -> None:
    text = show(weights)
    assert benchmark(lambda: parse_module(text)) == weights


def test_parse_200_kernels(benchmark: Benchmark) -> None:
    text = "".join(KERNEL.replace("@sum", f"@sum_{i}") for i in range(200))
    assert len(benchmark(lambda: parse_loop(text))) == 200


def test_verify_200_kernels(benchmark: Benchmark) -> None:
    kernels = parse_loop(KERNEL) * 200

    def run() -> None:
        for k in kernels:
            loop.verify(k)

    benchmark(run)


def test_damage(benchmark: Benchmark) -> None:
    sound = texts(range(100, 400))
    r = Random(1)

    def run() -> Counter[str]:
        return Counter(outcome(damaged(r.choice(sound), r)) for _ in range(10_000))

    assert benchmark.pedantic(run, rounds=1).keys() == {"", "parse"}


def test_confusion(benchmark: Benchmark) -> None:
    sound = [t for t in sound_texts() if parse(t)]
    r = Random(1)

    def run() -> Counter[str]:
        return Counter(verdict(confused(r.choice(sound), r)) for _ in range(10_000))

    assert len(benchmark.pedantic(run, rounds=1)) > 40
