"""The laws of what threads exchange in a warp, and of what blocks hand on to those after them.

| law | says |
|---|---|
| L-exchange | an exchange is of numbers, with a thread that there is, in the same warp |
| L-chain | each block of the grid chains numbers once, by buffers that nothing else touches |
"""

from __future__ import annotations

from collections.abc import Iterator

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.types import INTS, DType
from didyma.refimpl.ir.walk import exprs, stmts
from didyma.refimpl.verify.scalars import Scalars

_CHAINED = (DType.F64, DType.F32, *INTS)
_EXCHANGED = (*_CHAINED, DType.BOOL)


def verify_value(scalars: Scalars, s: ir.Exchange | ir.Chain, target: Target) -> None:
    """Check what is given, and to whom; bind the variable of what is taken."""
    dtype = scalars.expr(s.value)
    if isinstance(s, ir.Chain):
        _verify_chain(scalars, s, dtype, target)
    elif dtype not in _EXCHANGED or not 1 <= s.mask < target.warp:
        want = f"{', '.join(_EXCHANGED)}, by a number from 1 to {target.warp - 1}"
        raise scalars.broken("L-exchange", s, f"{dtype} by {s.mask}", want)
    scalars.bind(s.var, dtype, s)


def _verify_chain(scalars: Scalars, s: ir.Chain, dtype: DType, target: Target) -> None:
    start = scalars.expr(s.start)
    if dtype not in _CHAINED or start is not dtype:
        want = f"both of one dtype, one of {', '.join(_CHAINED)}"
        raise scalars.broken("L-chain", s, f"{dtype} from {start}", want)
    if not target.waits:
        want = "a target whose blocks may wait for others"
        raise scalars.broken("L-chain", s, f"target {target.name}", want)
    for name, held in ((s.states, DType.I32), (s.totals, dtype)):
        b = scalars.buffer(name, s)
        scalars.writable(s, name)
        if b.dtype is not held or len(b.shape) != 1 or b.scope is not ir.Scope.GLOBAL:
            got = f"{name}, {b.scope} {b.dtype} of {len(b.shape)} axes"
            raise scalars.broken("L-chain", s, got, f"{held} along one axis of device memory")


def verify_partners(scalars: Scalars, body: ir.Stmt, threads: int, warp: int) -> None:
    """Check that each thread of a block has a partner at every exchange; and the chain of blocks.

    A chain needs the threads of a ``warp``.
    """
    for s in stmts(body):
        if isinstance(s, ir.Exchange) and threads % (group := 1 << s.mask.bit_length()):
            got = f"a block of {threads} threads"
            raise scalars.broken("L-exchange", s, got, f"a multiple of {group}")
    chains = [s for s in stmts(body) if isinstance(s, ir.Chain)]
    for s in chains:
        if s not in _once(body) or len(chains) > 1:
            want = "one statement of a kernel, in no loop or condition"
            raise scalars.broken("L-chain", s, "a statement that a block may not run once", want)
        bound = {x.axis for x in stmts(body) if isinstance(x, ir.For)}
        if ir.AXES[0] not in bound or ir.RANK in bound or threads % warp:
            got = f"blocks of {threads} threads along {', '.join(sorted(bound - {''}))}"
            want = f"a grid along {ir.AXES[0]}, in no clusters, of blocks of whole warps"
            raise scalars.broken("L-chain", s, got, want)
        if other := _touching(body, s):
            got = f"{other}, which another statement touches"
            raise scalars.broken("L-chain", s, got, "buffers of its own")


def _once(s: ir.Stmt) -> Iterator[ir.Stmt]:
    """Yield the statements that each thread of a kernel runs once."""
    yield s
    match s:
        case ir.Block(body):
            for b in body:
                yield from _once(b)
        case ir.For(body=body, kind=ir.LoopKind.BOUND):
            yield from _once(body)
        case ir.Let() | ir.Exchange() | ir.Chain() | ir.Allocate() | ir.AttrStmt():
            yield from _once(s.body)
        case _:
            pass


def _touching(body: ir.Stmt, chain: ir.Chain) -> str:
    """Return a buffer of a chain that something else touches; empty if there is none."""
    own = {chain.states, chain.totals}
    found = {e.buffer for e in exprs(body) if isinstance(e, ir.Load)}
    for s in stmts(body):
        if isinstance(s, ir.Store | ir.Atomic | ir.Prefetch):
            found.add(s.buffer)
        elif isinstance(s, ir.Call):
            found.update(s.args)
    both = own & found
    return min(both, default="") if len(own) > 1 else chain.states
