"""Ops and the functions made of them: as records of JSON types, and as tables made from those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from rich.table import Table
from rich.text import Text

from didyma.functions.composed import Composed
from didyma.refimpl.ops.spec import Op
from didyma.show.console import console, line, paragraph, put

Record: TypeAlias = Mapping[str, Any]


def op_record(op: Op) -> dict[str, Any]:
    """Return an op as a record; ``example`` has lines such as ``operand 0 = array([1.])``."""
    return {
        "name": op.name,
        "kind": str(op.kind),
        "doc": op.doc,
        "special": op.special,
        "operands": list(op.arity),
        "attributes": [
            {"name": a.name, "kind": a.kind, "doc": a.doc, "choices": list(a.choices)}
            for a in op.attrs
        ],
        "dtypes": [str(d) for d in op.dtypes],
        "example": _example(op),
    }


def _example(op: Op) -> list[str]:
    e = op.example
    with np.printoptions(precision=6, threshold=40, linewidth=60):
        return [
            *(f"operand {i} = {operand!r}" for i, operand in enumerate(e.operands)),
            *(f"{name} = {value!r}" for name, value in e.attrs),
            f"result = {e.result!r}",
        ]


def function_record(f: Composed) -> dict[str, Any]:
    """Return a function made of ops as a record."""
    return {
        "name": f.name, "kind": "function", "doc": f.doc, "signature": f.signature,
        "ops": list(f.ops),
    }  # fmt: skip


def op_table(ops: Sequence[Record], functions: Sequence[str]) -> None:
    """Print a line for each op, and the names of the functions made of them."""
    out = console()
    table = Table("op", "kind", "meaning", box=None, padding=(0, 2, 0, 0))
    for op in ops:
        table.add_row(op["name"], op["kind"], Text(op["doc"].splitlines()[0]))
    put(out, table)
    line(out, "")
    paragraph(out, f"functions made of ops: {', '.join(functions)}")
    line(out, "")
    count = f"{len(ops)} ops, {len(functions)} functions"
    line(out, f"{count}; `didyma ops NAME` describes one in full")


def op_page(op: Record) -> None:
    """Print everything about one op."""
    low, high = op["operands"]
    rows = [
        (op["name"], op["doc"]),
        ("kind", op["kind"]),
        ("operands", str(low) if low == high else f"{low} to {high}"),
        ("dtypes", " ".join(op["dtypes"])),
    ]
    for a in op["attributes"]:
        choices = f" ({', '.join(a['choices'])})" if a["choices"] else ""
        rows.append(("attribute", f"{a['name']}: {a['kind']}{choices}; {a['doc']}"))
    rows.append(("special values", op["special"]))
    rows += [("" if i else "example", text) for i, text in enumerate(op["example"])]
    _print(rows)


def function_page(f: Record) -> None:
    """Print everything about a function made of ops."""
    ops = ", ".join(f["ops"]) or "depends on its arguments"
    _print([(f["name"], f["doc"]), ("call", f"dd.{f['signature']}"), ("ops", ops)])


def _print(rows: Sequence[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(text))
    put(console(), table)
