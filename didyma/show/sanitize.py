"""What ``didyma sanitize`` found: as a record of JSON types, and as lines made from that record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from didyma.codegen.runtime.ptx.sanitize import Sanitized
from didyma.codegen.runtime.ptx.shape import Shape
from didyma.refimpl.errors import counted
from didyma.show.console import console, line


def record(
    done: Sanitized,
    file: str,
    kernel: str,
    shape: Shape,
    shared: int,
    guessed: Sequence[str] = (),
    varied: Sequence[str] = (),
) -> dict[str, Any]:
    """Return findings, how much ran, and the arguments that were guessed for want of others.

    ``varied`` says with which other arguments it ran, too.
    """
    rows = [(f.is_note, {**asdict(f), "inlined": list(f.inlined)}) for f in done.findings]
    return {
        "file": file,
        "kernel": kernel,
        "verdict": "faulty" if done.faults else "clean" if done.schedules else "nothing ran",
        "grid": list(shape.grid),
        "block": list(shape.block),
        "shared": shared,
        "guessed": list(guessed),
        "varied": list(varied),
        "schedules": done.schedules,
        "instructions": done.instructions,
        "findings": [row for note, row in rows if not note],
        "notes": [row for note, row in rows if note],
    }


def text(found: Mapping[str, Any]) -> None:
    """Print the guessed arguments, findings with their lines, then a summary; or why none ran."""
    to = console()
    if found["verdict"] == "refused":
        line(to, f"{found['kernel']}: not run: {found['error']}")
        return
    if found["guessed"]:
        launch = [f"--{n} {','.join(map(str, found[n]))}" for n in ("grid", "block")]
        launch += [f"--shared {found['shared']}"] if found["shared"] else []
        line(to, f"guessed: {' '.join(launch)} --arg {' --arg '.join(found['guessed'])}")
    for row in found["findings"]:
        line(to, f"{_where(row)}: {row['kind']}: {_what(row)}")
        _more(row)
    for row in found["notes"]:
        line(to, f"{_where(row)}: note: {row['kind']}: {_what(row)}")
        _more(row)
    if found["simt"]["differs"]:
        line(to, f"{found['simt']['differs']}; one of the engines is wrong: please report it")
    count = len(found["findings"])
    line(to, f"{found['kernel']}: {counted(count, 'finding')} in {found['schedules']} schedules, "
             f"{found['instructions']} instructions of threads"
             f"{_tried(found['varied'])}")  # fmt: skip


def _tried(varied: Sequence[str]) -> str:
    """Return with which other arguments it ran.

    >>> _tried(["n is 1", "n is 9", "x is null"])
    ', also where n is 1 or 9, or x is null'
    """
    groups: dict[str, list[str]] = {}
    for names, _, value in (v.rpartition(" ") for v in varied):
        groups.setdefault(names, []).append(value)
    each = [f"{names} {' or '.join(values)}" for names, values in groups.items()]
    return f", also where {', or '.join(each)}" if each else ""


def _where(row: Mapping[str, Any]) -> str:
    return f"{row['file']}:{row['line']}" if row["line"] else row["file"] or "no line"


def _what(row: Mapping[str, Any]) -> str:
    other = f" at {row['other']}" if row["other"] else ""
    where = f", where {row['where']}" if row["where"] else ""
    return f"{row['detail']}{other} ({counted(row['threads'], 'thread')}){where}"


def _more(row: Mapping[str, Any]) -> None:
    to = console()
    if row["source"]:
        line(to, f"    {row['source']}")
    if row["inlined"]:
        line(to, f"    inlined at {', '.join(row['inlined'])}")
