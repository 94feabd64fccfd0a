"""Which lines of which files a piece of work executes: by ``sys.monitoring``, or by tracing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Set
from types import CodeType, FrameType
from typing import Any, TypeAlias, TypeVar

from tests.mutants.mutant import ROOT

T = TypeVar("T")
Line: TypeAlias = tuple[str, int]  # file relative to the checkout, line from 1

# Where lines are traced: after so many calls of a function that executed no new line, and after so
# many lines of one call that were none, it is traced no longer.
_CALLS, _LINES = 3, 300


class Lines:
    """Records the lines executed of files under some folders of the checkout.

    Python 3.12 has ``sys.monitoring``, by which a line costs time once a piece of work.  Older ones
    are traced, at the cost of each call of a function.  A function is traced until calls of it
    bring nothing new, so a line that is first executed late may be missed.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        root = ROOT.resolve()
        self._root = f"{root}{os.sep}"
        self._folders = tuple(f"{root / f}{os.sep}" for f in folders)
        self._files: dict[str, str] = {}  # by the name that code has; empty for others
        self._seen: set[Line] = set()
        self._left: dict[CodeType, int] = {}  # calls that are yet to be traced
        self._monitoring: Any = getattr(sys, "monitoring", None)
        if self._monitoring:
            self._start(self._monitoring)

    def of(self, work: Callable[[], T]) -> tuple[T, frozenset[Line]]:
        """Return the result of some work, and the lines it executed."""
        self._seen = set()
        if self._monitoring:
            self._monitoring.restart_events()
            result = work()
        else:
            # What is in none of the folders is traced never.
            self._left = {code: n for code, n in self._left.items() if n < 0}
            sys.settrace(self._trace)
            try:
                result = work()
            finally:
                sys.settrace(None)
        return result, frozenset(self._seen)

    def forget(self, known: Set[Line]) -> None:
        """Trace functions no longer all of whose lines are known."""
        for code in [code for code, n in self._left.items() if n >= 0]:
            file = self._file(code.co_filename)
            if all((file, n) in known for _, _, n in code.co_lines() if n):
                self._left[code] = -1

    def _file(self, name: str) -> str:
        file = self._files.get(name)
        if file is None:
            path = os.path.realpath(name)
            ours = path.startswith(self._folders)
            file = self._files[name] = path.removeprefix(self._root) if ours else ""
        return file

    def _start(self, m: Any) -> None:
        m.use_tool_id(m.COVERAGE_ID, "mutants")
        m.register_callback(m.COVERAGE_ID, m.events.LINE, self._line)
        m.set_events(m.COVERAGE_ID, m.events.LINE)

    def _line(self, code: CodeType, line: int) -> Any:
        file = self._file(code.co_filename)
        if file:
            self._seen.add((file, line))
        return self._monitoring.DISABLE

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        """Trace the lines of a call in one of the folders."""
        del event, arg
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            left = _CALLS if self._file(code.co_filename) else -1
        if left <= 0:
            self._left[code] = left
            return None
        self._left[code] = left - 1
        file, seen = self._file(code.co_filename), self._seen
        seen.add((file, frame.f_lineno))
        stale = 0

        def local(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal stale
            del arg
            if event == "line":
                line = (file, frame.f_lineno)
                if line not in seen:
                    seen.add(line)
                    self._left[code] = _CALLS
                    stale = 0
                elif (stale := stale + 1) > _LINES:
                    frame.f_trace_lines = False
            return local

        return local
