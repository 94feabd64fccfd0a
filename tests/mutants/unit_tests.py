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
MOST = 4  # files of tests for a file of codegen
_TESTS = ROOT / "tests" / "codegen"
_GOLDEN = "golden"  # such tests compare texts, which may differ and be right


@cache
def every() -> tuple[Path, ...]:
    """Return all files of tests of codegen, in order."""
    return tuple(p for p in sorted(_TESTS.rglob("test_*.py")) if _GOLDEN not in p.name)


def of(file: str) -> tuple[int, ...]:
    """Return the indices of a file's tests, which import it or have its name.

    If there are none, they are those of the files that import it, or else of its folder.
    """
    path = Path(file)
    if path.parts[0] != "codegen" or path.suffix != ".py":
        return ()
    found = _own(path)
    if not found:
        imports = _imports(path)
        readers = (p for p in sorted((ROOT / "codegen").rglob("*.py")) if _has(p, imports))
        found = list(dict.fromkeys(i for p in readers for i in _own(p.relative_to(ROOT))))
    mirror = _TESTS.joinpath(*path.parts[1:-1])
    while not found and mirror != ROOT:
        found = [i for i, p in enumerate(every()) if p.parent == mirror]
        mirror = mirror.parent
    own = f"test_{path.stem}"
    found.sort(key=lambda i: (not every()[i].name.startswith(own), every()[i].stat().st_size))
    return tuple(found[:MOST])


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
