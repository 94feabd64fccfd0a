"""What memory planners achieve: as a record of JSON types, and as a table made from that record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from rich.table import Table

from didyma.codegen.memory.arena import Placement, Problem, lower_bound
from didyma.refimpl.errors import DidymaError
from didyma.show.console import console, line, put

Record: TypeAlias = Mapping[str, Any]

FAULTS = 5  # of a planner, printed


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one planner made of a problem: a placement, or the error with which it failed."""

    planner: str
    seconds: float
    placed: Placement | None = None
    error: DidymaError | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """Buffers to place, and the sizes that a program's symbols were taken to have.

    ``origins`` says of each size that was not given how it was chosen.
    """

    problem: Problem
    dims: Mapping[str, int]
    origins: Mapping[str, str] = field(default_factory=dict[str, str])


def record(task: Task, name: str, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Return a problem, by the name of its file, and a record of each planner's attempt."""
    p = task.problem
    times = np.unique(np.concatenate([p.lower, p.upper]))
    bound = lower_bound(p)
    return {
        "file": name,
        "buffers": p.count,
        "times": [int(times[0]), int(times[-1])],
        "lower_bound": bound,
        "capacity": p.capacity,
        "dims": dict(task.dims),
        "chosen": dict(task.origins),
        "planners": [_attempt(task, a, bound) for a in attempts],
    }


def _attempt(task: Task, a: Attempt, bound: int) -> dict[str, Any]:
    p = task.problem
    head = {"planner": a.planner, "buffers": p.count}
    if a.placed is None:
        assert a.error is not None
        return {
            **head, "lower_bound": bound, "seconds": round(a.seconds, 6), "error": a.error.code,
            "got": a.error.got,
        }  # fmt: skip
    return {
        **head,
        "peak": a.placed.peak,
        "lower_bound": bound,
        "ratio": round(a.placed.peak / bound, 6) if bound else 1.0,
        "seconds": round(a.seconds, 6),
        "offsets": dict(zip(p.names, a.placed.offsets.tolist(), strict=True)),
        **({"dims": dict(task.dims)} if task.dims else {}),
        **({"chosen": dict(task.origins)} if task.origins else {}),
        **({"faults": list(a.faults)} if a.faults else {}),
    }


def table(r: Record) -> None:
    """Print the record of a problem: a row for each planner, and the faults of its placement."""
    out = console()
    capacity = "" if r["capacity"] is None else f", capacity {r['capacity']:,} B"
    first, last = r["times"]
    bound = f"{r['lower_bound']:,}"
    title = f"{r['file']}: {r['buffers']:,} buffers, times {first} to {last}"
    line(out, f"{title}, lower bound {bound} B{capacity}")
    if r["dims"]:
        origins = {name: f" ({origin})" for name, origin in r["chosen"].items()}
        sizes = (f"{name}={n}{origins.get(name, '')}" for name, n in r["dims"].items())
        line(out, f"at {', '.join(sizes)}")
    rows = Table()
    for head in ("planner", "peak", "lower bound", "ratio", "seconds"):
        rows.add_column(head, justify="left" if head == "planner" else "right")
    for a in r["planners"]:
        peak, ratio = "not installed" if a.get("error") == "engine-missing" else a.get("error"), "-"
        if "peak" in a:
            peak, ratio = f"{a['peak']:,}", f"{a['ratio']:.4f}"
        rows.add_row(a["planner"], peak, bound, ratio, f"{a['seconds']:.3f}")
    put(out, rows)
    for a in r["planners"]:
        for fault in a.get("faults", ())[:FAULTS]:
            line(out, f"UNSOUND {a['planner']}: {fault}")
