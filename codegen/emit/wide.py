"""Find the accesses of a vectorised loop that can be wide.

An access ``buffer[x * 4 + v]`` of a loop over four lanes ``v``, or over 2, 8 or 16, is one 16-byte
access (or a smaller one, or several) if every lane makes it, whatever the values are: a load behind
a guard may not be made early, a store behind a guard not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from didyma.codegen.emit.intrinsics import WIDTHS
from didyma.refimpl.ir.loop import (
    Allocate,
    Assert,
    Atomic,
    AttrStmt,
    Barrier,
    Binary,
    Block,
    BlockRealize,
    BufferRealize,
    Call,
    Chain,
    Compute,
    Const,
    Evaluate,
    Exchange,
    Expr,
    ExternalAllocate,
    ExternalCall,
    Fold,
    For,
    Free,
    If,
    Let,
    LetExpr,
    Load,
    LoopKind,
    PlacementAllocate,
    Prefetch,
    ProducerRealize,
    Return,
    Scope,
    Stmt,
    Store,
    Var,
    While,
    Yield,
)
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import certain_children, stmts, subexprs

WideKey: TypeAlias = tuple[str, Expr]


@dataclass(slots=True)
class Wide:
    """Buffer and group index ``x`` of the wide loads and stores of a loop, with their dtype.

    ``quotients`` are f32 that every lane computes, whose divisors all lanes share.
    """

    lanes: int
    loads: dict[WideKey, DType] = field(default_factory=dict[WideKey, DType])
    stores: dict[WideKey, DType] = field(default_factory=dict[WideKey, DType])
    quotients: tuple[Binary, ...] = ()


def wide_key(buffer: str, at: Sequence[Expr], lane_var: str, lanes: int) -> WideKey | None:
    """Return buffer and group ``x`` of an access ``buffer[x * lanes + v]``; None for others."""
    if len(at) != 1:
        return None
    match at[0]:
        case Binary("add", Binary("mul", x, Const(n, DType.I64)), Var(v)) if v == lane_var:
            return (buffer, x) if n == lanes else None
        case _:
            return None


def groups(body: Stmt) -> frozenset[str]:
    """Return the shared buffers of one axis in which vectorised loops store."""
    allocated = (s.buffer for s in stmts(body) if isinstance(s, Allocate))
    own = {b.name for b in allocated if b.scope is Scope.SHARED and len(b.shape) == 1}
    loops = (s for s in stmts(body) if isinstance(s, For) and s.kind is LoopKind.VECTORIZED)
    return frozenset(x.buffer for s in loops for x in stmts(s.body) if isinstance(x, Store)) & own


def find(loop: For, vectors: frozenset[str]) -> Wide | None:
    """Return the accesses to widen; None if there are none or the loop has other statements.

    ``vectors`` are the one-dimensional buffers in device memory.
    """
    if not isinstance(loop.extent, Const) or not _is_simple(loop.body):
        return None
    lanes = int(loop.extent.value)
    if lanes not in WIDTHS:
        return None
    v, flat = loop.var.name, list(_flat(loop.body))
    inner = {v} | {s.var.name for s in flat if isinstance(s, Let)}
    every = [e for s in flat for part in _parts(s) for e in subexprs(part)]
    inner |= {e.var.name for e in every if isinstance(e, LetExpr)}
    loaded = {e.buffer for e in every if isinstance(e, Load)}
    stored = [s.buffer for s in flat if isinstance(s, Store)]

    def outside(key: WideKey | None) -> bool:
        if key is None or key[0] not in vectors:
            return False
        return not any(isinstance(e, Var) and e.name in inner for e in subexprs(key[1]))

    wide = Wide(lanes)
    certain = list[Expr]()
    for s in flat:
        for e in (below := _certain(s)):
            if not isinstance(e, Load):
                continue
            if e.buffer not in stored and outside(key := wide_key(e.buffer, e.index, v, lanes)):
                assert key is not None
                wide.loads[key] = e.dtype
        certain += below
        if (
            isinstance(s, Store)
            and s.buffer not in loaded
            and stored.count(s.buffer) == 1
            and outside(key := wide_key(s.buffer, s.index, v, lanes))
        ):
            assert key is not None
            wide.stores[key] = s.value.dtype
    wide.quotients = tuple(_quotients(certain, v, inner, stored))
    return wide if wide.loads or wide.stores else None


def _quotients(
    certain: Sequence[Expr], v: str, inner: Set[str], stored: Sequence[str]
) -> Iterator[Binary]:
    """Yield f32 divided in each lane by a variable from outside, which may be done in advance."""
    found = set[Expr]()
    for e in certain:
        match e:
            case Binary("div", above, Var(name, DType.F32)) if name not in inner:
                below = subexprs(above)
                names = {x.name for x in below if isinstance(x, Var)}
                buffers = {x.buffer for x in below if isinstance(x, Load)}
                alone = names.isdisjoint(inner - {v}) and buffers.isdisjoint(stored)
                if v in names and alone and e not in found:
                    found.add(e)
                    yield e
            case _:
                pass


def _is_simple(s: Stmt) -> bool:
    match s:
        case Block(body):
            return all(_is_simple(b) for b in body)
        case Let(body=body):
            return _is_simple(body)
        case Store():
            return True
        case (
            For() | While() | If() | Atomic() | Allocate() | PlacementAllocate() | Free()
            | ExternalCall() | Call() | Barrier() | Assert() | Fold() | Yield() | BlockRealize()
            | Evaluate() | Prefetch() | AttrStmt() | Exchange() | Chain()
            | BufferRealize() | Compute() | ProducerRealize() | ExternalAllocate() | Return()
        ):  # fmt: skip
            return False
        case _:
            assert_never(s)


def _flat(s: Stmt) -> Iterator[Let | Store]:
    """Yield the statements of a simple body in order."""
    if isinstance(s, Block):
        for b in s.body:
            yield from _flat(b)
    elif isinstance(s, Let):
        yield s
        yield from _flat(s.body)
    elif isinstance(s, Store):
        yield s


def _parts(s: Let | Store) -> tuple[Expr, ...]:
    return (s.value,) if isinstance(s, Let) else (*s.index, s.value)


def _certain(s: Let | Store) -> list[Expr]:
    """Return the expressions that are evaluated whatever the values are, parents first."""
    found, todo = list[Expr](), list(_parts(s)[::-1])
    while todo:
        found.append(e := todo.pop())
        if isinstance(e, (Var, Const)):
            continue
        parts = certain_children(e)
        if isinstance(e, Binary) and e.op in ("and", "or") and e.dtype is DType.BOOL:
            parts = parts[:1]  # C may skip the second
        todo += parts[::-1]
    return found
