"""Write the program of a fused graph: launches in order, before any memory is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from didyma.codegen.order.blocks import NOTHING, BlockWriter, Callee
from didyma.codegen.order.returned import by_strides
from didyma.codegen.passes.blocks import blocks
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import Function, Module, is_called
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.lines import binds, walk
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Call, Carry, Copy, Extern, Program, Repeat, Return
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.verify.symbols import caller_symbols


def order(
    m: Module,
    loops: Mapping[str, PrimFunc],
    kernels: Mapping[str, Sequence[Kernel]],
    variants: Mapping[str, Sequence[Kernel]] = NOTHING,
    target: Target = PORTABLE,
    *,
    shared: bool = False,
) -> Program:
    """Return the program of a fused module: launches, views, copies and blocks, no allocations.

    ``loops`` holds, by name of the Primitive function, its loop program, whose parameters are
    the call's operands and then its results; ``kernels`` what to launch for it, in order.  A
    kernel's parameter that is none of the loop program's is scratch, shared by name among the
    kernels of one call.  ``variants`` has, by a kernel's name, all kernels that may run in its
    place, itself first.  Functions that are not inlined become functions of the program.  A kernel
    of the ``target`` is given views only that start where its buffers may.  Where results may be
    ``shared``, they are inputs or show bytes of others wherever that needs no kernel.
    """
    called: dict[str, Callee] = {}
    used: dict[str, Kernel] = {}
    for f in blocks(m).values():
        if is_called(f) and f is not m.entry:
            s = BlockWriter(m, loops, kernels, called, variants, target)
            called[f.name] = Callee(_function(f, m, s), tuple(s.constants.items()))
            used |= s.used
    s = BlockWriter(m, loops, kernels, called, variants, target)
    inputs = _inputs(m.entry, s)
    results = s.run(m.entry, inputs)
    if not shared:
        results = _give_back(s, results, {*inputs, *s.constants})
        s.lines.append(Return(tuple(results)))
    p = Program(
        name=m.entry.name,
        dims=_used((*m.dims, *s.indices), s),
        inputs=inputs,
        constants=tuple(s.constants.items()),
        types=tuple(s.types.items()),
        kernels=tuple((used | s.used).values()),
        lines=tuple(s.lines),
        functions=tuple(c.program for c in called.values()),
    )
    alone = {ks[0].name: loops[name] for name, ks in kernels.items() if _is_loop(ks)}
    return by_strides(p, alone, results) if shared else p


def _is_loop(kernels: Sequence[Kernel]) -> bool:
    """Return whether a function has one kernel, which is no text of a user."""
    return len(kernels) == 1 and isinstance(kernels[0], PrimFunc)


def _function(f: Function, m: Module, s: BlockWriter) -> Program:
    """Return the program of a function: it writes to its caller's buffers; constants are inputs."""
    inputs = _inputs(f, s)
    results = s.run(f, inputs)
    outputs = _give_back(s, results, {*inputs, *s.constants, *s.root})
    s.lines.append(Return(()))
    return Program(
        name=f.name,
        dims=_used((*m.dims, *s.indices), s),
        inputs=(*inputs, *s.constants),
        constants=(),
        types=tuple(s.types.items()),
        kernels=(),
        lines=tuple(s.lines),
        outputs=tuple(outputs),
    )


def _inputs(f: Function, s: BlockWriter) -> tuple[str, ...]:
    s.types.update({p.name: p.type for p in f.params})
    return tuple(p.name for p in f.params)


def _used(declared: Sequence[DimVar], s: BlockWriter) -> tuple[DimVar, ...]:
    """Return the dims on which some value, line or kernel depends."""
    if not declared:
        return ()
    names = set(dims.free(d for t in s.types.values() for d in t.sizes))
    names.update(v.name for k in s.used.values() for v in k.dims)
    for line in walk(s.lines):
        names.update(binds(line))
        match line:
            case Repeat(_, extent):
                names.update(dims.free(extent))
            case Carry(_, sizes):
                names.update(dims.free(d for _, d in sizes))
            case Call(callee):
                names.update(v.name for v in caller_symbols(s.called[callee].program))
            case Extern(attrs=attrs):
                names.update(x for _, a in attrs for x in control.attr_symbols(a))
            case _:
                pass
    return tuple(v for v in declared if v.name in names)


def _give_back(s: BlockWriter, results: Sequence[str], borrowed: set[str]) -> list[str]:
    """Copy results that share bytes with a borrowed value or another result; return all results."""
    owners: set[str] = set()
    returned: list[str] = []
    for r in results:
        owner = s.root.get(r, r)
        if r in borrowed or owner in borrowed or owner in owners:
            r, source = s.fresh(f"{r}_copy", s.types[r]), r
            s.lines.append(Copy(r, source))
        owners.add(s.root.get(r, r))
        returned.append(r)
    return returned
