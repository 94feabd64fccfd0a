"""Dead code elimination of values and control nodes."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from didyma.refimpl.ir import control
from didyma.refimpl.ir.graph import Function, Node


def drop_dead(f: Function, checking: Set[str]) -> Function:
    """Return a function without the nodes that its results do not need.

    What binds a symbol stays, since it checks the symbol's range.  So do nodes that call or run a
    function that is named in ``checking``; see ``control.checking``.
    """
    live = set(f.results)
    kept: list[Node] = []
    for n in reversed(f.nodes):
        if live.isdisjoint(n.results) and not control.checks(n, checking):
            continue
        live.update(n.args)
        kept.append(n)
    return f if len(kept) == len(f.nodes) else replace(f, nodes=tuple(reversed(kept)))
