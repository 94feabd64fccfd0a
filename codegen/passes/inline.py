"""Inlining: replace calls by the bodies of the functions that they call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from didyma.refimpl.ir import control
from didyma.refimpl.ir.graph import (
    CALL,
    COMPILER,
    NO_INLINE,
    PRIMITIVE,
    Function,
    Module,
    Node,
    attrs,
    rename,
)
from didyma.refimpl.ir.names import Names, fresh


def stays(f: Function) -> bool:
    """Return whether calls to a function stay: a kernel, an external or a ``NoInline`` one."""
    return not f.attr.keys().isdisjoint((PRIMITIVE, COMPILER, NO_INLINE))


def inline(m: Module) -> Module:
    """Replace every call to a plain function by its nodes, and drop the functions left unused.

    Values keep their names where those are free in the caller; others get a number, as do values
    with the name of a symbol, since the emitted code has one namespace for both.
    """
    m = _entered(m)
    table: dict[str, Function] = {}
    sizes = frozenset(v.name for v in m.dims)
    for f in m.functions:
        table[f.name] = _apart(_inline_function(f, table), sizes)
    return used(replace(m, functions=tuple(table.values())), m)


def _entered(m: Module) -> Module:
    """Return a module whose entry is a plain function, which calls the entry if that was none."""
    f = m.entry
    if not f.attr.keys() & {COMPILER, PRIMITIVE}:
        return m
    name = fresh(f"{f.name}_body", {g.name for g in m.functions})
    supply = Names(p.name for p in f.params)
    results = tuple(supply.fresh(r) for r in f.results)
    params = tuple(p.name for p in f.params)
    call = Node(results, CALL, params, f.result_types(), attrs({"callee": name}))
    entry = Function(f.name, f.params, (call,), results)
    return replace(m, functions=(*m.functions[:-1], replace(f, name=name), entry))


def used(m: Module, old: Module) -> Module:
    """Return a module without its unused functions; ``old`` itself if nothing differs from it."""
    wanted = {m.entry.name}
    for f in reversed(m.functions):
        if f.name in wanted:
            wanted.update(r for n in f.nodes for r in control.references(n))
    kept = tuple(f for f in m.functions if f.name in wanted)
    same = [*map(id, kept)] == [*map(id, old.functions)]
    return old if same else replace(m, functions=kept)


def _inline_function(f: Function, table: dict[str, Function]) -> Function:
    if COMPILER in f.attr or not any(n.op == CALL and not stays(table[n.callee]) for n in f.nodes):
        return f
    body = BodyBuilder(
        Names((*(p.name for p in f.params), *(r for n in f.nodes for r in n.results)))
    )
    for n in f.nodes:
        if n.op == CALL and not stays(table[n.callee]):
            body.splice(n, table[n.callee])
        else:
            body.nodes.append(rename(n, body.names))
    results = tuple(body.names.get(r, r) for r in f.results)
    return replace(f, nodes=tuple(body.nodes), results=results)


def _apart(f: Function, sizes: frozenset[str]) -> Function:
    """Rename the values of a function that have the name of a symbol."""
    if not sizes:
        return f
    named = {p.name for p in f.params} | {r for n in f.nodes for r in n.results}
    if sizes.isdisjoint(named):
        return f
    body = BodyBuilder(Names(named | sizes))
    body.names.update({v: body.supply.fresh(v) for v in sorted(named & sizes)})
    return replace(
        f,
        params=tuple(replace(p, name=body.names.get(p.name, p.name)) for p in f.params),
        nodes=tuple(rename(n, body.names) for n in f.nodes),
        results=tuple(body.names.get(r, r) for r in f.results),
    )


@dataclass
class BodyBuilder:
    """A function body under construction; ``names`` maps results of calls to what replaces them."""

    supply: Names
    nodes: list[Node] = field(default_factory=list[Node])
    names: dict[str, str] = field(default_factory=dict[str, str])

    def splice(self, call: Node, f: Function) -> None:
        """Append the nodes of ``f``, which has no plain calls left, in place of a call."""
        args = (self.names.get(a, a) for a in call.args)
        inner = dict(zip((p.name for p in f.params), args, strict=True))
        # The call's own result names are free once it is gone: give them to the values returned.
        for outer, result in zip(call.results, f.results, strict=True):
            if result not in inner:
                inner[result] = outer
        for n in f.nodes:
            for r in n.results:
                if r not in inner:
                    inner[r] = self.supply.fresh(r)
            self.nodes.append(rename(n, inner))
        for outer, result in zip(call.results, f.results, strict=True):
            if inner[result] != outer:
                self.names[outer] = inner[result]
