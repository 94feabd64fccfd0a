"""Random graphs, decoded from bytes.

A graph is decoded from a fixed number of bytes: a header (dims and first parameters), then one
packed integer a node.  Decoding cannot fail, zero bytes are no node, and the Hypothesis strategy
is a single draw, built once; so generation is fast and shrinking is deletion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from didyma.codegen.memory import PLANNERS
from didyma.codegen.options import USUAL, Options
from didyma.fuzz import control, kits, values
from didyma.fuzz.builder import CONTROLLED, GraphBuilder
from didyma.fuzz.chooser import Bytes, Chooser
from didyma.refimpl.ir import control as control_
from didyma.refimpl.ir import dims, strides
from didyma.refimpl.ir.graph import CALL, PRIMITIVE, Attrs, Function, Module, Node, Param, rename
from didyma.refimpl.ir.types import Array, Tensor
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Domain, Kind

NODES = 15  # packed integers a graph; about a quarter become no node
NODE_BYTES = 20
HEADER_BYTES = 24
BYTES = HEADER_BYTES + NODES * NODE_BYTES
MAX_RESULTS = 5

_SEARCHING = ("canonical", "exact")  # they may search for as long as a capacity is not met
_SLOW = ("canonical", "hill_climb", "exact")
_QUICK = ("", "", "", *(name for name in PLANNERS if name not in _SLOW))


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, a binding of its dims, a seed for every parameter, and options of its compile.

    ``changes`` are the options that differ from the usual ones, by path.  ``given`` are the values
    of parameters that no seed draws; one of rank 0 fills its parameter.  ``ring`` says whether the
    case is judged in the ring as well, ``again`` whether what is compiled is called with other
    sizes, too, and ``laid`` whether with inputs that lie in other layouts.  Where ``quick``, slow
    engines do not judge it if there are others.  Where ``alone``, it is also judged as a module
    that stands alone, and where ``counted`` all that a compile makes of it is counted.  Where
    ``offered``, the domain of targets reads only what recipes offer for its loops.
    """

    module: Module
    env: tuple[tuple[str, int], ...]
    seeds: tuple[int, ...]
    changes: tuple[tuple[str, Any], ...] = ()
    given: tuple[tuple[str, Tensor], ...] = ()
    ring: bool = False
    again: bool = False
    laid: bool = False
    quick: bool = False
    alone: bool = False
    offered: bool = False
    counted: bool = field(default=False, compare=False, repr=False)

    def options(self, base: Options) -> Options:
        """Return the options of the compile: those of ``base`` that are not the usual ones stay."""
        fixed = base.choices()
        return base.changed({k: v for k, v in self.changes if fixed[k] == USUAL[k]})

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
    pairs = zip(m.entry.params, drawn, strict=True)
    return tuple(_filled(p, a, given[p.name]) if p.name in given else a for p, a in pairs)


def _filled(p: Param, drawn: Array, value: Tensor) -> Array:
    found = np.broadcast_to(value.array(), drawn.shape)
    if p.type.strides is None:
        return found.copy()
    drawn[...] = found  # which lies as it must
    return drawn


def inputs(m: Module, env: dict[str, int], seeds: Sequence[int]) -> tuple[Array, ...]:
    """Values of a module's parameters, one seed each, within the domains their users state.

    From seed ``values.FOCUSED`` on, they suit the ops that read them, at any distance.
    """
    f = opened(m)
    near = domains(f)
    readers = readers_of(f) if any(s >= values.FOCUSED for s in seeds) else {}
    found: list[Array] = []
    for p, seed in zip(m.entry.params, seeds, strict=True):
        dtype, shape = p.type.dtype, tuple(dims.evaluate(d, env) for d in p.type.shape)
        if seed >= values.FOCUSED:
            x = values.focused(seed, dtype, shape, readers[p.name], near.get(p.name))
        else:
            x = values.array(seed, dtype, shape, near.get(p.name))
        found.append(x)
    return strides.inputs(m, found, env)


def opened(m: Module) -> Function:
    """Return the entry of a module, its calls of Primitive functions replaced by their nodes."""
    table = {f.name: f for f in m.functions if PRIMITIVE in f.attr}
    nodes: list[Node] = []
    for n in m.entry.nodes:
        f = table.get(n.callee) if n.op == CALL else None
        if f is None:
            nodes.append(n)
            continue
        names = {r: f"{n.results[0]} {r}" for x in f.nodes for r in x.results}
        names |= dict(zip(f.results, n.results, strict=True))
        names |= dict(zip((p.name for p in f.params), n.args, strict=True))
        nodes += (rename(x, names) for x in f.nodes)
    return replace(m.entry, nodes=tuple(nodes)) if table else m.entry


