"""Moves statements of a loop program into functions that it calls, at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

from didyma.oracle.lanes.code import index_interval
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.expand import Inliner, declared
from didyma.refimpl.ir.loop import (
    INDEX,
    Allocate,
    Atomic,
    AttrStmt,
    Barrier,
    Binary,
    Buffer,
    Call,
    Chain,
    Const,
    Exchange,
    Expr,
    ExternalCall,
    Fold,
    For,
    Free,
    Let,
    Load,
    LoopKind,
    PlacementAllocate,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.walk import exprs, map_stmt, stmt_children, stmts
from didyma.refimpl.verify.sizes import TAKEN

Interval: TypeAlias = tuple[int, int] | None


class Renamed(Inliner):
    """Copies statements under other names, calls as calls."""

    def call(self, s: Call) -> Stmt:
        args = tuple(self.names[a] for a in s.args)
        return Call(s.callee, args, tuple(map(self.expr, s.dims)))


@dataclass(frozen=True, slots=True)
class Place:
    """A statement, the buffers around it, and what is known of the variables around it."""

    stmt: Stmt
    buffers: Mapping[str, Buffer]
    ranges: Mapping[str, Interval]


def outlined(f: PrimFunc, r: Random) -> PrimFunc:
    """Return the function with one more function, if a statement can be found that may be one."""
    at = r.randrange(len(f.functions) + 1)
    body = (*f.functions, f)[at]
    fit = [p for p in _places(body.body, _around(body)) if _may_move(p)]
    if not fit:
        return f
    made, call = _moved(r.choice(fit), f, r)
    new = replace(body, body=_swapped(body.body, call))
    above, below = f.functions[:at], f.functions[at + 1 :]
    if at == len(f.functions):
        return replace(new, functions=(*above, made))
    return replace(f, functions=(*above, made, new, *below))


def _around(f: PrimFunc) -> Place:
    return Place(f.body, {b.name: b for b in f.params}, {d.name: (d.lo, d.hi) for d in f.dims})


def _interval(e: Expr, ranges: Mapping[str, Interval]) -> Interval:
    match e:
        case Const(int(value)):
            return value, value
        case Var(name):
            return ranges.get(name)
        case Binary(op, a, b):
            return index_interval(op, _interval(a, ranges), _interval(b, ranges))
        case _:
            return None


def _places(s: Stmt, p: Place) -> Iterator[Place]:
    """Every statement below one, with what is around it."""
    p = replace(p, stmt=s)
    yield p
    match s:
        case For(var, extent):
            most = _interval(extent, p.ranges)
            known = None if most is None else (0, max(most[1] - 1, 0))
            p = replace(p, ranges={**p.ranges, var.name: known})
        case Let(var, value):
            known = _interval(value, p.ranges) if var.dtype is INDEX else None
            p = replace(p, ranges={**p.ranges, var.name: known})
        case Allocate(b) | PlacementAllocate(b):
            p = replace(p, buffers={**p.buffers, b.name: b})
        case _:
            pass
    for below in stmt_children(s):
        found = _places(below, p)
        if isinstance(s, AttrStmt):  # what is said of a loop is said of no call
            next(found)
        yield from found


def _touched(s: Stmt) -> set[str]:
    """Buffers of its surroundings that a statement uses."""
    found = {e.buffer for e in exprs(s) if isinstance(e, Load)}
    for below in stmts(s):
        match below:
            case Store() | Atomic():
                found.add(below.buffer)
            case Call(_, args):
                found.update(args)
            case _:
                pass
    return found - set(declared(s))


def _free(p: Place) -> list[str]:
    """Variables of its surroundings that a statement uses, sizes of buffers with them."""
    used = {e.name for e in exprs(p.stmt) if isinstance(e, Var)} - set(declared(p.stmt))
    return sorted(used.union(*(dims.free(p.buffers[b].shape) for b in _touched(p.stmt))))


def _may_move(p: Place) -> bool:
    """Tell whether a statement is one thread's, and its variables are indices of a known range."""
    inside = set(declared(p.stmt))
    for s in stmts(p.stmt):
        match s:
            case Barrier() | Exchange() | Chain() | ExternalCall() | For(kind=LoopKind.BOUND):
                return False
            case Allocate(b) | PlacementAllocate(b) if b.scope is Scope.SHARED:
                return False
            case Free(name) if name not in inside:
                return False
            case PlacementAllocate(_, over) if over not in inside:
                return False
            case _:
                pass
    known = [p.ranges.get(v) for v in _free(p)]
    return not _yields(p.stmt) and all(k is not None and 0 <= k[0] <= k[1] < 2**62 for k in known)


def _yields(s: Stmt) -> bool:
    """Tell whether a statement yields a term of a fold that stands around it."""
    match s:
        case Yield():
            return True
        case Fold():
            return _yields(s.body)
        case _:
            return any(map(_yields, stmt_children(s)))


def _written(s: Stmt, functions: Mapping[str, PrimFunc]) -> set[str]:
    found: set[str] = set()
    for below in stmts(s):
        match below:
            case Store() | Atomic():
                found.add(below.buffer)
            case Call(callee, args):
                g = functions[callee]
                found |= {a for a, b in zip(args, g.params, strict=True) if b.name in g.outputs}
            case _:
                pass
    return found


def _moved(p: Place, f: PrimFunc, r: Random) -> tuple[PrimFunc, tuple[Stmt, Call]]:
    """A function of a statement, under other names, and the statement with the call of it."""
    args, values = sorted(_touched(p.stmt)), _free(p)
    r.shuffle(args)
    r.shuffle(values)
    olds = [*args, *values]
    # half of the time the names of others, so that those of two functions meet
    news = [n for n in olds if n not in TAKEN and r.random() < 0.5]
    copy = Renamed(f.function, Names(olds), {})
    news += [copy.supply.fresh("p") for _ in range(len(olds) - len(news))]
    r.shuffle(news)
    copy.names.update(zip(olds, news, strict=True))
    names = dict(copy.names)
    written = _written(p.stmt, f.function)
    body = copy.stmt(p.stmt)
    sizes = {v: symbol(names[v]) for v in values}
    params = tuple(
        replace(b, name=names[b.name], shape=tuple(dims.substitute(d, sizes) for d in b.shape))
        for b in (p.buffers[a] for a in args)
    )
    declared_dims: list[DimVar] = []
    for v in values:
        known = p.ranges[v]
        assert known is not None
        declared_dims.append(DimVar(names[v], *known))
    outputs = tuple(names[a] for a in args if a in written)
    name = f"part{len(f.functions)}"
    made = PrimFunc(name, params, outputs, body, tuple(declared_dims))
    return made, (p.stmt, Call(name, tuple(args), tuple(map(Var, values))))


def _swapped(s: Stmt, pair: tuple[Stmt, Call]) -> Stmt:
    if s is pair[0]:
        return pair[1]
    return map_stmt(s, lambda e: e, lambda b: _swapped(b, pair))
