"""Weighted sums as a problem of templates: a product whose weights are computed of others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from didyma.codegen.codegens import Asked
from didyma.codegen.lower.names import loop_names
from didyma.codegen.passes.weighted import Weighted, weighted
from didyma.codegen.templates.problem import Output, Problem, Subgraph, has_plain_symbols
from didyma.codegen.templates.reading import Reading, folds, order
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.graph import STAGES, Function
from didyma.refimpl.ir.loop import INDEX, Cast, Expr, LetExpr, PrimFunc, Var

INPUTS = ("the_batch", "the_row", "the_column", "the_dot", "the_other")  # of the body ``score``
PAIRS = (("query", "key"), ("left", "right"))  # operands of the products that weights are made of


def found(asked: Asked) -> Problem | None:
    """Return the weighted sum that a function is, with what precedes and follows its products.

    Operands ``query`` and ``left`` have the axes batch, row and term, ``key`` and ``right`` batch,
    column and term, ``value`` batch, column and feature; ``left`` and ``right`` are those of a
    second product, if there is one.  Body ``score`` is a weight: of batch, row, column, and the
    sums over the terms of each product.  The output has batch, row and feature, and then the sum
    of the weighted values.  A function of two sums has a value ``also``, too, weighted by the body
    ``also_score`` of the first product, and the output that sum behind the other.  None for a
    function that is no weighted sum of floats.
    """
    return _found(asked.function, asked.loop)


@lru_cache(maxsize=8)
def _found(f: Function, loop: PrimFunc) -> Problem | None:
    taken = {*INPUTS} & {d.name for d in loop.dims}
    if STAGES not in f.attr or taken or not has_plain_symbols(loop):
        return None
    defs, types = {r: n for n in f.nodes for r in n.results}, f.types()
    every = [w for n in f.nodes if (w := weighted(defs, types, n)) is not None]
    every.sort(key=lambda w: -len(w.products))
    if not every or len({order(f, w.output) for w in every} | {None}) != 2:
        return None
    w, *more = every
    if more and [x.products for x in more] != [w.products[:1]]:
        return None
    sums = [x.output for x in every]
    read = [a for n in (*w.products, *sums) for a in n.args]
    if any(not types[a].dtype.is_float for a in read):
        return None
    if len({types[a].dtype.compute for a in read}) > 1:
        return None
    ends = {r for n in (*w.products, *sums) for r in n.results}
    return None if folds(defs, (*read, *f.results), ends) else _problem(f, loop, w, more)


def _problem(f: Function, loop: PrimFunc, w: Weighted, more: Sequence[Weighted]) -> Problem:
    names = loop_names([*(b.name for b in loop.params), *(d.name for d in loop.dims), *INPUTS])
    types, shape, out = f.types(), w.products[0].types[0].shape, w.output.types[0].shape
    b, i, j = (Var(x, INDEX) for x in INPUTS[:3])
    dtype = w.output.types[0].dtype.compute
    dots = [Var(x, dtype) for x in INPUTS[3 : 3 + len(w.products)]]
    e, acc = Var(names.fresh("feature"), INDEX), Var(names.fresh("acc"), dtype)
    also = [Var(names.fresh("acc"), dtype) for _ in more]
    terms = [Var(names.fresh("term"), INDEX) for _ in dots]
    parts = [Var(names.fresh("part"), INDEX) for _ in out[:-2]]
    sizes = [ix.of_dim(d) for d in out[:-2]]
    inner = [types[n.args[0]].shape[-1] for n in w.products]
    single = map(ix.of_dim, (*shape[-2:], out[-1], *inner))
    extents = {
        b: ix.mul(*sizes), **dict(zip(parts, sizes, strict=True)),
        **dict(zip((i, j, e, *terms), single, strict=True)),
    }  # fmt: skip
    known = {n.results[0]: dot for n, dot in zip(w.products, dots, strict=True)}
    known |= {x.output.results[0]: sum for x, sum in zip((w, *more), (acc, *also), strict=True)}
    bound = [*zip(parts, ix.unflatten(b, sizes), strict=True)]
    reading = Reading(f, loop, names, types, extents, bound, known)
    operand = partial(reading.operand, parts)
    operands = {
        name: operand(x.output.args[1], (j, e), (b, j, e))
        for name, x in zip(("value", "also"), (w, *more), strict=False)
    }
    for (row, column), n, k in zip(PAIRS, w.products, terms, strict=False):
        operands[row] = operand(n.args[0], (i, k), (b, i, k))
        operands[column] = operand(n.args[1], (k, j), (b, j, k))
    axes = order(f, w.output)
    assert axes is not None, "the results have no order"
    index = (*parts, i, e)
    stores = reading.stores([index[n] for n in axes])
    output = Output((b, i, e, acc, *also), stores, tuple(extents[v] for v in (b, i, e)))
    bodies = dict[str, Subgraph]()
    for name, x in zip(("score", "also_score"), (w, *more), strict=False):
        weight = _unrounded(reading.element(x.weight, (*parts, i, j)))
        inputs = (b, i, j, *dots[: len(x.products)])
        bodies[name] = Subgraph(inputs, weight, tuple(extents[v] for v in (b, i, j)))
    return Problem(loop, operands, output, bodies)


def _unrounded(e: Expr) -> Expr:
    """Return a weight before it is rounded to the dtype of operands, as a kernel rounds it."""
    match e:
        case LetExpr(var, value, body):
            return LetExpr(var, value, _unrounded(body))
        case Cast(Cast(arg), dtype) if arg.dtype is dtype:
            return arg
        case _:
            return e
