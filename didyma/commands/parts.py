"""``didyma parts``: engines, planners, passes, recipes and whatever else has a name."""

from __future__ import annotations

from dataclasses import asdict

from rich.table import Table

from didyma.commands import common
from didyma.parts import KINDS, parts
from didyma.show.console import console, put


def show(json: bool) -> int:
    """Print every part by its kind, with where it is from."""
    found = list(parts())
    if json:
        common.print_json({"parts": [asdict(p) for p in found]})
        return common.AGREE
    table = Table("kind", "name", "from")
    for kind, k in KINDS.items():
        mine = [p for p in found if p.kind == kind]
        table.add_row(kind, f"[dim]{k.what}[/]", "", style="bold")
        for p in mine:
            table.add_row("", p.name, p.origin)
    put(console(), table)
    return common.AGREE
