"""``didyma schedule``: apply a schedule to a loop function, and show what each step makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from didyma.codegen.options import Options
from didyma.codegen.schedule.steps.apply import run
from didyma.codegen.schedule.steps.choose import loop_hash, other_function
from didyma.codegen.schedule.steps.loops import loops_of
from didyma.codegen.schedule.steps.text import ScheduleText, parse, show_step
from didyma.commands.common import AGREE, print_json
from didyma.files import read_loops
from didyma.fuzz import disk
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.lowered import LOWERING
from didyma.refimpl.ir.text import show


def schedule(file: Path, steps: Path | None, target: str, json: bool) -> int:
    """Print a loop function, and the function after each pass and each step of a schedule.

    Passes come first, as far as they change the function.

    Errors: those of the readers and the steps, ``unknown-format`` where the file holds no loop
    function, ``unknown-function`` for a schedule of another function, and ``unknown-target``.
    """
    device = Options(target=target).device
    f = read_loops(file)
    if f is None:
        raise DidymaError(
            "unknown-format", str(file), got="no loop function",
            want="a text that begins with `primfunc` or `kernel`",
            help="`didyma explain FILE` writes the loops of a graph to explain/loops.dym",
        )  # fmt: skip
    given = ScheduleText(f.name, ()) if steps is None else _read(steps, f)
    key, rows = loop_hash(f), [("", f)]
    for name, lower in LOWERING.items():
        if (g := lower(f)) is not f:
            rows.append((name, f := g))
    rows += ((show_step(a.step), a.func) for a in run(given.steps, f, device, given.at))
    if json:
        print_json({"function": f.name, "hash": key, "steps": list(map(_row, rows))})
        return AGREE
    for step, g in rows:
        if step:
            print(f"# {step}")
        print(show(g))
    return AGREE


def _read(path: Path, f: PrimFunc) -> ScheduleText:
    found = parse(disk.read_text(path), str(path))
    if found.function not in (f.name, loop_hash(f)):
        raise other_function(found, (f.name,))
    return found


def _row(row: tuple[str, PrimFunc]) -> dict[str, Any]:
    step, f = row
    return {"step": step, "text": show(f), "loops": [x.var.name for x in loops_of(f.body)]}
