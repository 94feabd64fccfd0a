"""The steps ``reorder`` and ``tile``: loops of one nest in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from didyma.codegen.schedule.steps.accesses import Access, scan
from didyma.codegen.schedule.steps.dependence import Dependences, carried, refuse, reversed_by
from didyma.codegen.schedule.steps.loops import LoopSite, find, replaced
from didyma.codegen.schedule.steps.records import Reorder, Split, Tile
from didyma.codegen.schedule.steps.split import split, wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import (
    Barrier,
    Chain,
    Exchange,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Stmt,
)
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.walk import mentions, stmts, subexprs


def reorder(step: Reorder, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function with loops of a nest in the given order; other loops keep their places.

    Conditions and ``let`` that stood between the loops stand inside them.  A parallel loop that
    comes to stand around a serial one stays parallel only where its iterations are independent.
    DidymaError ``no-such-loop``, ``bad-step``, ``not-nested``, ``dependence``.
    """
    if len(step.loops) < 2 or len(set(step.loops)) < len(step.loops):
        raise wrong(f, ", ".join(step.loops), "two loops or more, each once")
    places = sorted((find(f, n) for n in step.loops), key=lambda p: len(p.around))
    outer, inner = places[0].loop, places[-1]
    chain, wrappers = nest(f, outer, inner)
    before = [x.var.name for x in chain]
    order = iter(step.loops)
    after = [next(order) if n in step.loops else n for n in before]
    if after == before:
        return f
    movable(f, chain, wrappers)
    known = Dependences(scan(f))
    inside = known.scan.within(inner.loop.body) + _of_wrappers(known, wrappers)
    found = reversed_by(known, inside, before, after, step.reassociates)
    if found and not unchecked:
        raise refuse(
            f"reorder {', '.join(step.loops)}", found, "iterations whose order does not matter",
            help="" if step.reassociates or not found.first.update
            else "`reassociates` lets sums and products of floats change their order",
        )  # fmt: skip
    by_name = {x.var.name: x for x in chain}
    body: Stmt = inner.loop.body
    for w in reversed(wrappers):
        body = replace(w, then=body) if isinstance(w, If) else replace(w, body=body)
    for name in reversed(after):
        body = replace(by_name[name], body=body)
    g = replace(f, body=replaced(f.body, outer, body))
    return settled(g, _crossed(chain, before, after))


def _of_wrappers(known: Dependences, wrappers: Sequence[Stmt]) -> list[Access]:
    return [a for a in known.scan.accesses if any(a.stmt is w for w in wrappers)]


def nest(f: PrimFunc, outer: For, inner: LoopSite) -> tuple[list[For], list[If | Let]]:
    """Return the loops from an outer to an inner one, and the statements between them.

    DidymaError ``not-nested`` where one does not stand in the other, or other statements than
    conditions and ``let`` stand between them.
    """
    around = (*inner.around, inner.loop)
    if not any(s is outer for s in around):
        raise not_nested(f, outer.var.name, inner.loop.var.name, "no nest")
    at = next(i for i, s in enumerate(around) if s is outer)
    chain: list[For] = []
    wrappers: list[If | Let] = []
    for s in around[at:]:
        if isinstance(s, For):
            chain.append(s)
        elif isinstance(s, Let) or (isinstance(s, If) and s.other is None):
            wrappers.append(s)
        else:
            raise not_nested(f, outer.var.name, inner.loop.var.name, f"`{show_line(s)}` between")
    return chain, wrappers


def not_nested(f: PrimFunc, outer: str, inner: str, got: str) -> DidymaError:
    """Return the error of loops that are no nest."""
    return DidymaError(
        "not-nested", f"@{f.name}", got=f"{got}: {outer} and {inner}",
        want="loops that stand directly in one another, with conditions and `let` between at most",
    )  # fmt: skip


