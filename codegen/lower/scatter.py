"""Scatter seen from the result: which updates meet an element."""

from __future__ import annotations

from codegen.lower.scalar import combine, identity
from refimpl.ir import expr as ix
from refimpl.ir.loop import Compare, Expr, Var
from refimpl.ops.spec import Fold, Index, Scatter


def gathered(rule: Scatter, index: Index) -> Fold:
    """Return a fold over the updates that may meet the element at ``index``.

    Along an axis where the target's index is the update's own, the update is known; the fold
    runs over the other axes.  With ``set`` it looks for the last update that meets.
    """
    probes = tuple(Var(f"probe {n}") for n in range(len(rule.extents)))
    where, _ = rule.target(probes)
    known = {probes.index(w): i for w, i in zip(where, index, strict=True) if w in probes}
    free = [n for n in range(len(probes)) if n not in known]
    exists = ix.all_of(ix.compare("lt", i, rule.extents[n]) for n, i in known.items())
    extents = tuple(rule.extents[n] for n in free)

    def update_at(ks: Index) -> Index:
        found = known | dict(zip(free, ks, strict=True))
        return tuple(found[n] for n in range(len(probes)))

    def where_meets(u: Index, then: Expr, other: Expr) -> Expr:
        at, counts = rule.target(u)
        same = (Compare("eq", a, i) for a, i in zip(at, index, strict=True) if a != i)
        return ix.select(exists, ix.select(ix.all_of([counts, *same]), then, other), other)

    def position(ks: Index) -> Expr:
        return where_meets(update_at(ks), ix.flatten(ks, extents), ix.index(-1))

    def last(found: Expr) -> Expr:
        u = update_at(ix.unflatten(found, extents))
        return ix.select(Compare("ge", found, ix.ZERO), rule.update(u), rule.base(index))

    if rule.op == "set":
        return Fold("max", extents, position, last)
    op = rule.op

    def term(ks: Index) -> Expr:
        u = update_at(ks)
        value = rule.update(u)
        return where_meets(u, value, identity(op, value.dtype))

    def combined(total: Expr) -> Expr:
        return combine(op, rule.base(index), total)

    return Fold(op, extents, term, combined)
