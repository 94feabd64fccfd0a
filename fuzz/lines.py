"""Which lines of the compiler a campaign reached: watched by ``sys.monitoring`` (PEP 669).

A line is reported once and then costs nothing.  Only lines inside functions count: the others run
when a module is imported.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, TypeAlias

import didyma.codegen
from didyma.refimpl.errors import DidymaError

Reached: TypeAlias = frozenset[tuple[str, int]]  # files below the compiler, and line numbers

FOLDER = Path(didyma.codegen.__file__).resolve().parent
LEAST_PYTHON = (3, 12)


def must_be_possible() -> None:
    """Raise ``bad-option`` where Python cannot watch lines."""
    if sys.version_info < LEAST_PYTHON:
        raise DidymaError(
            "bad-option", "--lines", got=f"Python {sys.version_info[0]}.{sys.version_info[1]}",
            want="Python 3.12 or later, which has sys.monitoring",
        )  # fmt: skip


class Watcher:
    """Notes the lines of the compiler that this process runs."""

    def __init__(self) -> None:
        must_be_possible()
        self._new: set[tuple[str, int]] = set()
        monitoring: Any = vars(sys)["monitoring"]  # which type checkers for 3.11 do not know
        self._never_again: Any = monitoring.DISABLE
        tool = monitoring.COVERAGE_ID
        monitoring.use_tool_id(tool, "didyma")
        monitoring.register_callback(tool, monitoring.events.LINE, self._line)
        monitoring.set_events(tool, monitoring.events.LINE)

    def _line(self, code: CodeType, number: int) -> Any:
        if (name := _name(code.co_filename)) is not None:
            self._new.add((name, number))
        return self._never_again

    def drain(self) -> Reached:
        """Return the lines that have run for the first time since the last call of this method."""
        new, self._new = frozenset(self._new), set()
        return new


@lru_cache(maxsize=1)
def watcher() -> Watcher:
    """Return the watcher of this process, which is started by the first call."""
    return Watcher()


@lru_cache(maxsize=4096)
def _name(file: str) -> str | None:
    path = Path(file).resolve()
    return path.relative_to(FOLDER).as_posix() if path.is_relative_to(FOLDER) else None


def missed(reached: Iterable[tuple[str, int]]) -> Mapping[str, tuple[int, ...]]:
    """Return, by file below the compiler, the lines of functions that were not reached."""
    seen = {*reached}
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(FOLDER.rglob("*.py")):
        name = path.relative_to(FOLDER).as_posix()
        code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
        lines = {n for n in _lines(code) if (name, n) not in seen}
        if lines:
            found[name] = tuple(sorted(lines))
    return found


def _lines(code: CodeType) -> Iterator[int]:
    """Yield the lines of functions, but those where they begin."""
    if code.co_flags & inspect.CO_OPTIMIZED:
        yield from (n for _, _, n in code.co_lines() if n and n != code.co_firstlineno)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _lines(inner)
