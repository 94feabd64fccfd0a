"""Choose the schedule of a loop program by the structure of its loops."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.lower.affine import Poly
from didyma.codegen.options import Options
from didyma.codegen.schedule import folds, matmul, reduction, serial, transpose
from didyma.codegen.schedule.folds import FoldNest
from didyma.codegen.schedule.nest import Nest, NestFacts, nests, unrolled
from didyma.codegen.schedule.pointwise import elementwise
from didyma.refimpl.ir.dims.polynomial import coefficient, is_constant
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.loop import Atomic, Expr, For, Load, PrimFunc, Store, Var
from didyma.refimpl.ir.walk import expr_children, exprs

CLASSES = (
    "pointwise", "pointwise_wide", "gather", "gather_wide", "scatter", "fold", "reduce_row",
    "reduce_all", "reduce_column", "matmul", "transpose",
)  # fmt: skip
NEAR = 4  # distance in elements between the reads of neighbouring threads


def schedule(p: PrimFunc, options: Options) -> tuple[PrimFunc, ...]:
    """Return kernels that, run in order, do what a function from lowering does.

    Each keeps the parameters that it needs, under their names; a parameter may be seen with
    another shape of as many elements.  Attribute ``schedule`` names the class.
    """
    p = expand(p)
    kernels = [_one(p, nest, options) for nest in nests(p.body)]
    return tuple(k if n == 0 else replace(k, name=f"{k.name}_{n}") for n, k in enumerate(kernels))


def _one(p: PrimFunc, nest: Nest, options: Options) -> PrimFunc:
    facts = NestFacts.of(p, nest, options)
    fold = folds.find(nest)
    if fold is not None:
        return _fold(facts, fold)
    if (turned := transpose.find(facts)) is not None:
        return transpose.tiled(facts, turned)
    return _by_thread(facts)


def _by_thread(facts: NestFacts) -> PrimFunc:
    if any(isinstance(s, For) for s in facts.statements):
        facts.nest = replace(facts.nest, body=unrolled(facts.nest.body, facts.options.unroll))
    return elementwise(facts, _class(facts))


def _class(facts: NestFacts) -> str:
    """Return the name of the class of a kernel with one thread an element."""
    stored = (i for s in facts.statements if isinstance(s, (Store, Atomic)) for i in s.index)
    if any(_reads(facts, i) for i in stored):
        return "scatter"
    if any(isinstance(s, For) for s in facts.statements):
        return "fold"
    loaded = (i for e in facts.inside if isinstance(e, Load) for i in e.index)
    return "gather" if any(_reads(facts, i) for i in loaded) else "pointwise"


def _reads(facts: NestFacts, e: Expr) -> bool:
    """Return whether an index depends on memory."""
    if isinstance(e, Var) and e.name in facts.affine.lets:
        return _reads(facts, facts.affine.lets[e.name])
    return isinstance(e, Load) or any(_reads(facts, c) for c in expr_children(e))


def _fold(facts: NestFacts, fold: FoldNest) -> PrimFunc:
    if (product := matmul.find(facts, fold)) is not None:
        return matmul.tiled(facts, product)
    if facts.largest(fold.length) <= facts.options.short:
        return _by_thread(facts)
    reads = [
        facts.offset(e.buffer, e.index)
        for e in exprs(fold.step)
        if isinstance(e, Load) and e.buffer in facts.buffers
    ]
    results = facts.largest(fold.nest.numel)
    if results >= facts.options.full and all(_is_near(r, fold.nest.index[-1]) for r in reads):
        return _alone(facts, fold)
    along = any(_is_unit(r, fold.ks[-1]) for r in reads)
    across = bool(fold.nest.index) and any(_is_unit(r, fold.nest.index[-1]) for r in reads)
    if across and not along:
        return reduction.columns(facts, fold)
    if along or results < facts.options.few:
        return reduction.rows(facts, fold)
    return _alone(facts, fold)


def _alone(facts: NestFacts, fold: FoldNest) -> PrimFunc:
    facts.nest = serial.in_parts(facts, fold)
    return _by_thread(facts)


def _is_near(offset: Poly, var: Var) -> bool:
    """Return whether neighbouring results read the same elements, or elements near each other."""
    step = coefficient(offset, var.name)
    return step is not None and is_constant(step) and abs(step.get((), 0)) <= NEAR


def _is_unit(offset: Poly, var: Var) -> bool:
    return coefficient(offset, var.name) == {(): 1}
