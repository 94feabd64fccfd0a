"""Serial loops whose rounds are lanes: those that do nothing but fold terms into registers.

In a loop like ``acc = acc + term`` the terms do not depend on each other.  They are computed at
once, along one more axis of lanes for each loop; ``acc`` then takes them one after another, in the
order of the rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from didyma.oracle.lanes.buffers import Local
from didyma.oracle.lanes.exprs import compile_expr
from didyma.oracle.lanes.site import Site
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.interp.scalar_ring import joined
from didyma.refimpl.ir.loop import (
    AttrStmt,
    Binary,
    Block,
    Expr,
    For,
    Let,
    LetExpr,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import stmt_exprs, stmts, subexprs

MOST_TERMS = 1 << 18  # at once: more of them leave the cache of a core
MOST_LANES = 1 << 14  # of more of them, the work of a round is more than what it takes to begin it


def terms(s: Store) -> tuple[Expr, ...]:
    """Return the term that a store folds into its element, or the factors of a product it adds.

    There are none where it stores anything else.
    """
    match s.value:
        case Binary("add", Load(buffer, index), Binary("mul", x, y)):
            found: tuple[Expr, ...] = (x, y)
        case Binary(_, Load(buffer, index), term):
            found = (term,)
        case _:
            return ()
    return found if (buffer, index) == (s.buffer, s.index) else ()


def only_folds(s: Stmt) -> bool:
    """Return whether a statement does nothing but fold terms into elements of buffers."""
    match s:
        case Store():
            return bool(terms(s))
        case Block(body):
            return bool(body) and all(isinstance(b, Store) and terms(b) for b in body)
        case Let(_, _, body) | AttrStmt(_, _, body):
            return only_folds(body)
        case For(_, _, body, LoopKind.SERIAL | LoopKind.UNROLLED):
            return only_folds(body)
        case _:
            return False


def at_once(site: Site, s: For) -> bool:
    """Return whether the rounds of a serial loop, and of those within, can be lanes here."""
    if not (site.sized and only_folds(s) and _apart(site, s)):
        return False
    sizes = [compile_expr(site, b.extent) for b in stmts(s) if isinstance(b, For)]
    if not all(n.known and n.uniform for n in sizes):
        return False
    rounds = math.prod(int(n.value) for n in sizes)
    lanes = math.prod(site.launch.lanes.shape)
    return lanes <= MOST_LANES and 1 < rounds <= MOST_TERMS // lanes


def _apart(site: Site, s: For) -> bool:
    """Return whether each store has a register of its own, which no round has another of or reads.

    The numbers of rounds are those of the loops, whatever the round.
    """
    nest, memory = stmts(s), site.frame.memory
    stores = [b for b in nest if isinstance(b, Store)]
    inside = [e for b in nest for root in _evaluated(b) for e in subexprs(root)]
    loads = [e for e in inside if isinstance(e, Load)]
    own = {b.var.name for b in (*nest, *inside) if isinstance(b, (For, Let, LetExpr))}
    targets = {b.buffer for b in stores}
    fixed = [i for b in stores for i in b.index]
    fixed += [i for e in loads if isinstance(memory[e.buffer], Local) for i in e.index]
    fixed += [b.extent for b in nest if isinstance(b, For)]
    return (
        len(targets) == len(stores)
        and all(isinstance(memory[name], Local) for name in targets)
        and all(e.buffer not in targets for e in loads)
        and not any(isinstance(x, Var) and x.name in own for e in fixed for x in subexprs(e))
    )


def _evaluated(s: Stmt) -> Iterator[Expr]:
    """Yield what a statement evaluates, but for the elements that it folds terms into."""
    if isinstance(s, Store):
        yield from s.index
        yield from terms(s)
    else:
        yield from stmt_exprs(s)


def in_order(values: Value, shape: tuple[int, ...], depth: int) -> Value:
    """Return values over lanes as rows of one for each round, in the order of the rounds.

    ``shape`` is that of all lanes, of which those from ``depth`` on are rounds.  A row has as many
    axes; without lanes before the rounds it is a scalar.
    """
    if values.dtype.names:
        return joined(*(in_order(values[n], shape, depth) for n in ("value", "payload")))
    rounds = shape[depth:]
    own = np.reshape(values, (1,) * (len(shape) - values.ndim) + values.shape)
    head = own.shape[:depth]
    rows = np.broadcast_to(own, (*head, *rounds)).reshape(*head, -1)
    rest = (1,) * len(rounds) if depth else ()
    return np.ascontiguousarray(np.moveaxis(rows, -1, 0)).reshape(-1, *head, *rest)
