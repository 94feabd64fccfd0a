"""Run a function in a child process that may crash or hang without taking the caller along."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, cast

T = TypeVar("T")

_PRELOADED = ("didyma.fuzz.worker", "didyma.fuzz.domains.registry")


@dataclass(frozen=True, slots=True)
class Died:
    """The child gave no answer: ``kind`` is ``crash`` or ``hang``; ``during`` its last word."""

    kind: str
    reason: str
    during: str


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised; ``trace`` is the child's traceback."""

    error: Exception
    trace: str


@dataclass(frozen=True, slots=True)
class _Returned:
    value: object


def _context(preloaded: Sequence[str] = _PRELOADED) -> SpawnContext | ForkServerContext:
    """Return how children start: on Linux by the fork of a process that has imported all once.

    It runs no threads of Python, and ends once the caller and all children have.
    """
    if sys.platform != "linux":
        return mp.get_context("spawn")
    context = mp.get_context("forkserver")
    context.set_forkserver_preload([*preloaded])
    return context


def _begin(environment: dict[str, str], target: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Call the target with the variables that the caller has now, and let SIGTERM end it."""
    os.environ.clear()
    os.environ.update(environment)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    target(*args)


def get_ready(preloaded: Sequence[str] = _PRELOADED) -> None:
    """Start the process from which children are forked, where there is one, and do not wait for it.

    So the first child need not wait for its imports, the modules ``preloaded``.
    """
    if isinstance(_context(preloaded), ForkServerContext):
        with _left_to_parent():
            forkserver.ensure_running()


def spawn(target: Callable[..., None], args: tuple[Any, ...]) -> BaseProcess:
    """Start a child that leaves Ctrl-C to its parent; it should call ``stay_with_parent``."""
    call = (dict(os.environ), target, args)
    process = _context().Process(target=_begin, args=call, daemon=True)
    with _left_to_parent():
        process.start()
    return process


@contextmanager
def _left_to_parent() -> Generator[None]:
    """Let processes that start here leave SIGINT and SIGTERM to those that start them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it unblocks SIGINT, so it must not start below
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def stay_with_parent() -> None:
    """End this process when its parent has ended, even by SIGKILL, and whatever runs here.

    Linux sends SIGIO, which ends it, when the parent's end of a pipe is closed; a thread ends it
    elsewhere, or where that was before Linux was asked, as soon as no C code holds the
    interpreter's lock.
    """
    parent = mp.parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        import fcntl

        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)

    def leave() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def how_it_ended(process: BaseProcess) -> str:
    """Name the signal or exit code of a child that is gone."""
    process.join()
    code = process.exitcode or 0
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _child(pipe: Connection, f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    stay_with_parent()
    try:
        pipe.send(_Returned(f(*args, pipe.send)))
    except Exception as e:
        pipe.send(Raised(portable(e), traceback.format_exc()))


def portable(e: Exception) -> Exception:
    """Return an error, or a RuntimeError with its words if pickle does not take it."""
    try:
        pickle.loads(pickle.dumps(e))
    except Exception:
        return RuntimeError(f"{type(e).__name__}: {e}")
    return e


def guarded(
    f: Callable[..., T],
    args: tuple[Any, ...],
    seconds: float,
    progress: Callable[[str], None] = lambda _: None,
) -> T | Died | Raised:
    """Call ``f(*args, progress)`` in a child for at most so many seconds between its words.

    ``f`` is a module-level function; what it passes to ``progress`` (strings) arrives here.  An
    empty one says that it is still at what it said before.
    """
    here, there = mp.Pipe(duplex=False)
    process = spawn(_child, (there, f, args))
    there.close()
    last, end = "start", time.monotonic() + seconds
    try:
        while here.poll(max(0.0, end - time.monotonic())):
            message = here.recv()
            if isinstance(message, _Returned):
                return cast("T", message.value)
            if isinstance(message, Raised):
                return message
            end = time.monotonic() + seconds
            if message:
                last = str(message)
                progress(last)
        return Died("hang", f"no answer within {seconds:g} s", last)
    except EOFError:
        return Died("crash", f"the process died: {how_it_ended(process)}", last)
    finally:
        process.kill()
        process.join()
        here.close()
