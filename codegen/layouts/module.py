"""Let a fused module read parameters from the bases of their layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from didyma.codegen.layouts.layout import Layout
from didyma.refimpl.ir import control
from didyma.refimpl.ir.graph import (
    CALL,
    COMPILER,
    PRIMITIVE,
    RESHAPE_ONLY,
    Attr,
    Function,
    Module,
    Node,
    Param,
    attrs,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import Shape, TensorType

Layouts = Mapping[str, Layout]  # by the name of a parameter of the entry


def obstacle(m: Module, name: str, layout: Layout) -> str:
    """Return why a parameter of the entry cannot have a layout; empty if it can.

    Sizes of which only a part is read must be known, and only calls of Primitive functions that
    nothing else calls may read it.
    """
    entry, functions = m.entry, {f.name: f for f in m.functions}
    t = entry.stored_types()[name]
    if t.strides is not None:
        return "its strides are declared"
    if any(not s.is_whole and not isinstance(t.shape[s.axis], int) for s in layout):
        return "it has a part of an axis whose size is a symbol"
    if name in entry.results:
        return "the program returns it"
    calls = Counter(c for f in m.functions for n in f.nodes for c in control.references(n))
    for n in entry.nodes:
        if name not in n.args:
            continue
        f = functions[n.callee] if n.op == CALL else None
        if f is None or PRIMITIVE not in f.attr or COMPILER in f.attr:
            return "what is no kernel reads it"
        if RESHAPE_ONLY in f.attr:
            return "it is read under another shape"
        if calls[f.name] > 1:
            return "a kernel that reads it runs several times"
    return ""


def viewed(m: Module, layouts: Layouts) -> Module:
    """Return the module whose entry takes bases; no parameter may have an obstacle."""
    read = {n.callee: n for n in m.entry.nodes if n.op == CALL and layouts.keys() & set(n.args)}
    functions = tuple(
        _reader(f, [layouts.get(a) for a in read[f.name].args]) if f.name in read else f
        for f in m.functions[:-1]
    )
    params = tuple(_base(p, layouts.get(p.name)) for p in m.entry.params)
    return replace(m, functions=(*functions, replace(m.entry, params=params)))


def _base(p: Param, layout: Layout | None) -> Param:
    if layout is None:
        return p
    shape = tuple(p.type.shape[s.axis] if s.is_whole else s.size for s in layout)
    return replace(p, type=replace(p.type, shape=shape))


def _reader(f: Function, layouts: Sequence[Layout | None]) -> Function:
    """Return a function that takes bases; they keep the parameters' names, as their buffers do."""
    names = Names((*f.types(),))
    views = dict[str, str]()
    nodes, params = list[Node](), list[Param]()
    for p, layout in zip(f.params, layouts, strict=True):
        params.append(base := _base(p, layout))
        if layout is not None:
            steps = _view(base, p.type, layout, names)
            nodes += steps
            views[p.name] = steps[-1].results[0] if steps else p.name
    nodes += [replace(n, args=tuple(views.get(a, a) for a in n.args)) for n in f.nodes]
    results = tuple(views.get(r, r) for r in f.results)
    return replace(f, params=tuple(params), nodes=tuple(nodes), results=results)


def _view(base: Param, wanted: TensorType, layout: Layout, names: Names) -> list[Node]:
    """Return the nodes that make a view of a base: its part, its axes in order, and repeated."""
    made = list[Node]()

    def add(op: str, shape: Shape, given: Mapping[str, Attr]) -> None:
        name = made[-1].results[0] if made else base.name
        t = replace(wanted, shape=shape)
        made.append(Node((names.fresh(f"{base.name}_view"),), op, (name,), (t,), attrs(given)))

    rank = range(len(layout))
    counts = tuple(wanted.shape[s.axis] if s.step else 1 for s in layout)
    if any(not s.is_whole and s.step for s in layout):
        ends = tuple(
            n if s.is_whole or not s.step else s.start + (int(n) - 1) * s.step + 1
            for s, n in zip(layout, counts, strict=True)
        )
        starts, steps = tuple(s.start for s in layout), tuple(max(1, s.step) for s in layout)
        add("slice", counts, {"starts": starts, "stops": ends, "steps": steps})
    order = tuple(sorted(rank, key=lambda k: layout[k].axis))
    shape = tuple(counts[k] for k in order)
    if order != tuple(rank):
        add("permute_dims", shape, {"axes": order})
    if shape != wanted.shape:
        add("broadcast_to", wanted.shape, {"shape": wanted.shape})
    return made
