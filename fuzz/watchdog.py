"""Run a function in a child process that may crash or hang without taking the caller along."""

from __future__ import annotations

import multiprocessing as mp
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

T = TypeVar("T")


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
class _Returned(Generic[T]):
    value: T


def _child(pipe: Connection, f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        pipe.send(_Returned(f(*args, pipe.send)))
    except Exception as e:
        try:
            pickle.loads(pickle.dumps(e))
            error = e
        except Exception:
            error = RuntimeError(f"{type(e).__name__}: {e}")
        pipe.send(Raised(error, traceback.format_exc()))


def guarded(
    f: Callable[..., T],
    args: tuple[Any, ...],
    seconds: float,
    progress: Callable[[str], None] = lambda _: None,
) -> T | Died | Raised:
    """Call ``f(*args, progress)`` in a child for at most so many seconds.

    ``f`` is a module-level function; what it passes to ``progress`` (strings) arrives here.
    """
    context = mp.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(there, f, args), daemon=True)
    process.start()
    there.close()
    last, end = "start", time.monotonic() + seconds
    try:
        while here.poll(max(0.0, end - time.monotonic())):
            message = here.recv()
            if isinstance(message, _Returned):
                value: T = message.value  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # generic lost in the pipe
                return value
            if isinstance(message, Raised):
                return message
            last = str(message)
            progress(last)
        return Died("hang", f"no answer within {seconds:g} s", last)
    except EOFError:
        process.join()
        code = process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Died("crash", f"the process died: {how}", last)
    finally:
        process.kill()
        process.join()
        here.close()
