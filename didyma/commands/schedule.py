"""``didyma schedule``: apply a schedule to a loop function, and show what each step makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from didyma.checking import ENGINES
from didyma.checking import check as judge
from didyma.codegen.options import Options
from didyma.codegen.runtime import disk
from didyma.codegen.schedule.steps.apply import run
from didyma.codegen.schedule.steps.choose import loop_hash, other_function
from didyma.codegen.schedule.steps.loops import loops_of
from didyma.codegen.schedule.steps.text import ScheduleText, parse, show_step
from didyma.commands.common import AGREE, print_json
from didyma.commands.judge import exit_code
from didyma.files import read_loops
from didyma.fuzz import watchdog
from didyma.loops import LoopProgram
from didyma.oracle.report import Finding, Level, Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import RANK, For, PrimFunc
from didyma.refimpl.ir.lowered import LOWERING
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.walk import stmts
from didyma.show import verdict

TIMEOUT = 300.0  # seconds after which judging counts as hung


def schedule(
    file: Path, steps: Path | None, target: str, json: bool, *, check: bool = False
) -> int:
    """Print a loop function, and the function after each pass and each step of a schedule.

    Passes come first, as far as they change the function.  With ``check`` the last one is judged by
    the definition of the first, in a subprocess.

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
    document: dict[str, Any] = {"function": f.name, "hash": key, "steps": list(map(_row, rows))}
    if not json:
        for step, g in rows:
            print(*([f"# {step}"] if step else []), show(g), sep="\n")
    report = _judged(rows, given, target) if check else None
    if report is not None:
        document["verdict"] = found = verdict.record(report, {})
        if not json:
            verdict.table(found)
    if json:
        print_json(document)
    return AGREE if report is None else exit_code(report)


def _judged(rows: Sequence[tuple[str, PrimFunc]], given: ScheduleText, target: str) -> Report:
    """Judge a function with a schedule; a crash or a hang is a finding."""
    f, g = rows[0][1], rows[-1][1]
    alone = any(isinstance(s, For) and s.axis == RANK for s in stmts(g.body))
    engines = ("simt",) if alone else ENGINES  # host has no clusters
    answer = watchdog.guarded(_report, (f, given, engines, target), TIMEOUT)
    match answer:
        case watchdog.Raised(error):
            raise error
        case watchdog.Died(kind, reason):
            finding = Finding("schedule", f.name, kind, reason)
            return Report((Level("schedule", findings=(finding,)),))
        case report:
            return report


def _report(
    f: PrimFunc,
    given: ScheduleText,
    engines: Sequence[str],
    target: str,
    say: Callable[[str], None],
) -> Report:
    del say
    schedules = {given.function: given.steps} if given.steps else {}
    return judge(
        LoopProgram(f), engines=engines, schedules=schedules, options=Options(target=target)
    )


def _read(path: Path, f: PrimFunc) -> ScheduleText:
    found = parse(disk.read_text(path), str(path))
    if found.function not in (f.name, loop_hash(f)):
        raise other_function(found, (f.name,))
    return found


def _row(row: tuple[str, PrimFunc]) -> dict[str, Any]:
    step, f = row
    return {"step": step, "text": show(f), "loops": [x.var.name for x in loops_of(f.body)]}
