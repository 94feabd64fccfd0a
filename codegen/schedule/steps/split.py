"""The step ``split``: one loop becomes two."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.lower.affine import Affine
from didyma.codegen.schedule.steps.accesses import scan
from didyma.codegen.schedule.steps.dependence import refuse, unsteady
from didyma.codegen.schedule.steps.loops import (
    claim,
    find,
    names_of,
    names_of_all,
    replaced,
)
from didyma.codegen.schedule.steps.records import Split, Tail
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.expand import Inliner, declared
from didyma.refimpl.ir.loop import Block, Expr, For, If, LoopKind, PrimFunc, Stmt, Var
from didyma.refimpl.ir.text import show_expr
from didyma.refimpl.ir.walk import substitute

KINDS = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.PARALLEL)


def split(step: Split, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function with one of its loops split in two.

    The order of iterations stays.  DidymaError ``no-such-loop``, ``bad-step``, ``name-taken``,
    ``indivisible``; ``dependence`` where the loop writes what a rest of iterations is known by.
    """
    loop = find(f, step.loop).loop
    require_factor(f, step.loop, step.factor)
    if len(step.into) != 2:
        raise wrong(f, f"{len(step.into)} names", "two names after `into`")
    if loop.kind not in KINDS:
        raise wrong(f, f"{step.loop}, a {loop.kind} loop", "a loop of another kind")
    claim(f, step.into, [step.loop])
    rest, factor = remainder(loop.extent, step.factor), ix.index(step.factor)
    if rest != ix.ZERO and not unchecked and (found := unsteady(scan(f), loop)):
        raise refuse(f"split {step.loop}", found, "an extent that stays the same in the loop")
    if rest == ix.ZERO or step.tail is Tail.GUARDED:
        rounds = ix.ceildiv if rest != ix.ZERO else ix.floordiv
        both = _two(step, loop, rounds(loop.extent, factor), guarded=rest != ix.ZERO)
        return replace(f, body=replaced(f.body, loop, both))
    if step.tail is Tail.DIVISIBLE:
        raise DidymaError(
            "indivisible", f"@{f.name}", got=f"{show_expr(loop.extent)} iterations of {step.loop}",
            want=f"a multiple of {step.factor}, whatever the sizes are",
            help="`guarded` and `peeled` take any extent",
        )  # fmt: skip
    most = _two(step, loop, ix.floordiv(loop.extent, factor), guarded=False)
    both = Block((most, _tail(step, f, loop, rest)))
    return replace(f, body=replaced(f.body, loop, both))


def require_factor(f: PrimFunc, name: str, factor: int) -> None:
    """Check a factor; DidymaError ``bad-step``."""
    if factor < 1:
        raise wrong(f, f"a factor of {factor} for {name}", "1 or more")


def wrong(f: PrimFunc, got: str, want: str, help: str = "") -> DidymaError:
    """Return the error of a step that cannot be taken, whatever is accessed."""
    return DidymaError("bad-step", f"@{f.name}", got=got, want=want, help=help)


def remainder(extent: Expr, factor: int) -> Expr:
    """Return what is left of an extent; the literal 0 where a factor certainly divides it."""
    p = Affine().poly(extent)
    if any("@" in v for m in p for v in m):
        return ix.mod(extent, ix.index(factor))
    return ix.mod(extent, ix.index(factor)) if any(k % factor for k in p.values()) else ix.ZERO


def _two(step: Split, loop: For, rounds: Expr, *, guarded: bool) -> Stmt:
    outer, inner = map(Var, step.into)
    at = ix.add(ix.mul(outer, ix.index(step.factor)), inner)
    body = substitute(loop.body, {loop.var.name: at})
    if guarded:
        body = If(ix.compare("lt", at, loop.extent), body)
    return For(outer, rounds, For(inner, ix.index(step.factor), body, loop.kind), loop.kind)


def _tail(step: Split, f: PrimFunc, loop: For, rest: Expr) -> Stmt:
    """Return the loop over the iterations that are left, with names of its own."""
    supply = names_of(f)
    supply.take(step.into)
    names = {n: supply.fresh(f"{n}_tail") for n in (loop.var.name, *declared(loop.body))}
    var, factor = Var(names[loop.var.name]), ix.index(step.factor)
    done = ix.mul(ix.floordiv(loop.extent, factor), factor)
    unchanged = {n: n for n in names_of_all(f)}
    copy = Inliner(f.function, supply, {**unchanged, **names}).stmt(loop.body)
    return For(var, rest, substitute(copy, {var.name: ix.add(done, var)}), loop.kind)
