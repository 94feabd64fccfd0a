"""The records of past benchmarks, beside this module: the newest is what changes are held to.

``python -m tests.bench.history RUN.json`` keeps a run of pytest-benchmark under today's date: its
names, groups, counters and least times, and nothing about the machine.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

from didyma.bench.records import record

FOLDER = Path(__file__).parent / "history"


def newest() -> Path:
    """Return the last record; names begin with the date."""
    return max(FOLDER.glob("*.json"))


def keep(run: Path, day: datetime.date) -> Path:
    """Keep a run of all benchmarks; a record of the same day is replaced."""
    rows = [
        {**row, "seconds": row["stats"]["min"]}
        for row in json.loads(run.read_text(encoding="utf-8"))["benchmarks"]
    ]
    path = FOLDER / f"{day.isoformat()}.json"
    path.write_text(record(rows), encoding="utf-8")
    return path


if __name__ == "__main__":
    print(keep(Path(sys.argv[1]), datetime.datetime.now(datetime.UTC).date()))
