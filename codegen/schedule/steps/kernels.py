"""The kernels of a scheduled function, and the external calls that are made between them.

Nests may share a *workspace*: buffers in device memory that the function allocates around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from didyma.codegen.schedule.steps.accesses import scan
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import attrs
from didyma.refimpl.ir.kernel import scratch
from didyma.refimpl.ir.loop import (
    Block,
    Buffer,
    ExternalAllocate,
    ExternalCall,
    For,
    Free,
    LoopKind,
    PrimFunc,
    Stmt,
    Var,
)
from didyma.refimpl.ir.walk import exprs, one_of
from didyma.refimpl.ir.workspace import opened
from didyma.refimpl.verify.outside import top

KIND = "steps"  # the attribute ``schedule`` of kernels that a schedule of steps made

# What the caller of kernels does between two launches: calls a routine, or releases a buffer.
Outside: TypeAlias = ExternalCall | ExternalAllocate | Free
Part: TypeAlias = PrimFunc | Outside


def kernels(f: PrimFunc) -> tuple[PrimFunc, ...]:
    """Return the kernels of a function, in order; each keeps the parameters that it touches."""
    return tuple(p for p in parts(f) if isinstance(p, PrimFunc))


def parts(f: PrimFunc) -> tuple[Part, ...]:
    """Return the kernels of a function, and what is done between them, in order.

    A kernel has the buffers that external calls allocated as parameters, too.
    """
    found: list[Part] = []
    count = 0
    for g in nests(f):
        if isinstance(g, PrimFunc):
            found.append(_kernel(g, f.name if count == 0 else f"{f.name}_{count}"))
            count += 1
        else:
            found.append(g)
    return tuple(found)


def nests(f: PrimFunc) -> Iterator[Part]:
    """Yield what becomes kernels, as functions with all the buffers that are there; and calls."""
    f = opened(f)
    found = [*top(f.body)]
    if not any(isinstance(s, Outside) for s in found):
        found = [f.body]
    run: list[Stmt] = []
    for s in found:
        if not isinstance(s, Outside):
            run.append(s)
            continue
        yield from (replace(f, body=x) for x in _several(run))
        yield s
        run = []
        if isinstance(s, ExternalAllocate):
            outputs = (*f.outputs, *(b.name for b in s.buffers))
            f = replace(f, params=(*f.params, *s.buffers), outputs=outputs)
    yield from (replace(f, body=x) for x in _several(run))


def workspace(parts: Sequence[Part], known: Iterable[str]) -> tuple[Buffer, ...]:
    """Return the buffers that kernels share, beside those that are known or that calls allocate."""
    made = (b.name for p in parts if isinstance(p, ExternalAllocate) for b in p.buffers)
    return scratch((p for p in parts if isinstance(p, PrimFunc)), (*known, *made))


def _several(run: list[Stmt]) -> Iterator[Stmt]:
    """Yield the nests of statements that follow one another without a call between them."""
    s = one_of(run)
    if isinstance(s, Block) and any(map(_at_once, s.body)):
        yield from s.body
    elif run:
        yield s


def _at_once(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind in (LoopKind.PARALLEL, LoopKind.BOUND)


def _kernel(f: PrimFunc, name: str) -> PrimFunc:
    known = scan(f)
    touched = {a.buffer for a in known.accesses}
    written = {a.buffer for a in known.accesses if a.writes}
    params = tuple(b for b in f.params if b.name in touched)
    used = {e.name for e in exprs(f.body) if isinstance(e, Var)}
    used.update(dims.free(d for b in params for d in b.shape))
    return PrimFunc(
        name,
        params,
        tuple(o for o in f.outputs if o in written),
        f.body,
        tuple(d for d in f.dims if d.name in used),
        attrs({**dict(f.attrs), "schedule": KIND}),
        f.functions,
        tuple(v for v in f.scalars if v.name in used),
    )
