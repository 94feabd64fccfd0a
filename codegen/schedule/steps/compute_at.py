"""The step ``compute_at``: a buffer is computed in the loop that uses it, part by part."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule.nest import guarded, same
from didyma.codegen.schedule.steps.accesses import scan
from didyma.codegen.schedule.steps.inline import producer, unchanged, until_used
from didyma.codegen.schedule.steps.loops import find, sequence
from didyma.codegen.schedule.steps.records import ComputeAt
from didyma.codegen.schedule.steps.regions import Regions, nested, redirected
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import Allocate, Block, PrimFunc, Stmt, Store
from didyma.refimpl.ir.walk import items, map_stmt, stmts, substitute_expr


def compute_at(step: ComputeAt, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function that computes, in each iteration of a loop, what that needs of a buffer.

    The buffer shrinks to that part, and is made in the loop.  Elements that several iterations
    need are computed again.  DidymaError ``no-such-loop``, ``no-such-value``, ``bad-step``,
    ``no-region``, ``dependence``.
    """
    known = scan(f)
    declared = [s for s in stmts(f.body) if isinstance(s, Allocate)]
    made = next((s for s in declared if s.buffer.name == step.buffer), None)
    if made is None:
        raise DidymaError(
            "no-such-value", f"@{f.name}", got=step.buffer,
            want=f"a buffer made inside: {', '.join(s.buffer.name for s in declared) or 'none'}",
        )  # fmt: skip
    made_by, loop = producer(f, made), find(f, step.loop).loop
    used = [a for s in made_by.after for a in known.within(s) if a.buffer == step.buffer]
    inside = [a for a in known.within(loop.body) if a.buffer == step.buffer]
    if not used or len(inside) != len(used):
        raise wrong(
            f, f"uses of {step.buffer} outside of {step.loop}", "a loop that holds all of its uses"
        )
    read = [a for a in known.within(made_by.nest) if not a.writes]
    for s in until_used(sequence(made_by.after), step.buffer) if not unchecked else ():
        unchanged(f"compute_at {step.buffer} at {step.loop}", known, read, s)
    regions = Regions(known, loop)
    region = regions.of(inside)
    new = replace(made.buffer, shape=region.shape)
    names = [v.name for v, n in zip(made_by.index, region.extents, strict=True) if n != 1]
    at = tuple(v for v in made_by.index if v.name in names)
    there = region.element(at)
    table = dict(zip((v.name for v in made_by.index), there, strict=True))
    fill: Stmt = Store(new.name, at, substitute_expr(made_by.value, table))
    shape = [ix.of_dim(d) for d in made.buffer.shape]
    fill = nested(names, region.shape, guarded([region.guard(there, shape)], fill))
    body = redirected(f, loop.body, new.name, new.name, lambda i: regions.moved(region, i))
    one = replace(loop, body=Allocate(new, sequence([fill, *items(body)])))

    def on_stmt(s: Stmt) -> Stmt:
        if s is loop:
            return one
        if s is made:
            return on_stmt(made.body)
        if isinstance(s, Block):
            return sequence(on_stmt(b) for b in s.body if b is not made_by.nest)
        return map_stmt(s, same, on_stmt)

    return replace(f, body=on_stmt(f.body))
