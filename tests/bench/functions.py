"""Decoders whose layer stays a function, against decoders in which it is inlined.

    python -m tests.bench.functions [--write]

Seconds are of the processor, and of the whole compile.  ``--write`` keeps the table on the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from didyma.codegen.memory import peak
from tests.bench.decoder import decoder
from tests.bench.page import ROOT, put, table
from tests.bench.symbolic_plans import BATCH, TOKENS, agree, made

PAGE = ROOT / "docs" / "program-memory.md"
HEAD = ("layers", "lines", "lines of wrapper", "plan s", "compile s", "peak, bytes", "same bits")
LAYERS = (1, 6, 12, 24)


def rows() -> Iterator[tuple[object, ...]]:
    """Two rows for each number of layers."""
    for layers in LAYERS:
        for noinline in (False, True):
            m = made(decoder(layers, 64, 2, BATCH, TOKENS, noinline=noinline))
            p = m.compiled.program
            yield (
                f"{layers}, {'called' if noinline else 'inlined'}",
                sum(len(f.lines) for f in (*p.functions, p)),
                m.compiled.wrapper.count("\n"), f"{m.planning:.1f}", f"{m.seconds:.1f}",
                f"{peak(p, {'B': 2, 'S': 128}):,}", "yes" if agree(m.compiled, {"B": 2, "S": 5})
                else "no",
            )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the table on the page")
    lines = list(table(HEAD, rows()))
    print("\n".join(lines))
    if parser.parse_args().write:
        put("functions", lines, PAGE)


if __name__ == "__main__":
    main()
