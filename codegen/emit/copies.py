"""Copies from device to shared memory that a thread begins, and that run while it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from didyma.codegen.emit.intrinsics import COPIES, c_type
from didyma.codegen.emit.wide import wide_key
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir import facts
from didyma.refimpl.ir.loop import AttrStmt, Block, Const, Expr, For, Load, Stmt, Store
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import stmts

WIDEST = max(COPIES)


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of ``count`` neighbours: from a place in a buffer to one in another."""

    dtype: DType
    count: int
    to: tuple[str, tuple[Expr, ...]]
    source: tuple[str, tuple[Expr, ...]]

    @property
    def name(self) -> str:
        """The name of the function that begins it."""
        return f"cp_async{self.count * self.dtype.nbytes}_{c_type(self.dtype)}"


def begins(s: Stmt) -> TypeGuard[AttrStmt]:
    """Return whether what a statement stores may come later."""
    return isinstance(s, AttrStmt) and s.key == "copies" and s.value == facts.COPIES[0]


def targets(body: Stmt) -> frozenset[str]:
    """Return the buffers into which copies run."""
    inside = (x for s in stmts(body) if begins(s) for x in stmts(s.body))
    return frozenset(x.buffer for x in inside if isinstance(x, Store))


def of_store(s: Store) -> Copy | None:
    """Return the copy that a store makes; None if it is none of a size that copies have."""
    if not isinstance(s.value, Load) or s.value.dtype.nbytes not in COPIES:
        return None
    return Copy(s.value.dtype, 1, (s.buffer, s.index), (s.value.buffer, s.value.index))


def of_lanes(s: For) -> list[Copy]:
    """Return the copies that a vectorised loop makes; none unless all it does is such copies."""
    found = list[Copy]()
    for x in (b for b in stmts(s.body) if not isinstance(b, Block)):
        some = list(_of_lanes(s, x))
        if not some:
            return []
        found += some
    return found


def _of_lanes(s: For, x: Stmt) -> Iterator[Copy]:
    if not isinstance(x, Store) or not isinstance(x.value, Load) or not isinstance(s.extent, Const):
        return
    n, v, dtype = int(s.extent.value), s.var.name, x.value.dtype
    to = wide_key(x.buffer, x.index, v, n)
    source = wide_key(x.value.buffer, x.value.index, v, n)
    count = min(n, WIDEST // dtype.nbytes)
    if to is None or source is None or count * dtype.nbytes not in COPIES:
        return
    for first in range(0, n, count):
        ends = ((b, (ix.add(ix.mul(at, ix.index(n)), ix.index(first)),)) for b, at in (to, source))
        yield Copy(dtype, count, *ends)
