"""A progress bar on a terminal; lines of results otherwise."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_EVERY = 0.2  # seconds


class Bar:
    """Shows how far a run is.  It has no thread of its own, which forked children could not bear.

    ``quiet`` prints no lines, so that a record stands alone on the standard output.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), console=Console(stderr=True), auto_refresh=False,
            disable=not sys.stderr.isatty(),
        )  # fmt: skip
        self._task = self._progress.add_task("")
        self._shown = 0.0

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, what: str, done: int, total: int) -> None:
        """Show what is being done, and how much of it."""
        self._progress.update(self._task, description=what, completed=done, total=total)
        if time.monotonic() - self._shown > _EVERY or done == total:
            self._shown = time.monotonic()
            self._progress.refresh()

    def line(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._quiet:
            self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
