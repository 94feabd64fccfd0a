"""Random programs in which launches become calls of functions, or choices among kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from didyma.oracle.kernels import reads_before_it_writes
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.lines import rewrite, writes
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Call, Copy, Dispatch, Launch, Line, Program, Return, Wait


def outlined(p: Program, seed: int) -> Program:
    """Return a program in which some launches are calls: straight, by a detour, on a stream.

    A call works on stream 0, and every stream waits for it as it waits for every stream; half of
    the calls on other streams have lines besides that say so.
    """
    r = Random(seed)
    kernels = p.kernel
    functions: dict[str, Program] = {}

    def change(line: Line, block: int, index: int) -> Sequence[Line]:
        del block, index
        if not isinstance(line, Launch) or r.random() < 0.5:
            return (line,)
        k = kernels[line.kernel]
        if reads_before_it_writes(k):
            return (line,)  # what it is given to write holds something
        f = functions.setdefault(k.name, _function(p, k, line, r))
        pairs = [(a, b.name in k.outputs) for a, b in zip(line.args, k.params, strict=True)]
        outs, ins = (tuple(a for a, out in pairs if out is o) for o in (True, False))
        call = Call(f.name, outs, ins)
        waits = line.stream and r.random() < 0.5
        return (Wait(0, line.stream), call, Wait(line.stream, 0)) if waits else (call,)

    lines = rewrite(p.lines, change)
    return replace(p, lines=lines, functions=tuple(functions.values()))


def dispatched(p: Program, seed: int) -> Program:
    """Return a program in which some launches choose among a kernel and another that is like it."""
    r = Random(seed)
    kernels = p.kernel
    twins: dict[str, Kernel] = {}

    def change(line: Line, block: int, index: int) -> Line:
        del block, index
        k = kernels.get(line.kernel) if isinstance(line, Launch) else None
        if not isinstance(line, Launch) or not isinstance(k, PrimFunc) or r.random() < 0.5:
            return line
        twin = twins.setdefault(k.name, replace(k, name=f"{k.name}_twin"))
        variants = ((k.name, line.args), (twin.name, line.args))
        return Dispatch(writes(line, kernels), variants, line.stream, line.inplace)

    lines = rewrite(p.lines, change)
    return replace(p, lines=lines, kernels=(*p.kernels, *twins.values()))


def _function(p: Program, k: Kernel, line: Launch, r: Random) -> Program:
    """A function that launches a kernel."""
    types = {b.name: p.type[a] for b, a in zip(k.params, line.args, strict=True)}
    stream = r.choice((0, 0, 1))
    given = {b.name: b.name for b in k.params}
    detours = [o for o in k.outputs if stream or r.random() < 0.5]
    given |= {o: f"{o}_made" for o in detours}
    lines: list[Line] = [Launch(k.name, tuple(given.values()), stream)]
    if stream:
        lines.append(Wait(0, stream))
    lines += [Copy(o, given[o]) for o in detours]
    types |= {given[o]: types[o] for o in detours}
    named = {*dims.free(d for t in types.values() for d in t.shape), *(v.name for v in k.dims)}
    return Program(
        f"f_{k.name}",
        tuple(v for v in p.dims if v.name in named),
        tuple(b.name for b in k.params if b.name not in k.outputs),
        (),
        tuple(types.items()),
        (),
        (*lines, Return(())),
        outputs=k.outputs,
    )
