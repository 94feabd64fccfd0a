"""What ``didyma ops`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from didyma.functions.composed import Composed
from didyma.refimpl.ops.spec import Op
from didyma.show.console import console, line, paragraph


def ops(chosen: Sequence[Op], functions: Sequence[str]) -> None:
    """Print a line for each op, and the names of the functions made of them."""
    out = console()
    table = Table("op", "kind", "meaning", box=None, padding=(0, 2, 0, 0))
    for x in chosen:
        table.add_row(x.name, x.kind, Text(x.doc.splitlines()[0]))
    out.print(table)
    line(out, "")
    paragraph(out, f"functions made of ops: {', '.join(functions)}")
    line(out, "")
    line(out, f"{len(chosen)} ops, {len(functions)} functions; `didyma ops NAME` tells all of one")


def op(x: Op) -> None:
    """Print everything about one op."""
    low, high = x.arity
    rows = [
        (x.name, x.doc),
        ("kind", str(x.kind)),
        ("operands", str(low) if low == high else f"{low} to {high}"),
        ("dtypes", " ".join(x.dtypes)),
    ]
    for a in x.attrs:
        choices = f" ({', '.join(a.choices)})" if a.choices else ""
        rows.append(("attribute", f"{a.name}: {a.kind}{choices}; {a.doc}"))
    rows += [("special values", x.special), *_example(x)]
    _rows(console(), rows)


def function(f: Composed) -> None:
    """Print everything about a function made of ops."""
    made = ", ".join(f.ops) or "depends on its arguments"
    rows = [(f.name, f.doc), ("call", f"dd.{f.signature}"), ("ops", made)]
    _rows(console(), rows)


def _example(x: Op) -> Iterator[tuple[str, str]]:
    with np.printoptions(precision=6, threshold=40, linewidth=60):
        for i, operand in enumerate(x.example.operands):
            yield "example" if i == 0 else "", f"operand {i} = {operand!r}"
        for key, value in x.example.attrs:
            yield "", f"{key} = {value!r}"
        yield "", f"result = {x.example.result!r}"


def _rows(out: Console, rows: Sequence[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(text))
    out.print(table)
