"""Where every command starts: ``python -m didyma``, and the script ``didyma``.

``didyma artifact check DIR`` answers before the command line's framework is imported, since that
takes far longer than the check, and other programs call it often.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main() -> None:
    """Run a command; exit codes as of ``cli.main``."""
    code = _checked(sys.argv[1:])
    if code is None:
        from didyma.cli import main as whole

        whole()
    sys.exit(code)


def _checked(words: Sequence[str]) -> int | None:
    """Check an artifact; None where the whole command line is to look at the words, or to fail."""
    folders = [w for w in words[2:] if w != "--json"]
    completing = "_DIDYMA_COMPLETE" in os.environ
    if list(words[:2]) != ["artifact", "check"] or len(folders) != 1 or completing:
        return None
    if folders[0].startswith("-") or not os.path.isdir(folders[0]):
        return None
    from pathlib import Path

    from didyma.commands.artifact import check

    try:
        return check(Path(folders[0]), json="--json" in words)
    except Exception:  # which is told there
        return None


if __name__ == "__main__":
    main()
