"""Exact counters of the workloads: kept with the time of their compile, and held to the past."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pytest

import didyma as dd
from didyma.bench import counters, records
from didyma.bench.peers import JAX, TORCH
from didyma.bench.workloads import ALL, WORKLOADS, Workload, arguments
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.schedule import dispatch
from tests.bench import history, pinned

T = TypeVar("T")

LIMITS = "counters:+0%,text:+10%"


class Benchmark(Protocol):
    """The part of pytest-benchmark's fixture that is used here."""

    group: str
    extra_info: dict[str, Any]

    def __call__(self, run: Callable[[], T]) -> T: ...

    def pedantic(self, run: Callable[[], T], *, rounds: int) -> T: ...


def measured(
    found: Mapping[str, Mapping[str, int]], test: str = "test_workload"
) -> list[records.Measured]:
    return [records.Measured(f"{test}[{name}]", "", 0, c, None) for name, c in found.items()]


@pytest.mark.parametrize("w", ALL, ids=lambda w: w.name)
def test_workload(benchmark: Benchmark, w: Workload) -> None:
    benchmark.group = w.group
    benchmark.extra_info.update(counters.count(w, Options(), counters.compiler()))
    module = w.program().module
    benchmark(lambda: compile(module, Options()))


@pytest.mark.parametrize("p", pinned.ALL, ids=lambda p: p.recipe)
def test_recipe(benchmark: Benchmark, p: pinned.Pinned) -> None:
    benchmark.group = pinned.TARGET
    options = p.chosen()
    benchmark.extra_info.update(counters.count(p.workload, options, counters.compiler()))
    module = p.workload.program().module
    benchmark(lambda: compile(module, options))


def test_every_recipe_is_pinned() -> None:
    assert {*dispatch.names()} == pinned.OF.keys()
    for p in pinned.ALL:
        assert f"{p.recipe}(" in p.point


def test_no_counter_grew() -> None:
    """``nox -s bench -- keep`` keeps the counters after a change on purpose."""
    compiler = counters.compiler()
    now = measured({w.name: counters.count(w, Options(), compiler) for w in ALL})
    of_recipes = {p.recipe: counters.count(p.workload, p.chosen(), compiler) for p in pinned.ALL}
    now += measured(of_recipes, "test_recipe")
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


def test_a_run_of_some_benchmarks_is_kept_beside_the_others(tmp_path: Path) -> None:
    def row(name: str, counter: int) -> dict[str, Any]:
        return {"name": name, "group": "g", "extra_info": {"read": counter}, "stats": {"min": 0.5}}

    old, new = tmp_path / "2000-01-01.json", tmp_path / "run.json"
    old.write_text(json.dumps({"benchmarks": [row("a", 1), row("b", 2)]}))
    new.write_text(json.dumps({"benchmarks": [row("b", 3), row("c", 4)]}))
    day = datetime.date(2000, 1, 2)
    for others, want in ((old, {"a": 1, "b": 3, "c": 4}), (None, {"b": 3, "c": 4})):
        kept = records.read(history.keep(new, day, tmp_path, others))
        assert {m.name: m.counters["read"] for m in kept} == want
        assert {m.seconds for m in kept} == {0.5}


@pytest.mark.parametrize("s", pinned.SLOWER, ids=lambda s: f"{s.counter}-{s.recipe}")
def test_a_slower_kernel_of_each_recipe_fails_by_a_counter(s: pinned.Slower) -> None:
    p = pinned.OF[s.recipe]
    usual, slow = (
        measured({s.recipe: counters.count(p.workload, o, None)}, "test_recipe")
        for o in (p.chosen(), p.chosen(s.point))
    )
    failed = records.compare(usual, slow, records.limits(LIMITS)).changes
    assert s.counter in {c.quantity for c in failed if c.failed}


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
