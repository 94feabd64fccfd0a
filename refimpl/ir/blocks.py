"""Remove blocks: each becomes its body, under a condition and with its variables bound."""

from __future__ import annotations

from dataclasses import replace

from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.walk import map_stmt, stmts, substitute


def without_blocks(f: ir.PrimFunc) -> ir.PrimFunc:
    """Return a function with conditions and variables in place of blocks, also in its functions.

    Regions are forgotten.
    """
    if f.functions:
        f = replace(f, functions=tuple(map(without_blocks, f.functions)))
    if not any(isinstance(s, ir.BlockRealize) for s in stmts(f.body)):
        return f
    return replace(f, body=_flat(f.body))


def _flat(s: ir.Stmt) -> ir.Stmt:
    s = map_stmt(s, lambda e: e, _flat)
    return _written_out(s) if isinstance(s, ir.BlockRealize) else s


def _written_out(s: ir.BlockRealize) -> ir.Stmt:
    body = s.body
    if s.init is not None:
        first = [v.var for v in s.vars if v.kind is ir.IterKind.REDUCE]
        begins = ix.all_of(ir.Compare("eq", v, ix.ZERO) for v in first)
        body = ir.Block((s.init if begins == ix.TRUE else ir.If(begins, s.init), body))
    plain = {v.var.name: v.value for v in s.vars if isinstance(v.value, ir.Var | ir.Const)}
    body = substitute(body, plain)
    for v in reversed(s.vars):
        if v.var.name not in plain:
            body = ir.Let(v.var, v.value, body)
    return body if s.where == ix.TRUE else ir.If(s.where, body)
