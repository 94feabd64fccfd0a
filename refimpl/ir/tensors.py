"""Remove the tensor-expression stage: producers first, then parts of buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.expand import Inliner, declared
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.walk import map_expr, map_stmt, stmts

Move = Callable[[tuple[ir.Expr, ...]], tuple[ir.Expr, ...]]


def without_producers(f: ir.PrimFunc) -> ir.PrimFunc:
    """Return a function with realized buffers, and loops that fill them, in place of producers."""
    return _applied(f, (ir.Compute, ir.ProducerRealize), _without_producers)


def without_realizes(f: ir.PrimFunc) -> ir.PrimFunc:
    """Return a function with buffers of the size of their parts in place of realized ones."""
    return _applied(f, (ir.BufferRealize,), lambda g: _flat(g.body))


def _applied(
    f: ir.PrimFunc, removed: tuple[type[ir.Stmt], ...], run: Callable[[ir.PrimFunc], ir.Stmt]
) -> ir.PrimFunc:
    if f.functions:
        f = replace(f, functions=tuple(_applied(g, removed, run) for g in f.functions))
    if not any(isinstance(s, removed) for s in stmts(f.body)):
        return f
    return replace(f, body=run(f))


def _without_producers(f: ir.PrimFunc) -> ir.Stmt:
    outside = [*(b.name for b in f.params), *(d.name for d in f.dims), *(v.name for v in f.scalars)]
    names = Names((*outside, *declared(f.body)))
    return _produced(f.body, {}, {n: n for n in outside}, names)


def _produced(
    s: ir.Stmt, known: Mapping[str, ir.Compute], seen: Mapping[str, str], names: Names
) -> ir.Stmt:
    """Write producers out; ``seen`` are the names in a step, also of those realized around."""
    match s:
        case ir.Compute(buffer, body=body):
            return _produced(body, {**known, buffer.name: s}, seen, names)
        case ir.ProducerRealize(name, starts, extents, body):
            definition, new = known[name], names.fresh(name)
            step = Inliner({}, names, {**seen, name: new})
            at = [ir.Var(names.fresh(f"{name}_{v.name}")) for v in definition.vars]
            vars = [step.variable(v) for v in definition.vars]
            fill = step.stmt(definition.step)
            for v, w, start in reversed(list(zip(vars, at, starts, strict=True))):
                fill = ir.Let(v, ix.add(start, w), fill)
            for w, n in reversed(list(zip(at, extents, strict=True))):
                fill = ir.For(w, ix.index(n), fill)
            rest = _moved(body, name, new, lambda index: index)
            rest = _produced(rest, known, {**seen, name: new}, names)
            buffer = replace(definition.buffer, name=new)
            return ir.BufferRealize(buffer, starts, extents, ir.Block((fill, rest)))
        case _:
            return map_stmt(s, lambda e: e, lambda b: _produced(b, known, seen, names))


def _flat(s: ir.Stmt) -> ir.Stmt:
    s = map_stmt(s, lambda e: e, _flat)
    if not isinstance(s, ir.BufferRealize):
        return s
    starts = s.starts

    def shifted(index: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
        return tuple(ix.sub(i, a) for i, a in zip(index, starts, strict=True))

    name = s.buffer.name
    return ir.Allocate(replace(s.buffer, shape=s.extents), _moved(s.body, name, name, shifted))


def _moved(s: ir.Stmt, old: str, new: str, move: Move) -> ir.Stmt:
    """Return a statement that accesses another buffer instead, at other indices."""

    def on_expr(e: ir.Expr) -> ir.Expr:
        e = map_expr(on_expr, e)
        if isinstance(e, ir.Load) and e.buffer == old:
            return ir.Load(new, move(e.index), e.dtype)
        return e

    def on_stmt(b: ir.Stmt) -> ir.Stmt:
        b = map_stmt(b, on_expr, on_stmt)
        if isinstance(b, ir.Store | ir.Atomic) and b.buffer == old:
            return replace(b, buffer=new, index=move(b.index))
        return b

    return on_stmt(s)