def movable(f: PrimFunc, chain: Sequence[For], wrappers: Sequence[If | Let]) -> None:
    """Check that loops may be nested in any order as far as their extents are concerned.

    DidymaError ``bad-step``.
    """
    bound = {x.var.name for x in chain} | {w.var.name for w in wrappers if isinstance(w, Let)}
    known = scan(f)
    stored = {a.buffer for a in known.within(chain[-1].body) if a.writes}
    for x in chain:
        if x.kind in (LoopKind.BOUND, LoopKind.VECTORIZED):
            raise wrong(f, f"{x.var.name}, a {x.kind} loop", "loops of other kinds")
        if mentions(x.extent, bound) or _loads(x.extent):
            raise wrong(
                f, f"`{show_line(x)}`, whose extent varies in the nest",
                "extents that are the same in all iterations of the nest",
            )  # fmt: skip
    for w in wrappers:
        e = w.cond if isinstance(w, If) else w.value
        if clash := _loads(e) & stored:
            raise wrong(
                f, f"`{show_line(w)}` between the loops, which reads {min(clash)}",
                "nothing between them that reads what the nest writes",
            )  # fmt: skip
    if any(isinstance(s, Barrier | Chain | Exchange) for s in stmts(chain[-1].body)):
        raise wrong(f, "a barrier or exchange in the nest", "a nest without those")


def _loads(e: Expr) -> set[str]:
    return {x.buffer for x in subexprs(e) if isinstance(x, Load)}


def _crossed(chain: Sequence[For], before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the parallel loops that now stand around a serial loop that stood around them."""
    serial = {x.var.name for x in chain if x.kind is not LoopKind.PARALLEL}

    def around(order: Sequence[str], name: str) -> set[str]:
        return serial & set(order[: list(order).index(name)])

    return [n for n in after if n not in serial and around(before, n) - around(after, n)]


def settled(f: PrimFunc, names: Sequence[str]) -> PrimFunc:
    """Make loops serial, then those of them parallel again whose iterations are independent."""
    for name in names:
        loop = find(f, name).loop
        f = replace(f, body=replaced(f.body, loop, replace(loop, kind=LoopKind.SERIAL)))
    for name in names:
        loop = find(f, name).loop
        if carried(Dependences(scan(f)), loop) is None:
            f = replace(f, body=replaced(f.body, loop, replace(loop, kind=LoopKind.PARALLEL)))
    return f


def tile(step: Tile, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function with two nested loops tiled; a factor that does not divide is guarded.

    DidymaError as ``split`` and ``reorder``.
    """
    if len(step.loops) != 2 or len(step.factors) != 2 or len(step.into) != 4:
        raise wrong(
            f, f"{len(step.loops)} loops by {len(step.factors)} factors into {len(step.into)}",
            "two loops by two factors into four",
        )  # fmt: skip
    free = unchecked or _permutable(f, *step.loops, step.reassociates)
    a, b, c, d = step.into
    f = split(Split(step.loops[0], step.factors[0], into=(a, c)), f, unchecked=unchecked)
    f = split(Split(step.loops[1], step.factors[1], into=(b, d)), f, unchecked=unchecked)
    return reorder(Reorder((a, b, c, d), step.reassociates), f, unchecked=free)


def _permutable(f: PrimFunc, one: str, other: str, reassociates: bool) -> bool:
    """Return whether two loops, one directly in the other, can change places.

    Then any tiles of them can be run in any order of their loops (F. Irigoin and R. Triolet,
    *Supernode Partitioning*, 1988).
    """
    outer, inner = sorted((find(f, one), find(f, other)), key=lambda p: len(p.around))
    if not any(s is outer.loop for s in inner.around):
        return False
    chain, wrappers = nest(f, outer.loop, inner)
    if len(chain) != 2:
        return False
    known = Dependences(scan(f))
    inside = known.scan.within(inner.loop.body) + _of_wrappers(known, wrappers)
    before = [x.var.name for x in chain]
    return reversed_by(known, inside, before, before[::-1], reassociates) is None
