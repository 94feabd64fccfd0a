"""The head of a file that holds a case of a domain other than graphs: its first line, a comment.

It says in JSON what the case is, beside what the text below holds: the domain, and what that
needs.  ``didyma.fuzz.replay`` is for graphs, ``didyma.fuzz.cases`` reads these files back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from didyma.fuzz import disk
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.version import VERSION

HEAD = "# didyma case "
FORMAT = 1


def head(domain: str, facts: Mapping[str, Any]) -> str:
    """Return the first line of a file, with facts about a case as JSON."""
    return HEAD + json.dumps({"format": FORMAT, "didyma": VERSION, "domain": domain, **facts})


def is_case(path: Path) -> bool:
    """Return whether a file begins as these do; DidymaError ``unreadable-file``."""
    return path != disk.STDIN and disk.read_text(path).startswith(HEAD)


def facts(path: Path, content: str) -> Mapping[str, Any]:
    """Read the first line back; DidymaError ``not-a-finding`` or ``newer-format``."""
    first = content.partition("\n")[0]
    try:
        found: Mapping[str, Any] = json.loads(first[len(HEAD) :])
        number, version = int(found["format"]), str(found["didyma"])
    except (ValueError, TypeError, KeyError) as e:
        raise broken(path, f"a broken head: {e}") from None
    if number > FORMAT:
        raise DidymaError(
            "newer-format", str(path), got=f"format {number}, written by didyma {version}",
            want=f"format {FORMAT} or lower: this is didyma {VERSION}", help="install that version",
            file=str(path), line=1, shown=first[:60],
        )  # fmt: skip
    return found


def broken(path: Path, got: str) -> DidymaError:
    """Return the error that a file is not as it was written."""
    return DidymaError("not-a-finding", str(path), got=got, want="the head as it was written")
