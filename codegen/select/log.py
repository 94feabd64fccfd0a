"""A log of selections: a file of JSON lines that several processes append to under a lock."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from didyma.refimpl.errors import DidymaError, reason


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Append a record as one line, whole even if the process is killed or others write too.

    DidymaError ``unwritable``.
    """
    line = (json.dumps(record, sort_keys=True) + "\n").encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as out, _locked(out):
            if out.tell() and not _ends_a_line(path):
                line = b"\n" + line
            out.write(line)
    except OSError as e:
        raise DidymaError(
            "unwritable", str(path), got=reason(e), want="a file that can be written"
        ) from None


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as f:
        f.seek(-1, 2)
        return f.read(1) == b"\n"


@contextmanager
def _locked(file: BinaryIO) -> Generator[None]:
    """Hold the lock of a file; elsewhere than on POSIX one write of a line has to do."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
