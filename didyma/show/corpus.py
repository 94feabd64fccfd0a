"""The cases of a corpus, as lines made from their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from didyma.show.console import console, line


def cases(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a line for each case, and under it why it is there."""
    out = console()
    for r in rows:
        about = r["signature"] or r["covers"]
        line(out, Path(r["file"]).name + (f"  ({about})" if about else ""))
        line(out, f"    {r['why']}")
    line(out, f"{len(rows)} case{'s' * (len(rows) != 1)}")


def added(path: Path, new: bool) -> None:
    """Say where a case was written, or where it is already."""
    said = "" if new else "the corpus has a case of this structure and these options: "
    line(console(), f"{said}{path}")


def merged(paths: Sequence[Path]) -> None:
    """Print the files that were added."""
    out = console()
    for path in paths:
        line(out, str(path))
    line(out, f"{len(paths)} case{'s' * (len(paths) != 1)} added")


def replayed(r: Mapping[str, Any]) -> None:
    """Print the cases that do not agree, and how many do."""
    out = console()
    rows = r["cases"]
    for row in rows:
        for f in row["findings"]:
            line(out, f"{row['file']}: {f['level']} ({f['kind']}) in {f['where']}: {f['message']}")
        if row["now"] == "nothing checked":
            line(out, f"{row['file']}: nothing checked")
    agree = sum(row["now"] == "agree" for row in rows)
    line(out, f"{agree} of {len(rows)} case{'s' * (len(rows) != 1)} agree")
