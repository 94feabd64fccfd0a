"""The records of past benchmarks, beside this module: the newest is what changes are held to.

``python -m tests.bench.history RUN.json`` keeps a run of pytest-benchmark under today's date: its
names, groups, counters and least times, and nothing about the machine.  With ``--part`` the
benchmarks that did not run stay as they are in the newest record.
"""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from didyma.bench.records import record

FOLDER = Path(__file__).parent / "history"


def newest() -> Path:
    """Return the last record; names begin with the date."""
    return max(FOLDER.glob("*.json"))


def keep(run: Path, day: datetime.date, folder: Path, others: Path | None = None) -> Path:
    """Keep a run, with what it lacks of the record ``others``; one of the same day is replaced."""
    rows = {r["name"]: r for f in (others, run) if f is not None for r in _rows(f)}
    path = folder / f"{day.isoformat()}.json"
    path.write_text(record([*rows.values()]), encoding="utf-8")
    return path


def _rows(file: Path) -> list[dict[str, Any]]:
    found = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]
    return [{**row, "seconds": row["stats"]["min"]} for row in found]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--part", action="store_true")
    args = parser.parse_args()
    today = datetime.datetime.now(datetime.UTC).date()
    print(keep(args.run, today, FOLDER, newest() if args.part else None))
