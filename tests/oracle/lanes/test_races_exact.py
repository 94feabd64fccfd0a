"""The race check against the definition, pair by pair, on random kernels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest

from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.loop import Allocate, Atomic, Barrier, If, Stmt
from didyma.refimpl.ir.types import Array, DType
from tests.oracle.lanes.bodies import run
from tests.refimpl.interp.build import BOOL, F32, b, f32, grid, load, shared, store, t, threads

BLOCKS, THREADS, SIZE, STEPS = 2, 3, 5, 4


@dataclass(frozen=True)
class Touch:
    """One thread's access: interval counts the barriers its block has passed."""

    block: int
    thread: int
    interval: int
    kind: str
    place: tuple[str, int, int]  # buffer, copy, element


def clash(x: Touch, y: Touch) -> bool:
    """Two accesses that nothing orders, one of them a write, not both atomic."""
    if x.place != y.place or {x.kind, y.kind} <= {"read"} or x.kind == y.kind == "atomic":
        return False
    if x.block != y.block:
        return True
    return x.thread != y.thread and x.interval == y.interval


def kernel(rng: np.random.Generator) -> tuple[Stmt, dict[str, Array], bool]:
    """A random kernel on a global and a shared buffer, its tables, and whether it races."""
    tables: dict[str, Array] = {}
    body: list[Stmt] = []
    touches: list[Touch] = []
    interval = 1
    fill = [If(load("first", t, dtype=BOOL), store("s", e, value=f32(0))) for e in range(SIZE)]
    tables["first"] = np.arange(THREADS) == 0
    for block in range(BLOCKS):
        touches += [Touch(block, 0, 0, "write", ("s", block, e)) for e in range(SIZE)]
    for step in range(STEPS):
        if rng.random() < 0.4:
            body.append(Barrier())
            interval += 1
        name, kind = str(rng.choice(["s", "g"])), str(rng.choice(["read", "write", "atomic"]))
        at = rng.integers(0, SIZE, (BLOCKS, THREADS))
        if rng.random() < 0.7:  # mostly everyone has an element of their own
            at = np.stack([rng.permutation(SIZE)[:THREADS] for _ in range(BLOCKS)])
        on = rng.random((BLOCKS, THREADS)) < 0.6
        tables |= {f"at{step}": at.astype(np.int64), f"on{step}": on}
        index = load(f"at{step}", b, t, dtype=DType.I64)
        accesses: dict[str, Stmt] = {
            "read": store("r", b, t, step, value=load(name, index)),
            "write": store(name, index, value=f32(1)),
            "atomic": Atomic("add", name, (index,), f32(1)),
        }
        body.append(If(load(f"on{step}", b, t, dtype=BOOL), accesses[kind]))
        touches += [
            Touch(p, q, interval, kind, (name, p if name == "s" else 0, int(at[p, q])))
            for p, q in np.ndindex(BLOCKS, THREADS)
            if on[p, q]
        ]
    races = any(clash(x, y) for x, y in combinations(touches, 2))
    inner = threads(THREADS, *fill, Barrier(), *body)
    return grid(BLOCKS, Allocate(shared("s", SIZE), inner)), tables, races


@pytest.mark.parametrize("seed", range(4))
def test_races_are_found_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = {True: 0, False: 0}
    for _ in range(60):
        body, tables, races = kernel(rng)
        outputs = {
            "g": np.zeros(SIZE, F32.numpy),
            "r": np.zeros((BLOCKS, THREADS, STEPS), F32.numpy),
        }
        fault = ""
        try:
            run(body, tables, outputs)
        except LoopFault as e:
            fault = e.kind
        assert fault == ("race" if races else "")
        found[races] += 1
    assert min(found.values()) > 5, "both kinds of kernel must occur"
