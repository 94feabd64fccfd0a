"""Exit codes of commands, and their documents."""

from __future__ import annotations

import json
import re
from typing import Any

AGREE, DISAGREE, BAD_INPUT, ENGINE_MISSING, NOTHING_RAN = 0, 1, 2, 4, 5


def as_given(text: str) -> str:
    """Replace the name of the file in which stdin was kept by ``<stdin>``."""
    return re.sub(r"[^\s`\"]*didyma-[^\s/]+/stdin\.\w+", "<stdin>", text)


def print_json(document: Any) -> None:
    """Print the one JSON document of a command."""
    print(json.dumps(document, indent=2))
