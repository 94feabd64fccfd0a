"""Attention as a problem of templates: two products with a softmax between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from didyma.codegen.codegens import Asked
from didyma.codegen.lower.affine import Affine
from didyma.codegen.lower.names import loop_names
from didyma.codegen.passes.attended import Attention, attention, is_logsumexp
from didyma.codegen.templates.problem import Output, Problem, Subgraph, has_plain_symbols
from didyma.codegen.templates.reading import Reading, folds, order
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient, is_constant, plus
from didyma.refimpl.ir.graph import STAGES, Function
from didyma.refimpl.ir.loop import (
    INDEX,
    Binary,
    Compare,
    Const,
    Expr,
    LetExpr,
    Load,
    PrimFunc,
    Select,
    Var,
)
from didyma.refimpl.ir.walk import expr_children, subexprs, substitute_expr

INPUTS = ("the_batch", "the_row", "the_column", "the_dot")  # of the body ``score``
POWER, TOTAL = "the_power", "the_total"  # inputs of the bodies of weights and of ``empty``
KEPT, FACTORED = "kept", "factored"  # bodies of weights: with zeros in place of some, with factors


def found(asked: Asked) -> Problem | None:
    """Return the attention that a function is, with what precedes and follows its products.

    Operand ``query`` has the axes batch, row and term; ``key`` batch, column and term; ``value``
    batch, column and feature.  All axes of batches are one flat axis.  Body ``score`` is the
    operand of the softmax: of batch, row, column, and the sum over the terms (``INPUTS``).  Where
    the second product does not take exponentials as they are, body ``kept`` is what it takes, or
    ``factored`` where they have factors: of batch, row, column and the exponential.  Where weights
    of some rows are 0, body ``empty`` says of batch, row and the row's sum of exponentials whether
    these are.  The output has batch, row and feature, and then the weighted mean of the values,
    ``acc``.  The line has batch, row, and the logarithm of the row's sum of exponentials, where
    that is a result.

    None for a function that is no attention, or not in floats that sums of f32 or f64 are for.
    """
    return _found(asked.function, asked.loop)


@lru_cache(maxsize=8)
def _found(f: Function, loop: PrimFunc) -> Problem | None:
    taken = {*INPUTS, POWER, TOTAL} & {d.name for d in loop.dims}
    if STAGES not in f.attr or taken or not has_plain_symbols(loop):
        return None
    defs, types = {r: n for n in f.nodes for r in n.results}, f.types()
    a = next((a for n in f.nodes if (a := attention(defs, types, n)) is not None), None)
    logs = [] if a is None else [r for r in f.results if is_logsumexp(defs, a, r)]
    axes = None if a is None else order(f, a.output, logs)
    if a is None or axes is None:
        return None
    read = [types[x].dtype for x in (*a.scores.args, a.score, a.share, a.weight, a.value)]
    if any(not d.is_float or d.compute is not read[0].compute for d in read):
        return None
    ends = {*a.scores.results, *a.output.results, a.share}
    operands = (*a.scores.args, a.score, a.weight, a.value)
    roots = (*operands, *(r for r in f.results if r not in logs))
    return None if folds(defs, roots, ends) else _problem(f, loop, a, axes, logs)


def _problem(
    f: Function, loop: PrimFunc, a: Attention, axes: Sequence[int], logs: Sequence[str]
) -> Problem:
    own = [*(b.name for b in loop.params), *(d.name for d in loop.dims)]
    names = loop_names([*own, *INPUTS, POWER, TOTAL])
    types, shape, out = f.types(), a.scores.types[0].shape, a.output.types[0].shape
    b, i, j = (Var(x, INDEX) for x in INPUTS[:-1])
    k, e = (Var(names.fresh(x), INDEX) for x in ("term", "feature"))
    dtype = a.scores.types[0].dtype.compute
    dot, acc = Var(INPUTS[-1], dtype), Var(names.fresh("acc"), dtype)
    parts = [Var(names.fresh("part"), INDEX) for _ in out[:-2]]
    sizes = [ix.of_dim(d) for d in out[:-2]]
    query, key, value = *a.scores.args, a.value
    single = (*shape[-2:], types[query].shape[-1], out[-1])
    extents = {
        b: ix.mul(*sizes), **dict(zip(parts, sizes, strict=True)),
        **dict(zip((i, j, k, e), map(ix.of_dim, single), strict=True)),
    }  # fmt: skip
    log = Var(names.fresh("log"), dtype)
    power, total = Var(POWER, dtype), Var(TOTAL, dtype)
    known = {
        a.scores.results[0]: dot, a.output.results[0]: acc, a.share: power,
        **dict.fromkeys(logs, log),
    }  # fmt: skip
    bound = [*zip(parts, ix.unflatten(b, sizes), strict=True)]
    reading = Reading(f, loop, names, types, extents, bound, known)
    operand = partial(reading.operand, parts)

    def of_rows(name: str) -> Expr:
        """Return an element of a value whose last axis is 1, and whose others may be broadcast."""
        own = types[name].shape
        last = [*parts, i, ix.ZERO][-len(own) :]
        return reading.element(
            name, [ix.ZERO if d == 1 else v for d, v in zip(own, last, strict=True)]
        )

    operands = {
        "query": operand(query, (i, k), (b, i, k)),
        "key": operand(key, (k, j), (b, j, k)),
        "value": operand(value, (j, e), (b, j, e)),
    }
    score = reading.element(a.score, (*parts, i, j))
    index = (*parts, i, e)
    stores = reading.stores([index[n] for n in axes], [r for r in f.results if r not in logs])
    output = Output((b, i, e, acc), stores, tuple(extents[v] for v in (b, i, e)))
    place = tuple(extents[v] for v in (b, i, j))
    bodies = {"score": Subgraph((b, i, j, dot), score, place)}
    if a.factor is not None or a.guard is not None:
        zero = Const(0.0, dtype)
        weight = reading.element(a.weight, (*parts, i, j))
        if a.guard is not None:
            bad: Expr = Binary("or", Compare("ne", total, total), Compare("eq", total, zero))
            if a.guard.results == (a.share,):
                kept = Select(Compare("eq", power, power), power, zero)
                weight = substitute_expr(weight, {POWER: kept})
            else:
                bad = of_rows(a.guard.args[0])
            bodies["empty"] = Subgraph((b, i, total), bad, place[:2])
        bodies[KEPT if a.factor is None else FACTORED] = Subgraph((b, i, j, power), weight, place)
    line = None
    if logs:
        by_row = reading.stores((*parts, i, ix.ZERO), logs)
        line = Output((b, i, log), by_row, (extents[b], extents[i]))
    return Problem(loop, operands, output, bodies, line)


CORNERS = ("first_row", "last_row", "first_column", "last_column")  # of a tile, which bodies take
LEAST = {"ge": 0, "le": 0, "gt": 1, "lt": 1}  # of the difference of what is compared


def masked(p: Problem, never: float = -math.inf) -> dict[str, Subgraph]:
    """Return bodies about the tiles of an attention, beside its ``score``.

    ``seen`` says whether some row of a tile may see some key, by its ``CORNERS``, and ``whole``
    whether every row sees every key, so that ``open_score`` is the score.  A row that does not see
    a key has the score ``never`` for it, if a comparison fails that is linear in row and column; of
    anything else it is not known that a row does not see.  Where exponentials have factors from
    memory, which may be infinite, every tile is taken.
    """
    ends = [Var(x, INDEX) for x in CORNERS]
    mask = _mask(p, never)
    factors = FACTORED in p.bodies and _reads(p.bodies[FACTORED].value)
    ranges = {} if factors else _ranges(p, mask)
    known = [x for x in mask.conditions if x is not None and not (ranges and x.is_end)]
    corners = tuple(ends)
    some, every = (
        Subgraph(corners, ix.all_of([_at(x, mask.at[1:], ends, most=most) for x in known]))
        for most in (True, False)
    )
    return {
        "seen": replace(some, value=ix.TRUE) if factors else some,
        "whole": every,
        "open_score": replace(p.bodies["score"], value=mask.value),
        **ranges,
    }


def is_ranged(p: Problem) -> bool:
    """Return whether memory tells which keys a row sees: there are ``first_key``, ``last_key``."""
    return "first_key" in p.bodies


def _ranges(p: Problem, mask: _Mask) -> dict[str, Subgraph]:
    """Return the first and the last key that a row of a batch sees; nothing unless memory tells."""
    known = [x for x in mask.conditions if x is not None and x.is_end]
    columns = p.operands["key"].extents[1]
    first, last = _between(p, mask, known)
    inputs, extents = mask.at[:2], p.output.extents[:2]
    is_read = any(x.reads for x in known)
    ends = {"first_key": ix.minimum(first, columns), "last_key": ix.maximum(last, ix.index(-1))}
    return {k: Subgraph(inputs, e, extents) for k, e in ends.items()} if is_read else {}


def limited(p: Problem) -> Problem:
    """Return an attention with the first and the last key that each row sees, where that is all.

    So it is where conditions tell rows and columns apart by no more than one for each column, and
    ``open_score`` reads nothing but what its batch tells, so that it is the score of a key that is
    seen and may be computed for any other.  The bodies ``first_seen`` and ``last_seen`` then take
    the place of ``score``.
    """
    mask = _mask(p)
    known = [x for x in mask.conditions if x is not None and abs(x.steps[1]) <= 1]
    reads = _reads_at(mask.value, {v.name for v in mask.at[1:]})
    if reads or len(known) != len(mask.conditions):
        return p
    first, last = _between(p, mask, known)
    extents = p.output.extents[:2]
    bodies = {k: v for k, v in p.bodies.items() if k != "score"}
    bodies["last_seen"] = Subgraph(mask.at[:2], last, extents)
    if first != ix.ZERO or is_ranged(p):
        bodies["first_seen"] = Subgraph(mask.at[:2], first, extents)
    return replace(p, bodies=bodies)


def _reads_at(e: Expr, names: Set[str]) -> bool:
    """Return whether an expression reads memory where some variables tell."""
    if isinstance(e, LetExpr):
        told = any(isinstance(x, Var) and x.name in names for x in subexprs(e.value))
        inner = {*names, e.var.name} if told else names
        return _reads_at(e.value, names) or _reads_at(e.body, inner)
    read = isinstance(e, Load) and any(
        isinstance(x, Var) and x.name in names for i in e.index for x in subexprs(i)
    )
    return read or any(_reads_at(x, names) for x in expr_children(e))


def _reads(e: Expr) -> bool:
    """Return whether an expression reads memory."""
    return any(isinstance(x, Load) for x in subexprs(e))


def _between(p: Problem, mask: _Mask, known: Sequence[_Linear]) -> tuple[Expr, Expr]:
    """Return the first and the last key that conditions let a row see; the last row reads most."""
    _, row, column = mask.at
    end = ix.sub(p.output.extents[1], ix.index(1))
    first, last = ix.ZERO, ix.sub(p.operands["key"].extents[1], ix.index(1))
    for x in known:
        inner = {row.name: ix.minimum(row, end)} if x.reads else {}
        value = substitute_expr(x.value, {column.name: ix.ZERO, **inner})
        least = ix.index(x.least)
        match x.steps[1]:
            case 1:
                first = ix.maximum(first, ix.sub(least, value))
            case -1:
                last = ix.minimum(last, ix.sub(value, least))
            case _:
                last = Select(ix.compare("ge", value, least), last, ix.index(-1))
    return first, last


@dataclass(frozen=True, slots=True)
class _Mask:
    """What a score is where a row sees a key, and the conditions that it does.

    ``at`` are batch, row and column.  None stands for a condition that is not linear; it is still
    part of ``value``.
    """

    at: tuple[Var, Var, Var]
    value: Expr
    conditions: tuple[_Linear | None, ...]


def _mask(p: Problem, never: float = -math.inf) -> _Mask:
    """Return the score of an attention without its known conditions, and those."""
    body, affine = p.bodies["score"], Affine(p.loop.dims)
    batch, row, column = body.inputs[:3]
    value, bound = body.value, list[tuple[Var, Expr]]()
    conditions = list[_Linear | None]()
    while True:
        if isinstance(value, LetExpr):
            bound.append((value.var, value.value))
            if value.var.dtype is INDEX:
                affine.lets[value.var.name] = value.value
            value = value.body
            continue
        if not (isinstance(value, Select) and value.other == Const(never, value.dtype)):
            break
        symbols = {d.name for d in p.loop.dims}
        at = (batch, row, column)
        found = [_linear(c, affine, at, bound, symbols) for c in _conditions(value.cond)]
        conditions += found
        if None in found:
            break
        value = value.then
    for var, e in reversed(bound):
        value = LetExpr(var, e, value)
    return _Mask((batch, row, column), value, tuple(conditions))


def _conditions(cond: Expr) -> Iterator[Expr]:
    """Yield conditions that hold together where one holds."""
    if isinstance(cond, Binary) and cond.op == "and":
        yield from _conditions(cond.lhs)
        yield from _conditions(cond.rhs)
    else:
        yield cond


@dataclass(frozen=True, slots=True)
class _Linear:
    """That ``value`` is ``least`` or more; it grows by constants with row and column.

    Where it ``reads`` memory, it may change with batch and row in any way.
    """

    value: Expr
    steps: tuple[int, int]
    least: int
    reads: bool = False

    @property
    def is_end(self) -> bool:
        """Return whether it tells the first or the last key that a row sees."""
        return abs(self.steps[1]) == 1


def _linear(
    cond: Expr,
    affine: Affine,
    mask_at: tuple[Var, Var, Var],
    bound: Sequence[tuple[Var, Expr]],
    symbols: Set[str],
) -> _Linear | None:
    """Return a comparison as a linear one of row and column; None for another condition.

    One side may read memory at places that batch and row tell.  ``bound`` has the variables that
    are bound outside and what they stand for, the outer ones first.
    """
    if not isinstance(cond, Compare) or cond.lhs.dtype is not INDEX or cond.op not in LEAST:
        return None
    sides = (cond.lhs, cond.rhs) if cond.op in ("ge", "gt") else (cond.rhs, cond.lhs)
    more, less = map(affine.poly, sides)
    difference = plus(more, less, -1)
    at = mask_at[1:]
    column = at[-1].name
    value, rest = (
        affine.expr({m: c for m, c in difference.items() if m not in left})
        for left in ((), ((column,),))
    )
    if reads := _reads(value):
        for v, e in reversed(bound):
            value, rest = (substitute_expr(x, {v.name: e}) for x in (value, rest))
    names, others = ({e.name for e in subexprs(x) if isinstance(e, Var)} for x in (value, rest))
    if not names <= {v.name for v in (at, mask_at)[reads]} | symbols:
        return None
    steps = [coefficient(difference, v.name) for v in at]
    if reads and (column in others or abs(difference.get((column,), 0)) != 1):
        return None
    if not reads and any(q is None or not is_constant(q) for q in steps):
        return None
    by, across = (int((q or {}).get((), 0)) for q in steps)
    return _Linear(value, (by, across), LEAST[cond.op], reads)


def _at(x: _Linear, at: tuple[Var, Var], ends: Sequence[Var], *, most: bool) -> Expr:
    """Return the comparison where its value is largest, or smallest, in a tile."""
    table: dict[str, Expr] = {}
    for n, (v, step) in enumerate(zip(at, x.steps, strict=True)):
        table[v.name] = ends[2 * n + ((step > 0) is most)]
    return ix.compare("ge", substitute_expr(x.value, table), ix.index(x.least))
