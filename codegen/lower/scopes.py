"""Scopes of lowered code: bodies of nests and folds, and sides of a ``Select``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from didyma.codegen.lower.build import Scalar
from didyma.refimpl.ir.loop import Expr


@dataclass(slots=True, eq=False)
class CodeScope:
    """A stretch of code whose beginning dominates the rest of it; ``parent`` encloses it."""

    parent: CodeScope | None
    depth: int
    guard: Expr | None = None  # the condition, of a side of a Select
    holds: bool = True  # the side taken where the condition holds
    loops: frozenset[str] = frozenset()  # variables of the loop that this is the body of
    fold: Scalar | None = None  # whose body this is
    values: list[Scalar] = field(default_factory=list[Scalar])  # bound here, last defined first
    sides: dict[tuple[int, bool], CodeScope] = field(
        default_factory=dict[tuple[int, bool], "CodeScope"]
    )

    def region(self) -> CodeScope:
        """Return the innermost enclosing scope of statements."""
        p = self
        while p.guard is not None:
            assert p.parent is not None
            p = p.parent
        return p


def common(a: CodeScope, b: CodeScope) -> CodeScope:
    """Return the innermost scope that holds both."""
    while a is not b:
        if a.depth >= b.depth:
            assert a.parent is not None
            a = a.parent
        else:
            assert b.parent is not None
            b = b.parent
    return a


def below(p: CodeScope, top: CodeScope) -> CodeScope:
    """Return the child of ``top`` that is or contains ``p``."""
    while p.parent is not top:
        assert p.parent is not None
        p = p.parent
    return p


def by_child(uses: Sequence[CodeScope], top: CodeScope) -> dict[CodeScope, list[CodeScope]]:
    """Group uses below a scope by the child that contains them."""
    found: dict[CodeScope, list[CodeScope]] = {}
    for u in uses:
        found.setdefault(below(u, top), []).append(u)
    return found


def needed(uses: Sequence[CodeScope], top: CodeScope) -> bool:
    """Return whether every path through a scope reaches one of the uses."""
    if any(u is top for u in uses):
        return True
    below = by_child(uses, top)
    sure = {k for k, side in top.sides.items() if side in below and needed(below[side], side)}
    return any((select, not holds) in sure for select, holds in sure)


def outermost(places: Sequence[CodeScope]) -> list[CodeScope]:
    """Return the scopes that lie in none of the others.

    The others may be guarded by the very value whose uses these are.
    """
    all_ = set(places)

    def inside_another(p: CodeScope) -> bool:
        up = p.parent
        while up is not None and up not in all_:
            up = up.parent
        return up is not None

    return [p for p in dict.fromkeys(places) if not inside_another(p)]
