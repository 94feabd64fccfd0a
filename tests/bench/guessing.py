"""Verdicts of ``didyma sanitize`` on the suite, given nothing but the text of each kernel.

``python -m tests.bench.guessing`` leaves out how a kernel is launched, so all of that is guessed.
A second argument names kernels by a part of their name.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from didyma.commands.sanitize import Request, sanitize
from tests.bench.sanitizing import report
from tests.codegen.runtime.ptx.suite import FOLDER, RUN, Variant


def main(part: str = "") -> int:
    """Judge kernels of which nothing but the text is given."""
    return report(part, _judged)


def _judged(v: Variant) -> tuple[bool, str]:
    found = [*faults(document(v))]
    right = bool({kind for kind, _ in found} & v.kinds) if v.fault else not found
    return right, ", ".join(f"{kind} {line}" for kind, line in found)


def document(v: Variant) -> dict[str, Any]:
    """Return the document of the command for a file that does not say how it is launched."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / v.path.name
        path.write_text(RUN.sub("//", v.path.read_text(encoding="utf-8")), encoding="utf-8")
        asked = Request(path, "", "", "", (), None, (f"FAULT={v.fault}",), (FOLDER,), 3, 1, 20.0)
        printed = io.StringIO()
        with redirect_stdout(printed):
            sanitize(asked, json=True)
        return dict(json.loads(printed.getvalue()))


def faults(said: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the kind and the line of each finding in a document."""
    for record in said.get("kernels", [said]):
        yield from ((f["kind"], f["line"]) for f in record.get("findings", ()))


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
