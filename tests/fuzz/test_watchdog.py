"""A child may crash, hang or be left alone; its parent may go too."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from didyma.fuzz.watchdog import Died, Raised, guarded
from tests.didyma.cli import ROOT
from tests.fuzz.hurry import put_forward


def doubles(x: int, progress: Callable[[str], None]) -> int:
    progress("one")
    progress("two")
    return 2 * x


class UnpicklableError(Exception):
    def __init__(self, a: str, b: str) -> None:
        super().__init__(f"{a}{b}")


def raises(x: int, progress: Callable[[str], None]) -> int:
    raise UnpicklableError("so", "so")


def sleeps(x: int, progress: Callable[[str], None]) -> int:
    progress(str(os.getpid()))
    time.sleep(600)
    return x


def signals_blocked(x: int, progress: Callable[[str], None]) -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


FIRST = """
from didyma.fuzz.watchdog import guarded
from tests.fuzz.test_watchdog import signals_blocked
if __name__ == "__main__":
    print([guarded(signals_blocked, (1,), 120) for _ in range(2)])
"""


def test_ctrl_c_is_left_to_the_parent_by_the_first_child_too(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(FIRST)
    env = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[True, True]\n"


def test_a_value_comes_back_and_words_before_it() -> None:
    words: list[str] = []
    assert guarded(doubles, (21,), 60, words.append) == 42
    assert words == ["one", "two"]


def test_an_error_comes_back_with_its_trace() -> None:
    answer = guarded(raises, (1,), 60)
    assert isinstance(answer, Raised)
    assert "UnpicklableError: soso" in str(answer.error)
    assert "in raises" in answer.trace


def test_a_hanging_child_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    later = put_forward(monkeypatch)
    answer = guarded(sleeps, (1,), 60, lambda word: later(60))
    assert isinstance(answer, Died)
    assert answer.kind == "hang"
    assert not Path(f"/proc/{answer.during}").exists()


SCRIPT = """
from didyma.fuzz.watchdog import guarded
from tests.fuzz.test_watchdog import {function}
if __name__ == "__main__":
    guarded({function}, (1,), 600, lambda pid: print(pid, flush=True))
"""


def test_a_child_ends_with_its_parent_even_if_killed(tmp_path: Path) -> None:
    left(tmp_path, "sleeps")


def left(folder: Path, function: str) -> None:
    """Kill a process whose child runs a function; the child must end."""
    script = folder / "parent.py"
    script.write_text(SCRIPT.format(function=function))
    env = {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, script], env=env, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = Path(f"/proc/{int(parent.stdout.readline())}")
        assert child.exists()
        parent.kill()
        parent.wait()
        end = time.monotonic() + 60
        while child.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert not child.exists()


def holds_the_lock(x: int, progress: Callable[[str], None]) -> int:
    """Sleep in C without giving other threads a turn, as a kernel that never ends may."""
    progress(str(os.getpid()))
    return int(ctypes.PyDLL(None).sleep(600)) + x


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_child_that_runs_c_code_ends_with_its_parent(tmp_path: Path) -> None:
    left(tmp_path, "holds_the_lock")


def speaks(x: int, progress: Callable[[str], None]) -> int:
    for word in "abc":
        progress(word)
    time.sleep(0.5)
    return x


def test_the_time_counts_from_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    later = put_forward(monkeypatch)
    assert guarded(speaks, (7,), 120, lambda word: later(50)) == 7
