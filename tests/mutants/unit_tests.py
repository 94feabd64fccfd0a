"""The tests of a file of codegen, as a check: for what no campaign runs, and for its errors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import process_time

import pytest

from tests.mutants.mutant import ROOT

NAME = "unit tests"
SECONDS = 20.0  # of processor time, after which a file's further tests are left out
MOST = 6  # files of tests for a file of codegen
_TESTS = ROOT / "tests" / "codegen"
# Texts may differ and be right, and a machine may be loaded.
_LEFT_OUT = re.compile(r"emit/test_golden|test_\w*time")


@cache
def every() -> tuple[Path, ...]:
    """Return all files of tests of codegen, in order, but for those of texts and of times."""
    files = sorted(_TESTS.rglob("test_*.py"))
    return tuple(p for p in files if not _LEFT_OUT.search(p.relative_to(ROOT).as_posix()))


def of(file: str, scope: str = "") -> tuple[int, ...]:
    """Return the indices of a file's tests: what imports it or has its name is first.

    Then come those of its folder in a part of codegen, those of the part that mention its name most
    often, or the names of files that import it, and last those of these files.
    """
    path = Path(file)
    if path.suffix == ".c":
        return _naming(scope)
    if path.parts[0] != "codegen" or path.suffix != ".py":
        return ()
    named = f"test_{path.stem}"
    part, mirror = _TESTS / path.parts[1], _TESTS.joinpath(*path.parts[1:-1])
    imports = _imports(path)
    readers = [p for p in sorted((ROOT / "codegen").rglob("*.py")) if _has(p, imports)]
    words = re.compile(rf"\b({'|'.join({path.stem, *(p.stem for p in readers)})})\b")
    mentions = {
        i: len(words.findall(p.read_text(encoding="utf-8")))
        for i, p in enumerate(every())
        if part in p.parents
    }
    found = [
        *sorted(_own(path), key=lambda i: (not every()[i].name.startswith(named), _size(i))),
        *sorted(mentions, key=lambda i: (every()[i].parent != mirror != part, -mentions[i])),
        *sorted({i for p in readers for i in _own(p.relative_to(ROOT))}, key=_size),
    ]
    return tuple(dict.fromkeys(found))[:MOST]


def _naming(scope: str) -> tuple[int, ...]:
    stem = re.match(r"[a-z]+(_[a-z]{2,})*", scope)
    if stem is None:
        return ()
    said = {i: p.read_text(encoding="utf-8").count(stem[0]) for i, p in enumerate(every())}
    return tuple(sorted((i for i, n in said.items() if n), key=lambda i: -said[i]))[:MOST]


def _size(index: int) -> int:
    return every()[index].stat().st_size


def _own(path: Path) -> list[int]:
    imports, name = _imports(path), f"test_{path.stem}"
    return [i for i, p in enumerate(every()) if p.name.startswith(name) or _has(p, imports)]


def _imports(path: Path) -> re.Pattern[str]:
    """Return what imports a file of codegen look like."""
    within = r"\.".join(("didyma", *path.parts[:-1]))
    return re.compile(rf"from {within}(\.{path.stem} import| import [^\n]*\b{path.stem}\b)")


def _has(path: Path, pattern: re.Pattern[str]) -> bool:
    return bool(pattern.search(path.read_text(encoding="utf-8")))


def judge(index: int) -> tuple[str, str, str] | None:
    """Run a file of tests in this process; return the first that fails as a finding."""
    noted = _Noted()
    os.chdir(ROOT)
    words = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", str(every()[index])]
    code = pytest.main(words, plugins=[noted])
    if noted.failed:
        return "tests", "test", noted.failed
    return ("tests", "error", f"pytest ended with {code}") if code == 3 else None


def start() -> Callable[[int], tuple[str, str, str] | None]:
    """Return what judges files of tests by index."""
    return judge


class _Noted:
    """Notes the first failure of a run, and ends it in time."""

    def __init__(self) -> None:
        self.failed = ""
        self._until = process_time() + SECONDS

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be imported."""
        self._note(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that failed."""
        self._note(report)

    def _note(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = f"{report.nodeid}: {report.longreprtext[-200:]}"

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """End the run once its time is over."""
        if process_time() > self._until:
            item.session.shouldstop = "time is over"
