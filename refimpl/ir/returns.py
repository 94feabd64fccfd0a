"""Let functions store the number that they return, in an output of their own."""

from __future__ import annotations

from dataclasses import replace

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.expand import declared
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.walk import map_stmt

NAME = "returned"  # of the output, where a function has no such name


def without_returns(f: ir.PrimFunc) -> ir.PrimFunc:
    """Return a function that stores the number in its last parameter, one element without axes."""
    if f.returns is None:
        return f
    result = ir.Buffer(Names((*f.names, *declared(f.body))).fresh(NAME), f.returns, ())

    def stored(s: ir.Stmt) -> ir.Stmt:
        if isinstance(s, ir.Return):
            return ir.Store(result.name, (), s.value)
        return map_stmt(s, lambda e: e, stored)

    return replace(
        f,
        params=(*f.params, result),
        outputs=(*f.outputs, result.name),
        body=stored(f.body),
        returns=None,
    )
