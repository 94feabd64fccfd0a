"""What planners reach on real traces, and that each is what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from didyma.codegen.memory import trace
from didyma.codegen.memory.arena import Problem, lower_bound, problem, solve
from didyma.codegen.memory.arena.outward import outward
from didyma.refimpl.errors import DidymaError
from tests.bench.traces import KINDS

DATA = Path(__file__).parents[3] / "data" / "planner"
NETS = sorted((DATA / "nets").glob("*.csv"))


def read(file: Path, capacity: int | None = None) -> Problem:
    return trace.parse(file.read_text(), file.name, capacity)


@pytest.mark.parametrize("file", NETS, ids=[f.stem for f in NETS])
def test_networks_take_no_more_than_the_bound(file: Path) -> None:
    p = read(file)
    assert solve(p).peak == lower_bound(p)


def test_a_trace_of_a_thousand_buffers_takes_no_more_than_the_bound() -> None:
    p = read(DATA / "somas" / "resnet50.csv")
    assert solve(p, seconds=30.0).peak == lower_bound(p) == 1515472556


def test_a_trace_that_needs_a_search_fits_its_capacity() -> None:
    p = read(DATA / "minimalloc" / "J.1048576.csv", 1 << 20)
    assert solve(p, "canonical").peak <= 1 << 20


def smallest_peak(p: Problem, name: str, seconds: float | None = None) -> int:
    """The peak of a placement, or the one that the error for a missed capacity tells."""
    try:
        return solve(p, name, seconds).peak
    except DidymaError as e:
        found = re.search(r"peak (?:found is|of) (\d+) bytes", e.got)
        if found is None:
            raise
        return int(found[1])


@pytest.mark.parametrize("trace_name", ["A", "E"])
def test_a_capacity_that_is_missed_costs_nothing(trace_name: str) -> None:
    file = DATA / "minimalloc" / f"{trace_name}.1048576.csv"
    free = solve(read(file), "didyma").peak
    with pytest.raises(DidymaError, match="over-capacity"):
        solve(read(file, 1 << 20), "didyma")
    assert smallest_peak(read(file, 1 << 20), "didyma") <= free
    between = ((1 << 20) + free) // 2
    assert smallest_peak(read(file, between), "didyma") <= free


@pytest.mark.parametrize("name", ["canonical", "didyma", "best_fit", "hill_climb"])
def test_every_search_tells_the_smallest_peak_seen(name: str) -> None:
    file = DATA / "minimalloc" / "A.1048576.csv"
    assert smallest_peak(read(file, 1 << 20), name, 0.0) <= solve(read(file), name, 0.0).peak


def test_training_is_packed_outward_all_but_without_loss() -> None:
    p = KINDS["training"](3_000)
    offsets = outward(p)
    assert offsets is not None
    assert int((offsets + p.size).max()) <= lower_bound(p) * 1.000_001


def test_peaks_of_whole_buffer_planners_by_hand() -> None:
    p = problem([0, 1, 2, 3], [1, 2, 3, 4], [10, 4, 10, 6])
    assert solve(p, "none").peak == 30
    assert solve(p, "linear_scan").peak == 10
    # 10 is reused by 10 alone; 4 lies beside it, and 6 goes where it was or beside.
    assert solve(p, "size_class").peak == 14
    assert solve(p, "storage_id").peak == 10


def test_tokens_grow_up_to_sixteenfold() -> None:
    assert solve(problem([0, 1], [1, 2], [1, 16]), "storage_id").peak == 16
    assert solve(problem([0, 1], [1, 2], [1, 17]), "storage_id").peak == 18
