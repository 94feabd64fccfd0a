"""Spread the values of a drawn graph over two devices, with copies wherever ops need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from didyma.fuzz.chooser import Chooser
from didyma.refimpl.ir.graph import COMPILER, PRIMITIVE, TO, Function, Module, Node, attrs
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.create import CONSTANT

DEVICES = ("", "host:1")
DRAWN = {name: op for name, op in OPS.items() if name != TO}  # all others are drawn elsewhere


def spread(m: Module, c: Chooser, devices: Sequence[str] = DEVICES) -> Module:
    """Return the module with its ops on some of the devices.

    A value may be brought to a device again and again.  Functions but the entry take and return
    what they did.
    """
    functions = tuple(
        f if f.attr.keys() & {COMPILER, PRIMITIVE} else _spread(f, c, f is m.entry, devices)
        for f in m.functions
    )
    return replace(m, functions=functions)


def _spread(f: Function, c: Chooser, entry: bool, devices: Sequence[str]) -> Function:
    types, supply = f.types(), Names(f.types())
    nodes: list[Node] = []
    params = f.params
    if entry:
        params = tuple(replace(p, type=replace(p.type, device=c.pick(devices))) for p in params)
    there = {p.name: p.type for p in params}

    def on(value: str, device: str) -> str:
        if there[value].device == device and c.below(8):
            return value
        name = supply.fresh(f"{value}_there")
        there[name] = replace(there[value].dense, device=device)
        nodes.append(Node((name,), TO, (value,), (there[name],), attrs({"device": device})))
        return name

    for n in f.nodes:
        device = c.pick(devices) if n.op in OPS else ""
        args = tuple(on(a, device) for a in n.args)
        now = tuple(replace(t, device=device) for t in n.types)
        nodes.append(replace(n, args=args, types=now))
        there.update(zip(n.results, now, strict=True))
    results = f.results if entry else tuple(on(r, types[r].device) for r in f.results)
    if entry and (known := [n.results[0] for n in f.nodes if n.op == CONSTANT.name]) and c.below(2):
        one = c.pick(known)  # which is then returned from every device
        results = (*results, *dict.fromkeys(on(one, device) for device in devices))
    return replace(f, params=params, nodes=tuple(nodes), results=results)
