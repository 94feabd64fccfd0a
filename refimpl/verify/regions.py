"""The laws of what blocks touch: each is proved for every binding of the dims, or broken.

| law | says |
|---|---|
| L-domain | a block's variable is an i64, proved to be at least 0 and below its extent |
| L-region | an access in a block is proved to lie in one of the block's regions of its buffer |

An access in a block inside another is proved to lie in a region of the inner one, and the regions
of the inner one to lie in those of the outer one.  A region that spans an axis needs no proof: no
index is outside its buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.dims.prover import Prover
from didyma.refimpl.ir.expr import ONE, TRUE, dim_of
from didyma.refimpl.ir.text import show_expr, show_line
from didyma.refimpl.ir.text.show_loop import LoopPrinter
from didyma.refimpl.ir.walk import expr_children, stmt_children, stmt_exprs, stmts

Values: TypeAlias = Mapping[str, Dim | None]  # of index variables; None: not known
MOST = 1 << 48  # iterations of a loop of which no more is known


def verify(f: ir.PrimFunc, where: str) -> None:
    """Raise DidymaError where a block of a function, named in messages, breaks a law."""
    below = stmts(f.body)
    if not any(isinstance(s, ir.BlockRealize) for s in below):
        return
    shapes = {b.name: b.shape for b in f.params}
    shapes |= {s.buffer.name: s.buffer.shape for s in below if isinstance(s, _MAKES)}
    ranges = {d.name: (d.lo, d.hi) for d in f.dims}
    known = _Known(ranges, values={d.name: dims.symbol(d.name) for d in f.dims})
    _Walk(where, f.dims, shapes).stmt(f.body, known)


_MAKES = ir.Allocate | ir.PlacementAllocate | ir.BufferRealize | ir.Compute


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known at a place inside ``block``, or outside all blocks.

    ``facts`` are sizes that are never negative there; ``own`` are the buffers that the block makes.
    """

    ranges: dims.Ranges
    extents: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    values: Values = field(default_factory=dict[str, Dim | None])
    facts: tuple[Dim, ...] = ()
    block: ir.BlockRealize | None = None
    regions: Values = field(default_factory=dict[str, Dim | None])
    own: frozenset[str] = frozenset()

    def size(self, e: ir.Expr) -> Dim | None:
        """Return the size that an expression is, or None."""
        return dim_of(e, self.values)

    def let(self, var: ir.Var, value: ir.Expr | None) -> _Known:
        """Return what is known where a variable has a value."""
        size = None if value is None or var.dtype is not ir.INDEX else self.size(value)
        return replace(self, values={**self.values, var.name: size})

    def loop(self, var: ir.Var, extent: ir.Expr) -> _Known:
        """Return what is known where a variable is below an extent, from 0 on."""
        end = self.size(extent)
        most = MOST if end is None else max(dims.bounds(end, self.ranges)[1], 1)
        return replace(
            self,
            ranges={**self.ranges, var.name: (0, most - 1)},
            extents=self.extents if end is None else {**self.extents, var.name: end},
            values={**self.values, var.name: dims.symbol(var.name)},
        )

    def given(self, cond: ir.Expr, *, holds: bool = True) -> _Known:
        """Return what is known where a condition holds, or does not."""
        return replace(self, facts=(*self.facts, *self._facts(cond, holds)))

    def _facts(self, e: ir.Expr, holds: bool) -> Iterator[Dim]:
        match e:
            case ir.Binary("and", a, b) if holds:
                yield from (*self._facts(a, True), *self._facts(b, True))
            case ir.Binary("or", a, b) if not holds:
                yield from (*self._facts(a, False), *self._facts(b, False))
            case ir.Unary("not", a):
                yield from self._facts(a, not holds)
            case ir.Compare("lt" | "le" | "gt" | "ge" as op, a, b):
                x, y = self.size(a), self.size(b)
                if x is not None and y is not None:
                    small, large = (x, y) if (op in ("lt", "le")) is holds else (y, x)
                    strict = (op in ("lt", "gt")) is holds
                    yield dims.sub(large, dims.add(small, int(strict)))
            case ir.Compare("eq", a, b) if holds:
                x, y = self.size(a), self.size(b)
                if x is not None and y is not None:
                    yield from (dims.sub(x, y), dims.sub(y, x))
            case _:
                pass

    def at_least(self, a: Dim | None, b: Dim | None) -> bool:
        """Return whether ``a >= b`` is proved here, with one of the facts or without."""
        if a is None or b is None:
            return False
        prover = Prover(self.ranges, (), self.extents)
        goal = dims.sub(a, b)
        return any(prover.at_least(goal, fact) for fact in (0, *self.facts))


