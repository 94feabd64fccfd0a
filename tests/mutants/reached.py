"""Which cases of which checks execute which lines of codegen, as recorded before any mutant."""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from types import CodeType

from tests.mutants.hunting import Queue
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.reach import Line

FOLDERS = ("codegen",)
SOURCES = ("refimpl", "codegen", "oracle", "fuzz", "tests/mutants/mutate")
JUDGES = ("checks.py", "faulty.py", "reach.py", "reached.py", "recording.py")
_OFTEN = 3  # cases in which a decision was made, that a lost one may count


@dataclass(slots=True)
class Reached:
    """The cases that execute each line, as bits of a number, by line and check.

    ``sizes`` are the cases of each check, of which the first ``counts`` were recorded in ``spent``
    seconds of processor time.  ``slowest`` are the seconds that the slowest case took, and
    ``wrong`` the check and index of cases that are wrong without any mutant, which are not judged.
    ``findings`` tells of them.  ``decisions`` are the cases in which the compiler makes each
    decision, by check, as bits too.
    """

    sizes: dict[str, int] = field(default_factory=dict[str, int])
    lines: dict[Line, dict[str, int]] = field(default_factory=dict[Line, dict[str, int]])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    slowest: dict[str, float] = field(default_factory=dict[str, float])
    findings: list[str] = field(default_factory=list[str])
    wrong: dict[str, int] = field(default_factory=dict[str, int])
    decisions: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    spent: float = 0.0

    def note(self, check: str, index: int, lines: Collection[Line], seconds: float) -> None:
        """Add what a case executed."""
        self.counts[check] = max(self.counts.get(check, 0), index + 1)
        self.slowest[check] = max(self.slowest.get(check, 0.0), seconds)
        for line in lines:
            of = self.lines.setdefault(line, {})
            of[check] = of.get(check, 0) | 1 << index

    def note_wrong(self, check: str, index: int, message: str) -> None:
        """Add that a case is wrong without any mutant."""
        self.findings.append(f"{check} {index}: {message}")
        self.wrong[check] = self.wrong.get(check, 0) | 1 << index

    def is_wrong(self, check: str, index: int) -> bool:
        """Return whether a case is wrong without any mutant."""
        return bool(self.wrong.get(check, 0) >> index & 1)

    def queues(self, m: Mutant, imported: bool = False) -> dict[str, Queue]:
        """Return, by check, the cases recorded to execute a mutant's line, and those that may.

        The latter are the cases that were not recorded, and then those of its function.  The lines
        of the whole file count where the mutant is at module level, or in a function that ran
        while modules were ``imported``.
        """
        if m.reach_line and not imported:
            bits = self.lines.get((m.file, executable(m)), {})
            around = range(_line(m, m.site.scope_start), _line(m, m.site.scope_end) + 1)
            function = self._union((m.file, n) for n in around)
        else:
            bits = function = self._union(line for line in self.lines if line[0] == m.file)
        found: dict[str, Queue] = {}
        for check, size in self.sizes.items():
            right = ~self.wrong.get(check, 0)
            known = bits.get(check, 0) & right
            near = function.get(check, 0) & right
            count = self.counts.get(check, 0)
            rest = ((1 << size) - (1 << count)) & right if size > count else 0
            share = (near | known).bit_count() / count if count else 1.0
            others = (*_indices(rest), *_indices(near & ~known))
            if known or others:
                found[check] = Queue(_indices(known), others, share)
        return found

    def _union(self, lines: Iterable[Line]) -> dict[str, int]:
        bits: dict[str, int] = {}
        for line in lines:
            for check, b in self.lines.get(line, {}).items():
                bits[check] = bits.get(check, 0) | b
        return bits

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

    def save(self, file: Path) -> None:
        """Write a file of JSON, in a folder that is made."""
        whole = {f.name: getattr(self, f.name) for f in fields(self)}
        whole["lines"] = [[*at, _hex(of)] for at, of in self.lines.items()]
        whole["wrong"] = _hex(self.wrong)
        whole["decisions"] = {check: _hex(of) for check, of in self.decisions.items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        written = file.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(whole), encoding="utf-8")
        written.replace(file)

    @staticmethod
    def load(file: Path) -> Reached | None:
        """Read a file that ``save`` wrote; None if it is none."""
        try:
            whole = json.loads(file.read_text(encoding="utf-8"))
            whole["lines"] = {(f, n): _numbers(of) for f, n, of in whole["lines"]}
            whole["wrong"] = _numbers(whole["wrong"])
            whole["decisions"] = {c: _numbers(of) for c, of in whole["decisions"].items()}
            return Reached(**whole)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def key(*parts: object) -> str:
    """Return a hash of the sources that decide what is reached, and of other parts."""
    h = hashlib.sha256(repr(parts).encode())
    files = [p for f in SOURCES for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".c", ".dym")]
    for path in sorted([*files, *(ROOT / "tests" / "mutants" / f for f in JUDGES)]):
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


def executable(m: Mutant) -> int:
    """Return the last line with code of its own, up to the line of a mutant."""
    if not m.file.endswith(".py"):
        return m.reach_line
    lines = _lines(m.file, m.source)
    at = bisect_right(lines, m.reach_line)
    return lines[at - 1] if at else m.reach_line


@lru_cache
def _lines(file: str, source: str) -> Sequence[int]:
    """Return the lines of a file that have code of their own, in order."""
    return sorted(set(_code_lines(compile(source, file, "exec", dont_inherit=True))))


def _code_lines(code: CodeType) -> Iterator[int]:
    yield from (n for _, _, n in code.co_lines() if n)
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield from _code_lines(c)


def _line(m: Mutant, at: int) -> int:
    return m.source.count("\n", 0, at) + 1


def _hex(bits: dict[str, int]) -> dict[str, str]:
    return {name: hex(b) for name, b in bits.items()}


def _numbers(bits: dict[str, str]) -> dict[str, int]:
    return {name: int(b, 16) for name, b in bits.items()}


def _indices(bits: int) -> list[int]:
    return [i for i in range(bits.bit_length()) if bits >> i & 1]
