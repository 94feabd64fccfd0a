"""Ctrl-C and SIGTERM as a flag that a campaign reads, so that it ends with what it has found."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

PATIENCE_SECONDS = 2.0  # a second signal after that long ends the process at once


@dataclass(slots=True)
class StopRequest:
    """The signal that asked the process to stop, 0 while none has, and when it came."""

    signal: int = 0
    at: float = 0.0

    def note(self, number: int, frame: object) -> None:
        """Record the signal; raise SystemExit if an earlier one has had no effect."""
        del frame
        if not self.signal:
            self.signal, self.at = number, time.monotonic()
        elif time.monotonic() - self.at > PATIENCE_SECONDS:
            sys.exit(128 + number)


@contextmanager
def stop_requests() -> Generator[StopRequest, None, None]:
    """Catch SIGINT and SIGTERM for a while, even where SIGINT was ignored.

    A shell ignores SIGINT for its background jobs.  Python hands signals to the main thread alone:
    in any other thread nothing is caught.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {s: signal.signal(s, request.note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
