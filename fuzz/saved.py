"""The head of a file that holds a case: its first line, a comment with JSON.

``head`` and ``facts`` are for cases of domains other than graphs, which ``didyma.fuzz.cases`` reads
back: their heads name the domain, and what it needs beside the text below.  Findings on graphs have
heads of their own (``didyma.fuzz.replay``), parsed by the same ``parse_head``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from didyma.codegen.runtime import disk
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
    """Read the first line back; errors as of ``parse_head``."""
    first = content.partition("\n")[0]
    return parse_head(path, first[len(HEAD) :], FORMAT)


def parse_head(path: Path, text: str, newest: int) -> Mapping[str, Any]:
    """Parse the JSON in a file's first line, whose format is 1 where it does not say.

    Errors: ``not-a-finding`` if it is broken, ``newer-format`` if its format is above ``newest``.
    """
    try:
        found: Mapping[str, Any] = json.loads(text)
        number, version = (
            int(found.get("format", 1)),
            str(found.get("didyma", "of a later version")),
        )
    except (ValueError, TypeError, AttributeError) as e:
        raise broken(path, f"a broken head: {e}") from None
    if number > newest:
        raise DidymaError(
            "newer-format", str(path), got=f"format {number}, written by didyma {version}",
            want=f"format {newest} or lower: this is didyma {VERSION}", help="install that version",
            file=str(path), line=1, shown=text[:60],
        )  # fmt: skip
    return found


def broken(path: Path, got: str) -> DidymaError:
    """Return the error that a file is not as it was written."""
    return DidymaError("not-a-finding", str(path), got=got, want="the head as it was written")
