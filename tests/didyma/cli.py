"""The command line as a user has it: words in; exit code, stdout and stderr out."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from didyma.__main__ import main

ROOT = Path(__file__).parents[2]

EXP = """module {
  func @main(%x: f32[2, 3]) -> (%y) {
    %y = exp(%x) : f32[2, 3]
  }
}
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


def didyma(*words: object) -> Said:
    """Run a command in this process, by the entry point of the console script."""
    out, err = io.StringIO(), io.StringIO()
    old = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    code = 0
    try:
        with (
            mock.patch.object(sys, "argv", ["didyma", *map(str, words)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    return Said(code, out.getvalue(), err.getvalue())


def python(*words: str | Path, cwd: Path = ROOT, timeout: float = 120) -> Said:
    """Run Python in a process of its own, on this checkout's packages."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return Said(done.returncode, done.stdout, done.stderr)
