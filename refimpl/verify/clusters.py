"""The laws of clusters: blocks that run at once, and touch each other's shared memory.

| law | says |
|---|---|
| L-cluster | the target has so many blocks in a cluster, whose buffers have a part for each |
| L-alone | no block touches the part of one that may not have begun, or may have ended |

A part is the elements of a buffer of scope ``cluster`` that have one rank for their first index.
Before the first barrier of the cluster some blocks may not run yet, after the last some may have
ended; what a block then touches has the variable of the loop over the ranks for its first index.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.text import show_expr, show_line
from didyma.refimpl.ir.walk import stmt_children, stmt_exprs, subexprs
from didyma.refimpl.verify.scalars import Scalars


class _Path(NamedTuple):
    """What blocks do to each other's parts on the way through a statement.

    ``first`` is a statement that may touch another's part before any barrier of the cluster, and
    ``last`` one that may after all of them.  ``met`` says that such a barrier surely comes.
    """

    first: ir.Stmt | None
    met: bool
    last: ir.Stmt | None


@dataclass(slots=True)
class Clusters:
    """Checks the clusters of one function: the loop over its ranks, and the buffers of all."""

    scalars: Scalars
    target: Target
    rank: ir.For | None = None
    made: dict[str, tuple[ir.Stmt, ir.Buffer]] = field(
        default_factory=dict[str, tuple[ir.Stmt, ir.Buffer]]
    )

    def ranks(self, s: ir.For, *, shared: int) -> None:
        """Check a loop over the ranks, around which blocks share so many bytes already."""
        count = int(s.extent.value) if isinstance(s.extent, ir.Const) else 0
        most = self.target.cluster
        if count & (count - 1) or not 1 <= count <= most:
            got = f"{show_expr(s.extent)} blocks"
            want = f"a power of two, at most {most}, as {self.target.name} has"
            raise self.scalars.broken("L-cluster", s, got, want)
        if own := shared - sum(_part(b) for _, b in self.made.values()):
            got = f"{own} bytes of one block, made around it"
            raise self.scalars.broken("L-cluster", s, got, "shared buffers made inside")
        self.rank = s

    def make(self, s: ir.Stmt, b: ir.Buffer, around: Collection[str] | None) -> None:
        """Check where a buffer of the cluster is made: ``around`` are axes, None if not alone."""
        wrong = around is None or any(not axis.startswith("blockIdx") for axis in around)
        if wrong or not isinstance(s, ir.Allocate) or not b.shape:
            want = f"a buffer of one axis at least, made between the grid and {ir.RANK}"
            raise self.scalars.broken("L-cluster", s, f"`{show_line(s)}` here", want)
        self.made[b.name] = s, b

    def barrier(self, s: ir.Stmt, under: str) -> None:
        """Check a barrier of the cluster, on the way to which blocks may disagree ``under`` one."""
        if self.rank is None:
            got, want = "no cluster", f"a loop on {ir.RANK} around it"
            raise self.scalars.broken("L-cluster", s, got, want)
        if under:
            want = "nothing around it that blocks of a cluster may disagree on"
            raise self.scalars.broken("L-barrier", s, f"under `{under}`", want)

    def verify(self, body: ir.Stmt) -> None:
        """Check that buffers have a part for each block, and when others touch it."""
        extent = None if self.rank is None else self.rank.extent
        count = extent.value if isinstance(extent, ir.Const) else 0
        for s, b in self.made.values():
            if b.shape[0] != count:
                got = f"{b.shape[0]} parts for a cluster of {count}"
                raise self.scalars.broken("L-cluster", s, got, "a part for each block")
        if not self.made:
            return  # there is no part to touch
        path = self._path(body)
        if path.first is not None:
            got, want = "before a barrier of the cluster", "one before it, so that all have begun"
            raise self.scalars.broken("L-alone", path.first, got, want)
        if path.last is not None:
            got, want = "after the last barrier of the cluster", "one after it, so that none ends"
            raise self.scalars.broken("L-alone", path.last, got, want)

    def _path(self, s: ir.Stmt) -> _Path:
        if isinstance(s, ir.Barrier):
            return _Path(None, s.scope is ir.Scope.CLUSTER, None)
        own = s if self._touches(s) else None
        parts = [self._path(c) for c in stmt_children(s)]
        if isinstance(s, ir.If):
            met = len(parts) > 1 and all(p.met for p in parts)
            first = next((p.first for p in parts if p.first is not None), None)
            last = next((p.last for p in parts if p.last is not None), None)
            return _then(_Path(own, met=False, last=own), _Path(first, met, last))
        if isinstance(s, ir.While) or (isinstance(s, ir.For) and not _runs(s)):
            parts = [p._replace(met=False) for p in parts]
        if isinstance(s, ir.Fold):  # whose step, the first of them, may not run
            parts = [parts[0]._replace(met=False), *parts[1:]]
        path = _Path(own, met=False, last=own)
        for p in parts:
            path = _then(path, p)
        return path

    def _touches(self, s: ir.Stmt) -> bool:
        """Return whether a statement itself touches a part that is not surely its block's own."""
        found = [(s.buffer, s.index)] if isinstance(s, ir.Store | ir.Atomic | ir.Prefetch) else []
        inside = [x for e in stmt_exprs(s) for x in subexprs(e)]
        found += [(x.buffer, x.index) for x in inside if isinstance(x, ir.Load)]
        if isinstance(s, ir.Call):
            return any(name in self.made for name in s.args)
        own = None if self.rank is None else self.rank.var
        return any(name in self.made and index[0] != own for name, index in found)


def _then(a: _Path, b: _Path) -> _Path:
    """Return what comes of two statements, one after the other."""
    first = a.first if a.first is not None or a.met else b.first
    last = b.last if b.last is not None or b.met else a.last
    return _Path(first, a.met or b.met, last)


def _runs(s: ir.For) -> bool:
    """Return whether a loop surely has an iteration."""
    return s.kind is ir.LoopKind.BOUND or (isinstance(s.extent, ir.Const) and s.extent.value > 0)


def _part(b: ir.Buffer) -> int:
    nbytes = b.dtype.nbytes
    for d in b.shape[1:]:
        nbytes *= d if isinstance(d, int) else 0
    return nbytes
