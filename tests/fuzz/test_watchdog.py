"""A child may crash, hang or be left alone; its parent may go too."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from didyma.fuzz.watchdog import Died, Raised, guarded
from tests.didyma.cli import ROOT


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


def test_a_value_comes_back_and_words_before_it() -> None:
    words: list[str] = []
    assert guarded(doubles, (21,), 60, words.append) == 42
    assert words == ["one", "two"]


def test_an_error_comes_back_with_its_trace() -> None:
    answer = guarded(raises, (1,), 60)
    assert isinstance(answer, Raised)
    assert "UnpicklableError: soso" in str(answer.error)
    assert "in raises" in answer.trace


def test_a_hanging_child_is_gone_afterwards() -> None:
    answer = guarded(sleeps, (1,), 3)
    assert isinstance(answer, Died)
    assert answer.kind == "hang"
    assert not Path(f"/proc/{answer.during}").exists()


SCRIPT = """
from didyma.fuzz.watchdog import guarded
from tests.fuzz.test_watchdog import sleeps
if __name__ == "__main__":
    guarded(sleeps, (1,), 600, lambda pid: print(pid, flush=True))
"""


def test_a_child_ends_with_its_parent_even_if_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(SCRIPT)
    env = {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, script], env=env, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = Path(f"/proc/{int(parent.stdout.readline())}")
        assert child.exists()
        parent.kill()
        parent.wait()
        end = time.monotonic() + 10
        while child.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert not child.exists()
