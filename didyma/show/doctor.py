"""What ``didyma doctor`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from didyma.codegen.runtime.registry import Availability
from didyma.show.console import console, line, paragraph


def doctor(
    states: Sequence[Availability],
    formats: Sequence[Availability],
    extras: Sequence[Availability],
    versions: Mapping[str, str | None],
) -> None:
    """Print what can run here, with a command that mends each thing that cannot."""
    out = console()
    table = Table("engine", "works here", "why")
    for s in (*states, *formats):
        table.add_row(s.name, "yes" if s.runs else "no", Text(s.why))
    out.print(table)
    for s in (*states, *formats):
        if not s.runs:
            line(out, f"to mend {s.name}: {s.mend}")
    table = Table("extra", "installed", "adds")
    for s in extras:
        table.add_row(s.name, "yes" if s.runs else "no", Text(s.why))
    out.print(table)
    for s in extras:
        if not s.runs:
            line(out, f"to add {s.name}: {s.mend}")
    have = [f"{name} {v}" for name, v in versions.items() if v is not None]
    lack = [name for name, v in versions.items() if v is None]
    paragraph(out, f"found: {', '.join(have)}")
    if lack:
        paragraph(out, f"absent: {', '.join(lack)}")
