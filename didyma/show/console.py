"""Print for people: as wide as the terminal, or 80 columns without one."""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

from didyma.commands.exits import as_given

FINDINGS = 20  # of one report, printed
_WIDTH = 80


def console() -> Console:
    """Return a console without highlighting."""
    found = Console(highlight=False)
    return Console(width=found.width if found.is_terminal else _WIDTH, highlight=False)


def line(to: Console, text: str) -> None:
    """Print a line as it is: neither wrapped nor read as markup, so that it can be copied.

    The file in which stdin was kept is called ``<stdin>``.
    """
    to.print(as_given(text), soft_wrap=True, markup=False)


def paragraph(to: Console, text: str) -> None:
    """Print words, wrapped at the width of the console; a long word is not broken."""
    rows = textwrap.wrap(text, to.width, break_long_words=False, break_on_hyphens=False)
    for row in rows:
        line(to, row)


def put(to: Console, table: Table) -> None:
    """Print a table without trailing spaces."""
    for row in to.render_lines(table, pad=False):
        text = Text.assemble(*((s.text, s.style or "") for s in row))
        text.rstrip()
        to.print(text, soft_wrap=True)
