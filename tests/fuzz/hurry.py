"""Children that hang, of which no test waits: the clock of who watches them is put forward."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from didyma.fuzz import watchdog


class _Ahead(threading.local):
    """By how many seconds this thread's clock is put forward."""

    seconds = 0.0


def put_forward(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what puts the watchdog's clock forward, for children that the caller's thread watches.

    Called where a child's word arrives, it lets seconds pass since that word.
    """
    ahead = _Ahead()

    def later(seconds: float) -> None:
        ahead.seconds += seconds

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead.seconds)
    monkeypatch.setattr(watchdog, "time", clock)
    return later
