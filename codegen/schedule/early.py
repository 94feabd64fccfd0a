"""Load what all turns of a thread take of memory before the first of them computes.

A compiler does not move a load above a branch, such as that of a square root, so without this each
turn waits for memory again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from didyma.codegen.schedule.folds import allocated, copied, with_loads
from didyma.codegen.schedule.nest import NestFacts
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Block,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Let,
    LetExpr,
    Load,
    LoopKind,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import certain_children, stmt_exprs, stmts, subexprs, substitute

ROOM = 256  # bytes of registers, at most, for what the turns of a thread load


def over_turns(
    facts: NestFacts,
    body: Stmt,
    each: int,
    at_turn: Callable[[Stmt, Var], Stmt],
    same: Collection[str] = (),
) -> Stmt:
    """Return a loop in which a thread does a body ``each`` times, after one that loads for all.

    ``at_turn`` says what is done at a turn.  There is no first loop unless the body is one over
    lanes, which surely loads something, and not too much.  What depends on nothing but variables
    that are the ``same`` at each turn is loaded where it is used.
    """
    fresh, lanes = facts.names.fresh, _lanes(body)
    turn, before = Var(fresh("turn")), Var(fresh("turn"))
    found = set[Load]() if lanes is None else {*_loads(facts, lanes)}
    loads = sorted((x for x in found if lanes and _names(x) - {*same, lanes.var.name}), key=str)
    if lanes is None or not loads or _nbytes(loads, lanes) * each > ROOM:
        return For(turn, ix.index(each), at_turn(body, turn), LoopKind.UNROLLED)
    size = ix.mul(lanes.extent, ix.index(each))
    assert isinstance(size, Const)
    held = {
        x: Buffer(fresh(f"{x.buffer}_early"), x.dtype, (int(size.value),), Scope.LOCAL)
        for x in loads
    }
    lane = Var(fresh(lanes.var.name))
    stores = tuple(Store(b.name, (_place(before, lanes, lane),), x) for x, b in held.items())
    fill = substitute(stores[0] if len(stores) == 1 else Block(stores), {lanes.var.name: lane})
    first = copied(_inside(body, replace(lanes, var=lane, body=fill), rest=False), facts.names)

    def early(x: Load) -> Load | None:
        b = held.get(x)
        return None if b is None else Load(b.name, (_place(turn, lanes, lanes.var),), b.dtype)

    then = _inside(body, replace(lanes, body=with_loads(lanes.body, early)), rest=True)
    loops = ((before, first), (turn, then))
    made = (For(v, ix.index(each), at_turn(s, v), LoopKind.UNROLLED) for v, s in loops)
    return allocated([*held.values()], Block(tuple(made)))


def _lanes(s: Stmt) -> For | None:
    """Return the loop over lanes inside lets and first branches; None if there is none."""
    while isinstance(s, (Let, If)):
        s = s.body if isinstance(s, Let) else s.then
    return s if isinstance(s, For) and s.kind is LoopKind.VECTORIZED else None


def _inside(s: Stmt, lanes: Stmt, *, rest: bool) -> Stmt:
    """Return a statement with another loop over lanes, and the other branches with ``rest``."""
    match s:
        case Let(body=body):
            return replace(s, body=_inside(body, lanes, rest=rest))
        case If(cond, then, other):
            return If(cond, _inside(then, lanes, rest=rest), other if rest else None)
        case _:
            return lanes


def _names(load: Load) -> set[str]:
    return {x.name for i in load.index for x in subexprs(i) if isinstance(x, Var)}


def _place(turn: Var, lanes: For, lane: Var) -> Expr:
    """Return where a thread holds what a lane loads at a turn."""
    return ix.add(ix.mul(turn, lanes.extent), lane)


def _nbytes(loads: list[Load], lanes: For) -> int:
    assert isinstance(lanes.extent, Const)
    return int(lanes.extent.value) * sum(x.dtype.nbytes for x in loads)


def _loads(facts: NestFacts, lanes: For) -> Iterator[Load]:
    """Yield what lanes surely load, each its own, of operands that nothing is stored to."""
    flat = [*stmts(lanes.body)]
    inside = [e for s in flat for e in stmt_exprs(s)]
    bound = {s.var.name for s in flat if isinstance(s, Let)}
    bound |= {e.var.name for x in inside for e in subexprs(x) if isinstance(e, LetExpr)}
    stored = {s.buffer for s in flat if isinstance(s, Store)}
    todo = inside
    while todo:
        e = todo.pop()
        if isinstance(e, (Var, Const)):
            continue
        todo += certain_children(e)
        if isinstance(e, Load) and e.buffer in facts.operands - stored:
            names = _names(e)
            reads = any(isinstance(x, Load) for i in e.index for x in subexprs(i))
            if lanes.var.name in names and not names & bound and not reads:
                yield e
