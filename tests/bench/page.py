"""Measured tables on a page, each between marks that name the bench which writes it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BARS = ROOT / "docs" / "bars.md"


def put(section: str, lines: Iterable[str], page: Path = BARS) -> None:
    """Replace what stands between the marks of a section."""
    text = page.read_text(encoding="utf-8")
    start, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->"
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    assert rest, f"{page.name} has no section {section}"
    assert end in rest, f"{page.name}: section {section} has no end"
    page.write_text(before + start + "\n".join(["", *lines, "", end]) + after, encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Lines of a Markdown table: the first column is text, the others are numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(str(x) for x in row) + " |"


def commit() -> str:
    """Short name of the commit that is checked out, with a plus if files differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = git("status", "--porcelain", "--untracked-files=no")
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + ("+" if changed else "")


class Shards:
    """Outcomes of ranges of seeds, one JSON line each, so that a long run can be resumed."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.done: list[dict[str, Any]] = []
        if file is not None and file.exists():
            lines = file.read_text(encoding="utf-8").splitlines()
            self.done = [json.loads(line) for line in lines]

    def missing(self, start: int, count: int, size: int) -> Iterator[range]:
        """Ranges of seeds that are not done yet; a range is done as it was cut, or not at all."""
        have = {(d["start"], d["count"]) for d in self.done}
        for at in range(start, start + count, size):
            part = range(at, min(at + size, start + count))
            if (part.start, len(part)) not in have:
                yield part

    def keep(self, part: range, outcome: Mapping[str, Any]) -> None:
        """Add the outcome of a range."""
        line = {"start": part.start, "count": len(part), "commit": commit(), **outcome}
        self.done.append(line)
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")
                out.flush()
                os.fsync(out.fileno())

    def total(self, name: str) -> float:
        """Sum of a number over all ranges."""
        return float(sum(d[name] for d in self.done))

    def commits(self) -> str:
        """How much ran on which commit."""
        by: dict[str, int] = {}
        for d in self.done:
            by[d["commit"]] = by.get(d["commit"], 0) + d["count"]
        return ", ".join(f"{n} on `{c}`" for c, n in by.items())
