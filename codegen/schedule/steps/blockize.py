"""The step ``blockize``: a loop with all that is in it becomes a block, its regions computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from didyma.codegen.schedule.steps.accesses import Access, Scan, scan
from didyma.codegen.schedule.steps.dependence import Dependences, carried_among
from didyma.codegen.schedule.steps.kernels import nests
from didyma.codegen.schedule.steps.loops import LoopSite, find, names_of, replaced
from didyma.codegen.schedule.steps.records import Blockize
from didyma.codegen.schedule.steps.regions import Regions
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.expand import declared
from didyma.refimpl.ir.loop import BlockRealize, Expr, For, IterKind, IterVar, PrimFunc, Var
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.walk import exprs, subexprs, substitute, substitute_expr
from didyma.refimpl.verify import loop as laws


def blockize(step: Blockize, f: PrimFunc, target: Target) -> PrimFunc:
    """Return a function in which a block does what a loop did.

    Its variables stand for the loops around that it depends on: ``reduce`` where two of their
    iterations may write one element, else ``spatial``.  A region is the box that is touched, if
    it is of constant size and the verifier can prove that it is, and else the whole buffer.
    DidymaError ``no-such-loop``, ``bad-step``, ``L-block``.
    """
    place, known = find(f, step.loop), scan(f)
    if place.loop.axis:
        raise wrong(f, f"{step.loop}, a bound loop", "a loop of one thread")
    used = _used(f, place)
    found = _block(known, place, used, tight=True)
    # ``apply`` reports the law that a block with whole buffers breaks
    return found if _is_lawful(found, target) else _block(known, place, used, tight=False)


def _is_lawful(f: PrimFunc, target: Target) -> bool:
    try:
        for nest in nests(f):
            if isinstance(nest, PrimFunc):
                laws.verify(nest, target)
    except DidymaError:
        return False
    return True


def _used(f: PrimFunc, place: LoopSite) -> list[For]:
    """Return the loops around by whose variables the loop depends on where it runs."""
    outer = {s.var.name: s for s in place.around if isinstance(s, For)}
    fixed = {*(d.name for d in f.dims), *(v.name for v in f.scalars)}
    own = {*declared(place.loop), *fixed}
    free = {e.name for e in exprs(place.loop) if isinstance(e, Var)} - own
    if let := sorted(free - outer.keys()):
        raise wrong(
            f, f"{let[0]}, which a `let` around {place.loop.var.name} binds",
            "variables of loops", help=f"inline {let[0]} first",
        )  # fmt: skip
    used = [x for name, x in outer.items() if name in free]
    for x in used:
        names = {e.name for e in subexprs(x.extent) if isinstance(e, Var)}
        if names - fixed or any(isinstance(e, ir.Load) for e in subexprs(x.extent)):
            raise wrong(f, f"`{show_line(x)}` around", "loops of an extent that dims alone give")
    return used


def _block(known: Scan, place: LoopSite, used: Sequence[For], *, tight: bool) -> PrimFunc:
    f, loop = known.func, place.loop
    names = names_of(f)
    own = [Var(names.fresh(f"{x.var.name}_at")) for x in used]
    table: dict[str, Expr] = {x.var.name: v for x, v in zip(used, own, strict=True)}
    outside = known.buffers.keys() - set(declared(loop))
    touched = [a for a in known.within(loop) if a.buffer in outside]
    stored = [a for a in touched if a.writes]
    answers = Dependences(known)
    atomic = any(a.is_atomic for a in stored)
    reduced = [x.var.name for x in used if atomic or carried_among(answers, x, stored) is not None]

    def regions(accesses: Sequence[Access], fixed: Sequence[str]) -> tuple[ir.Region, ...]:
        found: dict[str, list[Access]] = {}
        for a in accesses:
            found.setdefault(a.buffer, []).append(a)
        boxes = ((n, xs if tight else ()) for n, xs in found.items())
        return tuple(_region(known, loop, n, xs, table, fixed) for n, xs in boxes)

    vars = tuple(
        IterVar(v, x.extent, IterKind.REDUCE if x.var.name in reduced else IterKind.SPATIAL, x.var)
        for x, v in zip(used, own, strict=True)
    )
    reads = regions([a for a in touched if not a.writes], ())
    block = BlockRealize(
        vars, ix.TRUE, reads, regions(stored, reduced), None, substitute(loop, table)
    )
    return replace(f, body=replaced(f.body, loop, block))


def _region(
    known: Scan,
    loop: For,
    buffer: str,
    accesses: Sequence[Access],
    table: dict[str, Expr],
    fixed: Sequence[str],
) -> ir.Region:
    """Return the box of a buffer that accesses touch; without any, the whole buffer."""
    shape = known.buffers[buffer].shape
    whole = ir.Region(buffer, (ix.ZERO,) * len(shape), tuple(ix.of_dim(d) for d in shape))
    if not accesses:
        return whole
    try:
        box = Regions(known, loop, (loop.var.name,)).of(accesses)
    except DidymaError:
        return whole
    inner = {x for e in box.low for x in subexprs(e)}
    if any(isinstance(x, ir.Load) or (isinstance(x, Var) and x.name in fixed) for x in inner):
        return whole
    starts = tuple(substitute_expr(e, table) for e in box.low)
    return ir.Region(buffer, starts, tuple(map(ix.index, box.extents)))
