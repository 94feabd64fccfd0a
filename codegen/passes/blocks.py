"""Which functions of a graph run node by node, and so become lines of the program."""

from __future__ import annotations

from didyma.refimpl.ir.control import references
from didyma.refimpl.ir.graph import CALL, Function, Module, is_called


def blocks(m: Module) -> dict[str, Function]:
    """Return the functions whose nodes run one by one, in the order of the module.

    They are the entry, and from there on what control nodes run and what is called and not
    inlined.  The other functions are kernels, or callees that are yet to be inlined.
    """
    table = {f.name: f for f in m.functions}
    todo, seen = [m.entry.name], set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo += [
            r
            for n in table[name].nodes
            for r in references(n)
            if n.op != CALL or is_called(table[r])
        ]
    return {f.name: f for f in m.functions if f.name in seen}
