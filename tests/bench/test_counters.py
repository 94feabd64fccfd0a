"""Exact counters of the workloads: kept with the time of their compile, and held to the past."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
import pytest

import didyma as dd
from didyma.bench import counters, records
from didyma.bench.peers import JAX, TORCH
from didyma.bench.workloads import ALL, WORKLOADS, Workload, arguments
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from tests.bench import history

T = TypeVar("T")

LIMITS = "counters:+0%,text:+10%"


class Benchmark(Protocol):
    """The part of pytest-benchmark's fixture that is used here."""

    group: str
    extra_info: dict[str, Any]

    def __call__(self, run: Callable[[], T]) -> T: ...

    def pedantic(self, run: Callable[[], T], *, rounds: int) -> T: ...


def measured(found: Mapping[str, Mapping[str, int]]) -> list[records.Measured]:
    return [
        records.Measured(f"{test_workload.__name__}[{name}]", "", 0, c, None)
        for name, c in found.items()
    ]


@pytest.mark.parametrize("w", ALL, ids=lambda w: w.name)
def test_workload(benchmark: Benchmark, w: Workload) -> None:
    benchmark.group = w.group
    benchmark.extra_info.update(counters.count(w, Options(), counters.compiler()))
    module = w.program().module
    benchmark(lambda: compile(module, Options()))


def test_no_counter_grew() -> None:
    """``nox -s bench -- keep`` keeps the counters after a change on purpose."""
    compiler = counters.compiler()
    now = measured({w.name: counters.count(w, Options(), compiler) for w in ALL})
    past = [m for m in records.read(history.newest()) if m.counters]
    found = records.compare(past, now, records.limits(LIMITS))
    assert [c for c in found.changes if c.failed] == []
    assert (found.lost, found.new) == ((), ())


@pytest.mark.parametrize(
    ("name", "options", "grown"),
    [
        pytest.param("softmax_bf16", {"graph.rows": False}, {"read", "launches"}, id="reads"),
        pytest.param("gelu_bf16", {"graph.fuse": False}, {"launches"}, id="launches"),
        pytest.param("fma_f32", {"kernels.vectorise": False}, {"accesses"}, id="narrow"),
        pytest.param(
            "row_sum_f32",
            {"kernels.choices": "fused_sum_0: serial(block=256, parts=0, unroll=4, wide=0)"},
            {"longest"},
            id="serial",
        ),
    ],
)
def test_a_slowdown_fails_by_a_counter(name: str, options: dict[str, Any], grown: set[str]) -> None:
    w = WORKLOADS[name]
    usual, slow = (
        measured({name: counters.count(w, o, None)})
        for o in (Options(), Options().changed(options))
    )
    failed = records.compare(usual, slow, records.limits(LIMITS)).changes
    assert grown <= {c.quantity for c in failed if c.failed}
    back = records.compare(slow, usual, records.limits("counters:+0%")).changes
    assert not grown & {c.quantity for c in back if c.failed}


@pytest.mark.parametrize("name", ["fma_f32", "transpose_f32", "row_sum_f32"])
def test_bytes_are_those_of_the_arrays(name: str) -> None:
    w = WORKLOADS[name]
    arrays = arguments(w)
    results = [np.asarray(dd.compile(w.program())(*arrays))]
    found = counters.count(w, Options(), None)
    assert found["read"] == sum(a.nbytes for a in arrays)
    assert found["written"] == sum(a.nbytes for a in results)
    assert found["least"] == found["read"] + found["written"]


@pytest.mark.parametrize("w", ALL, ids=lambda w: w.name)
def test_a_workload_is_computed_right(w: Workload) -> None:
    """They are larger than what campaigns draw, and reach thresholds that those do not."""
    assert dd.check(w.program(), engines="host", tries=1).findings == ()


def test_every_workload_has_peers() -> None:
    assert TORCH.keys() == JAX.keys() == WORKLOADS.keys()
