"""Modules run many times by the reference, such as models of ONNX's own tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from didyma.refimpl.interp.graph import Views, bind, own
from didyma.refimpl.interp.graph_machine import Step
from didyma.refimpl.ir.graph import Function, Module, Node, Param
from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.spec import Kind


class Prepared:
    """A module to be run many times: what does not depend on its inputs is computed once.

    That is kept, like the constants that it replaces, and laid out for who reads it.
    """

    def __init__(self, m: Module) -> None:
        self.m = m
        machine = Views(m, {})
        with np.errstate(all="ignore"):
            self._entry, self._known = _folded(m, machine)
        # sizes that a step has worked out are those of one run
        self._steps = {} if m.dims else machine.prepared

    def run(self, inputs: Sequence[Array], dims: Mapping[str, int] | None = None) -> list[Array]:
        """Return the results of the entry function; errors as of ``run``."""
        machine = Views(self.m, bind(self.m.entry, self.m, inputs, dims))
        machine.prepared |= self._steps
        given = [np.asarray(a) for a in inputs]
        with np.errstate(all="ignore"):
            return own(machine.call(self._entry, [*given, *self._known]), given, self._known)


def _folded(m: Module, machine: Views) -> tuple[Function, list[Array]]:
    """Return the entry with what it knows before it runs as further parameters, and that."""
    entry = m.entry
    known: dict[str, Array] = {}
    types: dict[str, TensorType] = {}
    left: list[Node] = []
    asked = set(entry.results)  # by what is left to run
    spread = set(asked)  # by what is slow to read an array whose elements are not side by side
    for step in [Step(n, (), bool(m.dims)) for n in entry.nodes]:
        n = step.node
        if step.op is not None and not step.symbols and all(a in known for a in n.args):
            (name,) = n.results
            (known[name],) = machine.node(entry, step, [known[a] for a in n.args])
            types[name] = n.types[0]
            continue
        left.append(n)
        asked.update(n.args)
        if step.op is None or step.op.kind is not Kind.ELEMENTWISE:
            spread.update(n.args)
    kept = {name: a for name, a in known.items() if name in asked}
    for name in spread & kept.keys():
        if 0 in kept[name].strides:
            kept[name] = kept[name].copy()
    params = (*entry.params, *(Param(name, types[name]) for name in kept))
    return replace(entry, params=params, nodes=tuple(left)), list(kept.values())
