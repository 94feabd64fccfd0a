"""Convolutions as matrix products: each window is a column, as of an implicit GEMM.

The windows are never stored: what the template loads of a column are elements of the operand, or
zeros of its border.  (S. Chetlur et al., *cuDNN: Efficient primitives for deep learning*, 2014.)
"""

from __future__ import annotations

from functools import lru_cache

from didyma.codegen.lower.build import ScalarBuilder
from didyma.codegen.lower.names import loop_names
from didyma.codegen.templates.problem import Output, Problem, Subgraph, has_plain_symbols
from didyma.codegen.templates.reading import Reading, folds
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.graph import STAGES, Function, Node
from didyma.refimpl.ir.loop import INDEX, Binary, Expr, PrimFunc, Var
from didyma.refimpl.ops.spec import Fold


@lru_cache(maxsize=8)
def convolution(f: Function, loop: PrimFunc) -> Problem | None:
    """Return the convolution that a function is, with what precedes and follows it.

    It is a product as of ``products``: ``left`` are the weights, of batch, row and term, and
    ``right`` the windows.  A batch is a group of channels, a row an output channel of the group, a
    column an image and a place, and a term a channel of the group and a place in the window.

    None for a function that is no convolution, and for one whose groups have one output channel.
    """
    if STAGES in f.attr or not has_plain_symbols(loop):
        return None
    defs = {r: n for n in f.nodes for r in n.results}
    n = next((n for n in f.nodes if n.op == "conv"), None)
    if n is None or folds(defs, (*n.args, *f.results), n.results):
        return None
    types = f.types()
    shape = n.types[0].shape
    if any(types[r].shape != shape for r in f.results):
        return None
    groups = n.attr["groups"]
    assert isinstance(groups, int)
    channels = shape[1]
    if not isinstance(channels, int) or channels <= groups:
        return None
    return _problem(f, loop, n, groups, channels // groups)


def _problem(f: Function, loop: PrimFunc, n: Node, groups: int, rows: int) -> Problem:
    names = loop_names([*(b.name for b in loop.params), *(d.name for d in loop.dims)])

    def fresh(wish: str) -> Var:
        return Var(names.fresh(wish), INDEX)

    types = f.types()
    batch, row, column, term = map(fresh, ("group", "row", "column", "term"))
    (image, _, *places), (_, *window) = n.types[0].shape, types[n.args[1]].shape
    outer, inner = (tuple(map(ix.of_dim, ds)) for ds in ((image, *places), window))
    at, ks = tuple(fresh("place") for _ in outer), tuple(fresh("k") for _ in inner)
    extents = {
        batch: ix.index(groups), row: ix.index(rows), column: ix.mul(*outer), term: ix.mul(*inner),
        **dict(zip((*at, *ks), (*outer, *inner), strict=True)),
    }  # fmt: skip
    parts = [
        *zip(at, ix.unflatten(column, outer), strict=True),
        *zip(ks, ix.unflatten(term, inner), strict=True),
    ]
    acc = Var(names.fresh("acc"), n.types[0].dtype.compute)
    reading = Reading(f, loop, names, types, extents, parts, {n.results[0]: acc})
    channel = ix.add(ix.mul(batch, ix.index(rows)), row)
    index = (at[0], channel, *at[1:])

    def side(which: str) -> Expr:
        def roots(b: ScalarBuilder) -> list[Expr]:
            rule = b.rule(n, index)
            assert isinstance(rule, Fold)
            product = rule.body(ks)
            assert isinstance(product, Binary)
            return [b.define(which, product.rhs if which == "left" else product.lhs)]

        return reading.value(roots)

    sides = {"left": (batch, row, term), "right": (batch, term, column)}
    operands = {
        name: Subgraph(order, side(name), tuple(extents[v] for v in order))
        for name, order in sides.items()
    }
    to = (batch, row, column)
    output = Output((*to, acc), reading.stores(index), tuple(extents[v] for v in to))
    return Problem(loop, operands, output)
