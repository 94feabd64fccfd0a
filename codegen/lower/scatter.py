"""Scatter as a gather: fold the updates that meet one element of the result."""

from __future__ import annotations

from didyma.codegen.lower.scalar import identity
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import Compare, Const, Expr, Var
from didyma.refimpl.ops.spec import Fold, Index, Scatter


def gathered(rule: Scatter, index: Index, shape: Index) -> tuple[Fold, Expr]:
    """Return a fold over the updates that may meet the element at ``index``, and its start.

    ``shape`` is that of the result.

    Along an axis where the target's index is the update's own, the update is known; the fold
    runs over the other axes.  With ``set`` it looks for the last update that meets.
    """
    probes = tuple(Var(f"probe {n}") for n in range(len(rule.extents)))
    where, _ = rule.target(probes)
    known = {probes.index(w): i for w, i in zip(where, index, strict=True) if w in probes}
    free = [n for n in range(len(probes)) if n not in known]
    shorter = {n: i for n, i in known.items() if rule.extents[n] != shape[where.index(probes[n])]}
    exists = ix.all_of(ix.compare("lt", i, rule.extents[n]) for n, i in shorter.items())
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
        return Fold("max", extents, position, last), ix.index(-1)
    op = rule.op

    def term(ks: Index) -> Expr:
        u = update_at(ks)
        value = rule.update(u)
        # 0 + -0 is 0, so what changes nothing in a sum is -0.
        is_sum = op == "add" and value.dtype.is_float
        nothing = Const(-0.0, value.dtype) if is_sum else identity(op, value.dtype)
        return where_meets(u, value, nothing)

    return Fold(op, extents, term, _same), rule.base(index)


def _same(total: Expr) -> Expr:
    return total
