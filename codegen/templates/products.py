"""Matrix products as problems of templates: two operands, and what the graph does to the sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from didyma.codegen.codegens import Asked
from didyma.codegen.options import Options
from didyma.codegen.schedule import folds, matmul
from didyma.codegen.schedule.folds import FoldNest, needed, with_lets
from didyma.codegen.schedule.matmul import Product
from didyma.codegen.schedule.nest import NestFacts, let_all, nests
from didyma.codegen.templates.convolutions import convolution
from didyma.codegen.templates.problem import Output, Problem, Subgraph, has_plain_symbols
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.loop import INDEX, Expr, LetExpr, PrimFunc, Var
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.walk import subexprs


def product(asked: Asked) -> Problem | None:
    """Return the matrix product that a function is, with what precedes and follows it.

    Operand ``left`` has the axes batch, row and term, and ``right`` batch, term and column; the
    output has batch, row and column, and then the sum ``acc`` over the terms.  Several axes of the
    function, as of batches, are one flat axis; where there is none, it has one element.

    A convolution is one, too, as of ``convolutions``.  None for a function that is no single
    product, such as a chain of several kernels.
    """
    if any(n.op == "conv" for n in asked.function.nodes):
        return convolution(asked.function, asked.loop)
    return _product(asked.loop, asked.target)


@lru_cache(maxsize=8)
def _product(loop: PrimFunc, target: Target) -> Problem | None:
    loop = expand(loop)
    found = nests(loop.body)
    if len(found) != 1 or not has_plain_symbols(loop):
        return None
    facts = NestFacts.of(loop, found[0], Options(target=target))
    fold = folds.find(found[0])
    p = None if fold is None else matmul.find(facts, fold)
    return None if p is None else _problem(facts, p)


def _problem(facts: NestFacts, p: Product) -> Problem:
    fold, nest = p.fold, p.fold.nest
    split = len(nest.index) - p.columns
    first = split - p.rows
    pairs = list(zip(nest.index, nest.extents, strict=True))
    batch, row, column = (
        _axis(facts, wish, part)
        for wish, part in (
            ("batch", pairs[:first]),
            ("row", pairs[first:split]),
            ("column", pairs[split:]),
        )
    )
    term = _axis(facts, "term", list(zip(fold.ks, fold.extents, strict=True)))
    output = Output(
        (batch.var, row.var, column.var, fold.fold.accs[0].var),
        let_all(_parts(batch, row, column), with_lets(fold.lets, fold.fold.body)),
        (batch.extent, row.extent, column.extent),
    )
    operands = {
        "left": _operand(fold, p.left, (batch, row, term)),
        "right": _operand(fold, p.right, (batch, term, column)),
    }
    return Problem(facts.func, operands, output)


@dataclass(frozen=True, slots=True)
class _Axis:
    """A flat axis of a product, and the values of the variables of the axes that it stands for."""

    var: Var
    extent: Expr
    parts: Mapping[Var, Expr]


def _axis(facts: NestFacts, wish: str, pairs: Sequence[tuple[Var, Expr]]) -> _Axis:
    if len(pairs) == 1:
        ((var, extent),) = pairs
        return _Axis(var, extent, {})
    flat = Var(facts.names.fresh(wish), INDEX)
    extents = [extent for _, extent in pairs]
    parts = zip((var for var, _ in pairs), ix.unflatten(flat, extents), strict=True)
    return _Axis(flat, ix.mul(*extents), dict(parts))


def _parts(*axes: _Axis) -> dict[Var, Expr]:
    return {var: value for axis in axes for var, value in axis.parts.items()}


def _operand(fold: FoldNest, value: Expr, axes: tuple[_Axis, ...]) -> Subgraph:
    lets = [*fold.lets, *fold.step]
    used = needed(lets, subexprs(value))
    bindings = [(x.var, x.value) for x in lets if x.var.name in used]
    for var, e in reversed([*_parts(*axes).items(), *bindings]):
        value = LetExpr(var, e, value)
    return Subgraph(tuple(a.var for a in axes), value, tuple(a.extent for a in axes))
