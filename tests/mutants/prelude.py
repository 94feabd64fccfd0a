"""What the paragraphs of a prelude define."""

from __future__ import annotations

import re

_GROUPS = {
    "signed": r"i\d+", "unsigned": r"u\d+", "ints": r"[iu]\d+", "small": r"[iu]\d+",
    "floats": r"f(?:32|64)", "f8s": r"f8\w+", "types": r"\w+",
}  # fmt: skip


def paragraph(source: str, at: int) -> int:
    """Return the line, from 1, of a place in a source."""
    return source.count("\n", 0, at) + 1


def definitions(source: str) -> list[tuple[int, re.Pattern[str]]]:
    """Return the paragraphs of a prelude: their lines, and what the names they define look like."""
    found: list[tuple[int, re.Pattern[str]]] = []
    holes: dict[str, str] = {}
    for p in re.finditer(r"\S(?:.|\n(?!\s*\n))*", source):
        if p[0].startswith("//:"):
            clauses = p[0].partition("\n")[0].removeprefix("//:").split(",")
            holes = dict(_hole(clause) for clause in clauses if clause.strip())
        names = re.findall(r"^#define (\w+)|^FN \w+ (\w+)\(|^.* (\w+);$", p[0], re.MULTILINE)
        for name in filter(None, (g for groups in names for g in groups)):
            parts = re.split(r"(?<![A-Za-z0-9])([TF])(?![A-Za-wyz0-9])", name)
            pattern = "".join(holes.get(x, x) for x in parts)
            found.append((paragraph(source, p.start()), re.compile(rf"\b{pattern}\b")))
    return found


def _hole(clause: str) -> tuple[str, str]:
    """Return a letter of a directive such as ``T in ints b8``, and what may stand for it."""
    letter, _, words = clause.strip().partition(" in ")
    return letter, "(?:" + "|".join(_GROUPS.get(w, w) for w in words.split()) + ")"
