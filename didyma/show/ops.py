"""What ``didyma ops`` prints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from didyma.refimpl.ops.spec import Op
from didyma.show.console import console, line


def ops(chosen: Sequence[Op]) -> None:
    """Print a line for each op."""
    out = console()
    table = Table("op", "kind", "dtypes", "meaning", box=None, padding=(0, 2, 0, 0))
    for x in chosen:
        table.add_row(x.name, x.kind, str(len(x.dtypes)), Text(x.doc.splitlines()[0]))
    out.print(table)
    line(out, f"{len(chosen)} ops; `didyma ops NAME` tells all of one")


def op(x: Op) -> None:
    """Print everything about one op."""
    out = console()
    low, high = x.arity
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row(x.name, Text(x.doc))
    table.add_row("kind", x.kind)
    table.add_row("operands", str(low) if low == high else f"{low} to {high}")
    table.add_row("dtypes", " ".join(x.dtypes))
    for a in x.attrs:
        choices = f" ({', '.join(a.choices)})" if a.choices else ""
        table.add_row("attribute", Text(f"{a.name}: {a.kind}{choices}; {a.doc}"))
    table.add_row("special values", Text(x.special))
    with np.printoptions(precision=6, threshold=40, linewidth=76):
        for i, operand in enumerate(x.example.operands):
            table.add_row("example" if i == 0 else "", Text(f"operand {i} = {operand!r}"))
        for key, value in x.example.attrs:
            table.add_row("", Text(f"{key} = {value!r}"))
        table.add_row("", Text(f"result = {x.example.result!r}"))
    out.print(table)
