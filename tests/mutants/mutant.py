"""A mutant: one small change of a text, with an identity that outlives moved lines."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

ROOT = Path(__file__).parents[2]

Group: TypeAlias = Literal[
    "passes", "lower", "schedule", "order", "memory", "emit", "runtime", "prelude", "text", "named"
]
GROUPS: tuple[Group, ...] = (
    "passes", "lower", "schedule", "order", "memory", "emit", "runtime", "prelude", "text",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Site:
    """A change of a source text: the characters from ``start`` to ``end`` become ``new``.

    ``operator`` names the kind of change, ``scope`` the function that it is in; the characters of
    the scope are those from ``scope_start`` to ``scope_end``.
    """

    start: int
    end: int
    new: str
    operator: str
    scope: str
    scope_start: int
    scope_end: int


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of a file, or of the text of the kernels of a drawn program.

    ``file`` is relative to the checkout; for kernel text it is ``kernel text of program N``.
    ``reach_line`` is the line whose execution shows that a check reaches the mutant; 0 if the whole
    file counts.  ``program`` is the index of the drawn program, -1 for a mutant of a file.
    """

    group: Group
    file: str
    source: str
    site: Site
    reach_line: int = 0
    program: int = -1

    @property
    def id(self) -> str:
        """Hash of the function and the change, which does not depend on where the function is."""
        s = self.site
        scope = self.source[s.scope_start : s.scope_end]
        name = PurePosixPath(self.file).name if self.program < 0 else "kernel"
        where = (str(s.start - s.scope_start), str(s.end - s.scope_start))
        content = "\0".join((name, s.scope, scope, *where, s.new))
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @property
    def line(self) -> int:
        """Line of the change, from 1."""
        return self.source.count("\n", 0, self.site.start) + 1

    @property
    def mutated(self) -> str:
        """The source after the change."""
        return self.source[: self.site.start] + self.site.new + self.source[self.site.end :]

    @property
    def diff(self) -> str:
        """The change as the changed lines of a unified diff, without context."""
        return changed_lines(self.source, self.mutated, self.file)


def changed_lines(old: str, new: str, file: str) -> str:
    """Return a unified diff of two texts of a file, without context."""
    rows = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"a/{file}", f"b/{file}", "", "", n=0, lineterm=""
    )
    return "\n".join(rows)
