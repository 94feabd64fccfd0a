"""The search within a capacity, on problems that are known to have a solution."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from didyma.codegen.memory import trace
from didyma.codegen.memory.arena import FREE, Budget, Problem, orders, placement, portfolio, problem
from didyma.codegen.memory.arena.canonical import HEURISTICS
from didyma.codegen.memory.arena.search import Infeasible, OutOfNodes, PlacementSearch
from didyma.oracle.placement_check import check
from didyma.refimpl.ir.types import Array

DATA = Path(__file__).parents[3] / "data" / "planner" / "minimalloc"
Box = tuple[int, int, int, int]  # from, to, bottom, top


def cut(r: Random, box: Box, pieces: int) -> list[Box]:
    """Cut a rectangle of time and address into pieces, now along and now across."""
    t0, t1, a0, a1 = box
    if pieces <= 1 or (t1 - t0 <= 1 and a1 - a0 <= 1):
        return [box]
    half = pieces // 2
    if t1 - t0 > 1 and (r.random() < 0.5 or a1 - a0 <= 1):
        m = r.randrange(t0 + 1, t1)
        return cut(r, (t0, m, a0, a1), half) + cut(r, (m, t1, a0, a1), pieces - half)
    m = r.randrange(a0 + 1, a1)
    return cut(r, (t0, t1, a0, m), half) + cut(r, (t0, t1, m, a1), pieces - half)


def perfect(seed: int) -> Problem:
    """Buffers that fill their arena, or all but; some may be fixed to where they were cut."""
    r = Random(seed)
    whole = (0, r.randrange(3, 12), 0, r.randrange(6, 30))
    boxes = cut(r, whole, r.randrange(4, 30))
    if r.random() < 0.5:
        boxes = [b for b in boxes if r.random() < 0.9] or boxes
    r.shuffle(boxes)
    share = 0.15 if r.random() < 0.3 else 0.0
    a = np.array(boxes)
    fixed = [b[2] if r.random() < share else FREE for b in boxes]
    return problem(a[:, 0], a[:, 1], a[:, 3] - a[:, 2], fixed=fixed, capacity=whole[3])


def sound(p: Problem, offsets: list[int]) -> bool:
    lower, upper, size = (a.tolist() for a in (p.lower, p.upper, p.size))
    return not check(lower, upper, size, offsets, fixed=p.fixed.tolist(), capacity=p.capacity)


@pytest.mark.parametrize("order", [*HEURISTICS, orders.by_start])
def test_what_was_cut_out_of_an_arena_fits_into_it(order: orders.Order) -> None:
    solved = 0
    for seed in range(120):
        p = perfect(seed)
        assert p.capacity is not None
        try:
            found = PlacementSearch(p, p.capacity, order(p)).run(2_000, None)
        except OutOfNodes:
            continue
        assert sound(p, found.tolist()), seed
        solved += 1
    assert solved >= 110


@pytest.mark.parametrize("order", HEURISTICS)
def test_a_byte_less_is_proved_to_be_too_little_by_those_that_do_not_fit(
    order: orders.Order,
) -> None:
    for seed in range(60):
        p = perfect(seed)
        assert p.capacity is not None
        whole = p.fixed.max() == FREE and int((p.size * (p.upper - p.lower)).sum())
        span = int(p.upper.max() - p.lower.min())
        if whole != p.capacity * span:
            continue
        with pytest.raises(Infeasible) as caught:
            PlacementSearch(p, p.capacity - 1, order(p)).run(2_000, None)
        core = caught.value.core
        assert int(p.pick(core).size.sum()) >= p.capacity


@pytest.mark.parametrize("name", ["B", "D", "H", "J", "K"])
def test_hard_traces_take_few_steps_in_one_of_the_orders(name: str) -> None:
    p = trace.parse((DATA / f"{name}.1048576.csv").read_text(), name, 1 << 20)
    for order in HEURISTICS:
        try:
            found = PlacementSearch(p, 1 << 20, order(p)).run(2_000, None)
        except OutOfNodes:
            continue
        assert sound(p, found.tolist())
        return
    pytest.fail("no order finds it")


def test_a_capacity_has_nine_tenths_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    p = perfect(3)
    best = placement(p, np.cumsum(p.size) - p.size)
    given: list[float] = []

    def none(p: Problem, target: int, nodes: int | None, deadline: float | None) -> Array:
        given.append((deadline or 0.0) - time.monotonic())
        raise Infeasible(np.arange(1))

    monkeypatch.setattr(portfolio, "within", none)
    goal = best.peak // 2
    for capacity, least, most in ((goal, 80, 90), (None, 40, 50)):
        portfolio.improve(replace(p, capacity=capacity), best, goal, Budget(time.monotonic() + 100))
        assert least < given[0] <= most
        given.clear()
