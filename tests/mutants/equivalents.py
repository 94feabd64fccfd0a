"""The list of equivalent mutants, each with a reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from didyma.refimpl.errors import DidymaError
from tests.mutants.mutant import Mutant

FILE = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, slots=True)
class Entry:
    """Says that a mutant, or those of files and functions that patterns match, are equivalent."""

    reason: str
    id: str = ""
    file: str = ""
    scope: str = ""
    operator: str = "*"

    def matches(self, m: Mutant) -> bool:
        """Return whether the entry is about a mutant."""
        if self.id:
            return m.id == self.id
        return self.covers(m.file, m.site.scope) and fnmatchcase(m.site.operator, self.operator)

    def covers(self, file: str, scope: str) -> bool:
        """Return whether an entry for functions is about one of a file."""
        return fnmatchcase(file, self.file) and fnmatchcase(scope, self.scope)

    def __str__(self) -> str:
        """Name the entry as the file does."""
        return self.id or f"{self.file}: {self.scope}"


def load(file: Path = FILE) -> list[Entry]:
    """Read the list; DidymaError ``parse`` where it is not one."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
        entries = [
            Entry(t["reason"], t["id"]) for t in tables.get("mutant", ())
        ] + [
            Entry(t["reason"], "", t["file"], t["scope"], t.get("operator", "*"))
            for t in tables.get("function", ())
        ]  # fmt: skip
    except (tomllib.TOMLDecodeError, KeyError) as e:
        raise DidymaError("parse", str(file), got=str(e), want="tables [[mutant]] with id and "
                          "reason, [[function]] with file, scope and reason") from None  # fmt: skip
    return entries


def reason(m: Mutant, entries: Sequence[Entry], reached: bool = True) -> str:
    """Return why a mutant is equivalent; empty if no entry says so.

    An entry for functions says nothing of a mutant that no case ``reached``.
    """
    return next((e.reason for e in entries if e.matches(m) and (e.id or reached)), "")


def unmatched(entries: Iterable[Entry], mutants: Sequence[Mutant]) -> list[str]:
    """Return the entries that no mutant of a file matches any longer."""
    ids = {m.id for m in mutants}
    scopes = {(m.file, m.site.scope) for m in mutants}
    return [
        str(e) for e in entries
        if (e.id not in ids if e.id else not any(e.covers(*at) for at in scopes))
    ]  # fmt: skip
