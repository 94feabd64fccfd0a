"""Which cases of which checks execute which lines of codegen: measured once, before any mutant."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import process_time
from types import CodeType
from typing import Any, TypeAlias, cast
from unittest import mock

from tests.mutants.forking import Ended, Say, forked
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.reach import Line, Lines
from tests.mutants.sources import definitions

FOLDERS = ("codegen",)
SOURCES = ("refimpl", "codegen", "oracle", "fuzz", "tests/mutants/mutate")
PRELUDE = ("codegen/emit/prelude/common.c", "codegen/emit/prelude/host.c")
DRIVER = "codegen/emit/prelude/driver.c"
_CHUNK = 10  # cases a child
_OFTEN = 3  # cases in which a decision was made, that a lost one may count

Unit: TypeAlias = tuple[int, range]  # index of a check, and some of its cases


@dataclass(slots=True)
class Reached:
    """The cases that execute each line, as bits of a number, by line and check.

    ``counts`` are the cases measured by check, ``slowest`` the seconds that the slowest of them
    took, traced, and ``findings`` those that are wrong without any mutant, which are not judged.
    ``decisions`` are the cases in which the compiler makes each decision, by check, as bits too.
    """

    lines: dict[Line, dict[str, int]] = field(default_factory=dict[Line, dict[str, int]])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    slowest: dict[str, float] = field(default_factory=dict[str, float])
    findings: list[str] = field(default_factory=list[str])
    decisions: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    def note(self, check: str, index: int, lines: Sequence[Line], seconds: float) -> None:
        """Add what a case executed."""
        self.counts[check] = self.counts.get(check, 0) + 1
        self.slowest[check] = max(self.slowest.get(check, 0.0), seconds)
        for line in lines:
            of = self.lines.setdefault(line, {})
            of[check] = of.get(check, 0) | 1 << index

    def cases(self, m: Mutant, imported: bool = False) -> dict[str, list[int]]:
        """Return, by check, the cases that execute a mutant's line, in order.

        Those that execute any line of its file where it is at module level, or in a function that
        ran while modules were ``imported``; all cases if there are none, or nothing was measured.
        """
        bits: dict[str, int] = {}
        if m.reach_line and not imported:
            line = _executable(m)
            bits = self.lines.get((m.file, line), {})
        else:
            for (file, _), of in self.lines.items():
                if file == m.file:
                    for check, b in of.items():
                        bits[check] = bits.get(check, 0) | b
        if not self.lines or (not bits and (imported or not m.reach_line)):
            bits = {check: (1 << n) - 1 for check, n in self.counts.items()}
        return {check: _indices(b) for check, b in bits.items()}

    def lost(self, check: str, cases: Sequence[int], decisions: Set[str]) -> str:
        """Return a decision made in some of the cases that is not among others; empty if none is.

        It counts only if it was made in several of them.
        """
        made = self.decisions.get(check, {})
        counts = {d: sum(bits >> i & 1 for i in cases) for d, bits in made.items()}
        gone = {d: n for d, n in counts.items() if n >= _OFTEN and d not in decisions}
        if not gone:
            return ""
        name = max(gone, key=gone.__getitem__)
        return f"not in {len(cases)} programs: {name}, made in {gone[name]} of them before"

    def save(self, file: Path, key: str) -> None:
        """Write a file of JSON."""
        lines = [[*line, {c: hex(b) for c, b in of.items()}] for line, of in self.lines.items()]
        whole = {
            "key": key, "counts": self.counts, "slowest": self.slowest,
            "findings": self.findings, "lines": lines, "decisions": self.decisions,
        }  # fmt: skip
        file.write_text(json.dumps(whole), encoding="utf-8")

    @staticmethod
    def load(file: Path, key: str) -> Reached | None:
        """Read a file that ``save`` wrote for the same sources and cases; None if it is none."""
        try:
            whole = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if whole.get("key") != key:
            return None
        lines = {(f, n): {c: int(b, 16) for c, b in of.items()} for f, n, of in whole["lines"]}
        return Reached(
            lines, whole["counts"], whole["slowest"], whole["findings"], whole["decisions"]
        )


def key(*parts: object) -> str:
    """Return a hash of the sources that decide what is reached, and of other parts."""
    h = hashlib.sha256(repr(parts).encode())
    files = [p for f in SOURCES for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".c")]
    for path in sorted(
        [*files, *(ROOT / "tests" / "mutants" / f for f in ("checks.py", "faulty.py"))]
    ):
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


def measure(
    checks: Sequence[Any], jobs: int, idle: Callable[[], bool], progress: Callable[[int, int], None]
) -> Reached:
    """Judge every case of every check, without a mutant, and record what it executes."""
    units = [
        (i, range(a, min(a + _CHUNK, c.cases)))
        for i, c in enumerate(checks)
        for a in range(0, c.cases, _CHUNK)
    ]
    units.sort(key=lambda u: (u[1].start, u[0]))
    names = [d for file in PRELUDE for d in _named(file)]
    r = Reached()
    total = sum(c.cases for c in checks)
    for ended in forked(units, partial(_trace, checks, names), jobs, idle=idle):
        _take(r, checks, ended)
        progress(sum(r.counts.values()), total)
    return r


def _named(file: str) -> Iterator[tuple[str, int, Any]]:
    for line, pattern in definitions((ROOT / file).read_text(encoding="utf-8")):
        yield file, line, pattern


def _take(r: Reached, checks: Sequence[Any], ended: Ended[Unit]) -> None:
    name = checks[ended.work[0]].name
    for index, lines, seconds, wrong in ended.said:
        if isinstance(wrong, frozenset):
            for d in sorted(cast("frozenset[str]", wrong)):
                of = r.decisions.setdefault(name, {})
                of[d] = of.get(d, 0) | 1 << index
        elif wrong:
            r.findings.append(f"{name} {index}: {wrong}")
            continue_with: list[Any] = []
            lines = continue_with
        r.note(name, index, lines, seconds)
    if ended.how:
        r.findings.append(f"{name} {ended.work[1]}: {ended.how}")


def _trace(checks: Sequence[Any], names: Sequence[Any], unit: Unit, say: Say) -> None:
    which, indices = unit
    units: set[str] = set()
    lines = Lines(FOLDERS)
    judge, opened = lines.of(checks[which].open)
    with _compiled_units(units):
        for i in indices:
            units.clear()
            began = process_time()
            wrong, reached = lines.of(partial(judge, i))
            seconds = process_time() - began
            text = "\n".join(units)
            used = {(file, line) for file, line, pattern in names if pattern.search(text)}
            driver: set[tuple[str, int]] = {(DRIVER, 0)} if units else set()
            say((i, sorted(opened | reached | used | driver), seconds, wrong))


def _compiled_units(units: set[str]) -> Any:
    """Note the C units that the host engine compiles."""
    from didyma.codegen.runtime.tinycc import TinyCC

    compile_ = TinyCC.compile

    def noted(self: TinyCC, source: str, *rest: Any) -> Any:
        units.add(source)
        return compile_(self, source, *rest)

    return mock.patch.object(TinyCC, "compile", noted)


def _executable(m: Mutant) -> int:
    """Return the last line with code of its own, up to the line of a mutant."""
    if not m.file.endswith(".py"):
        return m.reach_line
    found = [n for n in _code_lines(compile(m.source, m.file, "exec", dont_inherit=True))
             if n <= m.reach_line]  # fmt: skip
    return max(found, default=m.reach_line)


def _code_lines(code: CodeType) -> Iterator[int]:
    yield from (n for _, _, n in code.co_lines() if n)
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield from _code_lines(c)


def _indices(bits: int) -> list[int]:
    return [i for i in range(bits.bit_length()) if bits >> i & 1]
