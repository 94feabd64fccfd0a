"""Which local buffers are registers: one value over all lanes for each element.

A local buffer can be that where every access stands in the same lane loops as its allocation, and
has an index that all lanes agree on.  Others are memory with a copy for each lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from didyma.refimpl.ir.loop import (
    Allocate,
    Atomic,
    Buffer,
    Call,
    Chain,
    Const,
    Exchange,
    Expr,
    ExternalAllocate,
    ExternalCall,
    For,
    Free,
    Let,
    LetExpr,
    Load,
    LoopKind,
    PlacementAllocate,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import expr_children, stmt_children, stmt_exprs, stmts

LANE_KINDS = (LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.BOUND)


def in_memory(f: PrimFunc) -> frozenset[tuple[str, str]]:
    """Return the local buffers that cannot be registers, as names of functions and of buffers."""
    if not any(_has_locals(g.body) for g in (f, *f.functions)):
        return frozenset()
    found: set[tuple[str, str]] = set()
    homes = {p.name: _Home((f.name, p.name), 0, local=False) for p in f.params}
    _Walk(f.function, f.name, homes, set(), found).stmt(f.body, 0)
    return frozenset(found)


def _has_locals(s: Stmt) -> bool:
    return any(isinstance(x, Allocate) and x.buffer.scope is Scope.LOCAL for x in stmts(s))


@dataclass(frozen=True, slots=True)
class _Home:
    """Where a buffer was made: function and name, and how many lane loops are around it."""

    key: tuple[str, str]
    depth: int
    local: bool


@dataclass(frozen=True, slots=True)
class _Walk:
    """Walks one function; ``varying`` are the variables on whose values lanes may disagree."""

    functions: Mapping[str, PrimFunc]
    function: str
    homes: dict[str, _Home]
    varying: set[str]
    found: set[tuple[str, str]]

    def stmt(self, s: Stmt, depth: int) -> None:
        varies = [self.varies(e, depth) for e in stmt_exprs(s)]
        match s:
            case For(var, _, body, kind):
                lanes = kind in LANE_KINDS
                self.bind(var.name, lanes)
                self.stmt(body, depth + lanes)
                return
            case Let(var):
                self.bind(var.name, varies[0])
            case Exchange(var):
                self.bind(var.name, True)
            case Chain(var, _, _, _, states, totals):
                self.bind(var.name, True)
                self.whole(states)
                self.whole(totals)
            case Store(buffer):
                self.touch(buffer, depth, any(varies[:-1]))
            case Atomic(_, buffer) | Free(buffer):
                self.whole(buffer)
            case Allocate(buffer):
                self.make(buffer, depth)
            case PlacementAllocate(buffer, over):
                self.whole(over)
                self.homes[buffer.name] = _Home((self.function, buffer.name), depth, local=False)
            case ExternalAllocate(_, buffers):
                for b in buffers:
                    self.homes[b.name] = _Home((self.function, b.name), depth, local=False)
            case ExternalCall(_, outputs, inputs):
                for name in (*outputs, *inputs):
                    self.whole(name)
            case Call(callee, args):
                f = self.functions[callee]
                homes = {p.name: self.homes[a] for p, a in zip(f.params, args, strict=True)}
                names = (*(d.name for d in f.dims), *(v.name for v in f.scalars))
                varying = {n for n, v in zip(names, varies, strict=True) if v}
                inner = _Walk(self.functions, f.name, homes, varying, self.found)
                inner.stmt(f.body, depth)
            case _:
                pass
        for child in stmt_children(s):
            self.stmt(child, depth)

    def varies(self, e: Expr, depth: int) -> bool:
        """Return whether lanes may disagree on a value."""
        match e:
            case Var(name):
                return name in self.varying
            case Const():
                return False
            case Load(buffer, index):
                varies = self.any_varies(index, depth)
                self.touch(buffer, depth, varies)
                return varies or self.homes[buffer].depth > 0
            case LetExpr(var, value, body):
                self.bind(var.name, self.varies(value, depth))
                return self.varies(body, depth)
            case _:
                return self.any_varies(expr_children(e), depth)

    def any_varies(self, es: Iterable[Expr], depth: int) -> bool:
        varies = [self.varies(e, depth) for e in es]  # all are walked
        return any(varies)

    def bind(self, var: str, varies: bool) -> None:
        if varies:
            self.varying.add(var)
        else:
            self.varying.discard(var)

    def make(self, b: Buffer, depth: int) -> None:
        self.homes[b.name] = _Home((self.function, b.name), depth, b.scope is Scope.LOCAL)

    def touch(self, buffer: str, depth: int, varies: bool) -> None:
        home = self.homes[buffer]
        if home.local and (varies or depth != home.depth):
            self.found.add(home.key)

    def whole(self, buffer: str) -> None:
        if self.homes[buffer].local:
            self.found.add(self.homes[buffer].key)
