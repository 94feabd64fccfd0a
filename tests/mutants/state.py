"""Results on disk, one line each, so that nothing is lost when a run is killed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from didyma.refimpl.errors import DidymaError
from tests.mutants.target import Result


class State:
    """The results of a run, in a file if one is given.

    The first line of the file says what was asked for: a file of another run is refused with
    DidymaError ``bad-option``, one that cannot be written with ``unwritable``.  A line that was cut
    off when the process was killed does not count.
    """

    def __init__(self, file: Path | None, asked: Mapping[str, Any]) -> None:
        self.file = file
        self.results: dict[str, Result] = {}
        if file is None:
            return
        lines = _lines(file)
        if not lines:
            self._write(json.dumps(asked) + "\n", "w")
            return
        if lines[0] != dict(asked):
            differing = [k for k in asked if lines[0].get(k) != asked[k]]
            raise DidymaError(
                "bad-option", f"--resume {file}",
                got=f"the results of a run with another {', '.join(differing) or 'plan'}",
                want="those of a run with the same options on the same sources",
                help="name another file, or delete this one",
            )  # fmt: skip
        for record in lines[1:]:
            self.results[record["id"]] = Result.recorded(record)
        self._write("".join(json.dumps(x) + "\n" for x in lines), "w")

    def keep(self, r: Result) -> None:
        """Add a result."""
        self.results[r.id] = r
        if self.file is not None:
            self._write(json.dumps(r.record()) + "\n", "a")

    def _write(self, text: str, mode: str) -> None:
        assert self.file is not None
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open(mode, encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
        except OSError as e:
            raise DidymaError("unwritable", str(self.file), got=str(e), want="a file") from None


def _lines(file: Path) -> list[Any]:
    """Return the records of a file's whole lines."""
    if not file.exists():
        return []
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]
    except (OSError, ValueError) as e:
        raise DidymaError("unreadable-file", str(file), got=str(e), want="lines of JSON") from None
