"""From a fused graph and its kernels to a program: launches in order, then memory for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codegen.memory.liveness import roots
from codegen.memory.plan import plan
from codegen.memory.planners import Planner
from refimpl.ir import dims
from refimpl.ir.dims import DimVar
from refimpl.ir.graph import CALL, COMPILER, RESHAPE_ONLY, Function, Module, Node
from refimpl.ir.loop import PrimFunc
from refimpl.ir.program import Assert, Copy, Extern, Launch, Line, Program, Return, View
from refimpl.ir.types import Tensor, TensorType


def program(
    m: Module,
    loops: Mapping[str, PrimFunc],
    kernels: Mapping[str, Sequence[PrimFunc]],
    planner: Planner,
) -> Program:
    """Write the program of a fused module.

    ``loops`` holds, by name of the Primitive function, its loop program, whose parameters are
    the call's operands and then its results; ``kernels`` what to launch for it, in order.  A
    kernel's parameter that is none of the loop program's is scratch, shared by name among the
    kernels of one call.
    """
    return plan(schedule(m, loops, kernels), planner)


def schedule(
    m: Module, loops: Mapping[str, PrimFunc], kernels: Mapping[str, Sequence[PrimFunc]]
) -> Program:
    """Write the program without its memory: launches, views, copies, the return."""
    s = _Schedule(m.entry.types(), loops, kernels)
    functions = {f.name: f for f in m.functions}
    constants: list[tuple[str, Tensor]] = []
    for n in m.entry.nodes:
        if n.op == CALL:
            s.call(n, functions[n.callee])
        else:
            assert n.op == "constant", f"{n.op} in the entry of a fused graph"
            value = n.attr["value"]
            assert isinstance(value, Tensor)
            constants.append((n.results[0], value))
    inputs = tuple(p.name for p in m.entry.params)
    s.give_back(m.entry.results, {*inputs, *(name for name, _ in constants)})
    return Program(
        name=m.entry.name,
        dims=_used(m.dims, s),
        inputs=inputs,
        constants=tuple(constants),
        types=tuple(s.types.items()),
        kernels=tuple(s.used.values()),
        lines=tuple(s.lines),
    )


def _used(declared: Sequence[DimVar], s: _Schedule) -> tuple[DimVar, ...]:
    """The dims some value or kernel depends on: nobody need say what the others are."""
    if not declared:
        return ()
    names = set(dims.free(d for t in s.types.values() for d in t.shape))
    names.update(v.name for k in s.used.values() for v in k.dims)
    return tuple(v for v in declared if v.name in names)


@dataclass
class _Schedule:
    types: dict[str, TensorType]
    loops: Mapping[str, PrimFunc]
    kernels: Mapping[str, Sequence[PrimFunc]]
    lines: list[Line] = field(default_factory=list[Line])
    used: dict[str, PrimFunc] = field(default_factory=dict[str, PrimFunc])

    def call(self, n: Node, f: Function) -> None:
        if RESHAPE_ONLY in f.attr:
            (value,), (of,) = n.results, n.args
            a, b = self.types[of].numel, self.types[value].numel
            if not dims.equal(a, b):
                self.lines.append(Assert(a, b, f"{value} has as many elements as {of}"))
            self.lines.append(View(value, of))
            return
        if COMPILER in f.attr:
            self.lines.append(Extern(str(f.attr[COMPILER]), n.results, n.args, f.attrs))
            return
        params = (b.name for b in self.loops[f.name].params)
        values = dict(zip(params, (*n.args, *n.results), strict=True))
        for k in self.kernels[f.name]:
            assert self.used.setdefault(k.name, k) is k, f"two kernels are called {k.name}"
            for p in k.params:
                if p.name not in values:
                    values[p.name] = self.fresh(f"{n.results[0]}_{p.name}")
                    self.types[values[p.name]] = TensorType(p.dtype, p.shape)
            self.lines.append(Launch(k.name, tuple(values[p.name] for p in k.params)))

    def give_back(self, results: Sequence[str], borrowed: set[str]) -> None:
        """Return bytes of its own for each result: copies of what is not ours, or goes twice."""
        root = roots(self.lines)
        given: set[str] = set()
        returned: list[str] = []
        for r in results:
            owner = root.get(r, r)
            if owner in borrowed or owner in given:
                copy = self.fresh(f"{r}_copy")
                self.types[copy] = self.types[r]
                self.lines.append(Copy(copy, r))
                returned.append(copy)
            else:
                given.add(owner)
                returned.append(r)
        self.lines.append(Return(tuple(returned)))

    def fresh(self, wanted: str) -> str:
        name, i = wanted, 0
        while name in self.types:
            i += 1
            name = f"{wanted}_{i}"
        return name
