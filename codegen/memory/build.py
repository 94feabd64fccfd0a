"""From a fused graph and its kernels to a program: launches in order, then memory for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codegen.memory.liveness import flat
from codegen.memory.plan import plan
from codegen.memory.planners import Planner
from codegen.memory.scheduling import Scheduler
from refimpl.ir import dims
from refimpl.ir.dims import DimVar
from refimpl.ir.graph import Module
from refimpl.ir.loop import PrimFunc
from refimpl.ir.program import Bind, Carry, Copy, Program, Repeat, Return


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
    """Write the program without its memory: launches, views, copies, blocks, the return."""
    s = Scheduler(m, loops, kernels)
    inputs = tuple(p.name for p in m.entry.params)
    for p in m.entry.params:
        s.types[p.name] = p.type
    _give_back(s, s.run(m.entry, inputs), {*inputs, *s.constants})
    return Program(
        name=m.entry.name,
        dims=_used((*m.dims, *s.indices), s),
        inputs=inputs,
        constants=tuple(s.constants.items()),
        types=tuple(s.types.items()),
        kernels=tuple(s.used.values()),
        lines=tuple(s.lines),
    )


def _used(declared: Sequence[DimVar], s: Scheduler) -> tuple[DimVar, ...]:
    """The dims some value, line or kernel depends on: nobody need say what the others are."""
    if not declared:
        return ()
    names = set(dims.free(d for t in s.types.values() for d in t.shape))
    names.update(v.name for k in s.used.values() for v in k.dims)
    for line in flat(s.lines):
        match line:
            case Bind(name):
                names.add(name)
            case Repeat(index, extent):
                names.update((index, *dims.free(extent)))
            case Carry(_, sizes):
                names.update(n for name, d in sizes for n in (name, *dims.free(d)))
            case _:
                pass
    return tuple(v for v in declared if v.name in names)


def _give_back(s: Scheduler, results: Sequence[str], borrowed: set[str]) -> None:
    """Return bytes of its own for each result: copies of what is not ours, or goes twice."""
    given: set[str] = set()
    returned: list[str] = []
    for r in results:
        owner = s.root.get(r, r)
        if owner in borrowed or owner in given:
            copy = s.fresh(f"{r}_copy", s.types[r])
            s.lines.append(Copy(copy, r))
            returned.append(copy)
        else:
            given.add(owner)
            returned.append(r)
    s.lines.append(Return(tuple(returned)))
