"""The console of the commands; tables are at least 96 columns wide, also in a log."""

from __future__ import annotations

from rich.console import Console

FINDINGS = 20  # of one report, printed


def console() -> Console:
    """Return a console without highlighting."""
    found = Console(highlight=False)
    return Console(width=max(found.width, 96), highlight=False)


def line(to: Console, text: str) -> None:
    """Print a line as it is: neither wrapped nor read as markup, so that it can be copied."""
    to.print(text, soft_wrap=True, markup=False)
