"""``docs/options.md``: every choice of a compile, from the fields of ``dd.Options``."""

from __future__ import annotations

import json

from didyma.codegen.options import DOCS, USUAL


def options_page() -> str:
    """Return ``docs/options.md``."""
    rows = (f"| `{path}` | `{json.dumps(USUAL[path])}` | {doc} |" for path, doc in DOCS.items())
    return "\n".join(
        [
            "# Options of a compile",
            "",
            "Written from the fields of `dd.Options` by `nox -s docs`. In Python a choice stands",
            "in its group: `dd.Options(kernels=dd.KernelOptions(block=64))`. In text it has a",
            "path: the command line takes `--option kernels.block=64`.",
            "",
            "| path | usual value | what it is |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
