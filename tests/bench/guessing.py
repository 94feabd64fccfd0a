"""Verdicts of ``didyma sanitize`` on the suite, given nothing but the text of each kernel.

``python -m tests.bench.guessing`` leaves out how a kernel is launched, so all of that is guessed.
A second argument names kernels by a part of their name.
"""

from __future__ import annotations

import io
import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from didyma.codegen.runtime.device_code import include_folders
from didyma.codegen.runtime.nvrtc import processor_time
from didyma.commands.sanitize import Request, sanitize
from didyma.refimpl.errors import DidymaError
from tests.codegen.runtime.ptx.suite import FOLDER, RUN, Variant, variants


def main(part: str = "") -> int:
    """Print each wrong verdict, then a summary; return how many were wrong."""
    chosen = [v for v in variants() if part in v.name]
    chosen = [v for v in chosen if include_folders() or not v.needs_headers]
    wrong, seconds = list[Variant](), list[float]()
    for v in chosen:
        start = processor_time()
        try:
            found = [*faults(judged(v))]
            right = bool({kind for kind, _ in found} & v.kinds) if v.fault else not found
            why = ", ".join(f"{kind} {line}" for kind, line in found)
        except DidymaError as e:
            right, why = False, str(e)
        seconds.append(processor_time() - start)
        if not right:
            wrong.append(v)
            print(f"{v.name}: wanted {' or '.join(v.kinds) or 'nothing'}, got {why or 'nothing'}")
    faulty = [v for v in chosen if v.fault]
    missed, alarms = (sum(bool(v.fault) == f for v in wrong) for f in (True, False))
    print(f"{len(faulty) - missed} of {len(faulty)} faults found")
    print(f"{alarms} alarms on {len(chosen) - len(faulty)} right kernels")
    print(f"seconds: median {statistics.median(seconds):.2f}, most {max(seconds):.2f}")
    return len(wrong)


def judged(v: Variant) -> dict[str, Any]:
    """Return the document of the command for a file that does not say how it is launched."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / v.path.name
        path.write_text(RUN.sub("//", v.path.read_text(encoding="utf-8")), encoding="utf-8")
        asked = Request(path, "", "", "", (), None, (f"FAULT={v.fault}",), (FOLDER,), 3, 1, 20.0)
        printed = io.StringIO()
        with redirect_stdout(printed):
            sanitize(asked, json=True)
        return dict(json.loads(printed.getvalue()))


def faults(document: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the kind and the line of each finding."""
    for record in document.get("kernels", [document]):
        yield from ((f["kind"], f["line"]) for f in record.get("findings", ()))


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
