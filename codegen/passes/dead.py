"""Dead code elimination of values, control nodes, and symbols with their bindings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from didyma.refimpl.ir import control
from didyma.refimpl.ir.graph import Function, Node


def drop_dead(f: Function, mentioned: Mapping[str, frozenset[str]]) -> Function:
    """Return a function without the nodes that its results do not need.

    ``mentioned`` names the symbols that each function of the module speaks of: what binds one
    that is mentioned further down stays.
    """
    live = set(f.results)
    symbols: set[str] = set()
    kept: list[Node] = []
    for n in reversed(f.nodes):
        binds = control.binds(n)
        if live.isdisjoint(n.results) and symbols.isdisjoint(binds):
            continue
        live.update(n.args)
        kept.append(n)
        if mentioned[f.name]:
            symbols |= control.symbols(n)
            symbols.update(*(mentioned[r] for r in control.references(n)))
    return f if len(kept) == len(f.nodes) else replace(f, nodes=tuple(reversed(kept)))