_SUMS = frozenset({
    "sum", "prod", "mean", "matmul", "conv", "avg_pool", "cumulative_sum", "cumulative_prod",
    "scatter",
})  # fmt: skip


_RULED = frozenset(("any", "all"))


def readers_of(f: Function) -> dict[str, values.Readers]:
    """Return what the ops that read each parameter, or what is moved from it, ask of its values."""
    corners: dict[str, tuple[float, ...]] = {}
    summed: set[str] = set()
    ruled: set[str] = set()
    types = f.types()
    for n in reversed(f.nodes):
        op = OPS.get(n.op)
        if op is None:
            continue
        below = [r for r in n.results if r in corners] if op.kind in _MOVED or op.nearby else []
        passed = [x for r in below for x in corners[r]]
        for place, a in enumerate(n.args):
            kit = kits.of_node(n, place, types[a].dtype) if a in types else op.corners
            corners[a] = tuple(dict.fromkeys((*corners.get(a, ()), *kit, *passed)))
        if n.op in _SUMS or (len(n.args) == 1 and not summed.isdisjoint(n.results)):
            summed.update(n.args[:2])
        elementwise = op.kind is Kind.ELEMENTWISE or op.kind in _MOVED
        if n.op in _RULED or (elementwise and not ruled.isdisjoint(n.results)):
            ruled.update(n.args)
    return {
        p.name: values.Readers(corners.get(p.name, ()), p.name in summed, p.name in ruled)
        for p in f.params
    }


_MOVED = (Kind.INJECTIVE, Kind.RESHAPE)


def domains(f: Function) -> dict[str, Domain]:
    """Return the domains of a function's values that an op which reads them states."""
    types = f.types()
    found: dict[str, Domain] = {}
    for n in f.nodes:
        if n.op in OPS and types.keys() >= set(n.args):
            wanted = OPS[n.op].apply(n.attr).domains([types[a] for a in n.args])
            for a, d in zip(n.args, wanted, strict=True):
                if d is not None:
                    found.setdefault(a, d)
    return found


def finished(b: GraphBuilder, c: Chooser, most: int = MAX_RESULTS) -> Case:
    """Return the graph that was built, with what it takes to run it.

    Its results are the last ``most`` values that nothing reads.
    """
    sinks = [r for n in b.nodes for r in n.results if r not in b.used]
    results = sinks[-most:] or [b.params[0].name]
    if c.chance(4):  # a value that is also read
        results.append(b.pool[c.below(len(b.pool))][0])
    used_dims = dims.free(d for p in b.params for d in p.type.shape)
    attrs: Attrs = ()
    main = Function("main", tuple(b.params), tuple(b.nodes), tuple(results), attrs)
    backed = tuple(v for v in b.dims if v.name in used_dims)
    env = tuple((v.name, b.env[v.name]) for v in backed)
    passes = (("graph.simplify", 4), ("graph.fuse", 4), ("kernels.vectorise", 8))
    # Without simplification and fusion there are more buffers and views to plan.
    changes: dict[str, Any] = {name: False for name, one_in in passes if c.chance(one_in)}
    if planner := drawn_planner(c):
        changes["memory.planner"] = planner
    m = Module((*b.functions, main), (*backed, *b.unbacked))
    if b.controlled:
        m = used(m)
    return Case(m, env, tuple(b.seeds), tuple(changes.items()))


def drawn_planner(c: Chooser) -> str:
    """Draw the name of a planner, seldom a slow one; the simplest choice is the usual one: "".

    What else the bytes decode to does not depend on which planners this machine has.
    """
    name = c.pick(_SLOW) if c.chance(32) else c.pick(_QUICK)
    return "canonical" if name == "exact" and not find_spec("ortools") else name


def quick(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options without a capacity that a planner may search for a minute to keep.

    >>> quick({"memory.planner": "canonical", "memory.capacity": 256, "kernels.block": 32})
    {'memory.planner': 'canonical', 'kernels.block': 32}
    """
    if options.get("memory.planner") not in _SEARCHING:
        return options
    return {k: v for k, v in options.items() if k != "memory.capacity"}


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
    b = GraphBuilder.decoded(data[: HEADER_BYTES - 4], control.draw, controlled)
    for at in range(HEADER_BYTES, len(data), NODE_BYTES):
        b.node(data[at : at + NODE_BYTES])
    return finished(b, Bytes(data[HEADER_BYTES - 4 : HEADER_BYTES]))
