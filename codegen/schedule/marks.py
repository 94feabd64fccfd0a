"""Folds of integers whose terms have places, by atomic updates: their order does not matter.

A table has an element for each place.  A thread for each term updates one, and then the nest reads
the table in place of its fold.  So the last of the updates that meet an element is found, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from didyma.codegen.schedule.folds import needed
from didyma.codegen.schedule.meeting import Meeting, size_of
from didyma.codegen.schedule.nest import NestFacts
from didyma.refimpl.ir.loop import (
    ATOMIC_OPS,
    Atomic,
    AtomicOp,
    Buffer,
    Const,
    Expr,
    For,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import subexprs

_OPS: Mapping[str, AtomicOp] = MappingProxyType({op: op for op in ATOMIC_OPS})


def suit(facts: NestFacts, m: Meeting) -> bool:
    """Return whether a table suits a fold: one for lines of places, of a dtype with atomics."""
    dtype, start = m.acc.var.dtype, m.acc.start
    if dtype.is_float or dtype not in facts.target.atomics or m.op not in _OPS:
        return False
    used = needed(m.bound, subexprs(m.value))
    apart = {v.name for n, v in enumerate(m.nest.index) if n not in m.apart}
    return isinstance(start, Const) and not used & apart


def functions(facts: NestFacts, m: Meeting) -> tuple[Buffer, PrimFunc, PrimFunc]:
    """Return the table, and the functions that clear and update it."""
    func, dtype = facts.func, m.acc.var.dtype
    sizes = [size_of(facts, e) for e in (*m.line_sizes, m.size)]
    name = facts.names.fresh(f"{m.acc.var.name}_met")
    table = Buffer(name, dtype, tuple(d for d in sizes if d is not None))
    clear = _nested((*m.lines, m.own), (*m.line_sizes, m.size), _cleared(m, table))
    update = Atomic(_OPS[m.op], name, (*m.lines, m.place), m.value)
    met = _nested((*m.lines, m.k), (*m.line_sizes, m.count), m.where_met(m.inside, update))
    params = tuple(b for b in func.params if b.name not in func.outputs)
    return (
        table,
        replace(func, params=(table,), outputs=(name,), body=clear),
        replace(func, params=(*params, table), outputs=(name,), body=met),
    )


def _cleared(m: Meeting, table: Buffer) -> Stmt:
    return Store(table.name, (*m.lines, m.own), m.acc.start)


def _nested(index: Sequence[Var], extents: Sequence[Expr], body: Stmt) -> Stmt:
    for v, e in reversed(list(zip(index, extents, strict=True))):
        body = For(v, e, body, LoopKind.PARALLEL)
    return body
