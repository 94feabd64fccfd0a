"""The kernels of a scheduled function: one for each of the nests it runs one after another."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule.steps.accesses import scan
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import attrs
from didyma.refimpl.ir.loop import Block, For, LoopKind, PrimFunc, Stmt, Var
from didyma.refimpl.ir.walk import exprs

KIND = "steps"  # the attribute ``schedule`` of kernels that a schedule of steps made


def kernels(f: PrimFunc) -> tuple[PrimFunc, ...]:
    """Return the kernels of a function, in order; each keeps the parameters that it touches."""
    return tuple(
        _kernel(f, s, f.name if n == 0 else f"{f.name}_{n}") for n, s in enumerate(nests(f))
    )


def nests(f: PrimFunc) -> tuple[Stmt, ...]:
    """Return the statements of a function that become kernels."""
    body = f.body
    return body.body if isinstance(body, Block) and any(map(_at_once, body.body)) else (body,)


def _at_once(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind in (LoopKind.PARALLEL, LoopKind.BOUND)


def _kernel(f: PrimFunc, body: Stmt, name: str) -> PrimFunc:
    known = scan(replace(f, body=body))
    touched = {a.buffer for a in known.accesses}
    written = {a.buffer for a in known.accesses if a.writes}
    params = tuple(b for b in f.params if b.name in touched)
    used = {e.name for e in exprs(body) if isinstance(e, Var)}
    used.update(dims.free(d for b in params for d in b.shape))
    return PrimFunc(
        name,
        params,
        tuple(o for o in f.outputs if o in written),
        body,
        tuple(d for d in f.dims if d.name in used),
        attrs({**dict(f.attrs), "schedule": KIND}),
        f.functions,
        tuple(v for v in f.scalars if v.name in used),
    )
