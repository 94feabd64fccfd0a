"""What a disagreement's smallest graph does: the ops, and what its kernels compute.

Two disagreements of one cause have a trait in common, such as the maximum of two numbers, which
the ops ``maximum``, ``max`` and ``max_pool`` all come down to, or an axis of three elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from didyma.codegen.pipeline import Compiled
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.loop import (
    Atomic,
    Binary,
    Cast,
    Compare,
    Expr,
    For,
    Intrinsic,
    Load,
    LoopKind,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Unary,
)
from didyma.refimpl.ir.walk import expr_children, stmt_exprs, stmts

SERIAL = "a serial loop"
LEAST_SIZE = 3  # axes of 1 and 2 are left in most graphs that are shrunk

_COMMON = {"f32", "f64", "i32", "i64", "bool"}


def of_types(m: Module, env: Mapping[str, int]) -> frozenset[str]:
    """Return sizes of tensors that no shrinking took away, and dtypes that few graphs have."""
    types = [p.type for p in m.entry.params] + [t for n in m.entry.nodes for t in n.types]
    known = [t for t in types if env.keys() >= set(dims.free(t.shape))]
    shapes = [dims.values(t.shape, env) for t in known]
    found = {f"an axis of {n}" for shape in shapes for n in shape if n >= LEAST_SIZE}
    if any(math.prod(shape) > LEAST_SIZE for shape in shapes):
        found.add(f"more than {LEAST_SIZE} elements")
    return frozenset(found | {str(t.dtype) for t in types} - _COMMON)


def of_kernels(c: Compiled, function: str) -> frozenset[str]:
    """Return the ops of a compiled function, and what its loops compute; of all if it is none."""
    table = {f.name: f for f in c.fused.functions}
    chosen: list[Function] = [table[function]] if function in c.loops else list(table.values())
    loops = [c.loops[f.name] for f in chosen if f.name in c.loops]
    ops = {n.op for f in chosen for n in f.nodes if n.op not in ("call", "constant")}
    return frozenset(ops).union(*(_computed(f) for f in loops))


def _computed(f: PrimFunc) -> Iterator[str]:
    for s in stmts(f.body):
        if isinstance(s, For) and s.kind is LoopKind.SERIAL:
            yield SERIAL
        if isinstance(s, Atomic):
            yield f"{s.op} of numbers"
        for e in _values(s):
            yield from _operations(e)


def _values(s: Stmt) -> tuple[Expr, ...]:
    """Expressions whose values are results: those that tell places and extents are not."""
    if isinstance(s, For):
        return ()
    return (s.value,) if isinstance(s, Store) else stmt_exprs(s)


def _operations(e: Expr) -> Iterator[str]:
    match e:
        case Load():
            return
        case Binary(op) | Unary(op):
            yield f"{op} of numbers"
        case Compare():
            yield "a comparison"
        case Select():
            yield "a selection"
        case Intrinsic(name):
            yield f"{name} of numbers"
        case Cast(_, dtype):
            yield f"a conversion to {dtype}"
        case _:
            pass
    for child in expr_children(e):
        yield from _operations(child)
