"""What a disagreement's smallest graph does: the ops, and what its kernels compute.

Two disagreements of one cause have a trait in common, such as the maximum of two numbers, which
the ops ``maximum``, ``max`` and ``max_pool`` all come down to, or an axis of three elements.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

from didyma.codegen.pipeline import Compiled
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import COMPILER, CONTROL, NO_INLINE, Function, Module
from didyma.refimpl.ir.kernel import Kernel, loops
from didyma.refimpl.ir.loop import (
    Allocate,
    Atomic,
    Barrier,
    Binary,
    Cast,
    Chain,
    Compare,
    Exchange,
    Expr,
    For,
    Intrinsic,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Select,
    Stmt,
    Store,
    Unary,
)
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import expr_children, stmt_exprs, stmts

SERIAL = "a serial loop"
SYMBOLIC = "a symbolic size"
LEAST_SIZE = 3  # axes of 1 and 2 are left in most graphs that are shrunk

_COMMON = {"f32", "f64", "i32", "i64", "bool"}


def of_module(m: Module, env: Mapping[str, int]) -> frozenset[str]:
    """Return what shrinking could not take away of a graph: sizes, rare dtypes, control flow."""
    types = [p.type for p in m.entry.params] + [t for n in m.entry.nodes for t in n.types]
    known = [t for t in types if env.keys() >= set(dims.free(t.shape))]
    shapes = [dims.values(t.shape, env) for t in known]
    found = {f"an axis of {n}" for shape in shapes for n in shape if n >= LEAST_SIZE}
    if any(math.prod(shape) > LEAST_SIZE for shape in shapes):
        found.add(f"more than {LEAST_SIZE} elements")
    if m.dims:
        found.add(SYMBOLIC)
    found |= {f"a node {n.op}" for f in m.functions for n in f.nodes if n.op in CONTROL}
    if any({NO_INLINE, COMPILER} & f.attr.keys() for f in m.functions):
        found.add("a function that is called")
    return frozenset(found | {str(t.dtype) for t in types} - _COMMON)


def of_kernels(c: Compiled, function: str, *, scheduled: bool = False) -> frozenset[str]:
    """Return the ops of a compiled function, and what its loops do; of all if it is none.

    ``scheduled`` asks for what its kernels do besides.
    """
    table = {f.name: f for f in c.fused.functions}
    chosen: list[Function] = [table[function]] if function in c.loops else list(table.values())
    lowered = [c.loops[f.name] for f in chosen if f.name in c.loops]
    kernels = [loops(k) for f in chosen for k in c.kernels.get(f.name, ())] if scheduled else []
    ops = {n.op for f in chosen for n in f.nodes if n.op not in ("call", "constant")}
    return frozenset(ops).union(*map(_computed, lowered), *map(_scheduled, kernels))


def of_kernel(k: Kernel) -> frozenset[str]:
    """Return what a kernel computes, and what its schedule does."""
    f = loops(k)
    return frozenset((*_computed(f), *_scheduled(f)))


def of_error(e: Exception) -> frozenset[str]:
    """Return the function that raised an error; of a broken law, the one that asked for it.

    It is empty if only the list of stages did: a law that the result of a stage breaks.
    """
    own = ("codegen",) if isinstance(e, DidymaError) else ("codegen", "refimpl")
    sites: list[str] = []
    for frame in traceback.extract_tb(e.__traceback__):
        parts = Path(frame.filename).parts
        package = next((p for p in reversed(parts) if p in own), "")
        if package and parts[-1] != "pipeline.py" and not frame.name.startswith("<"):
            path = "/".join(parts[len(parts) - parts[::-1].index(package) - 1 :])
            sites.append(f"raised in {path}:{frame.name}")
    return frozenset(sites[-1:])


def _scheduled(k: PrimFunc) -> Iterator[str]:
    """Yield what a schedule adds to loops."""
    for s in stmts(k.body):
        if isinstance(s, For) and s.kind is LoopKind.VECTORIZED:
            yield "a wide access"
        if isinstance(s, Barrier):
            yield "a barrier"
        if isinstance(s, Exchange):
            yield "an exchange"
        if isinstance(s, Chain):
            yield "a chain"
        if isinstance(s, Allocate) and s.buffer.scope is Scope.SHARED:
            yield "shared memory"


def _computed(f: PrimFunc) -> Iterator[str]:
    for s in stmts(written_out(f).body):
        if isinstance(s, For) and s.kind is LoopKind.SERIAL:
            yield SERIAL
        if isinstance(s, Atomic):
            yield f"{s.op} of numbers"
        for e in _values(s):
            yield from _operations(e)
        for e in _indices(s):
            yield from _index_operations(e)


def _values(s: Stmt) -> tuple[Expr, ...]:
    """Expressions whose values are results: those that tell places and extents are not."""
    if isinstance(s, For):
        return ()
    return (s.value,) if isinstance(s, Store) else stmt_exprs(s)


def _indices(s: Stmt) -> Iterator[Expr]:
    """Yield the indices of what a statement stores and loads."""
    if isinstance(s, Store | Atomic):
        yield from s.index
    for e in stmt_exprs(s):
        yield from _load_indices(e)


def _load_indices(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Load):
        yield from e.index
    for child in expr_children(e):
        yield from _load_indices(child)


def _index_operations(e: Expr) -> Iterator[str]:
    """Yield the operations of an index, but additions and multiplications, which all have."""
    match e:
        case Load():
            return
        case Binary(op) if e.dtype.is_float or op not in ("add", "mul"):
            yield f"{op} of numbers"
        case Select():
            yield "a selection"
        case _:
            pass
    for child in expr_children(e):
        yield from _index_operations(child)


def _operation(op: str, dtype: DType) -> str:
    """Return the name of an operation; of unsigned integers the two ways to round are one."""
    unsigned = dtype.is_int and not dtype.is_signed
    return op.replace("floor", "trunc") if unsigned and op in ("floordiv", "floormod") else op


def _operations(e: Expr) -> Iterator[str]:
    match e:
        case Load():
            return
        case Binary(op) | Unary(op):
            yield f"{_operation(op, e.dtype)} of numbers"
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
