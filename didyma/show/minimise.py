"""What minimising found, as lines made from its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from didyma.show.console import console, line


def minimised(r: Mapping[str, Any]) -> None:
    """Print how small a disagreement became, what it needs, and where it was written."""
    out = console()
    line(out, f"{r['level']} ({r['kind']}) in {r['where']}: {r['message']}")
    before, after = (_size(r[key]) for key in ("before", "after"))
    line(out, f"{before} -> {after}, in {r['seconds']:.1f} s and {r['judged']} judgements")
    needed = ", ".join(r["needed"]) or "no pass and no planner"
    line(out, f"needs {needed}" + (f"; not {', '.join(r['left_out'])}" if r["left_out"] else ""))
    if r["options"]:
        line(out, f"with {', '.join(f'{k} = {v}' for k, v in r['options'].items())}")
    if "unshrunk" in r:
        line(out, f"not as small as may be: {r['unshrunk']}")
    if "kernel" in r:
        k = r["kernel"]
        line(out, f"the kernel at fault, {k['before']} -> {k['after']} parts: {k['message']}")
        for row in k["text"].splitlines():
            line(out, f"  {row}")
    line(out, f"replay with: didyma replay {r['file']}")
    if r["script"]:
        line(out, f"or run: python {r['script']}")
    if "kernel" in r and r["kernel"]["script"]:
        line(out, f"the kernel alone: python {r['kernel']['script']}")


def agrees() -> None:
    """Say that there is nothing to minimise."""
    line(console(), "it agrees: there is nothing to minimise")


def _size(r: Mapping[str, int]) -> str:
    nodes, elements = r["nodes"], r["elements"]
    return f"{nodes} node{'s' * (nodes != 1)}, {elements} element{'s' * (elements != 1)}"
