"""When the work of a program's streams is done: at once, or as late as the waits permit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

Work: TypeAlias = Callable[[], None]
Late: TypeAlias = Literal["lower first", "higher first"]  # which stream goes on when all may


class WorkQueues:
    """The streams of a program, by their numbers: queues of work to do in order.

    Without an ``order`` work is done when it is put, in the order of the program's lines.  With one
    it waits in its stream until somebody needs it; a missing wait then shows in the values.
    """

    def __init__(self, order: Late | None) -> None:
        self._order = order
        self._work: dict[int, list[Work]] = {}
        self._done: dict[int, int] = {}

    def put(self, stream: int, work: Work) -> None:
        """Append work to a stream."""
        if self._order is None:
            work()
        else:
            self._work.setdefault(stream, []).append(work)

    def wait(self, stream: int, on: int) -> None:
        """Let a stream go on only after all work of another so far."""
        until = len(self._work.get(on, ()))
        self.put(stream, lambda: self._run(on, until))

    def drain(self, stream: int) -> None:
        """Do all work of a stream, and what it waits for."""
        self._run(stream, len(self._work.get(stream, ())))

    def drain_all(self) -> None:
        """Do all work, stream by stream."""
        for stream in sorted(self._work, reverse=self._order == "higher first"):
            self.drain(stream)

    def _run(self, stream: int, until: int) -> None:
        while self._done.get(stream, 0) < until:
            at = self._done.get(stream, 0)
            self._done[stream] = at + 1
            self._work[stream][at]()
