"""The law of exchanges.

| law | says |
|---|---|
| L-exchange | an exchange is of numbers, with a thread that there is, in the same warp |
"""

from __future__ import annotations

from didyma.refimpl.ir.loop import Exchange, Stmt
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.types import INTS, DType
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify.scalars import Scalars

_EXCHANGED = (DType.F64, DType.F32, *INTS, DType.BOOL)


def verify_value(scalars: Scalars, s: Exchange, target: Target) -> None:
    """Check what an exchange gives, and that its partner is in the warp; bind its variable."""
    dtype = scalars.expr(s.value)
    if dtype not in _EXCHANGED or not 1 <= s.mask < target.warp:
        want = f"{', '.join(_EXCHANGED)}, by a number from 1 to {target.warp - 1}"
        raise scalars.broken("L-exchange", s, f"{dtype} by {s.mask}", want)
    scalars.bind(s.var, dtype, s)


def verify_partners(scalars: Scalars, body: Stmt, threads: int) -> None:
    """Check that each thread of a block has a partner at every exchange."""
    for s in (s for s in stmts(body) if isinstance(s, Exchange)):
        group = 1 << s.mask.bit_length()
        if threads % group:
            got = f"a block of {threads} threads"
            raise scalars.broken("L-exchange", s, got, f"a multiple of {group}")
