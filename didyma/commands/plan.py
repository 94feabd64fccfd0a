"""``didyma plan``: compare memory planners on a trace or a program."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from didyma import fitting
from didyma.codegen.memory import trace
from didyma.codegen.memory.arena import (
    ArenaPlanner,
    Problem,
    problem,
    require_capacity,
    solve,
)
from didyma.codegen.memory.liveness import Lives
from didyma.codegen.memory.planners import names
from didyma.codegen.memory.planners import planner as planner_by_name
from didyma.codegen.options import MemoryOptions, Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime import disk
from didyma.commands.common import AGREE, DISAGREE, NOTHING_RAN, print_json
from didyma.files import beside, read_fixed
from didyma.oracle.placement_check import check
from didyma.refimpl.errors import DidymaError, reason
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.program import ALIGNMENT, Program
from didyma.show import plan as show
from didyma.show.plan import Attempt, Task
from didyma.show.plan_plot import must_be_svg, svg
from didyma.texts import read as read_text

_PROGRAM = re.compile(r"(?:\s|#[^\n]*\n)*program\b")


def read(file: Path, given: Sequence[str], capacity: int | None) -> Task:
    """Read the buffers of a trace, of a program, or of a graph, which is compiled first.

    Symbols have the sizes ``given``; a size of an input that is not given is chosen as ``check``
    chooses it, and any other symbol has the least value of its range.  DidymaError as the readers,
    and ``bad-option`` for a dim that is not the program's.
    """
    if file.suffix == ".csv":
        if given:
            raise DidymaError("bad-option", "--dim", got=given[0], want="none: a trace has no dims")
        return Task(trace.parse(_text(file), str(file), capacity), {})
    sizes, fixed, default = bound(given), dict[str, int](), dict[str, int]()
    p = _program(file)
    if p is None:
        if file.suffix not in (".dym", ".onnx") and file.exists():
            want = "a trace in .csv, a .dym text or an .onnx model"
            raise DidymaError(
                "unknown-format", str(file), got=file.suffix or "no suffix", want=want
            )
        m, known = read_fixed(file, sizes)
        fixed.update(known)
        p = compile(m, Options(memory=MemoryOptions(planner="none")), until="plan").unplanned
        bindable = control.input_symbols(m)
        default = fitting.default_sizes(m, {k: n for k, n in sizes.items() if k in bindable})
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
    lives = Lives(p.lines, frozenset((*p.inputs, *(name for name, _ in p.constants))))
    live = {name: life.live for name, life in lives.of.items()}
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
    """Return the sizes of items NAME=N; DidymaError ``bad-option`` for another item."""
    found: dict[str, int] = {}
    for item in given:
        name, _, value = item.partition("=")
        if not (name and value.isascii() and value.isdecimal() and len(value) < 19):
            raise DidymaError("bad-option", f"--dim {item}", got=item, want="NAME=N")
        found[name] = int(value)
    return found


def _program(file: Path) -> Program | None:
    """Read a file that holds a program; None where it holds a graph."""
    if file.suffix != ".dym":
        return None
    text = disk.read_text(file)
    found = read_text(text, str(file), beside(file)) if _PROGRAM.match(text) else None
    return found if isinstance(found, Program) else None


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode()  # as it is: the reader takes a mark and CRLF
    except (OSError, UnicodeDecodeError) as e:
        got, want = reason(e), "a text file"
        raise DidymaError("unreadable-file", str(file), got=got, want=want) from None


def arena(name: str) -> ArenaPlanner:
    """Return the planner of a name; DidymaError ``bad-option`` if it cannot place a trace."""
    found = planner_by_name(name).arena
    if found is None:
        raise DidymaError(
            "bad-option", f"--planner {name}", got="a planner that reuses whole allocations only",
            want="one that places buffers in an arena",
        )  # fmt: skip
    return found


def measure(p: Problem, name: str, limit: float) -> Attempt:
    """Run a planner on a problem, and judge its placement."""
    began = time.perf_counter()
    try:
        placed = solve(p, arena(name), limit)
    except DidymaError as e:
        return Attempt(name, time.perf_counter() - began, error=e)
    spent = time.perf_counter() - began
    faults = check(
        *(a.tolist() for a in (p.lower, p.upper, p.size, placed.offsets)),
        alignment=p.alignment.tolist(),
        fixed=p.fixed.tolist(),
        capacity=p.capacity,
        peak=placed.peak,
    )
    return Attempt(name, spent, placed, faults=tuple(f"{f.kind}: {f.message}" for f in faults))


def plan(
    file: Path,
    planner: str,
    capacity: int | None,
    given: Sequence[str],
    limit: float,
    plot: Path | None,
    json: bool,
) -> int:
    """Plan a file and print the result of each planner; exit code 1 if a placement is unsound."""
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
        disk.write_file(plot, svg(p, best.placed, f"{file.name}, {best.planner}"))
    record = show.record(task, file.name, rows)
    if json:
        print_json(record["planners"] if planner == "all" else record["planners"][0])
    else:
        show.table(record)
    if any(r.faults for r in rows):
        return DISAGREE
    return AGREE if best is not None else NOTHING_RAN


def _peak(r: Attempt) -> int:
    assert r.placed is not None
    return r.placed.peak
