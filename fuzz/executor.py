"""Executors of calls: processes that may crash or hang, and this process."""

from __future__ import annotations

import multiprocessing as mp
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from didyma.fuzz.watchdog import how_it_ended, portable, spawn, stay_with_parent
from didyma.refimpl.errors import DidymaError

P = ParamSpec("P")
T = TypeVar("T")

START_SECONDS = 120.0  # a process must be ready by then: longer than any import takes
STARTS = 3  # attempts to start a process, where another uses the memory for a while
_PAUSE_SECONDS = 1.0  # between these
_TICK_SECONDS = 0.25  # how soon a thread that waits for its process sees that it is to end
_READY = "ready"
_LESS = "end other work on the machine, or give --jobs a smaller number"


class WorkerDiedError(Exception):
    """The process of a call died, or gave no answer: ``kind`` is ``crash`` or ``hang``."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class WorkerStartError(DidymaError):
    """No process could be started to make a call in, though it was tried several times."""

    exit_code = 5


class InlineExecutor(Executor):
    """Makes each call at once, in this process."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Make the call; what it returns or raises is in the future."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as e:
            future.set_exception(e)
        return future


@dataclass(frozen=True, slots=True)
class _Call:
    future: Future[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class WatchedExecutor(Executor):
    """Makes calls in processes, each of which may crash or hang at the cost of one call alone.

    A call that ends its process, or gives no answer within ``patience`` seconds, raises
    WorkerDiedError, and another process takes the place of that one.  Time in which a process
    waits for a processor does not count.  ``initializer`` is called
    first in every process; what it raises, every call raises.  A process that somebody ends with
    SIGINT or SIGTERM is replaced, and its call made again: these are meant for the whole group.
    """

    def __init__(
        self,
        workers: int,
        patience: float,
        initializer: Callable[..., object] = int,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        self._patience = patience
        self._initial = (initializer, initargs)
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let the next free process make a call."""
        future: Future[T] = Future()
        self._calls.put(_Call(future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes once their calls are made, or at once with ``cancel_futures``."""
        if cancel_futures:
            self._stopped.set()
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _serve(self) -> None:
        """Make calls until there are no more.  Each process ends with the thread that made it."""
        child: _Child | None = None
        while (call := self._calls.get()) is not None:
            if self._stopped.is_set():
                call.future.cancel()
            elif call.future.set_running_or_notify_cancel():
                child = self._make(call, child)
        if child is not None:
            child.kill()

    def _make(self, call: _Call, child: _Child | None) -> _Child | None:
        """Make a call in a process, a new one if there is none; return it if it lives."""
        starts = 0
        while True:
            child = child or _Child(*self._initial)
            try:
                ok, answer = child.answer(call, self._patience, self._stopped)
            except (EOFError, ConnectionError):
                how, started = how_it_ended(child.process), child.ready
                child.kill()
                child = None
                starts += not started
                again = how in ("SIGTERM", "SIGINT") or (not started and starts < STARTS)
                if again and not self._stopped.is_set():
                    self._stopped.wait(0.0 if started else _PAUSE_SECONDS)
                    continue
                call.future.set_exception(
                    WorkerDiedError("crash", f"the process died: {how}")
                    if started
                    else WorkerStartError(
                        "worker-missing",
                        "a process of the campaign",
                        got=f"one that could not start, {STARTS} times: {how}",
                        want="a process that starts: this machine may lack memory",
                        help=_LESS,
                    )
                )
            except Exception as e:  # a hang, or an answer that cannot be unpickled here
                child.kill()
                child = None
                call.future.set_exception(e)
            else:
                (call.future.set_result if ok else call.future.set_exception)(answer)
                if not child.ready:
                    child.kill()
                    child = None
            return child


class _Child:
    """A process that makes one call after another."""

    def __init__(self, initializer: Callable[..., object], initargs: tuple[Any, ...]) -> None:
        self.pipe, there = mp.Pipe()
        self.process = spawn(_answer_calls, (there, initializer, initargs))
        there.close()
        self.ready = False

    def answer(self, call: _Call, patience: float, stopped: threading.Event) -> tuple[bool, Any]:
        """Return whether a call returned, and its result or error.

        EOFError or ConnectionError if the process died, WorkerDiedError if it hangs,
        WorkerStartError if it did not start in time.
        """
        if not self.ready:
            if not self._wait(START_SECONDS, stopped):
                raise WorkerStartError(
                    "worker-missing", "a process of the campaign",
                    got=f"none that started within {START_SECONDS:g} s",
                    want="a machine that is not overloaded: a start takes a few seconds of work",
                    help=_LESS,
                )  # fmt: skip
            word = self.pipe.recv()
            if word != _READY:
                return False, word
            self.ready = True
        self.pipe.send((call.function, call.args, call.kwargs))
        if not self._wait(patience, stopped):
            raise WorkerDiedError("hang", f"no answer within {patience:g} s")
        ok, answer = self.pipe.recv()
        return ok, answer

    def _wait(self, seconds: float, stopped: threading.Event) -> bool:
        """Return whether there is a word from the process within so many seconds."""
        pid = self.process.pid or 0
        end = time.monotonic() + seconds - _starved(pid)
        while not stopped.is_set() and (left := end + _starved(pid) - time.monotonic()) > 0:
            if self.pipe.poll(min(left, _TICK_SECONDS)):
                return True
        return False

    def kill(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _starved(pid: int) -> float:
    """Return for how many seconds a process has waited for a processor; 0 where nothing tells."""
    try:
        _, waited, _ = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    return int(waited) / 1e9


def _answer_calls(
    pipe: Connection, initializer: Callable[..., object], initargs: tuple[Any, ...]
) -> None:
    """Make the calls that come through a pipe: the work of a process, which its parent ends."""
    stay_with_parent()
    try:
        initializer(*initargs)
    except Exception as e:
        pipe.send(portable(e))
        return
    pipe.send(_READY)
    while True:
        function, args, kwargs = pipe.recv()
        try:
            answer = (True, function(*args, **kwargs))
        except Exception as e:
            answer = (False, portable(e))
        pipe.send(answer)
