"""What ``didyma doctor`` found: as a record of JSON types, and as tables made from that record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rich.table import Table
from rich.text import Text

from didyma.codegen.runtime.registry import Availability
from didyma.show.console import console, line, paragraph, put

Record: TypeAlias = Mapping[str, Any]
Compilers: TypeAlias = Mapping[str, Any]


def record(
    engines: Sequence[Availability],
    peers: Sequence[Availability],
    formats: Sequence[Availability],
    extras: Sequence[Availability],
    versions: Mapping[str, str | None],
    compilers: Compilers,
) -> dict[str, Any]:
    """Return what can run here as a record; ``versions`` has None for what is not installed.

    ``compilers`` says which C compilers were ``found``, and gives ``advice`` on speed.
    """
    found = {"engines": engines, "peers": peers, "formats": formats, "extras": extras}
    return {
        **{kind: [_availability(a) for a in some] for kind, some in found.items()},
        "compilers": list(compilers["found"]),
        "faster": compilers["advice"],
        "versions": dict(versions),
    }


def _availability(a: Availability) -> dict[str, Any]:
    return {"name": a.name, "runs": a.runs, "why": a.why, "mend": a.mend}


def tables(r: Record) -> None:
    """Print what can run here, with a command that installs each thing that cannot."""
    out = console()
    runnable = [*r["engines"], *r["formats"], *r["peers"]]
    for heads, rows, mend in (
        (("engine", "works here", "why"), runnable, "to mend"),
        (("extra", "installed", "adds"), r["extras"], "to add"),
    ):
        table = Table(*heads)
        for a in rows:
            table.add_row(a["name"], "yes" if a["runs"] else "no", Text(a["why"]))
        put(out, table)
        for a in rows:
            if not a["runs"]:
                line(out, f"{mend} {a['name']}: {a['mend']}")
    for a in r["compilers"]:
        line(out, f"compiler {a['name']}: {a['version']}")
    line(out, r["faster"])
    present = [f"{name} {v}" for name, v in r["versions"].items() if v is not None]
    absent = [name for name, v in r["versions"].items() if v is None]
    paragraph(out, f"found: {', '.join(present)}")
    if absent:
        paragraph(out, f"absent: {', '.join(absent)}")
