"""Inline the calls of a loop program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt, stmts


def expand(f: ir.PrimFunc) -> ir.PrimFunc:
    """Return a function with the bodies of its callees in place of the calls.

    Variables and buffers that the bodies declare get unused names.  The check that the dims of a
    callee lie in their ranges is lost.
    """
    if not f.functions:
        return f
    names = {n: n for n in f.names}
    names |= {n: n for n in declared(f.body)}
    return replace(f, body=Inliner(f.function, Names(names), names).stmt(f.body), functions=())


def declared(s: ir.Stmt) -> Iterator[str]:
    """Yield the names of variables and buffers that a statement and its substatements declare."""
    for below in stmts(s):
        match below:
            case ir.For(var) | ir.Let(var) | ir.Exchange(var) | ir.Chain(var):
                yield var.name
            case ir.Allocate(b) | ir.PlacementAllocate(b):
                yield b.name
            case ir.Fold():
                yield from (v.name for v in bound_by(below))
            case ir.ExternalAllocate(_, buffers):
                yield from (b.name for b in buffers)
            case ir.BufferRealize(b):
                yield b.name
            case ir.Compute(_, vars):
                yield from (v.name for v in vars)
            case ir.BlockRealize(vars):
                yield from (v.var.name for v in vars)
            case _:
                pass
    yield from (e.var.name for e in exprs(s) if isinstance(e, ir.LetExpr))


def bound_by(s: ir.Fold) -> tuple[ir.Var, ...]:
    """Return the variables that a fold declares: accumulators, axes, operands of combiners."""
    merged = () if s.merge is None else s.merge.operands
    declared = [a.var for a in s.accs] + [a.var for a in s.axes]
    return (*declared, *s.combine.operands, *merged)


class Same(dict[str, str]):
    """Names that stand for themselves unless another is given."""

    def __missing__(self, name: str) -> str:
        return name


@dataclass(frozen=True, slots=True)
class Inliner:
    """Copies statements without calls under other names.

    ``names`` maps old names to new ones and grows with each declaration; ``supply`` gives unused
    names.
    """

    functions: Mapping[str, ir.PrimFunc]
    supply: Names
    names: dict[str, str]

    def declare(self, name: str) -> str:
        """Return the new name of a variable or buffer that is declared here."""
        if name not in self.names:
            self.names[name] = self.supply.fresh(name)
        return self.names[name]

    def variable(self, var: ir.Var) -> ir.Var:
        """Copy the declaration of a variable."""
        return ir.Var(self.declare(var.name), var.dtype)

    def buffer(self, b: ir.Buffer) -> ir.Buffer:
        """Copy the declaration of a buffer."""
        return replace(b, name=self.declare(b.name))

    def expr(self, e: ir.Expr) -> ir.Expr:
        """Copy an expression."""
        match e:
            case ir.Var(name, dtype):
                return ir.Var(self.names[name], dtype)
            case ir.Load(name, index, dtype):
                return ir.Load(self.names[name], tuple(map(self.expr, index)), dtype)
            case ir.LetExpr(var, value, body):
                bound = self.expr(value)
                return ir.LetExpr(self.variable(var), bound, self.expr(body))
            case _:
                return map_expr(self.expr, e)

    def stmt(self, s: ir.Stmt) -> ir.Stmt:
        """Copy a statement."""
        names = self.names
        match s:
            case ir.For(var, extent):
                end = self.expr(extent)
                return replace(s, var=self.variable(var), extent=end, body=self.stmt(s.body))
            case ir.Fold():
                return self.fold(s)
            case ir.BlockRealize():
                return self.block(s)
            case ir.BufferRealize(b, starts, extents, body):
                at = tuple(map(self.expr, starts))
                return ir.BufferRealize(self.buffer(b), at, extents, self.stmt(body))
            case ir.Compute(b, vars, step, body):
                made, own = self.buffer(b), tuple(map(self.variable, vars))
                return ir.Compute(made, own, self.stmt(step), self.stmt(body))
            case ir.ProducerRealize(name, starts, extents, body):
                at = tuple(map(self.expr, starts))
                return ir.ProducerRealize(names[name], at, extents, self.stmt(body))
            case ir.Let(var, value, body):
                bound = self.expr(value)
                return ir.Let(self.variable(var), bound, self.stmt(body))
            case ir.Exchange(var, value, mask, body):
                given = self.expr(value)
                return ir.Exchange(self.variable(var), given, mask, self.stmt(body))
            case ir.Chain(var, op, start, value, states, totals, body):
                first, given = self.expr(start), self.expr(value)
                by = names[states], names[totals]
                return ir.Chain(self.variable(var), op, first, given, *by, self.stmt(body))
            case ir.Store() | ir.Atomic():
                index = tuple(map(self.expr, s.index))
                return replace(s, buffer=names[s.buffer], index=index, value=self.expr(s.value))
            case ir.Prefetch(name, index):
                return ir.Prefetch(names[name], tuple(map(self.expr, index)))
            case ir.Allocate(b, body):
                return ir.Allocate(self.buffer(b), self.stmt(body))
            case ir.PlacementAllocate(b, over, body):
                return ir.PlacementAllocate(self.buffer(b), names[over], self.stmt(body))
            case ir.Free(name):
                return ir.Free(names[name])
            case ir.ExternalCall(name, outputs, inputs, attrs):
                written, read = (tuple(names[n] for n in ns) for ns in (outputs, inputs))
                return ir.ExternalCall(name, written, read, attrs)
            case ir.ExternalAllocate(name, buffers, inputs, attrs, body):
                new, read = tuple(map(self.buffer, buffers)), tuple(names[n] for n in inputs)
                return ir.ExternalAllocate(name, new, read, attrs, self.stmt(body))
            case ir.Call():
                return self.call(s)
            case _:
                return map_stmt(s, self.expr, self.stmt)

    def fold(self, s: ir.Fold) -> ir.Stmt:
        """Copy a fold."""
        return ir.Fold(
            tuple(ir.Accumulator(self.variable(a.var), self.expr(a.start)) for a in s.accs),
            tuple(ir.Axis(self.variable(a.var), self.expr(a.extent)) for a in s.axes),
            self.combiner(s.combine),
            self.stmt(s.step),
            self.stmt(s.body),
            None if s.merge is None else self.combiner(s.merge),
        )

    def block(self, s: ir.BlockRealize) -> ir.Stmt:
        """Copy a block."""
        where, values = self.expr(s.where), [self.expr(v.value) for v in s.vars]
        vars = tuple(
            ir.IterVar(self.variable(v.var), self.expr(v.extent), v.kind, value)
            for v, value in zip(s.vars, values, strict=True)
        )
        reads, writes = (tuple(map(self.region, rs)) for rs in (s.reads, s.writes))
        init = None if s.init is None else self.stmt(s.init)
        return ir.BlockRealize(vars, where, reads, writes, init, self.stmt(s.body))

    def region(self, r: ir.Region) -> ir.Region:
        """Copy a region."""
        starts, extents = (tuple(map(self.expr, es)) for es in (r.starts, r.extents))
        return ir.Region(self.names[r.buffer], starts, extents)

    def combiner(self, c: ir.Combiner) -> ir.Combiner:
        """Copy a combiner."""
        return ir.Combiner(tuple(map(self.variable, c.operands)), tuple(map(self.expr, c.results)))

    def call(self, s: ir.Call) -> ir.Stmt:
        """Copy the body of a call's callee."""
        g = self.functions[s.callee]
        names = {p.name: self.names[a] for p, a in zip(g.params, s.args, strict=True)}
        inner = Inliner(self.functions, self.supply, names)
        bound: list[tuple[ir.Var, ir.Expr]] = []
        dims = (ir.Var(d.name) for d in g.dims)
        for var, e in zip((*dims, *g.scalars), (*s.dims, *s.scalars), strict=True):
            value = self.expr(e)
            if isinstance(value, ir.Var):
                names[var.name] = value.name
            else:
                bound.append((ir.Var(inner.declare(var.name), var.dtype), value))
        body = inner.stmt(g.body)
        for var, value in bound:
            body = ir.Let(var, value, body)
        return body
