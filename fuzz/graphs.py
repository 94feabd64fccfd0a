"""Random graphs, decoded from bytes.

A graph is decoded from a fixed number of bytes: a header (dims and first parameters), then one
packed integer a node.  Decoding cannot fail, zero bytes are no node, and the Hypothesis strategy
is a single draw, built once; so generation is fast and shrinking is deletion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from hypothesis import strategies as st

from didyma.codegen.memory import PLANNERS
from didyma.codegen.options import Options
from didyma.fuzz import control, values
from didyma.fuzz.builder import CONTROLLED, GraphBuilder
from didyma.fuzz.chooser import Bytes
from didyma.refimpl.ir import control as control_
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Attrs, Function, Module
from didyma.refimpl.ir.types import Array, Tensor
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Domain

NODES = 15  # packed integers a graph; about a quarter become no node
NODE_BYTES = 20
HEADER_BYTES = 24
BYTES = HEADER_BYTES + NODES * NODE_BYTES
MAX_RESULTS = 5

_SLOW = ("canonical", "hill_climb", *(["exact"] if find_spec("ortools") else []))
_QUICK = ("", "", "", *(name for name in PLANNERS if name not in (*_SLOW, "exact")))


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, a binding of its dims, a seed for every parameter, and options of its compile.

    ``changes`` are the options that differ from the usual ones, by name.  ``given`` are the values
    of parameters that no seed draws; one of rank 0 fills its parameter.
    """

    module: Module
    env: tuple[tuple[str, int], ...]
    seeds: tuple[int, ...]
    changes: tuple[tuple[str, Any], ...] = ()
    given: tuple[tuple[str, Tensor], ...] = ()

    def options(self, base: Options) -> Options:
        """Return the options of the compile: those of ``base`` that are not the usual ones stay."""
        usual = Options()
        free = {k: v for k, v in self.changes if getattr(base, k) == getattr(usual, k)}
        return replace(base, **free)

    def inputs(self) -> tuple[Array, ...]:
        """Values of the parameters."""
        drawn = inputs(self.module, dict(self.env), self.seeds)
        return filled(self.module, drawn, dict(self.given))

    def elements(self) -> int:
        """Return how many numbers the inputs hold."""
        env = dict(self.env)
        return sum(dims.evaluate(p.type.numel, env) for p in self.module.entry.params)


def filled(m: Module, drawn: Sequence[Array], given: Mapping[str, Tensor]) -> tuple[Array, ...]:
    """Return the values drawn, but those given by parameter; one of rank 0 fills its parameter."""
    return tuple(
        np.broadcast_to(given[p.name].array(), a.shape).copy() if p.name in given else a
        for p, a in zip(m.entry.params, drawn, strict=True)
    )


def inputs(m: Module, env: dict[str, int], seeds: Sequence[int]) -> tuple[Array, ...]:
    """Values of a module's parameters, one seed each, within the domains their users state."""
    near = domains(m.entry)
    return tuple(
        values.array(
            seed,
            p.type.dtype,
            tuple(dims.evaluate(d, env) for d in p.type.shape),
            near.get(p.name),
        )
        for p, seed in zip(m.entry.params, seeds, strict=True)
    )


def domains(f: Function) -> dict[str, Domain]:
    """Return the domains of a function's values that an op which reads them states."""
    types = f.types()
    found: dict[str, Domain] = {}
    for n in f.nodes:
        if n.op in OPS:
            wanted = OPS[n.op].apply(n.attr).domains([types[a] for a in n.args])
            for a, d in zip(n.args, wanted, strict=True):
                if d is not None:
                    found.setdefault(a, d)
    return found


def _case(b: GraphBuilder, c: Bytes) -> Case:
    """Return the graph that was built, with what it takes to run it."""
    sinks = [r for n in b.nodes for r in n.results if r not in b.used]
    results = sinks[-MAX_RESULTS:] or [b.params[0].name]
    if c.chance(4):  # a value that is also read
        results.append(b.pool[c.below(len(b.pool))][0])
    used_dims = dims.free(d for p in b.params for d in p.type.shape)
    attrs: Attrs = ()
    main = Function("main", tuple(b.params), tuple(b.nodes), tuple(results), attrs)
    backed = tuple(v for v in b.dims if v.name in used_dims)
    env = tuple((v.name, b.env[v.name]) for v in backed)
    passes = (("simplify", 4), ("fuse", 4), ("vectorise", 8))
    # Without simplification and fusion there are more buffers and views to plan.
    changes: dict[str, Any] = {name: False for name, one_in in passes if c.chance(one_in)}
    if planner := c.pick(_SLOW) if c.chance(32) else c.pick(_QUICK):
        changes["planner"] = planner
    m = Module((*b.functions, main), (*backed, *b.unbacked))
    if b.controlled:
        m = used(m)
    return Case(m, env, tuple(b.seeds), tuple(changes.items()))


def used(m: Module) -> Module:
    """Return a module without functions that nobody uses and dims that nobody mentions."""
    wanted = {m.entry.name}
    for f in reversed(m.functions):
        if f.name in wanted:
            wanted.update(r for n in f.nodes for r in control_.references(n))
    m = replace(m, functions=tuple(f for f in m.functions if f.name in wanted))
    named = control_.mentioned(m)[m.entry.name] | control_.input_symbols(m)
    bound = {
        s for f in m.functions for n in f.nodes for s in (*control_.binds(n), *control_.inner(n))
    }
    return replace(m, dims=tuple(v for v in m.dims if v.name in named | bound))


def decode(data: bytes, controlled: int = CONTROLLED) -> Case:
    """Return the graph of a byte string of length ``BYTES``.

    One graph in ``controlled`` may have branches, loops, calls and data-dependent sizes.

    What bytes decode to is frozen, values included: ``tests.bench.fingerprints`` compares what
    two compilers make of the same bytes; what campaigns draw besides is drawn elsewhere.

    >>> decode(bytes(BYTES)).module.entry.nodes
    ()
    """
    b = GraphBuilder(data[: HEADER_BYTES - 4], control.draw, controlled)
    for at in range(HEADER_BYTES, len(data), NODE_BYTES):
        b.node(data[at : at + NODE_BYTES])
    return _case(b, Bytes(data[HEADER_BYTES - 4 : HEADER_BYTES]))


RAW: st.SearchStrategy[bytes] = st.binary(min_size=BYTES, max_size=BYTES)
CASES: st.SearchStrategy[Case] = RAW.map(decode)
