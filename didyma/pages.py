"""Pages of the docs that are made from the tables: ``python -m didyma.pages docs``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fuzz import disk
from refimpl.ops import OPS
from refimpl.ops.spec import Op


def ops_page() -> str:
    """Return ``docs/ops.md``: every op, from its record."""
    lines = [
        "# Ops",
        "",
        "Made from the op table by `nox -s docs`. Every operand has the dtype that the op says;",
        "nothing is promoted. f16 and bf16 are computed in f32 and rounded once.",
        "",
        ", ".join(f"[{name}](#{name})" for name in sorted(OPS)),
        "",
    ]
    for name in sorted(OPS):
        lines += _op(OPS[name])
    return "\n".join(lines)


def _op(op: Op) -> Iterator[str]:
    yield f"## {op.name}"
    yield ""
    yield op.doc
    yield ""
    low, high = op.arity
    yield f"- kind: {op.kind}; operands: {low if low == high else f'{low} to {high}'}"
    yield f"- dtypes: {' '.join(op.dtypes)}"
    for a in op.attrs:
        choices = f" ({', '.join(a.choices)})" if a.choices else ""
        yield f"- `{a.name}`: {a.kind}{choices}; {a.doc}"
    yield f"- special values: {op.special}"
    yield ""
    yield "```text"
    with np.printoptions(precision=6, threshold=40, linewidth=90):
        for i, x in enumerate(op.example.operands):
            yield f"operand {i} = {x!r}"
        for key, value in op.example.attrs:
            yield f"{key} = {value!r}"
        yield f"result = {op.example.result!r}"
    yield "```"
    yield ""


PAGES = {"ops.md": ops_page}


def main(folder: Path) -> None:
    """Write every page."""
    for name, page in PAGES.items():
        print(disk.write_text(folder / name, page()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
