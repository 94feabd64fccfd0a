"""``didyma plan``: what memory planners make of a trace or a program."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from didyma import fitting
from didyma.codegen.memory import trace
from didyma.codegen.memory.arena import (
    ArenaPlanner,
    Placement,
    Problem,
    lower_bound,
    problem,
    require_capacity,
    solve,
)
from didyma.codegen.memory.liveness import live_ranges
from didyma.codegen.memory.planners import names
from didyma.codegen.memory.planners import planner as planner_by_name
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.commands.common import AGREE, DISAGREE, NOTHING_RAN, print_json
from didyma.files import beside, read_fixed
from didyma.fuzz import disk
from didyma.oracle.placement_check import check
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.program import ALIGNMENT, Program
from didyma.refimpl.verify.text import read as read_text
from didyma.show.console import console, line
from didyma.show.plan_plot import must_be_svg, svg

_PROGRAM = re.compile(r"(?:\s|#[^\n]*\n)*program\b")


@dataclass(frozen=True, slots=True)
class Row:
    """What one planner made of the problem: a placement, or why there is none."""

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


def read(file: Path, given: Sequence[str], capacity: int | None) -> Task:
    """Read a trace or a program, or compile a graph, and take its buffers at a binding of its dims.

    A size of an input that is not given is chosen as ``check`` chooses it; any other symbol has the
    least value it may have.  DidymaError as the readers, and ``bad-option`` for a dim that is not
    the program's.
    """
    if file.suffix == ".csv":
        if given:
            raise DidymaError("bad-option", "--dim", got=given[0], want="none: a trace has no dims")
        return Task(trace.parse(_text(file), str(file), capacity), {})
    sizes, fixed, default = bound(given), dict[str, int](), dict[str, int]()
    p = _program(file)
    if p is None:
        m, known = read_fixed(file, sizes)
        fixed.update(known)
        p = compile(m, Options(planner="none"), until="plan").unplanned
        told = control.told(m)
        default = fitting.default_sizes(m, {k: n for k, n in sizes.items() if k in told})
    ranges = {v.name: v for v in p.dims}
    for name, n in sizes.items():
        if name not in ranges and name not in fixed:
            want = f"NAME=N with NAME of: {', '.join(ranges) or 'none: no size is symbolic'}"
            raise DidymaError("bad-option", f"--dim {name}={n}", got=name, want=want)
    known = {name: n for name, n in (default | sizes).items() if name in ranges}
    env = {name: v.lo for name, v in ranges.items()} | known
    dims.check_ranges(env, p.dims)
    free = env.keys() - sizes.keys()
    origins = {name: "default" if name in default else "its least" for name in free}
    types = p.type
    live = live_ranges(p.lines, {*p.inputs, *(name for name, _ in p.constants)})
    placed = problem(
        [r.start for r in live.values()],
        [r.end + 1 for r in live.values()],
        [dims.evaluate(types[name].nbytes, env) for name in live],
        names=list(live),
        alignment=ALIGNMENT,
        capacity=capacity,
    )
    return Task(placed, env | fixed, origins)


def bound(given: Sequence[str]) -> dict[str, int]:
    """Return the sizes of words NAME=N; DidymaError ``bad-option``."""
    found: dict[str, int] = {}
    for item in given:
        name, _, value = item.partition("=")
        if not (name and value.isascii() and value.isdecimal() and len(value) < 19):
            raise DidymaError("bad-option", f"--dim {item}", got=item, want="NAME=N")
        found[name] = int(value)
    return found


def _program(file: Path) -> Program | None:
    """The program of a text that is one; None where it is a graph."""
    if file.suffix != ".dym":
        return None
    text = disk.read_text(file)
    found = read_text(text, str(file), beside(file)) if _PROGRAM.match(text) else None
    return found if isinstance(found, Program) else None


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")  # as it is: the reader takes CRLF
    except (OSError, UnicodeDecodeError) as e:
        raise DidymaError("unreadable-file", str(file), got=str(e), want="a text file") from None


def arena(name: str) -> ArenaPlanner:
    """Return the planner of a name, which must be one that can place a trace."""
    found = planner_by_name(name).arena
    if found is None:
        raise DidymaError(
            "bad-option", f"--planner {name}", got="a planner that reuses whole allocations only",
            want="one that places buffers in an arena",
        )  # fmt: skip
    return found


def measure(p: Problem, name: str, limit: float) -> Row:
    """Ask a planner, and judge its placement."""
    began = time.perf_counter()
    try:
        placed = solve(p, arena(name), limit)
    except DidymaError as e:
        return Row(name, time.perf_counter() - began, error=e)
    spent = time.perf_counter() - began
    faults = check(
        *(a.tolist() for a in (p.lower, p.upper, p.size, placed.offsets)),
        alignment=p.alignment.tolist(),
        fixed=p.fixed.tolist(),
        capacity=p.capacity,
        peak=placed.peak,
    )
    return Row(name, spent, placed, faults=tuple(f"{f.kind}: {f.message}" for f in faults))


def plan(
    file: Path,
    planner: str,
    capacity: int | None,
    given: Sequence[str],
    limit: float,
    plot: Path | None,
    json: bool,
) -> int:
    """Plan a file and print what came of it; exit code 1 if a placement is not sound."""
    if plot is not None:
        must_be_svg(plot)
    chosen = names() if planner == "all" else [arena(planner).name]
    task = read(file, given, capacity)
    p = task.problem
    if not p.count:
        raise DidymaError("no-buffers", str(file), got="no buffers", want="one at least")
    require_capacity(p)
    rows = [measure(p, name, limit) for name in chosen]
    if planner != "all" and rows[0].error is not None:
        raise rows[0].error
    best = min((r for r in reversed(rows) if r.placed), key=_peak, default=None)
    if plot is not None and best is not None and best.placed is not None:
        disk.write_text(plot, svg(p, best.placed, f"{file.name}, {best.planner}"))
    if json:
        records = [_record(task, r) for r in rows]
        print_json(records if planner == "all" else records[0])
    else:
        _print(task, file, rows)
    if any(r.faults for r in rows):
        return DISAGREE
    return AGREE if best is not None else NOTHING_RAN


def _peak(r: Row) -> int:
    assert r.placed is not None
    return r.placed.peak


def _record(task: Task, r: Row) -> Mapping[str, Any]:
    p = task.problem
    bound = lower_bound(p)
    head = {"planner": r.planner, "buffers": p.count}
    if r.placed is None:
        assert r.error is not None
        return {
            **head, "lower_bound": bound, "seconds": round(r.seconds, 6), "error": r.error.code,
            "got": r.error.got,
        }  # fmt: skip
    return {
        **head,
        "peak": r.placed.peak,
        "lower_bound": bound,
        "ratio": _ratio(r.placed.peak, bound),
        "seconds": round(r.seconds, 6),
        "offsets": dict(zip(p.names, r.placed.offsets.tolist(), strict=True)),
        **({"dims": dict(task.dims)} if task.dims else {}),
        **({"chosen": dict(task.origins)} if task.origins else {}),
        **({"faults": list(r.faults)} if r.faults else {}),
    }


def _ratio(peak: int, bound: int) -> float:
    return round(peak / bound, 6) if bound else 1.0


def _print(task: Task, file: Path, rows: Sequence[Row]) -> None:
    p = task.problem
    bound = lower_bound(p)
    lives = np.unique(np.concatenate([p.lower, p.upper]))
    out = console()
    held = "" if p.capacity is None else f", capacity {p.capacity:,} B"
    span = f"times {lives[0]} to {lives[-1]}"
    title = f"{file.name}: {p.count:,} buffers, {span}, lower bound {bound:,} B{held}"
    line(out, title)
    if task.dims:
        how = {name: f" ({origin})" for name, origin in task.origins.items()}
        sizes = (f"{name}={n}{how.get(name, '')}" for name, n in task.dims.items())
        line(out, f"at {', '.join(sizes)}")
    table = Table()
    for head in ("planner", "peak", "lower bound", "ratio", "seconds"):
        table.add_column(head, justify="left" if head == "planner" else "right")
    for r in rows:
        if r.placed is None:
            assert r.error is not None
            why = "not installed" if isinstance(r.error, EngineMissing) else r.error.code
            table.add_row(r.planner, why, f"{bound:,}", "-", f"{r.seconds:.3f}")
        else:
            ratio = f"{_ratio(r.placed.peak, bound):.4f}"
            table.add_row(r.planner, f"{r.placed.peak:,}", f"{bound:,}", ratio, f"{r.seconds:.3f}")
    out.print(table)
    for r in rows:
        for fault in r.faults[:5]:
            line(out, f"UNSOUND {r.planner}: {fault}")
