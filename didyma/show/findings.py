"""Findings grouped by cause, as lines made from their record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from didyma.show.console import console, line

SHOWN = 5  # files of a group that are printed


def findings(r: Mapping[str, Any], *, since: bool, judged: bool) -> None:
    """Print each group: its level, kind and reason, what is common, and its smallest finding.

    ``since`` says that earlier findings were given, ``judged`` that all were judged again.
    """
    out = console()
    groups = r["groups"]
    total = sum(g["count"] for g in groups)
    line(out, f"{_many(total, 'finding')} in {_many(len(groups), 'group')}")
    for number, g in enumerate(groups, 1):
        reason = f", {g['reason']}" if g["reason"] else ""
        marks = [word for word, on in (("new", since and g["new"]),) if on]
        if judged:
            marks.append("fails" if g["fails"] else "no longer fails")
        head = f"group {number}: {g['level']} ({g['kind']}{reason}), {_many(g['count'], 'finding')}"
        line(out, "")
        line(out, ", ".join([head, *marks]))
        if g["common"] and g["count"] > 1:
            line(out, f"  in common: {', '.join(g['common'])}")
        nodes = _many(g["nodes"], "node")
        line(out, f"  smallest: {nodes}, in {g['where']}: {g['message']}")
        for file in g["files"][:SHOWN]:
            line(out, f"  {'* ' if file == g['smallest'] else '  '}{file}")
        if g["count"] > SHOWN:
            line(out, f"    and {g['count'] - SHOWN} more")
    if r["unknown"]:
        line(out, "")
        line(
            out, f"{_many(len(r['unknown']), 'file')} that no longer fail, and do not say why they"
        )
        line(out, "were kept:")
        for file in r["unknown"]:
            line(out, f"    {file}")


def _many(n: int, word: str) -> str:
    return f"{n} {word}{'s' * (n != 1)}"
