"""How folds combine terms: by an operation, or by keeping the best value and its position."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.codegen.lower.scalar import combine
from didyma.refimpl.ir.loop import Binary, Combiner, Compare, Expr, Intrinsic, Select, Unary, Var
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ops.spec import FoldOp


def combiners(
    op: FoldOp, accs: Sequence[Var], wish: str, names: Names
) -> tuple[Combiner, Combiner | None]:
    """Return the combiner of a fold and, where it is another, how it merges parts.

    ``accs`` is the running value, or for argmin and argmax the best value and its position; names
    of operands begin with ``wish``.
    """
    if op == "argmin" or op == "argmax":
        best, at = accs
        return _first_best(op, best, at, wish, names)
    (acc,) = accs
    term = Var(names.fresh(f"{wish}_term"), acc.dtype)
    return Combiner((term,), (combine(op, acc, term),)), None


def _first_best(
    op: FoldOp, best: Var, at: Var, wish: str, names: Names
) -> tuple[Combiner, Combiner]:
    """Keep the first best value and its position.  NaN is better than any number.

    Terms come in order, and of two parts with equal values the lower position wins.
    """
    new, place = (
        Var(names.fresh(f"{wish}_{n}"), v.dtype) for n, v in (("new", best), ("place", at))
    )
    combine = _chosen(wins(op, new, best), (new, place), (best, at))
    other, other_at = (
        Var(names.fresh(f"{wish}_{n}"), v.dtype) for n, v in (("other", best), ("elsewhere", at))
    )
    ties: Expr = Compare("eq", other, best)
    if best.dtype.is_float:
        ties = Binary("or", ties, Binary("and", _is_nan(other), _is_nan(best)))
    first = Binary("and", ties, Compare("lt", other_at, at))
    before = Binary("or", wins(op, other, best), first)
    return combine, _chosen(before, (other, other_at), (best, at))


def _chosen(wins: Expr, new: tuple[Var, ...], old: tuple[Var, ...]) -> Combiner:
    """Return the combiner that takes new values where they win, and the old ones elsewhere."""
    return Combiner(new, tuple(Select(wins, n, o) for n, o in zip(new, old, strict=True)))


def wins(op: FoldOp, new: Expr, old: Expr) -> Expr:
    """Return whether a value is better than another."""
    better: Expr = Compare("lt" if op == "argmin" else "gt", new, old)
    if not new.dtype.is_float:
        return better
    return Binary("or", better, Binary("and", _is_nan(new), Unary("not", _is_nan(old))))


def _is_nan(e: Expr) -> Expr:
    return Intrinsic("isnan", (e,))
