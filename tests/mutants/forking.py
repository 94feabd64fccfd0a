"""Children forked after everything is imported, each of which does one piece of work."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
Say: TypeAlias = Callable[[Any], None]  # sends the parent something that pickle takes

MEMORY = 4 << 30  # bytes of its own that a child may have beside what its parent had
_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>
_TICK_SECONDS = 0.2


@dataclass(slots=True)
class Ended(Generic[T]):
    """A piece of work that ended: what the child said, and how it ended.

    ``how`` is empty for a child that did its work, ``hang`` for one that used up its processor
    time or was silent for too long, and else names the signal or exit code of a crash.
    """

    work: T
    said: list[Any] = field(default_factory=list[Any])
    how: str = ""


@dataclass(slots=True)
class _Child(Generic[T]):
    pid: int
    pipe: Any  # a Connection; type checkers think of Windows too, where it is another class
    ended: Ended[T]
    heard: float


def forked(
    works: Iterable[T],
    do: Callable[[T, Say], object],
    jobs: int,
    patience: float = 300.0,
    idle: Callable[[], bool] = lambda: True,
) -> Generator[Ended[T], None, None]:
    """Do each piece of work in a child, ``jobs`` of them at once; yield them as they end.

    A child that says nothing for ``patience`` seconds is killed.  ``idle`` is called every now and
    then, and ends everything by returning False.  No child outlives the generator.
    """
    rest = iter(works)
    children: list[_Child[T]] = []
    more = True
    try:
        while (more or children) and idle():
            while more and len(children) < jobs:
                try:
                    children.append(_fork(next(rest), do))
                except StopIteration:
                    more = False
            ready = wait([c.pipe for c in children], _TICK_SECONDS) if children else []
            for child in list(children):
                if child.pipe in ready and not _heard(child):
                    children.remove(child)
                    yield child.ended
                elif time.monotonic() - child.heard > patience:
                    children.remove(child)
                    _end(child)
                    child.ended.how = "hang"
                    yield child.ended
    finally:
        for child in children:
            _end(child)


def _heard(child: _Child[T]) -> bool:
    """Take what a child said; return False if it has ended."""
    child.heard = time.monotonic()
    try:
        child.ended.said.append(child.pipe.recv())
    except (EOFError, ConnectionError):
        child.pipe.close()
        _, status = os.waitpid(child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGPROF:
            child.ended.how = "hang"
        elif code:
            child.ended.how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return False
    return True


def _end(child: _Child[T]) -> None:
    os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    child.pipe.close()


def _fork(work: T, do: Callable[[T, Say], object]) -> _Child[T]:
    here, there = get_context("fork").Pipe(duplex=False)
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():  # other threads are those of BLAS, which stands forks
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        there.close()
        return _Child(pid, here, Ended(work), time.monotonic())
    code = 70
    try:
        _settle(parent)
        do(work, there.send)
        code = 0
    except MemoryError:
        code = 71
    finally:
        os._exit(code)


def _settle(parent: int) -> None:
    """Make this child end with its parent, print nothing, and stay within its memory."""
    faulthandler.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        with open("/proc/self/statm", encoding="ascii") as f:
            used = int(f.read().split()[5]) * resource.getpagesize()
        # not RLIMIT_AS, which counts the stacks that engines map and hardly touch
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def limit_cpu(seconds: float) -> None:
    """End this process by SIGPROF once it has used so much more processor time; never for 0."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