@dataclass(frozen=True, slots=True)
class _Walk:
    """Checks the blocks of a function; ``shapes`` are those of all its buffers."""

    where: str
    dims: tuple[dims.DimVar, ...]
    shapes: Mapping[str, Sequence[Dim]]

    def stmt(self, s: ir.Stmt, known: _Known) -> None:
        match s:
            case ir.BlockRealize():
                self.block(s, known)
                return
            case ir.Store(name, index) | ir.Atomic(_, name, index):
                self.touch(s, known, ir.Region(name, index, (ONE,) * len(index)), writes=True)
            case ir.Fold():
                self.fold(s, known)
                return
            case _:
                pass
        for e in stmt_exprs(s):
            self.expr(s, e, known)
        match s:
            case ir.For(var, extent, body):
                self.stmt(body, known.loop(var, extent))
            case ir.Let(var, value, body):
                self.stmt(body, known.let(var, value))
            case ir.If(cond, then, other):
                self.stmt(then, known.given(cond))
                if other is not None:
                    self.stmt(other, known.given(cond, holds=False))
            case ir.While(cond, body):
                self.stmt(body, known.given(cond))
            case (
                ir.Allocate(b, body) | ir.PlacementAllocate(b, _, body)
                | ir.BufferRealize(b, body=body)
            ):  # fmt: skip
                self.stmt(body, replace(known, own=known.own | {b.name}))
            case _:
                for below in stmt_children(s):
                    self.stmt(below, known)

    def fold(self, s: ir.Fold, known: _Known) -> None:
        step = known
        for x in s.axes:
            self.expr(s, x.extent, known)
            step = step.loop(x.var, x.extent)
        self.stmt(s.step, step)
        for a in s.accs:
            self.expr(s, a.start, known)
            known = known.let(a.var, None)
        for c in (s.combine,) if s.merge is None else (s.combine, s.merge):
            for v in c.operands:
                known = known.let(v, None)
            for e in c.results:
                self.expr(s, e, known)
        self.stmt(s.body, known)

    def expr(self, s: ir.Stmt, e: ir.Expr, known: _Known) -> None:
        """Check the loads of an expression of a statement."""
        match e:
            case ir.LetExpr(var, value, body):
                self.expr(s, value, known)
                self.expr(s, body, known.let(var, value))
            case ir.Select(cond, then, other):
                self.expr(s, cond, known)
                self.expr(s, then, known.given(cond))
                self.expr(s, other, known.given(cond, holds=False))
            case _:
                for c in expr_children(e):
                    self.expr(s, c, known)
                if isinstance(e, ir.Load):
                    one = ir.Region(e.buffer, e.index, (ONE,) * len(e.index))
                    self.touch(s, known, one, writes=False)

    def block(self, s: ir.BlockRealize, known: _Known) -> None:
        """Check where a block stands, then what it holds."""
        self.expr(s, s.where, known)
        reached = known.given(s.where)
        own = replace(_Known({d.name: (d.lo, d.hi) for d in self.dims}), block=s)
        own = replace(own, values={d.name: dims.symbol(d.name) for d in self.dims})
        outer = dict(reached.values)
        for v in s.vars:
            self.expr(s, v.value, reached)
            value, end = reached.size(v.value), own.size(v.extent)
            below = None if value is None else dims.add(value, 1)
            if not (reached.at_least(value, 0) and reached.at_least(end, below)):
                text = "" if s.where == TRUE else f" where {show_expr(s.where)}"
                raise DidymaError(
                    "L-domain", f"@{self.where}: {show_line(s)}",
                    got=f"{v.var.name} = {show_expr(v.value)}{text}",
                    want=f"a proof of 0 <= {v.var.name} < {show_expr(v.extent)}",
                    help=f"run the block where 0 <= {show_expr(v.value)} < {show_expr(v.extent)}",
                )  # fmt: skip
            outer[v.var.name] = value
        for v in s.vars:
            own = own.loop(v.var, v.extent)
        own = replace(own, regions=own.values)
        placed = replace(reached, values=outer)
        for writes, regions in ((False, s.reads), (True, s.writes)):
            for r in regions:
                self.touch(s, placed, r, writes=writes)
        for body in (s.init, s.body):
            if body is not None:
                self.stmt(body, own)

    def touch(self, s: ir.Stmt, known: _Known, r: ir.Region, *, writes: bool) -> None:
        """Check an access, to one element or to a region, of a statement that stands in a block."""
        if known.block is None or r.buffer in known.own:
            return
        allowed = [*known.block.writes, *(() if writes else known.block.reads)]
        allowed = [a for a in allowed if a.buffer == r.buffer]
        if any(self.inside(r, a, known) for a in allowed):
            return
        one = all(n == ONE for n in r.extents)
        text, does = LoopPrinter(typed=False), "writes" if writes else "reads"
        got = text.element(r.buffer, r.starts) if one else text.region(r)
        known_ones = " or ".join(map(text.region, allowed))
        want = f"an access proved to lie in {known_ones}" if allowed else f"a region that it {does}"
        raise DidymaError(
            "L-region", f"@{self.where}: {show_line(s)}", got=f"{does} {got}", want=want,
            help=f"declare a region that the block {does}, at most all of {r.buffer}",
        )  # fmt: skip

    def inside(self, r: ir.Region, around: ir.Region, known: _Known) -> bool:
        """Return whether a region is proved to lie in another."""
        axes = zip(
            r.starts, r.extents, around.starts, around.extents, self.shapes[r.buffer], strict=True
        )
        for start, count, first, most, size in axes:
            low, room = dim_of(first, known.regions), dim_of(most, known.regions)
            if low == 0 and room == size:
                continue
            a, n = known.size(start), known.size(count)
            if a is None or n is None or low is None or room is None:
                return False
            if not known.at_least(a, low):
                return False
            if not known.at_least(dims.add(low, room), dims.add(a, n)):
                return False
        return True
