"""A worker process of a campaign, as its parent sees it."""

from __future__ import annotations

import multiprocessing as mp
import time

from didyma.fuzz import shard
from didyma.fuzz.graphs import Case
from didyma.fuzz.messages import Found, Message
from didyma.fuzz.watchdog import how_it_ended, spawn


class Worker:
    """A process that judges shards: its job, the case it is at, and the best of what it found.

    ``generation`` is how many workers this one follows after their deaths.  ``draft`` is the file
    of the disagreement that is being shrunk, as it was at first.
    """

    def __init__(self, job: shard.Job, generation: int = 0) -> None:
        packed = shard.packed(job)
        here, there = mp.get_context("spawn").Pipe(duplex=False)
        self.pipe = here
        self.job = job
        self.generation = generation
        self.process = spawn(shard.worker, (packed, there))
        there.close()
        self.case: bytes | Case = b""
        self.since = time.monotonic()
        self.started = False
        self.best: Found | None = None
        self.draft = ""

    def receive(self) -> Message:
        """Return the next message; EOFError or ConnectionError where the process is gone."""
        message: Message = self.pipe.recv()
        self.since = time.monotonic()
        return message

    def silent(self) -> float:
        """Return for how many seconds the worker has said nothing; 0 while it starts."""
        return time.monotonic() - self.since if self.started else 0.0

    def how_it_ended(self) -> str:
        """Name the signal or exit code of the process, which is gone."""
        return how_it_ended(self.process)

    def kill(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
