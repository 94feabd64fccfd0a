"""Groups of a block's threads that run in turn, each until it waits for others.

Threads of one group run together, as all do in other kernels.  The groups are threads of Python, of
which only one runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Semaphore, Thread

import numpy as np


class _GivenUpError(Exception):
    """Another group has failed, or all wait for each other."""


@dataclass(slots=True)
class Turn:
    """What one group does: ``body``, with waits in between.

    ``ready`` tells whether it can go on, and ``waits`` for what it waits, if it does.  ``rests``
    counts how often it has let others run.
    """

    body: Callable[[], None]
    ready: Callable[[], bool] = lambda: True
    waits: Callable[[], None] = lambda: None
    ended: bool = False
    failed: BaseException | None = None
    rests: int = 0
    _given_up: bool = False
    _goes: Semaphore = field(default_factory=lambda: Semaphore(0))
    _stops: Semaphore = field(default_factory=lambda: Semaphore(0))
    _thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, ready: Callable[[], bool], hangs: Callable[[], None]) -> None:
        """Let others run until this group can go on; ``hangs`` reports that it never can."""
        if ready():
            return
        self.ready, self.waits = ready, hangs
        self.rests += 1
        self._stops.release()
        self._goes.acquire()
        if self._given_up:
            raise _GivenUpError

    def go(self) -> None:
        """Run until the group waits or ends."""
        self._goes.release()
        self._stops.acquire()

    def give_up(self) -> None:
        """End the group where it stands."""
        self._given_up = True
        if not self.ended:
            self.go()
        self._thread.join()

    def _run(self) -> None:
        self._goes.acquire()
        try:
            if not self._given_up:
                with np.errstate(all="ignore"):
                    self.body()
        except _GivenUpError:
            pass
        except BaseException as e:  # raised again by who runs the turns
            self.failed = e
        self.ended = True
        self._stops.release()


def run(turns: Sequence[Turn]) -> None:
    """Run all groups to their ends, also those that are added meanwhile.

    Report those that wait for each other for ever.
    """
    try:
        while left := [t for t in turns if not t.ended]:
            going = False
            for t in left:
                if not t.ready():
                    continue
                going = True
                t.go()
                if t.failed is not None:
                    raise t.failed
            if not going:
                for t in left:
                    t.waits()
                return
    finally:
        for t in turns:
            t.give_up()
