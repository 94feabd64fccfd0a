"""Collect what one level of a judgement compares and finds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from didyma.oracle.compare import Comparison
from didyma.oracle.report import Finding, Level

T = TypeVar("T")

ALWAYS_JUDGED = 8  # uses of one kernel or node that are judged before sampling begins


class Recorder:
    """The comparisons and findings of one level while it runs; ``level`` freezes them."""

    def __init__(self, name: str, subject: str = "") -> None:
        self.name = name
        self.subject = subject
        self.comparisons: list[Comparison] = []
        self.findings: list[Finding] = []
        self.unjudged = 0
        self.checks = 0
        self.note = ""
        self._uses: Counter[object] = Counter()
        self._start = time.perf_counter()

    def compare(self, where: str, comparisons: Iterable[Comparison]) -> None:
        """Record comparisons; each that disagrees is a finding at ``where``."""
        for c in comparisons:
            self.comparisons.append(c)
            if not c.agree:
                self.find(where, "ring" if c.in_ring else "value", c.message)

    def find(self, where: str, kind: str, message: str) -> None:
        """Record a finding."""
        self.findings.append(Finding(self.name, where, kind, message))

    def guard(self, where: str, run: Callable[[], T]) -> T | None:
        """Run a function; an exception becomes a finding, since a crash is a result too."""
        try:
            return run()
        except Exception as e:
            fault = hasattr(e, "faults") or type(e).__name__.endswith("Fault")
            self.find(where, "fault" if fault else "error", f"{type(e).__name__}: {e}")
            return None

    def sample(self, what: object) -> bool:
        """Count a use of a kernel or node, and return whether this use is judged.

        The first ``ALWAYS_JUDGED`` uses are, and every use whose number is a power of two.
        """
        self._uses[what] += 1
        n = self._uses[what]
        judged = n <= ALWAYS_JUDGED or n & (n - 1) == 0
        self.unjudged += not judged
        return judged

    def level(self) -> Level:
        """Return what was recorded, with the seconds since the recorder was made."""
        return Level(
            self.name,
            tuple(self.comparisons),
            tuple(self.findings),
            time.perf_counter() - self._start,
            self.unjudged,
            self.note,
            self.subject,
            self.checks,
        )
