"""Exit codes of commands, and their documents."""

from __future__ import annotations

import json
import re
from typing import Any

AGREE, DISAGREE, BAD_INPUT, ENGINE_MISSING, NOTHING_RAN = 0, 1, 2, 4, 5
_KEPT = re.compile(r"(?:[^\s`\"(]*/)?didyma-stdin\.\w+")


def as_given(text: str) -> str:
    """Replace the name of the file in which stdin was kept by ``<stdin>``.

    >>> as_given('{"file": "folder/didyma-x1/didyma-stdin.cu"}')
    '{"file": "<stdin>"}'
    >>> as_given("didyma-stdin.cu:3: race: written by thread 1 (at didyma-stdin.cu:5)")
    '<stdin>:3: race: written by thread 1 (at <stdin>:5)'
    """
    return _KEPT.sub("<stdin>", text)


def print_json(document: Any) -> None:
    """Print the one JSON document of a command."""
    print(as_given(json.dumps(document, indent=2)))
