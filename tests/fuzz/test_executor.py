"""Calls in processes that crash, hang or refuse to start cost no other call."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Executor

import pytest

from didyma.fuzz import executor
from didyma.fuzz.executor import (
    InlineExecutor,
    WatchedExecutor,
    WorkerDiedError,
    WorkerStartError,
)
from didyma.refimpl.errors import DidymaError


def double(x: int) -> int:
    return 2 * x


def refuse() -> None:
    raise DidymaError("bad-option", "--engine abacus", got="abacus", want="an engine")


class UnpicklableError(Exception):
    def __init__(self, a: str, b: str) -> None:
        super().__init__(f"{a}{b}")


def fail() -> None:
    raise UnpicklableError("so", "so")


def test_calls_return_and_raise() -> None:
    many: list[Executor] = [InlineExecutor(), WatchedExecutor(2, 60)]
    for one in many:
        with one:
            futures = [one.submit(double, x) for x in range(5)]
            failed = one.submit(fail)
            assert [f.result(120) for f in futures] == [0, 2, 4, 6, 8]
            with pytest.raises(Exception, match="soso"):
                failed.result(120)


def test_a_process_that_dies_or_hangs_costs_its_call_alone() -> None:
    with WatchedExecutor(1, 3) as processes:
        aborted, slept = processes.submit(os.abort), processes.submit(time.sleep, 600)
        after = processes.submit(double, 21)
        with pytest.raises(WorkerDiedError, match="SIGABRT") as crash:
            aborted.result(120)
        with pytest.raises(WorkerDiedError, match="no answer within 3 s") as hang:
            slept.result(120)
        assert (crash.value.kind, hang.value.kind) == ("crash", "hang")
        assert after.result(120) == 42


def test_a_process_that_waits_for_a_processor_does_not_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def always(pid: int) -> float:
        del pid
        return time.monotonic()

    monkeypatch.setattr(executor, "_starved", always)
    with WatchedExecutor(1, 0.2) as processes:
        assert processes.submit(time.sleep, 0.6).result(120) is None


def test_what_keeps_a_process_from_starting_is_raised() -> None:
    with WatchedExecutor(1, 60, refuse) as processes:
        for _ in range(2):
            with pytest.raises(DidymaError) as e:
                processes.submit(double, 1).result(120)
            assert e.value.code == "bad-option"
    with WatchedExecutor(1, 60, os._exit, (3,)) as processes:
        ended = processes.submit(double, 1)
        with pytest.raises(WorkerStartError, match="could not start, 3 times: exit code 3"):
            ended.result(120)


def test_a_machine_on_which_no_process_starts_in_time_is_said_to_be_overloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "START_SECONDS", 0.0)
    with WatchedExecutor(1, 60) as processes, pytest.raises(WorkerStartError) as e:
        processes.submit(double, 1).result(120)
    assert (e.value.code, e.value.exit_code) == ("worker-missing", 5)
    assert "overloaded" in str(e.value)
    assert "--jobs" in e.value.help


def once_terminated(path: str) -> int:
    """End this process by SIGTERM, but only the first time."""
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    return os.getpid()


def test_a_signal_for_the_whole_group_is_no_crash(tmp_path: os.PathLike[str]) -> None:
    with WatchedExecutor(1, 60) as processes:
        assert processes.submit(once_terminated, os.path.join(tmp_path, "seen")).result(120)


def test_a_process_is_ended_at_once() -> None:
    processes = WatchedExecutor(1, 600)
    pid = processes.submit(os.getpid).result(120)
    processes.submit(time.sleep, 600)
    began = time.monotonic()
    processes.shutdown(cancel_futures=True)
    assert time.monotonic() - began < 60
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
